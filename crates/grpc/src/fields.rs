//! Fields of messages: read strictly, refused by name.

use domain::card_data::{find_card_data, looks_like_pan};
use domain::{AmountMinor, Currency, Id, Properties};
use uuid::Uuid;

use crate::api;
use crate::refusal::Refusal;

/// How long a name that the client gives a thing may be, in characters.
const KEY_CHARS_MAX: usize = 255;
/// Properties per call.
const PROPERTIES_MAX: usize = 64;
/// How long a property's key may be, in characters.
const PROPERTY_KEY_CHARS_MAX: usize = 255;
/// How long a property's value may be, in characters.
const PROPERTY_VALUE_CHARS_MAX: usize = 4096;

/// An id, which has to be there.
///
/// # Errors
/// Where it is empty or no UUID.
pub(crate) fn id<K>(field: &'static str, text: &str) -> Result<Id<K>, Refusal> {
    optional_id(field, text)?.ok_or_else(|| Refusal::field(field, "needs to be set"))
}

/// An id; empty where there is none.
///
/// # Errors
/// Where it is no UUID.
pub(crate) fn optional_id<K>(field: &'static str, text: &str) -> Result<Option<Id<K>>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    let id = Uuid::try_parse(text).map_err(|_| Refusal::field(field, "is no UUID"))?;
    Ok(Some(Id::new(id)))
}

/// The client's name for a thing; empty where there is none.
///
/// # Errors
/// One that is too long, or has a control character.
pub(crate) fn key(field: &'static str, text: String) -> Result<Option<String>, Refusal> {
    optional_text(field, text, KEY_CHARS_MAX)
}

/// A text of at most `chars_max` characters; empty where there is none.
///
/// # Errors
/// One that is too long, or has a control character.
pub(crate) fn optional_text(
    field: &'static str,
    text: String,
    chars_max: usize,
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
    Ok(Some(text))
}

/// A currency; empty where there is none.
///
/// # Errors
/// Where there is no such currency.
pub(crate) fn optional_currency(
    field: &'static str,
    code: &str,
) -> Result<Option<Currency>, Refusal> {
    if code.is_empty() {
        return Ok(None);
    }
    let currency = Currency::parse(code);
    currency.map(Some).ok_or_else(|| Refusal::field(field, "is no currency code (ISO 4217)"))
}

/// The field `amount`, as the domain takes it: a decimal in the currency's major unit.
///
/// # Errors
/// Where it is absent, not above zero, or in no currency.
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

/// The field `properties`. What is wrong is said with the property's key, never with its value.
///
/// # Errors
/// Too many or too long ones, control characters, and card data.
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
        if looks_like_pan(key) {
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
    fn amounts_are_minor_units_of_a_currency() {
        let read = |minor_units, code: &str| {
            amount(Some(&api::Money { minor_units, currency_code: code.to_owned() }))
        };
        let usd = Currency::parse("USD").unwrap();
        assert_eq!(read(1050, "USD").unwrap(), ("10.50".to_owned(), usd));
        assert_eq!(read(1050, "JPY").unwrap().0, "1050");
        assert_eq!(read(i64::MAX, "BHD").unwrap().0, "9223372036854775.807");
        assert_eq!(refused(read(0, "USD")), "amount.minor_units: should be greater than 0");
        assert_eq!(refused(read(i64::MIN, "USD")), "amount.minor_units: should be greater than 0");
        assert_eq!(refused(read(1, "usd")), "amount.currency_code: is no currency code (ISO 4217)");
        assert_eq!(refused(read(1, "")), "amount.currency_code: needs to be set");
        assert_eq!(refused(amount(None)), "amount: needs to be set");
    }

    #[test]
    fn texts_are_bounded_and_plain() {
        assert_eq!(key("payment_key", String::new()).unwrap(), None);
        assert!(key("payment_key", "é".repeat(KEY_CHARS_MAX)).is_ok());
        let long = key("payment_key", "é".repeat(KEY_CHARS_MAX + 1));
        assert_eq!(refused(long), "payment_key: has more than 255 characters");
        let control = key("payment_key", "a\nb".to_owned());
        assert_eq!(refused(control), "payment_key: has a control character");
        let read = |text: &str| id::<domain::kind::Account>("account_id", text);
        assert_eq!(refused(read("")), "account_id: needs to be set");
        assert_eq!(refused(read("1")), "account_id: is no UUID");
    }

    #[test]
    fn card_data_is_refused_and_not_shown() {
        let one = |key: &str, value: &str| {
            properties(vec![api::Property { key: key.to_owned(), value: value.to_owned() }])
        };
        assert_eq!(one("a", "b").unwrap(), [("a".to_owned(), "b".to_owned())]);
        let shown = refused(one("ccNumber", "4111111111111111"));
        assert!(shown.starts_with("properties: ccNumber holds card data"), "{shown}");
        assert!(!refused(one("4111111111111111", "b")).contains("4111"));
        assert!(one("a", &"v".repeat(PROPERTY_VALUE_CHARS_MAX + 1)).is_err());
        assert!(one("", "b").is_err() && one("a\n", "b").is_err());
        let many = vec![api::Property { key: "a".to_owned(), value: String::new() }; 65];
        assert!(properties(many).is_err());
    }
}
