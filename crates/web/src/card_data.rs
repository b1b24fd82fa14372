//! Card numbers in requests. An API refuses a request that has one in any text, whose field it names and
//! whose value it never repeats: what is stored is append-only.

use std::borrow::Cow;

use domain::card_data::{NumericKeys, PAN_DIGITS_MIN, holds_security_code};
use engine::access::text_of_header;
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// Why a text is refused, after the name of its field.
pub const REASON: &str =
    "holds a card number or security code, which is not taken: send a token of a vault";

/// Headers with texts that are stored or compared.
const HEADERS: [&str; 10] = [
    "idempotency-key",
    "user-agent",
    "x-killbill-apikey",
    "x-killbill-comment",
    "x-killbill-createdby",
    "x-killbill-reason",
    "x-faregate-apikey",
    "x-faregate-comment",
    "x-faregate-createdby",
    "x-faregate-reason",
];

/// Fields of requests, not below them, whose values are stored as hashes: a password may be any text.
const HASHED: [&str; 7] = [
    "apiSecret",
    "confirm_password",
    "currentPassword",
    "current_password",
    "newPassword",
    "new_password",
    "password",
];

/// Names of two of a pair's fields, of which one names what the other holds, such as a property's.
const PAIR_NAMES: [&str; 2] = ["key", "name"];

/// The first byte of full-width letters in UTF-8.
const FULL_WIDTH: u8 = 0xef;

/// The deepest JSON value that is looked into, as in `serde_json`.
const DEPTH_MAX: usize = 128;

/// The path of the first field of a request's JSON that has a card number or a security code, such as
/// `properties[0].value`; `body` where it is no JSON. What is hashed is not looked at.
#[must_use]
pub fn find_in_json(body: &[u8], keys: NumericKeys) -> Option<String> {
    find(body, keys, &HASHED)
}

/// As [`find_in_json`], of a body that is stored as it is, JSON or not.
#[must_use]
pub fn find_in_text(body: &[u8], keys: NumericKeys) -> Option<String> {
    find(body, keys, &[])
}

fn find(body: &[u8], keys: NumericKeys, hashed: &[&str]) -> Option<String> {
    let text = text_of(body);
    // Without escapes, the texts stand in the body as they are.
    let is_plain = !body.contains(&b'\\');
    if is_plain && !NumericKeys::Checked.refuses(&text) && !may_name_code(body) {
        return None;
    }
    let found = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(fields)) => find_in_pair(&fields).or_else(|| {
            fields.iter().find_map(|(name, value)| {
                let is_hashed = hashed.contains(&name.as_str()) && value.is_string();
                if is_hashed { None } else { find_in_field(name, value, keys, DEPTH_MAX - 1) }
            })
        }),
        Ok(value) => find_in_value(&value, keys, DEPTH_MAX),
        Err(_) => return NumericKeys::Checked.refuses(&text).then(|| "body".to_owned()),
    };
    found.map(|path| {
        // A field's name follows on a dot, unless it is the first.
        let path = path.strip_prefix('.').unwrap_or(&path);
        if path.is_empty() { "body".to_owned() } else { path.to_owned() }
    })
}

/// Whether a field of the body may be named as a security code: it is read if it may.
fn may_name_code(body: &[u8]) -> bool {
    // Of each name of a code the part that other words do not have.
    let is_part = |it: &[u8]| {
        let lower = [it[0], it[1], it[2]].map(|byte| byte.to_ascii_lowercase());
        matches!(
            &lower,
            b"cvv" | b"cvc" | b"cvn" | b"cvd" | b"csc" | b"cav" | b"eri" | b"ity" | b"dco"
        )
    };
    // Most bytes begin none of them.
    let may_begin = |it: &[u8]| matches!(it[0] | 0x20, b'c' | b'd' | b'e' | b'i');
    body.windows(3).any(|it| may_begin(it) && is_part(it)) || body.contains(&FULL_WIDTH)
}

/// The text of these bytes; what is no UTF-8 is replaced, and holds no digits.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// The path to a card number below a value, from there on, if it has one. It is made on the way back: a long
/// name over many values would be copied for each of them.
fn find_in_value(value: &Value, keys: NumericKeys, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    match value {
        Value::Null | Value::Bool(_) => None,
        // A number may be read as a text.
        Value::Number(number) => keys.refuses(&number.to_string()).then(String::new),
        Value::String(text) => keys.refuses(text).then(String::new),
        Value::Array(values) => values.iter().enumerate().find_map(|(at, value)| {
            find_in_value(value, keys, depth).map(|path| format!("[{at}]{path}"))
        }),
        Value::Object(fields) => find_in_pair(fields).or_else(|| {
            fields.iter().find_map(|(name, value)| find_in_field(name, value, keys, depth))
        }),
    }
}

fn find_in_field(name: &str, value: &Value, keys: NumericKeys, depth: usize) -> Option<String> {
    if keys.refuses(name) {
        return Some(String::new());
    }
    if text_in(value).is_some_and(|text| holds_security_code(name, &text)) {
        return Some(format!(".{name}"));
    }
    find_in_value(value, keys, depth).map(|path| format!(".{name}{path}"))
}

/// Whether one field of an object names a security code and another has it, as properties and custom
/// fields do.
fn find_in_pair(fields: &Map<String, Value>) -> Option<String> {
    let value = text_in(fields.get("value")?)?;
    let names = PAIR_NAMES.iter().filter_map(|name| fields.get(*name)?.as_str());
    names.into_iter().any(|name| holds_security_code(name, &value)).then(|| ".value".to_owned())
}

/// The text of a value that is one, or that is a number and may be read as one.
fn text_in(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The header, of those with texts that are stored, that has a card number, if one has.
#[must_use]
pub fn find_in_headers(headers: &HeaderMap, keys: NumericKeys) -> Option<&'static str> {
    headers.iter().find_map(|(name, value)| {
        // Its digits first: few headers have so many, and names take longer to compare.
        let may_be_digit = |byte: &&u8| byte.is_ascii_digit() || !byte.is_ascii();
        let digits = value.as_bytes().iter().filter(may_be_digit).count();
        if digits < PAN_DIGITS_MIN {
            return None;
        }
        let name = HEADERS.into_iter().find(|it| name.as_str() == *it)?;
        keys.refuses(&text_of_header(value.as_bytes())).then_some(name)
    })
}

/// The header, query parameter or part of the path that has a card number, if one has.
#[must_use]
pub fn find_in_head(
    uri: &Uri,
    headers: &HeaderMap,
    keys: NumericKeys,
) -> Option<Cow<'static, str>> {
    if let Some(name) = find_in_headers(headers, keys) {
        return Some(Cow::Borrowed(name));
    }
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
    // The whole path first: a number in a part of it is in all of it.
    let is_in_path = NumericKeys::Checked.refuses(&decoded(uri.path()));
    if is_in_path && uri.path().split('/').any(|segment| keys.refuses(&decoded(segment))) {
        return Some(Cow::Borrowed("path"));
    }
    let query = uri.query()?;
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let (name, _) = parameters.find(|(name, value)| keys.refuses(name) || keys.refuses(value))?;
    let is_named = !keys.refuses(&name);
    Some(if is_named { Cow::Owned(name.into_owned()) } else { Cow::Borrowed("query") })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(body: &str, expected: Option<&str>) {
        let found = find_in_json(body.as_bytes(), NumericKeys::Checked);
        assert_eq!(found.as_deref(), expected, "{body}");
    }

    #[test]
    fn the_field_with_a_card_number_is_named() {
        check(r#"{"transactionExternalKey":"4111111111111111"}"#, Some("transactionExternalKey"));
        check(r#"{"a":{"b":[0,"pan 4111 1111 1111 1111"]}}"#, Some("a.b[1]"));
        check(r#"{"a":4111111111111111}"#, Some("a"));
        check(r#"{"a":"\u0034111111111111111"}"#, Some("a"));
        check(r#"{"a":"x\f4111111111111111"}"#, Some("a"));
        check(r#"{"4111111111111111":1}"#, Some("body"));
        check(r#"["4111111111111111"]"#, Some("[0]"));
        check("4111111111111111 is no JSON {", Some("body"));
        check(r#"{"preferences":{"cardToken":"4111111111111111"}}"#, Some("preferences.cardToken"));
        check(r#"{"preferences":{"password":"4111111111111111"}}"#, Some("preferences.password"));
        check(r#"{"cardSecret":"4111111111111111"}"#, Some("cardSecret"));
        check(r#"{"note":"４１１１１１１１１１１１１１１１"}"#, Some("note"));
        check(r#"{"note":"&#52;111111111111111"}"#, Some("note"));
        check(r#"{"note":"4111  1111-1111.1111"}"#, Some("note"));
    }

    #[test]
    fn the_field_with_a_security_code_is_named() {
        check(r#"{"card":{"cvc":"123"}}"#, Some("card.cvc"));
        check(r#"{"ccCvv":1234}"#, Some("ccCvv"));
        check(r#"[{"name":"ccVerification","value":"123"}]"#, Some("[0].value"));
        check(r#"{"properties":[{"key":"csc","value":"１２３"}]}"#, Some("properties[0].value"));
        check(r#"{"securityCode":"123"}"#, Some("securityCode"));
        check(r#"{"ｃｖｖ":"123"}"#, Some("ｃｖｖ"));
        check(r#"{"cvcCheck":"pass","description":"cvv 123","securityCode":""}"#, None);
        check(r#"{"key":"cvv","value":null,"city":"123"}"#, None);
    }

    #[test]
    fn what_is_stored_as_it_is_is_looked_at_whatever_its_names_are() {
        let find = |body: &str| find_in_text(body.as_bytes(), NumericKeys::Checked);
        assert_eq!(find(r#"{"password":"4111111111111111"}"#).as_deref(), Some("password"));
        assert_eq!(find("apiSecret=4111111111111111").as_deref(), Some("body"));
        assert_eq!(find("<a>&#52;111111111111111</a>").as_deref(), Some("body"));
        assert_eq!(find(r#"{"password":"pm_1"}"#), None);
    }

    #[test]
    fn other_bodies_are_taken() {
        check("", None);
        check("{", None);
        check(r#"{"amount":4111.11,"key":"4111111111111112","note":"a\nb"}"#, None);
        check(r#"{"password":"4111111111111111","newPassword":"4111111111111111"}"#, None);
        let numeric = br#"{"key":"4111111111111111"}"#;
        assert_eq!(find_in_json(numeric, NumericKeys::Allowed), None);
    }

    #[test]
    fn headers_parameters_and_paths_are_looked_into() {
        let find = |uri: &str, header: Option<(&'static str, &str)>| {
            let mut headers = HeaderMap::new();
            if let Some((name, value)) = header {
                headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            find_in_head(&uri.parse().unwrap(), &headers, NumericKeys::Checked)
        };
        let comment = Some(("x-killbill-comment", "pan 4111 1111 1111 1111"));
        assert_eq!(find("/", comment).as_deref(), Some("x-killbill-comment"));
        let comment = Some(("x-killbill-comment", "４１１１１１１１１１１１１１１１"));
        assert_eq!(find("/", comment).as_deref(), Some("x-killbill-comment"));
        assert_eq!(find("/", Some(("traceparent", "00-4111111111111111-1"))), None);
        let number = "4111111111111111";
        assert_eq!(find(&format!("/a?externalKey={number}"), None).as_deref(), Some("externalKey"));
        assert_eq!(find("/a?note=4111+1111+1111+1111", None).as_deref(), Some("note"));
        assert_eq!(find("/a?note=4111%201111%201111%201111", None).as_deref(), Some("note"));
        assert_eq!(find(&format!("/a?{number}=1"), None).as_deref(), Some("query"));
        assert_eq!(find(&format!("/a/{number}"), None).as_deref(), Some("path"));
        assert_eq!(find("/a?offset=0&limit=100", None), None);
    }
}
