//! Headers that are read before credentials are checked: an idempotency key that is taken can be quoted
//! and read again, a bearer token and a tenant's credentials are what the header holds, and basic
//! credentials print back to the same user and password.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::access::read_basic;
use faregate_fuzz::header_lines;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use web::headers::{
    IDEMPOTENCY_KEY_BYTES_MAX, bearer, has_idempotency_key, idempotency_key, tenant,
};
use web::prefer::is_async_preferred;

fn check_idempotency_key(headers: &HeaderMap) {
    let Ok(Some(key)) = idempotency_key(headers) else {
        return;
    };
    assert!((1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()));
    assert!(key.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)));
    let mut again = HeaderMap::new();
    let quoted = HeaderValue::from_str(&format!("\"{key}\"")).expect("it came in a header");
    again.insert("idempotency-key", quoted);
    assert_eq!(idempotency_key(&again), Ok(Some(key)));
}

fn check_basic(header: &[u8]) {
    let Some((user, password)) = read_basic(header) else {
        return;
    };
    assert!(!user.contains(':') && user.len() + password.len() <= header.len());
    let again = format!("BASIC {}", STANDARD.encode(format!("{user}:{password}")));
    assert_eq!(read_basic(again.as_bytes()), Some((user, password)));
}

fn check_bearer(headers: &HeaderMap) {
    let value = headers.get("authorization").and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_bearer = value.len() > 6 && value.to_ascii_lowercase().starts_with("bearer ");
    assert_eq!(bearer(headers).is_some(), is_bearer);
    assert_eq!(bearer(headers).unwrap_or_default(), if is_bearer { value[7..].trim() } else { "" });
}

/// The value of the first of two headers; an error where it is empty or no visible ASCII.
fn credential<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ()> {
    let names = [format!("x-faregate-{name}"), format!("x-killbill-{name}")];
    let Some(value) = names.iter().find_map(|it| headers.get(it)) else {
        return Ok(None);
    };
    value.to_str().ok().filter(|it| !it.is_empty()).map(Some).ok_or(())
}

fuzz_target!(|data: &[u8]| {
    let headers = header_lines(data);
    assert_eq!(has_idempotency_key(&headers), headers.contains_key("idempotency-key"));
    check_idempotency_key(&headers);
    check_bearer(&headers);
    check_basic(headers.get("authorization").map_or(data, HeaderValue::as_bytes));
    let expected = match (credential(&headers, "apikey"), credential(&headers, "apisecret")) {
        (Ok(None), Ok(None)) => Ok(None),
        (Ok(Some(key)), Ok(Some(secret))) => Ok(Some((key, secret))),
        _ => Err(()),
    };
    let found = tenant(&headers).map(|it| it.map(|it| (it.key, it.secret)));
    assert_eq!(found.map_err(drop), expected);
    let is_there = headers
        .get_all("prefer")
        .iter()
        .any(|it| it.to_str().is_ok_and(|it| it.to_ascii_lowercase().contains("respond-async")));
    assert!(is_there || !is_async_preferred(&headers));
});
