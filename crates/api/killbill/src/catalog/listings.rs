//! The plans that can be subscribed to now.

use domain::catalog::period::BillingPeriod;
use domain::catalog::{Catalog, PriceList, Product, ProductCategory};
use serde::Serialize;
use utoipa::ToSchema;

use super::in_force;
use super::json::{PriceJson, prices};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::reply;

/// Kill Bill's `PlanDetailJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanDetailJson<'a> {
    product: &'a str,
    plan: &'a str,
    price_list: &'a str,
    final_phase_billing_period: &'static str,
    final_phase_recurring_price: Vec<PriceJson<'a>>,
}

/// Lists the plans of base products in the price lists of the version that is in force.
#[utoipa::path(get, path = "/1.0/kb/catalog/availableBasePlans", tag = "Catalog",
    operation_id = "available_base_plans",
    params(("accountId" = Option<Uuid>, Query)),
    responses((status = 200, body = [PlanDetailJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn base_plans(call: Call) -> HandlerResult {
    let catalog = in_force(&call).await?;
    Ok(reply::ok(&catalog.as_deref().map(of_base_products).unwrap_or_default()))
}

/// Lists the plans of the add-ons that are available beside a base product, in the price lists of the version that is
/// in force. Beside a product that is not there, there are none.
#[utoipa::path(get, path = "/1.0/kb/catalog/availableAddons", tag = "Catalog",
    operation_id = "available_addons",
    params(("baseProductName" = String, Query, description = "The base product"),
        ("priceListName" = Option<String>, Query, description = "The price list; by default all"),
        ("accountId" = Option<Uuid>, Query)),
    responses((status = 200, body = [PlanDetailJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn add_ons(call: Call) -> HandlerResult {
    let base = call.query().text("baseProductName")?.filter(|it| !it.is_empty());
    let base = base.ok_or_else(|| Failure::illegal("baseProductName needs to be set"))?;
    let price_list = call.query().text("priceListName")?.filter(|it| !it.is_empty());
    let catalog = in_force(&call).await?;
    let found = catalog.as_deref().map(|it| of_add_ons(it, &base, price_list.as_deref()));
    Ok(reply::ok(&found.unwrap_or_default()))
}

fn of_base_products(catalog: &Catalog) -> Vec<PlanDetailJson<'_>> {
    let all = catalog.products.iter();
    let base = all.filter(|it| it.category == ProductCategory::Base);
    base.flat_map(|it| of_product(catalog, it, None)).collect()
}

fn of_add_ons<'a>(
    catalog: &'a Catalog,
    base: &str,
    price_list: Option<&str>,
) -> Vec<PlanDetailJson<'a>> {
    let available = catalog.product(base).into_iter().flat_map(|it| &it.available);
    let products = available.filter_map(|it| catalog.product(it));
    products.flat_map(|it| of_product(catalog, it, price_list)).collect()
}

/// The plans of a product in one price list or in all, in the order of their periods.
fn of_product<'a>(
    catalog: &'a Catalog,
    product: &'a Product,
    price_list: Option<&str>,
) -> Vec<PlanDetailJson<'a>> {
    let mut found = vec![];
    for period in BillingPeriod::ALL {
        let is_asked = |it: &&PriceList| price_list.is_none_or(|name| it.name == name);
        for list in catalog.price_lists.iter().filter(is_asked) {
            let plans = list.plans.iter().filter_map(|it| catalog.plan(it));
            for plan in plans.filter(|it| it.product == product.name && it.period() == period) {
                let last = plan.phases.last().and_then(|it| it.recurring.as_ref());
                found.push(PlanDetailJson {
                    product: &product.name,
                    plan: &plan.name,
                    price_list: &list.name,
                    final_phase_billing_period: period.name(),
                    final_phase_recurring_price: prices(
                        last.map(|it| &it.prices),
                        &catalog.currencies,
                    ),
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use expect_test::{Expect, expect};

    use super::super::compiled;
    use super::*;

    fn core() -> Catalog {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let path = root.join("conformance/vectors/subscriptions/catalogs/core.xml");
        compiled(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn shown(all: &[PlanDetailJson<'_>]) -> String {
        let one = |it: &PlanDetailJson<'_>| format!("{} {} {}", it.product, it.plan, it.price_list);
        all.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_listing_is_kill_bills_object() {
        let catalog = core();
        let first = &of_base_products(&catalog)[0];
        expect![[r#"{"product":"Alpha","plan":"alpha-daily","priceList":"DEFAULT","finalPhaseBillingPeriod":"DAILY","finalPhaseRecurringPrice":[{"currency":"USD","value":1.11},{"currency":"EUR","value":1},{"currency":"JPY","value":167}]}"#]].assert_eq(&serde_json::to_string(first).unwrap());
    }

    #[test]
    fn base_plans_and_add_ons_are_of_price_lists() {
        let catalog = core();
        expect![[r#"
            Alpha alpha-daily DEFAULT
            Alpha alpha-weekly DEFAULT
            Alpha alpha-biweekly DEFAULT
            Alpha alpha-thirtydays DEFAULT
            Alpha alpha-trial-monthly DEFAULT
            Alpha alpha-monthly DEFAULT
            Alpha alpha-discount DEFAULT
            Alpha alpha-fixedterm DEFAULT
            Alpha alpha-setup DEFAULT
            Alpha alpha-trialdiscount DEFAULT
            Alpha alpha-arrear DEFAULT
            Alpha alpha-free DEFAULT
            Alpha alpha-promo PROMO
            Alpha alpha-bimestrial DEFAULT
            Alpha alpha-quarterly DEFAULT
            Alpha alpha-arrear-quarterly DEFAULT
            Alpha alpha-biannual DEFAULT
            Alpha alpha-annual DEFAULT
            Alpha alpha-onetime DEFAULT
            Alpha alpha-lifetime DEFAULT
            Beta beta-trial-monthly DEFAULT
            Beta beta-monthly DEFAULT
            Beta beta-arrear DEFAULT
            Beta beta-promo PROMO
            Beta beta-annual DEFAULT
            Gamma gamma-monthly DEFAULT"#]]
        .assert_eq(&shown(&of_base_products(&catalog)));
        let check = |base: &str, list: Option<&str>, expected: Expect| {
            expected.assert_eq(&shown(&of_add_ons(&catalog, base, list)));
        };
        let with_add_ons = catalog.products.iter().find(|it| !it.available.is_empty()).unwrap();
        check(
            &with_add_ons.name,
            None,
            expect![[r#"
            Boost boost-monthly DEFAULT
            Boost boost-discount DEFAULT
            Shield shield-monthly DEFAULT
            Shield shield-discount DEFAULT"#]],
        );
        check(
            &with_add_ons.name,
            Some("DEFAULT"),
            expect![[r#"
            Boost boost-monthly DEFAULT
            Boost boost-discount DEFAULT
            Shield shield-monthly DEFAULT
            Shield shield-discount DEFAULT"#]],
        );
        check(&with_add_ons.name, Some("none"), expect![""]);
        check("none", None, expect![""]);
    }
}
