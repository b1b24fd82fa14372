//! Price overrides of a request: Kill Bill's `PhasePriceJson`, one per phase.

use domain::billing::overrides::{OverriddenPhase, PriceOverride};
use domain::catalog::PhaseType;
use domain::catalog::price::Price;
use serde::Deserialize;
use utoipa::ToSchema;

use super::NAME_CHARS_MAX;
use crate::error::Failure;
use crate::json::{Json, Raw, parse};
use crate::request::printable;

const JSON: Json = Json("PhasePriceJson");

const FIELD: &str = "priceOverrides";

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PhasePriceRequest)]
pub(crate) struct PhasePriceBody<'a> {
    /// It has no effect: the plan is that of the request
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    plan_name: Raw<'a>,
    /// `<plan>-<type>`; or `phaseType`
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    phase_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    phase_type: Raw<'a>,
    /// In the account's currency; by default the catalog's
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    fixed_price: Raw<'a>,
    /// In the account's currency; by default the catalog's
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    recurring_price: Raw<'a>,
    /// Empty, as long as prices of usage cannot be overridden
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    usage_prices: Raw<'a>,
}

/// The overrides of a request, in their order.
pub(super) fn read(json: Json, raw: Raw<'_>) -> Result<Vec<PriceOverride>, Failure> {
    let items = json.items(FIELD, raw)?.unwrap_or_default();
    let one = |(at, item): (usize, Raw<'_>)| {
        let body = match item {
            Some(item) => parse::<PhasePriceBody<'_>>(JSON, item.get().as_bytes())?,
            None => None,
        };
        body.ok_or_else(|| Failure::parameter(&format!("{FIELD}[{at}]"), "is null"))?.read(at)
    };
    items.into_iter().enumerate().map(one).collect()
}

impl PhasePriceBody<'_> {
    fn read(&self, at: usize) -> Result<PriceOverride, Failure> {
        let _plan = JSON.text("planName", self.plan_name, NAME_CHARS_MAX)?;
        if !matches!(self.usage_prices.map(|it| it.get()), None | Some("null" | "[]")) {
            let field = format!("{FIELD}[{at}].usagePrices");
            return Err(Failure::parameter(&field, "prices of usage cannot be overridden yet"));
        }
        Ok(PriceOverride {
            phase: self.phase(at)?,
            fixed: price((at, "fixedPrice"), self.fixed_price)?,
            recurring: price((at, "recurringPrice"), self.recurring_price)?,
        })
    }

    fn phase(&self, at: usize) -> Result<OverriddenPhase, Failure> {
        if let Some(name) = JSON.text("phaseName", self.phase_name, NAME_CHARS_MAX)? {
            return Ok(OverriddenPhase::Named(name));
        }
        let field = format!("{FIELD}[{at}].phaseType");
        let Some(name) = JSON.text("phaseType", self.phase_type, NAME_CHARS_MAX)? else {
            return Err(Failure::parameter(&field, "needs to be set, or phaseName"));
        };
        let phase = PhaseType::ALL.into_iter().find(|it| it.name() == name);
        phase.map(OverriddenPhase::OfType).ok_or_else(|| {
            let all = PhaseType::ALL.map(PhaseType::name).join(", ");
            let reason = format!("{} is not one of {all}", printable(&name));
            Failure::parameter(&field, &reason)
        })
    }
}

/// A price of at most nine decimals that is not below zero.
fn price((at, name): (usize, &'static str), raw: Raw<'_>) -> Result<Option<Price>, Failure> {
    let Some(text) = JSON.text(name, raw, NAME_CHARS_MAX)? else { return Ok(None) };
    let reason = match Price::parse(&text) {
        Some(price) if !price.is_negative() => return Ok(Some(price)),
        Some(_) => format!("{text} is below zero"),
        None => {
            let text = printable(&text);
            format!("{text} is not a decimal of at most nine decimals, and at most 10^15")
        }
    };
    Err(Failure::parameter(&format!("{FIELD}[{at}].{name}"), &reason))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::value::RawValue;

    use super::*;

    fn check(text: &str, expected: Expect) {
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        let price = |it: Option<Price>| it.map_or("-".to_owned(), |it| it.to_string());
        let shown = match read(Json("SubscriptionJson"), Some(raw)) {
            Ok(all) => {
                let one = |it: &PriceOverride| {
                    format!("{:?} {} {}", it.phase, price(it.fixed), price(it.recurring))
                };
                all.iter().map(one).collect::<Vec<_>>().join(", ")
            }
            Err(Failure::Problem(problem)) => problem.message,
            Err(other) => format!("{other:?}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_phase_is_named_or_has_a_type() {
        check("[]", expect![""]);
        check(
            r#"[{"phaseType":"TRIAL","fixedPrice":3,"recurringPrice":null,"usagePrices":[]},
                {"planName":"pro","phaseName":"pro-evergreen","recurringPrice":"44.50"}]"#,
            expect![[r#"OfType(Trial) 3 -, Named("pro-evergreen") - 44.5"#]],
        );
        check(
            r#"[{"phaseType":"EVERGREEN","recurringPrice":0}]"#,
            expect!["OfType(Evergreen) - 0"],
        );
    }

    #[test]
    fn a_wrong_override_is_refused_by_its_field() {
        check(
            "{}",
            expect![
                "Cannot deserialize value of type `SubscriptionJson`: priceOverrides should be an array"
            ],
        );
        check("[null]", expect!["Invalid parameter priceOverrides[0]: is null"]);
        check(
            r#"[{"phaseType":"TRIAL","price":3}]"#,
            expect![[
                r#"Unrecognized field "price" (class org.killbill.billing.jaxrs.json.PhasePriceJson), not marked as ignorable (6 known properties: ["planName", "phaseName", "phaseType", "fixedPrice", "recurringPrice", "usagePrices"])"#
            ]],
        );
        check(
            r#"[{"fixedPrice":3}]"#,
            expect!["Invalid parameter priceOverrides[0].phaseType: needs to be set, or phaseName"],
        );
        check(
            r#"[{"phaseType":"FOREVER","fixedPrice":3}]"#,
            expect![
                "Invalid parameter priceOverrides[0].phaseType: FOREVER is not one of TRIAL, DISCOUNT, FIXEDTERM, EVERGREEN"
            ],
        );
        check(
            r#"[{"phaseType":"TRIAL"},{"phaseType":"TRIAL","fixedPrice":-0.01}]"#,
            expect!["Invalid parameter priceOverrides[1].fixedPrice: -0.01 is below zero"],
        );
        check(
            r#"[{"phaseType":"TRIAL","recurringPrice":"cheap"}]"#,
            expect![
                "Invalid parameter priceOverrides[0].recurringPrice: cheap is not a decimal of at most nine decimals, and at most 10^15"
            ],
        );
        check(
            r#"[{"phaseType":"TRIAL","recurringPrice":0.0000000001}]"#,
            expect![
                "Invalid parameter priceOverrides[0].recurringPrice: 0.0000000001 is not a decimal of at most nine decimals, and at most 10^15"
            ],
        );
        check(
            r#"[{"phaseType":"TRIAL","usagePrices":[{}]}]"#,
            expect![
                "Invalid parameter priceOverrides[0].usagePrices: prices of usage cannot be overridden yet"
            ],
        );
    }
}
