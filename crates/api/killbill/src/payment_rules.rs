//! A tenant's rules for payments and invoices, as its settings and the configuration of `faregate-rules` say them.

use std::collections::{BTreeMap, BTreeSet};

use domain::billing::BillingSettings;
use domain::tenant::payment_rules::{
    AmountLimits, ControlPlugin, GATEWAYS_MAX, Limits, RetrySettings, Settings,
};
use domain::{AmountMinor, Currency, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::call::Call;
use crate::error::Failure;
use crate::json::{Json, Raw, parse};
use crate::request::{Query, printable};

/// The configuration of `faregate-rules`, in messages.
const JSON: Json = Json("FaregateRules");

/// How many characters the name of a gateway has at most.
const GATEWAY_CHARS_MAX: usize = 255;
/// How many control plugins a request names at most.
const CONTROL_PLUGINS_MAX: usize = 16;

/// Kill Bill's setting for the days after which a failed payment is tried again.
const RETRY_DAYS: &str = "org.killbill.payment.retry.days";
/// How many days it names at most.
const RETRY_DAYS_MAX: usize = 100;
/// The latest of them.
const RETRY_DAY_MAX: u16 = 3_650;
/// Kill Bill's setting for invoices in arrear: whether they are for the period that has begun.
const IN_ARREAR_MODE: &str = "org.killbill.invoice.inArrear.mode";
/// Kill Bill's setting for the days that each period counts where a part of it is charged; 0: as many as it has.
const FIXED_DAYS: &str = "org.killbill.invoice.proration.fixed.days";
/// The most of them.
const FIXED_DAYS_MAX: i32 = 366;
/// How long before its day an invoice is announced: a number with `s`, `m`, `h` or `d`.
const ANNOUNCED: &str = "org.killbill.invoice.dryRunNotificationSchedule";
/// A year.
const ANNOUNCED_MAX_US: i64 = 366 * 86_400 * Timestamp::SECOND_US;
/// The setting for retries of payments that a client requests.
const RETRY_API: &str = "faregate.payment.retry.api";

/// The control plugins that a call about a payment names, control programs among them.
///
/// # Errors
/// 400 where there is no plugin of a name: ignoring it would change the meaning of the request.
pub(crate) fn control_plugins(call: &Call) -> Result<Vec<String>, Failure> {
    let is_program = |name: &str| call.api.engine().is_control_program(name);
    named(call.query(), |name| ControlPlugin::named(name).is_ok() || is_program(name))
}

/// As [`control_plugins`], of a request that control programs do not decide about.
///
/// # Errors
/// As there; a program is no plugin here.
pub(crate) fn own_control_plugins(query: Query<'_>) -> Result<Vec<String>, Failure> {
    named(query, |name| ControlPlugin::named(name).is_ok())
}

fn named(query: Query<'_>, exists: impl Fn(&str) -> bool) -> Result<Vec<String>, Failure> {
    let mut plugins: Vec<String> = Vec::new();
    for name in query.all("controlPluginName") {
        let name = name?;
        if name.is_empty() || plugins.iter().any(|it| *it == name) {
            continue;
        }
        if !exists(&name) {
            let reason = format!("there is no control plugin {}", printable(&name));
            return Err(Failure::parameter("controlPluginName", &reason));
        }
        if plugins.len() >= CONTROL_PLUGINS_MAX {
            let reason = format!("at most {CONTROL_PLUGINS_MAX} are taken");
            return Err(Failure::parameter("controlPluginName", &reason));
        }
        plugins.push(name.into_owned());
    }
    Ok(plugins)
}

/// What a tenant's settings say of payments and invoices.
///
/// # Errors
/// Why a text cannot be a tenant's settings.
pub(crate) fn settings(text: &str) -> Result<Settings, String> {
    let all: BTreeMap<String, Value> = serde_json::from_str(text)
        .map_err(|_| "should be a JSON object of names with texts".to_owned())?;
    for (name, value) in &all {
        if value.is_array() || value.is_object() || value.is_null() {
            return Err(format!("{}: should be a text", printable(name)));
        }
    }
    let text_of = |name: &str| {
        all.get(name).map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned))
    };
    let days = text_of(RETRY_DAYS).map(|text| {
        retry_days(&text).ok_or_else(|| {
            format!(
                "{RETRY_DAYS}: should be at most {RETRY_DAYS_MAX} days from 0 to {RETRY_DAY_MAX}, such as 8,8,8"
            )
        })
    });
    let days = days.transpose()?;
    let api = match text_of(RETRY_API).as_deref() {
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => return Err(format!("{RETRY_API}: should be true or false")),
        None => None,
    };
    let is_there = days.is_some() || api.is_some();
    let retries = is_there.then(|| RetrySettings { days, api: api.unwrap_or(false) });
    let greedy = match text_of(IN_ARREAR_MODE).as_deref() {
        Some("GREEDY") => true,
        Some("DEFAULT") | None => false,
        Some(_) => return Err(format!("{IN_ARREAR_MODE}: should be DEFAULT or GREEDY")),
    };
    let fixed_days = text_of(FIXED_DAYS).map(|text| {
        let days = text.trim().parse().ok().filter(|days| (0..=FIXED_DAYS_MAX).contains(days));
        days.ok_or_else(|| format!("{FIXED_DAYS}: should be from 0 to {FIXED_DAYS_MAX}"))
    });
    let fixed_days = fixed_days.transpose()?.unwrap_or_default();
    let announced_us = text_of(ANNOUNCED).map(|text| {
        time_span(&text)
            .ok_or_else(|| format!("{ANNOUNCED}: should be a time up to a year, such as 7d or 12h"))
    });
    let announced_us = announced_us.transpose()?.unwrap_or_default();
    Ok(Settings { retries, billing: BillingSettings { greedy, fixed_days, announced_us } })
}

/// The microseconds of a time as Kill Bill's settings have it, such as `7d`.
fn time_span(text: &str) -> Option<i64> {
    let text = text.trim();
    let unit = text.find(|it: char| !it.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let seconds = match unit.trim_start() {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let span = number.parse::<i64>().ok()?.checked_mul(seconds * Timestamp::SECOND_US)?;
    (span <= ANNOUNCED_MAX_US).then_some(span)
}

fn retry_days(text: &str) -> Option<Vec<u16>> {
    if text.is_empty() {
        return Some(vec![]);
    }
    let day = |it: &str| it.trim().parse().ok().filter(|day| *day <= RETRY_DAY_MAX);
    let is_short = text.split(',').count() <= RETRY_DAYS_MAX;
    is_short.then(|| text.split(',').map(day).collect()).flatten()
}

/// The configuration of `faregate-rules`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LimitsBody<'a> {
    #[serde(borrow)]
    every_payment: Raw<'a>,
    #[serde(borrow)]
    currencies: Raw<'a>,
    #[serde(borrow)]
    gateways: Raw<'a>,
    #[serde(borrow)]
    limits: Raw<'a>,
    #[serde(borrow)]
    payments_per_day: Raw<'a>,
    #[serde(borrow)]
    lower_amounts: Raw<'a>,
    #[serde(borrow)]
    method_gateways: Raw<'a>,
}

/// The largest amounts in a currency.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AmountLimitsBody<'a> {
    #[serde(borrow)]
    payment: Raw<'a>,
    #[serde(borrow)]
    day: Raw<'a>,
}

/// Reads the configuration of `faregate-rules`.
///
/// # Errors
/// 400 that names the field.
pub(crate) fn limits(text: &str) -> Result<Limits, Failure> {
    let body: Option<LimitsBody<'_>> = parse(JSON, text.as_bytes())?;
    let body = body.ok_or_else(|| JSON.missing_body())?;
    let of_currencies: Option<BTreeMap<String, &RawValue>> =
        read("limits", body.limits, "an object of currencies")?;
    let mut amounts = BTreeMap::new();
    for (code, raw) in of_currencies.unwrap_or_default() {
        let currency = currency("limits", &code)?;
        amounts.insert(currency, amount_limits(currency, raw)?);
    }
    let currencies: Option<Vec<String>> =
        read("currencies", body.currencies, "an array of currencies")?;
    let currencies = currencies.map(|all| {
        all.iter().map(|code| currency("currencies", code)).collect::<Result<BTreeSet<_>, _>>()
    });
    Ok(Limits {
        every_payment: read("everyPayment", body.every_payment, "true or false")?.unwrap_or(false),
        currencies: currencies.transpose()?,
        gateways: gateways("gateways", body.gateways)?.map(BTreeSet::from_iter),
        amounts,
        payments_per_day: read(
            "paymentsPerDay",
            body.payments_per_day,
            "a whole number from 0 on",
        )?,
        lower_amounts: read("lowerAmounts", body.lower_amounts, "true or false")?.unwrap_or(false),
        method_gateways: gateways("methodGateways", body.method_gateways)?.unwrap_or_default(),
    })
}

fn amount_limits(currency: Currency, raw: &RawValue) -> Result<AmountLimits, Failure> {
    let field = |name: &str| format!("limits.{currency}.{name}");
    let body: Option<AmountLimitsBody<'_>> = parse(JSON, raw.get().as_bytes())?;
    let body = body.ok_or_else(|| refused(&format!("limits.{currency}"), "needs to be set"))?;
    Ok(AmountLimits {
        payment: amount(&field("payment"), body.payment, currency)?,
        day: amount(&field("day"), body.day, currency)?,
    })
}

fn amount(field: &str, raw: Raw<'_>, currency: Currency) -> Result<Option<AmountMinor>, Failure> {
    let Some(text) = JSON.amount(field, raw)? else { return Ok(None) };
    let amount = AmountMinor::parse(&text, currency)
        .map_err(|error| refused(field, &format!("is not an amount: {error}")))?;
    match amount < AmountMinor::ZERO {
        true => Err(refused(field, "should not be negative")),
        false => Ok(Some(amount)),
    }
}

fn gateways(field: &str, raw: Raw<'_>) -> Result<Option<Vec<String>>, Failure> {
    let Some(names) = read::<Vec<String>>(field, raw, "an array of names")? else {
        return Ok(None);
    };
    let is_name = |it: &String| {
        (1..=GATEWAY_CHARS_MAX).contains(&it.chars().count()) && !it.chars().any(char::is_control)
    };
    if names.len() > GATEWAYS_MAX || !names.iter().all(is_name) {
        let reason = format!(
            "should be at most {GATEWAYS_MAX} names of 1 to {GATEWAY_CHARS_MAX} characters"
        );
        return Err(refused(field, &reason));
    }
    Ok(Some(names))
}

fn currency(field: &str, code: &str) -> Result<Currency, Failure> {
    Currency::parse(code)
        .ok_or_else(|| refused(field, &format!("has an unknown currency: {}", printable(code))))
}

/// Reads a field; the message does not quote what is there.
fn read<'a, T: Deserialize<'a>>(
    field: &str,
    raw: Raw<'a>,
    expected: &str,
) -> Result<Option<T>, Failure> {
    let read = raw.map(|raw| serde_json::from_str(raw.get())).transpose();
    read.map_err(|_| refused(field, &format!("should be {expected}")))
}

fn refused(field: &str, reason: &str) -> Failure {
    Failure::illegal(format!("pluginConfig {field} {reason}"))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn settings_are_an_object_of_texts_with_days_that_can_be() {
        let with = |days: &str| format!("{{\"{RETRY_DAYS}\":\"{days}\"}}");
        let retries = |days: Vec<u16>| Some(RetrySettings { days: Some(days), api: false });
        for (valid, read) in [
            ("{}", None),
            (r#"{"a":"b","n":1,"t":true}"#, None),
            (&with("8,8, 8"), retries(vec![8, 8, 8])),
            (&with(""), retries(vec![])),
            (&with("0"), retries(vec![0])),
            (r#"{"org.killbill.payment.retry.days":8}"#, retries(vec![8])),
            (
                r#"{"faregate.payment.retry.api":true}"#,
                Some(RetrySettings { days: None, api: true }),
            ),
            (
                r#"{"faregate.payment.retry.api":"false"}"#,
                Some(RetrySettings { days: None, api: false }),
            ),
        ] {
            let read = Settings { retries: read, ..Settings::default() };
            assert_eq!(settings(valid), Ok(read), "{valid}");
        }
        let text = r#"{"org.killbill.invoice.inArrear.mode":"GREEDY","org.killbill.invoice.proration.fixed.days":"30"}"#;
        let billing = BillingSettings { greedy: true, fixed_days: 30, announced_us: 0 };
        assert_eq!(settings(text), Ok(Settings { retries: None, billing }));
        for (text, announced_us) in [("0s", 0), ("90m", 5_400_000_000), ("7d", 604_800_000_000)] {
            let billing = BillingSettings { announced_us, ..BillingSettings::DEFAULT };
            let text = format!(r#"{{"org.killbill.invoice.dryRunNotificationSchedule":"{text}"}}"#);
            assert_eq!(settings(&text), Ok(Settings { retries: None, billing }));
        }
        let many = with(&["1"; RETRY_DAYS_MAX + 1].join(","));
        let days = "org.killbill.payment.retry.days: should be at most 100 days from 0 to 3650, such as 8,8,8";
        let announced = "org.killbill.invoice.dryRunNotificationSchedule: should be a time up to a year, such as 7d or 12h";
        for (text, reason) in [
            ("", "should be a JSON object of names with texts"),
            ("a=b", "should be a JSON object of names with texts"),
            ("[]", "should be a JSON object of names with texts"),
            (r#"{"a":{}}"#, "a: should be a text"),
            (
                r#"{"faregate.payment.retry.api":"yes"}"#,
                "faregate.payment.retry.api: should be true or false",
            ),
            (r#"{"org.killbill.payment.retry.days":true}"#, days),
            (
                r#"{"org.killbill.invoice.inArrear.mode":"greedy"}"#,
                "org.killbill.invoice.inArrear.mode: should be DEFAULT or GREEDY",
            ),
            (
                r#"{"org.killbill.invoice.proration.fixed.days":367}"#,
                "org.killbill.invoice.proration.fixed.days: should be from 0 to 366",
            ),
            (r#"{"org.killbill.invoice.dryRunNotificationSchedule":"7"}"#, announced),
            (r#"{"org.killbill.invoice.dryRunNotificationSchedule":"-1d"}"#, announced),
            (r#"{"org.killbill.invoice.dryRunNotificationSchedule":"367d"}"#, announced),
            (&with("-1"), days),
            (&with("3651"), days),
            (&with("8,,8"), days),
            (&many, days),
        ] {
            assert_eq!(settings(text), Err(reason.to_owned()), "{text}");
        }
    }

    /// Compares a configuration as it is read, or the message of its refusal.
    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&match limits(text) {
            Ok(limits) => serde_json::to_string(&limits).unwrap(),
            Err(Failure::Problem(problem)) => problem.message.clone(),
            Err(other) => panic!("{other:?}"),
        });
    }

    #[test]
    fn rules_are_read_and_refused_by_field() {
        check(
            "{}",
            expect![[
                r#"{"every_payment":false,"currencies":null,"gateways":null,"amounts":{},"payments_per_day":null}"#
            ]],
        );
        check(
            r#"{"everyPayment":true,"currencies":["USD","JPY"],"gateways":["a"],
                "limits":{"USD":{"payment":"100.00","day":500},"JPY":{"day":null}},"paymentsPerDay":10,"lowerAmounts":true,"methodGateways":["b","a"]}"#,
            expect![[
                r#"{"every_payment":true,"currencies":["JPY","USD"],"gateways":["a"],"amounts":{"JPY":{"payment":null,"day":null},"USD":{"payment":10000,"day":50000}},"payments_per_day":10,"lower_amounts":true,"method_gateways":["b","a"]}"#
            ]],
        );
        for (text, expected) in [
            ("", expect!["FaregateRules body should be specified"]),
            ("null", expect!["FaregateRules body should be specified"]),
            ("rules", expect!["FaregateRules: malformed JSON: expected value at line 1 column 1"]),
            (
                "[]",
                expect!["Cannot deserialize value of type `FaregateRules`: it is no JSON object"],
            ),
            (
                r#"{"everyPayments":true}"#,
                expect![[
                    r#"Unrecognized field "everyPayments" (class org.killbill.billing.jaxrs.json.FaregateRules), not marked as ignorable (7 known properties: ["everyPayment", "currencies", "gateways", "limits", "paymentsPerDay", "lowerAmounts", "methodGateways"])"#
                ]],
            ),
            (
                r#"{"methodGateways":["a","\u0007"]}"#,
                expect![
                    "pluginConfig methodGateways should be at most 100 names of 1 to 255 characters"
                ],
            ),
            (r#"{"lowerAmounts":1}"#, expect!["pluginConfig lowerAmounts should be true or false"]),
            (
                r#"{"everyPayment":"yes"}"#,
                expect!["pluginConfig everyPayment should be true or false"],
            ),
            (
                r#"{"currencies":["USD","XXX"]}"#,
                expect!["pluginConfig currencies has an unknown currency: XXX"],
            ),
            (
                r#"{"currencies":"USD"}"#,
                expect!["pluginConfig currencies should be an array of currencies"],
            ),
            (
                r#"{"gateways":[""]}"#,
                expect!["pluginConfig gateways should be at most 100 names of 1 to 255 characters"],
            ),
            (r#"{"gateways":[1]}"#, expect!["pluginConfig gateways should be an array of names"]),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn amounts_and_numbers_are_refused_by_field() {
        for (text, expected) in [
            (
                r#"{"limits":{"usd":{}}}"#,
                expect!["pluginConfig limits has an unknown currency: usd"],
            ),
            (r#"{"limits":{"USD":null}}"#, expect!["pluginConfig limits.USD needs to be set"]),
            (
                r#"{"limits":{"USD":{"week":"1"}}}"#,
                expect![[
                    r#"Unrecognized field "week" (class org.killbill.billing.jaxrs.json.FaregateRules), not marked as ignorable (2 known properties: ["payment", "day"])"#
                ]],
            ),
            (
                r#"{"limits":{"USD":{"payment":"1.001"}}}"#,
                expect![
                    "pluginConfig limits.USD.payment is not an amount: more decimals than the currency has (2)"
                ],
            ),
            (
                r#"{"limits":{"USD":{"payment":"x"}}}"#,
                expect![[
                    r#"Cannot deserialize value of type `java.math.BigDecimal` from String "x" (through reference chain: org.killbill.billing.jaxrs.json.FaregateRules["limits.USD.payment"])"#
                ]],
            ),
            (
                r#"{"limits":{"USD":{"day":"-1"}}}"#,
                expect!["pluginConfig limits.USD.day should not be negative"],
            ),
            (
                r#"{"limits":{"JPY":{"day":"1e30"}}}"#,
                expect!["pluginConfig limits.JPY.day is not an amount: too large"],
            ),
            (r#"{"limits":[]}"#, expect!["pluginConfig limits should be an object of currencies"]),
            (
                r#"{"paymentsPerDay":-1}"#,
                expect!["pluginConfig paymentsPerDay should be a whole number from 0 on"],
            ),
            (
                r#"{"paymentsPerDay":1.5}"#,
                expect!["pluginConfig paymentsPerDay should be a whole number from 0 on"],
            ),
        ] {
            check(text, expected);
        }
    }
}
