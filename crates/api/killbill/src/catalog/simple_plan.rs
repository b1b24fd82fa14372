//! Simple plans: a plan in one call, without XML.

use domain::catalog::period::BillingPeriod;
use domain::catalog::price::Price;
use domain::catalog::simple_plan::{SimplePlan, Trial};
use domain::catalog::{Duration, DurationUnit, ProductCategory};
use domain::command::TenantCommand;
use domain::{Command, Currency};
use serde::Deserialize;
use utoipa::ToSchema;

use super::reading::NAME_CHARS_MAX;
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, code};
use crate::json::{Json, Raw};
use crate::reply;
use crate::request::printable;
use crate::subscriptions::word;
use crate::xml::is_name;

const JSON: Json = Json("SimplePlanJson");

/// The units of a trial; `None`: it does not end, which is no trial.
const UNITS: [(&str, Option<DurationUnit>); 5] = [
    ("DAYS", Some(DurationUnit::Days)),
    ("WEEKS", Some(DurationUnit::Weeks)),
    ("MONTHS", Some(DurationUnit::Months)),
    ("YEARS", Some(DurationUnit::Years)),
    ("UNLIMITED", None),
];

/// Kill Bill's `SimplePlanJson`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = SimplePlanRequest)]
pub(crate) struct SimplePlanBody<'a> {
    /// A name of XML: a letter or `_`, then letters, digits, `_`, `-` and `.`; at most 255 characters
    #[serde(borrow)]
    #[schema(value_type = String)]
    plan_id: Raw<'a>,
    /// Likewise. A new plan needs it
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    product_name: Raw<'a>,
    /// `BASE`, `ADD_ON` or `STANDALONE`. A new product needs it
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    product_category: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = String)]
    currency: Raw<'a>,
    /// In each period; from 0 on
    #[serde(borrow)]
    #[schema(value_type = f64)]
    amount: Raw<'a>,
    /// A new plan needs it
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    billing_period: Raw<'a>,
    /// How long the plan is free at its begin; 0: it is not
    #[serde(borrow)]
    #[schema(value_type = Option<i32>)]
    trial_length: Raw<'a>,
    /// `DAYS`, `WEEKS`, `MONTHS` or `YEARS`; with a length of 0 also `UNLIMITED`
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    trial_time_unit: Raw<'a>,
    /// Names of base products beside which the add-on is sold; of other products it means nothing
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<String>>)]
    available_base_products: Raw<'a>,
}

/// Adds a plan to the version of the catalog that is in force, or a price in another currency to a plan of it. Its
/// product and its currency are added with it, and a catalog where the tenant has none.
#[utoipa::path(post, path = "/1.0/kb/catalog/simplePlan", tag = "Catalog", operation_id = "add_simple_plan",
    request_body = SimplePlanBody<'static>,
    responses((status = 201, description = "Location names the catalog"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn add(call: Call) -> HandlerResult {
    let it = call.body::<SimplePlanBody<'_>>(JSON)?.read()?;
    let command = TenantCommand::AddSimplePlan(Box::new(it));
    call.submit_change(Command::Tenant(command)).await?;
    Ok(reply::created(call.location(&["/1.0/kb/catalog"])))
}

impl SimplePlanBody<'_> {
    fn read(&self) -> Result<SimplePlan, Failure> {
        let plan = name("planId", self.plan_id)?;
        let categories = ProductCategory::ALL.map(|it| (it.name(), it));
        let periods = BillingPeriod::ALL.map(|it| (it.name(), it));
        Ok(SimplePlan {
            plan: plan.ok_or_else(|| missing("planId"))?,
            product: name("productName", self.product_name)?,
            category: word(JSON, "productCategory", self.product_category, &categories)?,
            currency: self.currency()?,
            price: self.price()?,
            period: word(JSON, "billingPeriod", self.billing_period, &periods)?,
            trial: self.trial()?,
            available_base_products: self.available_base_products()?,
        })
    }

    fn currency(&self) -> Result<Currency, Failure> {
        let currency = JSON.currency("currency", self.currency)?;
        let currency = currency.ok_or_else(|| missing("currency"))?;
        if !currency.is_of_kill_bill() {
            return Err(refused("currency", "should be a currency of Kill Bill"));
        }
        Ok(currency)
    }

    fn price(&self) -> Result<Price, Failure> {
        let text = JSON.amount("amount", self.amount)?.ok_or_else(|| missing("amount"))?;
        match Price::parse(&text) {
            Some(price) if !price.is_negative() => Ok(price),
            Some(_) => Err(refused("amount", &format!("{text} is below zero"))),
            None => {
                let most = "is not a decimal of at most nine decimals, and at most 10^15";
                Err(refused("amount", &format!("{} {most}", printable(&text))))
            }
        }
    }

    fn trial(&self) -> Result<Option<Trial>, Failure> {
        let number = JSON.integer("trialLength", self.trial_length)?;
        let unit = word(JSON, "trialTimeUnit", self.trial_time_unit, &UNITS)?;
        let number = number.map(|it| {
            u32::try_from(it).map_err(|_| refused("trialLength", &format!("{it} is below zero")))
        });
        match (number.transpose()?, unit) {
            (None | Some(0), None) | (None, Some(None)) => Ok(None),
            (Some(0), Some(_)) => Ok(Some(Trial::None)),
            (Some(number), Some(Some(unit))) => Ok(Some(Trial::For(Duration { unit, number }))),
            (Some(_), None) => Err(missing("trialTimeUnit")),
            (Some(_), Some(None)) => {
                Err(refused("trialTimeUnit", "UNLIMITED goes with a trialLength of 0 only"))
            }
            (None, Some(Some(_))) => Err(missing("trialLength")),
        }
    }

    fn available_base_products(&self) -> Result<Vec<String>, Failure> {
        let field = "availableBaseProducts";
        let names = JSON.texts(field, self.available_base_products, NAME_CHARS_MAX)?;
        Ok(names.unwrap_or_default())
    }
}

/// A name that an XML document can have as an id.
fn name(field: &'static str, raw: Raw<'_>) -> Result<Option<String>, Failure> {
    let name = JSON.text(field, raw, NAME_CHARS_MAX)?.filter(|it| !it.is_empty());
    match name {
        Some(name) if !is_name(&name) || name.contains(':') => {
            let reason = format!(
                "{} is no name of XML: a letter or _, then letters, digits, _, - and .",
                printable(&name)
            );
            Err(refused(field, &reason))
        }
        name => Ok(name),
    }
}

fn missing(field: &str) -> Failure {
    refused(field, "needs to be set")
}

fn refused(field: &str, reason: &str) -> Failure {
    let message = format!("the simple plan is refused: {field}: {reason}");
    Failure::coded(code::INVALID_SIMPLE_PLAN, message)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;
    use crate::json::parse;

    /// Reads a plan with other values of some fields.
    fn check(others: Value, expected: Expect) {
        let mut body = json!({
            "planId": "pro", "productName": "Pro", "productCategory": "BASE", "currency": "USD",
            "amount": 20, "billingPeriod": "MONTHLY",
        });
        body.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
        let body = body.to_string();
        let read = parse::<SimplePlanBody<'_>>(JSON, body.as_bytes());
        let shown = match read.and_then(|it| it.unwrap().read()) {
            Ok(it) => {
                let duration = |it: Duration| format!("{} {}", it.number, it.unit.name());
                let trial = match it.trial {
                    Some(Trial::For(it)) => duration(it),
                    Some(Trial::None) => "none".to_owned(),
                    None => "-".to_owned(),
                };
                let period = it.period.map(BillingPeriod::name);
                format!(
                    "{} {} {period:?} {trial} {:?}",
                    it.plan, it.price, it.available_base_products
                )
            }
            Err(Failure::Problem(problem)) => problem.message,
            Err(other) => format!("{other:?}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_plan_may_have_a_trial_and_base_products() {
        check(json!({}), expect![[r#"pro 20 Some("MONTHLY") - []"#]]);
        check(
            json!({ "amount": "29.95", "billingPeriod": null, "trialLength": 0 }),
            expect!["pro 29.95 None - []"],
        );
        check(
            json!({ "trialLength": 10, "trialTimeUnit": "DAYS" }),
            expect![[r#"pro 20 Some("MONTHLY") 10 DAYS []"#]],
        );
        check(
            json!({ "trialLength": 0, "trialTimeUnit": "UNLIMITED" }),
            expect![[r#"pro 20 Some("MONTHLY") none []"#]],
        );
        check(json!({ "trialTimeUnit": "UNLIMITED" }), expect![[r#"pro 20 Some("MONTHLY") - []"#]]);
        check(
            json!({ "availableBaseProducts": ["Pro"] }),
            expect![[r#"pro 20 Some("MONTHLY") - ["Pro"]"#]],
        );
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn a_wrong_field_is_refused_by_its_name() {
        check(
            json!({ "planId": null }),
            expect!["the simple plan is refused: planId: needs to be set"],
        );
        check(
            json!({ "planId": "5 pro" }),
            expect![
                "the simple plan is refused: planId: 5 pro is no name of XML: a letter or _, then letters, digits, _, - and ."
            ],
        );
        check(
            json!({ "planId": "a:b" }),
            expect![
                "the simple plan is refused: planId: a:b is no name of XML: a letter or _, then letters, digits, _, - and ."
            ],
        );
        check(
            json!({ "productName": "Super Pro" }),
            expect![
                "the simple plan is refused: productName: Super Pro is no name of XML: a letter or _, then letters, digits, _, - and ."
            ],
        );
        check(
            json!({ "productCategory": "BASIS" }),
            expect![
                "Invalid parameter productCategory: BASIS is not one of BASE, ADD_ON, STANDALONE"
            ],
        );
        check(
            json!({ "currency": null }),
            expect!["the simple plan is refused: currency: needs to be set"],
        );
        check(
            json!({ "currency": "usd" }),
            expect![[
                r#"Cannot deserialize value of type `org.killbill.billing.catalog.api.Currency` from String "usd" (through reference chain: org.killbill.billing.jaxrs.json.SimplePlanJson["currency"])"#
            ]],
        );
        check(
            json!({ "amount": null }),
            expect!["the simple plan is refused: amount: needs to be set"],
        );
        check(
            json!({ "amount": "cheap" }),
            expect![[
                r#"Cannot deserialize value of type `java.math.BigDecimal` from String "cheap" (through reference chain: org.killbill.billing.jaxrs.json.SimplePlanJson["amount"])"#
            ]],
        );
        check(
            json!({ "amount": -1 }),
            expect!["the simple plan is refused: amount: -1 is below zero"],
        );
        check(
            json!({ "amount": "0.0000000001" }),
            expect![
                "the simple plan is refused: amount: 0.0000000001 is not a decimal of at most nine decimals, and at most 10^15"
            ],
        );
        check(
            json!({ "billingPeriod": "FORTNIGHT" }),
            expect![
                "Invalid parameter billingPeriod: FORTNIGHT is not one of DAILY, WEEKLY, BIWEEKLY, THIRTY_DAYS, THIRTY_ONE_DAYS, SIXTY_DAYS, NINETY_DAYS, MONTHLY, BIMESTRIAL, QUARTERLY, TRIANNUAL, BIANNUAL, ANNUAL, SESQUIENNIAL, BIENNIAL, TRIENNIAL, NO_BILLING_PERIOD"
            ],
        );
        check(
            json!({ "trialLength": 10 }),
            expect!["the simple plan is refused: trialTimeUnit: needs to be set"],
        );
        check(
            json!({ "trialLength": "ten", "trialTimeUnit": "DAYS" }),
            expect![[
                r#"Cannot deserialize value of type `java.lang.Integer` from String "ten" (through reference chain: org.killbill.billing.jaxrs.json.SimplePlanJson["trialLength"])"#
            ]],
        );
        check(
            json!({ "trialLength": -1, "trialTimeUnit": "DAYS" }),
            expect!["the simple plan is refused: trialLength: -1 is below zero"],
        );
        check(
            json!({ "trialLength": 1, "trialTimeUnit": "UNLIMITED" }),
            expect![
                "the simple plan is refused: trialTimeUnit: UNLIMITED goes with a trialLength of 0 only"
            ],
        );
        check(
            json!({ "trialLength": 1, "trialTimeUnit": "HOURS" }),
            expect![
                "Invalid parameter trialTimeUnit: HOURS is not one of DAYS, WEEKS, MONTHS, YEARS, UNLIMITED"
            ],
        );
        check(
            json!({ "trialTimeUnit": "DAYS" }),
            expect!["the simple plan is refused: trialLength: needs to be set"],
        );
        check(
            json!({ "availableBaseProducts": "Pro" }),
            expect![
                "Cannot deserialize value of type `SimplePlanJson`: availableBaseProducts should be an array"
            ],
        );
        check(
            json!({ "price": 1 }),
            expect![[
                r#"Unrecognized field "price" (class org.killbill.billing.jaxrs.json.SimplePlanJson), not marked as ignorable (9 known properties: ["planId", "productName", "productCategory", "currency", "amount", "billingPeriod", "trialLength", "trialTimeUnit", "availableBaseProducts"])"#
            ]],
        );
    }
}
