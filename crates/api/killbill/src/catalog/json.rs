//! A version of the catalog as Kill Bill's JSON shows it. Its rules are in the XML alone.

use domain::Currency;
use domain::catalog::period::BillingPeriod;
use domain::catalog::price::Price;
use domain::catalog::usage::{Block, Limit, Tier, Usage};
use domain::catalog::{BillingMode, Catalog, Duration, Phase, Plan, PriceList, Prices, Product};
use engine::time::rfc3339_millis;
use serde::Serialize;
use utoipa::ToSchema;

use crate::amount::Number;

/// Kill Bill's `CatalogJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CatalogJson<'a> {
    name: &'a str,
    #[schema(format = DateTime)]
    effective_date: String,
    currencies: Vec<&'a str>,
    units: Vec<UnitJson<'a>>,
    products: Vec<ProductJson<'a>>,
    price_lists: Vec<PriceListJson<'a>>,
}

/// Kill Bill's `UnitJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnitJson<'a> {
    name: &'a str,
    pretty_name: &'a str,
}

/// Kill Bill's `ProductJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProductJson<'a> {
    #[serde(rename = "type")]
    category: &'static str,
    name: &'a str,
    pretty_name: &'a str,
    plans: Vec<PlanJson<'a>>,
    included: &'a [String],
    available: &'a [String],
}

/// Kill Bill's `PlanJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanJson<'a> {
    name: &'a str,
    pretty_name: &'a str,
    recurring_billing_mode: &'static str,
    billing_period: &'static str,
    phases: Vec<PhaseJson<'a>>,
}

/// Kill Bill's `PhaseJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PhaseJson<'a> {
    #[serde(rename = "type")]
    phase: &'static str,
    prices: Vec<PriceJson<'a>>,
    fixed_prices: Vec<PriceJson<'a>>,
    duration: DurationJson,
    usages: Vec<UsageJson<'a>>,
}

/// Kill Bill's `DurationJson`; `number` is -1 where there is no end.
#[derive(Serialize, ToSchema)]
pub(crate) struct DurationJson {
    unit: &'static str,
    number: i64,
}

/// Kill Bill's `PriceJson`.
#[derive(Serialize, ToSchema)]
pub(crate) struct PriceJson<'a> {
    currency: &'a str,
    /// Null: not sold in this currency
    #[schema(value_type = Option<f64>)]
    value: Option<Number>,
}

/// Kill Bill's `UsageJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageJson<'a> {
    billing_period: &'static str,
    tiers: Vec<TierJson<'a>>,
}

/// Kill Bill's `TierJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TierJson<'a> {
    limits: Vec<LimitJson<'a>>,
    fixed_price: Vec<PriceJson<'a>>,
    recurring_price: Vec<PriceJson<'a>>,
    blocks: Vec<BlockJson<'a>>,
}

/// Kill Bill's `LimitJson`.
#[derive(Serialize, ToSchema)]
pub(crate) struct LimitJson<'a> {
    unit: &'a str,
    #[schema(value_type = Option<String>)]
    max: Option<String>,
    #[schema(value_type = Option<String>)]
    min: Option<String>,
}

/// Kill Bill's `TieredBlockJson`.
#[derive(Serialize, ToSchema)]
pub(crate) struct BlockJson<'a> {
    unit: &'a str,
    size: String,
    max: Option<String>,
    prices: Vec<PriceJson<'a>>,
}

/// Kill Bill's `PriceListJson`.
#[derive(Serialize, ToSchema)]
pub(crate) struct PriceListJson<'a> {
    name: &'a str,
    plans: &'a [String],
}

impl<'a> CatalogJson<'a> {
    pub(super) fn of(it: &'a Catalog) -> Self {
        let units = it.units.iter().map(|unit| UnitJson {
            name: &unit.name,
            pretty_name: shown(unit.pretty_name.as_ref(), &unit.name),
        });
        let lists = it.price_lists.iter();
        Self {
            name: &it.name,
            effective_date: rfc3339_millis(it.effective_at),
            currencies: it.currencies.iter().map(Currency::code).collect(),
            units: units.collect(),
            products: it.products.iter().map(|product| ProductJson::of(product, it)).collect(),
            price_lists: lists.map(PriceListJson::of).collect(),
        }
    }
}

fn shown<'a>(pretty: Option<&'a String>, name: &'a str) -> &'a str {
    pretty.map_or(name, String::as_str)
}

impl<'a> PriceListJson<'a> {
    pub(super) fn of(it: &'a PriceList) -> Self {
        Self { name: &it.name, plans: &it.plans }
    }
}

impl<'a> ProductJson<'a> {
    pub(super) fn of(it: &'a Product, catalog: &'a Catalog) -> Self {
        let plans = catalog.plans.iter().filter(|plan| plan.product == it.name);
        Self {
            category: it.category.name(),
            name: &it.name,
            pretty_name: shown(it.pretty_name.as_ref(), &it.name),
            plans: plans.map(|plan| PlanJson::of(plan, &catalog.currencies)).collect(),
            included: &it.included,
            available: &it.available,
        }
    }
}

impl<'a> PlanJson<'a> {
    pub(super) fn of(it: &'a Plan, currencies: &'a [Currency]) -> Self {
        let mode = match it.mode {
            BillingMode::InAdvance => "IN_ADVANCE",
            BillingMode::InArrear => "IN_ARREAR",
        };
        Self {
            name: &it.name,
            pretty_name: shown(it.pretty_name.as_ref(), &it.name),
            recurring_billing_mode: mode,
            billing_period: it.period().name(),
            phases: it.phases.iter().map(|phase| PhaseJson::of(phase, currencies)).collect(),
        }
    }
}

impl<'a> PhaseJson<'a> {
    pub(super) fn of(it: &'a Phase, currencies: &'a [Currency]) -> Self {
        let recurring = it.recurring.as_ref().map(|it| &it.prices);
        Self {
            phase: it.phase.name(),
            prices: prices(recurring, currencies),
            fixed_prices: prices(it.fixed.as_ref(), currencies),
            duration: DurationJson::of(it.duration),
            usages: it.usages.iter().map(|usage| UsageJson::of(usage, currencies)).collect(),
        }
    }
}

impl DurationJson {
    fn of(it: Option<Duration>) -> Self {
        let Some(Duration { unit, number }) = it else {
            return Self { unit: "UNLIMITED", number: -1 };
        };
        Self { unit: unit.name(), number: i64::from(number) }
    }
}

impl<'a> UsageJson<'a> {
    fn of(it: &'a Usage, currencies: &'a [Currency]) -> Self {
        let tier = |it: &'a Tier| TierJson {
            limits: it.limits.iter().map(LimitJson::of).collect(),
            fixed_price: prices(it.fixed.as_ref(), currencies),
            recurring_price: prices(it.recurring.as_ref(), currencies),
            blocks: it.blocks.iter().map(|block| BlockJson::of(block, currencies)).collect(),
        };
        let period: BillingPeriod = it.period;
        Self { billing_period: period.name(), tiers: it.tiers.iter().map(tier).collect() }
    }
}

impl<'a> LimitJson<'a> {
    fn of(it: &'a Limit) -> Self {
        let text = |it: Option<Price>| it.map(|it| it.to_string());
        Self { unit: &it.unit, max: text(it.max), min: text(it.min) }
    }
}

impl<'a> BlockJson<'a> {
    fn of(it: &'a Block, currencies: &'a [Currency]) -> Self {
        Self {
            unit: &it.unit,
            size: it.size.to_string(),
            max: it.max.map(|it| it.to_string()),
            prices: prices(Some(&it.prices), currencies),
        }
    }
}

/// A price of nothing is one in each currency of the version.
pub(super) fn prices<'a>(it: Option<&'a Prices>, currencies: &'a [Currency]) -> Vec<PriceJson<'a>> {
    match it {
        None => vec![],
        Some(Prices::Free) => {
            let free = |it: &'a Currency| PriceJson {
                currency: it.code(),
                value: Some(Number::of(Price::ZERO)),
            };
            currencies.iter().map(free).collect()
        }
        Some(Prices::In(prices)) => {
            let price = |(currency, price): &'a (Currency, Option<Price>)| PriceJson {
                currency: currency.code(),
                value: price.map(Number::of),
            };
            prices.iter().map(price).collect()
        }
    }
}
