//! Fields of messages, validated strictly. Refusals name the field.

use domain::card_data::{NumericKeys, contains_pan, find_card_data};
use domain::{AmountMinor, Currency, Id, Properties, Timestamp};
use uuid::Uuid;
use web::card_data::REASON;

use crate::api;
use crate::refusal::Refusal;

/// The longest external key, in characters.
const KEY_CHARS_MAX: usize = 255;
/// The most properties of a call.
const PROPERTIES_MAX: usize = 64;
/// The longest key of a property, in characters.
const PROPERTY_KEY_CHARS_MAX: usize = 255;
/// The longest value of a property, in characters.
const PROPERTY_VALUE_CHARS_MAX: usize = 4096;

/// A required id.
///
/// # Errors
/// [`Refusal::Field`]: empty, or not a UUID.
pub(crate) fn id<K>(field: &'static str, text: &str) -> Result<Id<K>, Refusal> {
    optional_id(field, text)?.ok_or_else(|| Refusal::field(field, "needs to be set"))
}

/// An optional id; empty means none.
///
/// # Errors
/// [`Refusal::Field`]: not a UUID.
pub(crate) fn optional_id<K>(field: &'static str, text: &str) -> Result<Option<Id<K>>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    let id = Uuid::try_parse(text).map_err(|_| Refusal::field(field, "is no UUID"))?;
    Ok(Some(Id::new(id)))
}

/// An optional external key; empty means none.
///
/// # Errors
/// [`Refusal::Field`]: too long, or with a control character or a card number.
pub(crate) fn key(
    field: &'static str,
    text: String,
    numbers: NumericKeys,
) -> Result<Option<String>, Refusal> {
    bounded_text(field, text, (KEY_CHARS_MAX, numbers))
}

/// An optional text of at most `chars_max` characters; empty means none.
///
/// # Errors
/// [`Refusal::Field`]: too long, or with a control character or a card number.
pub(crate) fn optional_text(
    field: &'static str,
    text: String,
    chars_max: usize,
) -> Result<Option<String>, Refusal> {
    bounded_text(field, text, (chars_max, NumericKeys::Checked))
}

fn bounded_text(
    field: &'static str,
    text: String,
    (chars_max, numbers): (usize, NumericKeys),
) -> Result<Option<String>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.len() > chars_max && text.chars().count() > chars_max {
        return Err(Refusal::field(field, format!("has more than {chars_max} characters")));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::field(field, "has a control character"));
    }
    if numbers.refuses(&text) {
        return Err(Refusal::field(field, REASON));
    }
    Ok(Some(text))
}

/// An optional currency; empty means none.
///
/// # Errors
/// [`Refusal::Field`]: unknown.
pub(crate) fn optional_currency(
    field: &'static str,
    code: &str,
) -> Result<Option<Currency>, Refusal> {
    if code.is_empty() {
        return Ok(None);
    }
    let currency = Currency::parse(code);
    let meant = || Currency::parse(&code.to_ascii_uppercase());
    currency.map(Some).ok_or_else(|| match meant() {
        Some(meant) => Refusal::field(field, format!("is no currency code (ISO 4217); {meant} is")),
        None => Refusal::field(field, "is no currency code (ISO 4217)"),
    })
}

/// A time, to the microsecond. One beyond what can be written is the first or the last that can.
pub(crate) fn time(at: &prost_types::Timestamp) -> Timestamp {
    Timestamp(micros(at.seconds, at.nanos))
}

/// A duration in microseconds, bounded like a time.
pub(crate) fn duration_us(it: &prost_types::Duration) -> i64 {
    micros(it.seconds, it.nanos)
}

fn micros(seconds: i64, nanos: i32) -> i64 {
    seconds.saturating_mul(Timestamp::SECOND_US).saturating_add(i64::from(nanos / 1_000))
}

/// The field `amount` as the domain expects it: a decimal in the currency's major unit.
///
/// # Errors
/// [`Refusal::Field`]: absent, not above zero, or without a valid currency.
pub(crate) fn amount(money: Option<&api::Money>) -> Result<(String, Currency), Refusal> {
    let money = money.ok_or_else(|| Refusal::field("amount", "needs to be set"))?;
    let currency = optional_currency("amount.currency_code", &money.currency_code)?;
    let currency =
        currency.ok_or_else(|| Refusal::field("amount.currency_code", "needs to be set"))?;
    if money.minor_units <= 0 {
        return Err(Refusal::field("amount.minor_units", "should be greater than 0"));
    }
    Ok((AmountMinor(money.minor_units).decimal(currency), currency))
}

/// The field `properties`. The refusal names the property's key, never its value.
///
/// # Errors
/// [`Refusal::Field`]: too many or too long ones, control characters, or card data.
pub(crate) fn properties(given: Vec<api::Property>) -> Result<Properties, Refusal> {
    let refused = |reason: String| Refusal::field("properties", reason);
    if given.len() > PROPERTIES_MAX {
        return Err(refused(format!("at most {PROPERTIES_MAX} are taken")));
    }
    let properties: Properties = given.into_iter().map(|it| (it.key, it.value)).collect();
    for (key, value) in &properties {
        if key.is_empty() {
            return Err(refused("a key is empty".to_owned()));
        }
        if key.chars().count() > PROPERTY_KEY_CHARS_MAX {
            return Err(refused(format!(
                "a key has more than {PROPERTY_KEY_CHARS_MAX} characters"
            )));
        }
        if contains_pan(key) {
            return Err(refused("a key looks like a card number".to_owned()));
        }
        if key.chars().any(char::is_control) || value.contains('\0') {
            return Err(refused("has a control character".to_owned()));
        }
        if value.chars().count() > PROPERTY_VALUE_CHARS_MAX {
            return Err(refused(format!(
                "{key} has more than {PROPERTY_VALUE_CHARS_MAX} characters"
            )));
        }
    }
    match find_card_data(&properties) {
        Some(name) => Err(refused(format!(
            "{name} holds card data, which is not taken: send a token of a vault"
        ))),
        None => Ok(properties),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: std::fmt::Debug>(read: Result<T, Refusal>) -> String {
        read.unwrap_err().to_string()
    }

    #[test]
    fn amounts_are_positive_minor_units_of_a_known_currency() {
        let read = |minor_units, code: &str| {
            amount(Some(&api::Money { minor_units, currency_code: code.to_owned() }))
        };
        let usd = Currency::parse("USD").unwrap();
        assert_eq!(read(1050, "USD").unwrap(), ("10.50".to_owned(), usd));
        assert_eq!(read(1050, "JPY").unwrap().0, "1050");
        assert_eq!(read(i64::MAX, "BHD").unwrap().0, "9223372036854775.807");
        assert_eq!(refused(read(0, "USD")), "amount.minor_units: should be greater than 0");
        assert_eq!(refused(read(i64::MIN, "USD")), "amount.minor_units: should be greater than 0");
        assert_eq!(
            refused(read(1, "usd")),
            "amount.currency_code: is no currency code (ISO 4217); USD is"
        );
        assert_eq!(refused(read(1, "")), "amount.currency_code: needs to be set");
        assert_eq!(refused(amount(None)), "amount: needs to be set");
    }

    #[test]
    fn texts_are_bounded_and_without_control_characters() {
        assert_eq!(key("payment_key", String::new(), NumericKeys::Checked).unwrap(), None);
        key("payment_key", "é".repeat(KEY_CHARS_MAX), NumericKeys::Checked).unwrap();
        let long = key("payment_key", "é".repeat(KEY_CHARS_MAX + 1), NumericKeys::Checked);
        assert_eq!(refused(long), "payment_key: has more than 255 characters");
        let control = key("payment_key", "a\nb".to_owned(), NumericKeys::Checked);
        assert_eq!(refused(control), "payment_key: has a control character");
        let number = || "4111111111111111".to_owned();
        let card = key("payment_key", number(), NumericKeys::Checked);
        assert_eq!(refused(card), format!("payment_key: {REASON}"));
        assert_eq!(key("payment_key", number(), NumericKeys::Allowed).unwrap(), Some(number()));
        let card = optional_text("person.name", "4111 1111 1111 1111".to_owned(), 50);
        assert_eq!(refused(card), format!("person.name: {REASON}"));
        let read = |text: &str| id::<domain::kind::Account>("account_id", text);
        assert_eq!(refused(read("")), "account_id: needs to be set");
        assert_eq!(refused(read("1")), "account_id: is no UUID");
    }

    #[test]
    fn card_data_and_properties_above_the_limits_are_refused() {
        let one = |key: &str, value: &str| {
            properties(vec![api::Property { key: key.to_owned(), value: value.to_owned() }])
        };
        assert_eq!(one("a", "b").unwrap(), [("a".to_owned(), "b".to_owned())]);
        let refusal = refused(one("ccNumber", "4111111111111111"));
        assert!(refusal.starts_with("properties: ccNumber holds card data"), "{refusal}");
        assert!(!refused(one("4111111111111111", "b")).contains("4111"));
        let long = one("a", &"v".repeat(PROPERTY_VALUE_CHARS_MAX + 1));
        assert_eq!(refused(long), "properties: a has more than 4096 characters");
        assert_eq!(refused(one("", "b")), "properties: a key is empty");
        assert_eq!(refused(one("a\n", "b")), "properties: has a control character");
        let many = vec![api::Property { key: "a".to_owned(), value: String::new() }; 65];
        assert_eq!(refused(properties(many)), "properties: at most 64 are taken");
    }
}
