//! Catalogs: what a tenant sells by subscription. An API compiles a version from its text. Only [simple plans](simple_plan) are
//! added to a version later on.
//!
//! The model is Kill Bill's: plans of products, a plan's phases one after the other, price lists that offer plans, and
//! [rules] for changes, cancellations and billing days.

pub mod period;
pub mod phases;
pub mod price;
pub mod rules;
pub mod simple_plan;
pub mod usage;
pub mod versions;

use serde::{Deserialize, Serialize};

use crate::catalog::period::{BillingPeriod, Step};
use crate::catalog::price::Price;
use crate::catalog::rules::Rules;
use crate::catalog::usage::{Limit, Usage};
use crate::{Currency, Timestamp};

/// The price list that every catalog has.
pub const DEFAULT_PRICE_LIST: &str = "DEFAULT";

/// A version of a catalog. The texts that refer to a product, a plan or a unit name one of the same version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// The same in all versions of a tenant.
    pub name: String,
    pub effective_at: Timestamp,
    pub currencies: Vec<Currency>,
    pub units: Vec<Unit>,
    pub products: Vec<Product>,
    pub plans: Vec<Plan>,
    /// The first is the default one.
    pub price_lists: Vec<PriceList>,
    pub rules: Rules,
}

/// Usage is counted in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pretty_name: Option<String>,
}

/// Which place a product has in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ProductCategory {
    /// At most one of a bundle.
    Base,
    /// Beside a base product.
    AddOn,
    Standalone,
}

impl ProductCategory {
    pub const ALL: [Self; 3] = [Self::Base, Self::AddOn, Self::Standalone];

    /// Kill Bill's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "BASE",
            Self::AddOn => "ADD_ON",
            Self::Standalone => "STANDALONE",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pretty_name: Option<String>,
    pub category: ProductCategory,
    /// The add-ons that are part of it: they are not sold beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub included: Vec<String>,
    /// The add-ons that are sold beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available: Vec<String>,
    /// For the tenant's own use: nothing enforces them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
}

/// Whether a period is billed when it begins or when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BillingMode {
    InAdvance,
    InArrear,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pretty_name: Option<String>,
    /// From when on subscriptions of earlier versions have this one; `None`: they keep theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_for_existing_at: Option<Timestamp>,
    pub product: String,
    pub mode: BillingMode,
    /// In their order. Each but the last has an end.
    pub phases: Vec<Phase>,
    /// How many subscriptions of it a bundle may have; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_in_bundle: Option<u32>,
}

impl Plan {
    /// How often its last phase is billed: what [rules] and price lists know it by.
    #[must_use]
    pub fn period(&self) -> BillingPeriod {
        let last = self.phases.last().and_then(|it| it.recurring.as_ref());
        last.map_or(BillingPeriod::NoBillingPeriod, |it| it.period)
    }

    /// The first phase of a type.
    #[must_use]
    pub fn phase(&self, phase: PhaseType) -> Option<&Phase> {
        self.phases.iter().find(|it| it.phase == phase)
    }
}

/// The types of phases, which name a plan's phases too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PhaseType {
    Trial,
    Discount,
    FixedTerm,
    Evergreen,
}

impl PhaseType {
    pub const ALL: [Self; 4] = [Self::Trial, Self::Discount, Self::FixedTerm, Self::Evergreen];

    /// Kill Bill's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trial => "TRIAL",
            Self::Discount => "DISCOUNT",
            Self::FixedTerm => "FIXEDTERM",
            Self::Evergreen => "EVERGREEN",
        }
    }

    /// The name of this phase of a plan, as Kill Bill makes it.
    #[must_use]
    pub fn of_plan(self, plan: &str) -> String {
        format!("{plan}-{}", self.name().to_ascii_lowercase())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    pub phase: PhaseType,
    /// `None`: it does not end.
    pub duration: Option<Duration>,
    /// Charged once, when the phase begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Prices>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurring: Option<Recurring>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usages: Vec<Usage>,
}

/// How long a phase lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duration {
    pub unit: DurationUnit,
    pub number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DurationUnit {
    Days,
    Weeks,
    Months,
    Years,
}

impl DurationUnit {
    pub const ALL: [Self; 4] = [Self::Days, Self::Weeks, Self::Months, Self::Years];

    /// Kill Bill's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Days => "DAYS",
            Self::Weeks => "WEEKS",
            Self::Months => "MONTHS",
            Self::Years => "YEARS",
        }
    }
}

impl Duration {
    /// As a span of the calendar; `None` where it is longer than the calendar.
    #[must_use]
    pub fn step(self) -> Option<Step> {
        let number = i32::try_from(self.number).ok()?;
        Some(match self.unit {
            DurationUnit::Days => Step::Days(number),
            DurationUnit::Weeks => Step::Days(number.checked_mul(7)?),
            DurationUnit::Months => Step::Months(number),
            DurationUnit::Years => Step::Months(number.checked_mul(12)?),
        })
    }
}

/// Charged again in every period of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recurring {
    pub period: BillingPeriod,
    pub prices: Prices,
}

/// A price in each currency that it is sold in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Prices {
    /// Nothing, in every currency.
    Free,
    /// `None`: not sold in that currency.
    In(Vec<(Currency, Option<Price>)>),
}

impl Prices {
    /// The price in a currency.
    ///
    /// # Errors
    /// [`NoPrice`]: there is none.
    pub fn of(&self, currency: Currency) -> Result<Price, NoPrice> {
        let Self::In(prices) = self else { return Ok(Price::ZERO) };
        let found = prices.iter().find(|(it, _)| *it == currency).ok_or(NoPrice::Missing)?;
        found.1.ok_or(NoPrice::NotSold)
    }

    /// Whether it is sold in all its currencies, for nothing.
    #[must_use]
    pub fn is_free(&self) -> bool {
        match self {
            Self::Free => true,
            Self::In(prices) => prices.iter().all(|(_, it)| it.is_some_and(Price::is_zero)),
        }
    }
}

/// Why there is no price in a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoPrice {
    /// The catalog has none (Kill Bill's 2010).
    Missing,
    /// The catalog says that it is not sold in it (Kill Bill's 2011).
    NotSold,
}

/// Plans that are offered together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceList {
    pub name: String,
    pub plans: Vec<String>,
}

impl Catalog {
    #[must_use]
    pub fn product(&self, name: &str) -> Option<&Product> {
        self.products.iter().find(|it| it.name == name)
    }

    #[must_use]
    pub fn plan(&self, name: &str) -> Option<&Plan> {
        self.plans.iter().find(|it| it.name == name)
    }
}
