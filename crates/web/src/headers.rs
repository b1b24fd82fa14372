//! Values that APIs read from a request's headers, and that the listener puts into its extensions.

use std::net::IpAddr;

use engine::access::{ClientAddress, Peer};
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};

/// Makes a `POST` repeatable (draft-ietf-httpapi-idempotency-key-header-07).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Set to `unknown` on a response after which it is not known whether the request was carried out.
/// The status alone does not say so: Kill Bill answers such requests with 400, 500, 503 or 504.
const OUTCOME: HeaderName = HeaderName::from_static("x-faregate-outcome");

/// The longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// The tenant's API key: Faregate's header, or the one that Kill Bill's clients send.
const API_KEY: [&str; 2] = ["x-faregate-apikey", "x-killbill-apikey"];
/// The tenant's API secret, likewise.
const API_SECRET: [&str; 2] = ["x-faregate-apisecret", "x-killbill-apisecret"];

/// Why a header is no idempotency key; the text continues "Header Idempotency-Key ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdempotencyKey {
    /// It has bytes other than visible ASCII.
    #[error("should be visible ASCII")]
    NotVisibleAscii,
    /// It begins with a quotation mark and does not end with one.
    #[error("has an opening quote but no closing one")]
    UnclosedQuote,
    /// It is empty.
    #[error("should not be empty")]
    Empty,
    /// It is longer than [`IDEMPOTENCY_KEY_BYTES_MAX`].
    #[error("should have at most {IDEMPOTENCY_KEY_BYTES_MAX} characters")]
    TooLong,
}

/// The idempotency key of a request, quoted or bare.
///
/// # Errors
/// [`InvalidIdempotencyKey`].
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, InvalidIdempotencyKey> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text = value.to_str().map_err(|_| InvalidIdempotencyKey::NotVisibleAscii)?.trim();
    let key = match text.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').ok_or(InvalidIdempotencyKey::UnclosedQuote)?,
        None => text,
    };
    match key.len() {
        0 => Err(InvalidIdempotencyKey::Empty),
        1..=IDEMPOTENCY_KEY_BYTES_MAX => Ok(Some(key.to_owned())),
        _ => Err(InvalidIdempotencyKey::TooLong),
    }
}

/// Marks a response after which it is not known whether the request was carried out.
pub fn mark_outcome_unknown(headers: &mut HeaderMap) {
    headers.insert(OUTCOME, HeaderValue::from_static("unknown"));
}

/// Whether a request has an idempotency key, valid or not.
#[must_use]
pub fn has_idempotency_key(headers: &HeaderMap) -> bool {
    headers.contains_key(IDEMPOTENCY_KEY)
}

/// The access token of a request (RFC 6750).
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The credentials of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantHeaders<'a> {
    /// The API key.
    pub key: &'a str,
    /// The API secret.
    pub secret: &'a str,
}

/// One of the tenant's two headers is missing, empty, or not visible ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompleteTenant;

/// The credentials of the tenant that a request names; `None` where it names none.
///
/// # Errors
/// [`IncompleteTenant`].
pub fn tenant(headers: &HeaderMap) -> Result<Option<TenantHeaders<'_>>, IncompleteTenant> {
    match (credential(headers, API_KEY)?, credential(headers, API_SECRET)?) {
        (None, None) => Ok(None),
        (Some(key), Some(secret)) => Ok(Some(TenantHeaders { key, secret })),
        (Some(_), None) | (None, Some(_)) => Err(IncompleteTenant),
    }
}

fn credential<'a>(
    headers: &'a HeaderMap,
    names: [&str; 2],
) -> Result<Option<&'a str>, IncompleteTenant> {
    let Some(value) = first_of(headers, names) else { return Ok(None) };
    match value.to_str() {
        Ok(text) if !text.is_empty() => Ok(Some(text)),
        Ok(_) | Err(_) => Err(IncompleteTenant),
    }
}

/// The value of the first of these headers that a request has.
#[must_use]
pub fn first_of<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Option<&'a http::HeaderValue> {
    names.iter().find_map(|name| headers.get(*name))
}

/// Where a request comes from, as the listener found out.
#[must_use]
pub fn client_address(extensions: &Extensions) -> ClientAddress {
    extensions.get().copied().unwrap_or(ClientAddress::UNKNOWN)
}

/// Whether a program on this machine sent the request itself, and no proxy forwarded it.
#[must_use]
pub fn is_local(extensions: &Extensions) -> bool {
    extensions.get().is_some_and(|peer: &Peer| peer.is_local)
}

/// The network whose limits a request counts towards; `None` for local requests.
#[must_use]
pub fn limited_network(extensions: &Extensions) -> Option<IpAddr> {
    (!is_local(extensions)).then(|| client_address(extensions).network())
}

/// Headers that are credentials of Faregate's own, or of the connection.
const NOT_FORWARDED: [&str; 9] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "host",
    "content-length",
    "x-killbill-apikey",
    "x-killbill-apisecret",
    "x-faregate-apikey",
    "x-faregate-apisecret",
];

/// The headers of a request that another program may read: names in lower case, and values that are text.
#[must_use]
pub fn without_credentials(headers: &HeaderMap) -> Vec<(String, String)> {
    let sent = headers.iter().filter(|(name, _)| !NOT_FORWARDED.contains(&name.as_str()));
    let text = sent.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    text.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn with(name: &'static str, value: &[u8]) -> HeaderMap {
        let value = HeaderValue::from_bytes(value).unwrap();
        HeaderMap::from_iter([(HeaderName::from_static(name), value)])
    }

    #[test]
    fn idempotency_keys_are_read_quoted_or_bare() {
        let read = |text: &str| idempotency_key(&with("idempotency-key", text.as_bytes()));
        assert_eq!(idempotency_key(&HeaderMap::new()), Ok(None));
        assert_eq!(read("k-1"), Ok(Some("k-1".to_owned())));
        assert_eq!(read("\"k-1\""), read("k-1"));
        assert_eq!(read(""), Err(InvalidIdempotencyKey::Empty));
        assert_eq!(read("\"\""), Err(InvalidIdempotencyKey::Empty));
        assert_eq!(read("\"k"), Err(InvalidIdempotencyKey::UnclosedQuote));
        assert_eq!(read("k\u{e9}"), Err(InvalidIdempotencyKey::NotVisibleAscii));
        let long = "k".repeat(IDEMPOTENCY_KEY_BYTES_MAX + 1);
        assert_eq!(read(&long), Err(InvalidIdempotencyKey::TooLong));
    }

    #[test]
    fn tenants_are_named_by_either_pair_of_headers() {
        for (key, secret) in [
            ("x-faregate-apikey", "x-faregate-apisecret"),
            ("x-killbill-apikey", "x-killbill-apisecret"),
            ("x-faregate-apikey", "x-killbill-apisecret"),
        ] {
            let mut headers = with(key, b"bob");
            assert_eq!(tenant(&headers), Err(IncompleteTenant), "{key} alone");
            headers.extend(with(secret, b"lazar"));
            assert_eq!(tenant(&headers), Ok(Some(TenantHeaders { key: "bob", secret: "lazar" })));
        }
        assert_eq!(tenant(&HeaderMap::new()), Ok(None));
        for wrong in ["", "\u{e9}"] {
            let mut headers = with(API_KEY[0], wrong.as_bytes());
            headers.extend(with(API_SECRET[0], b"lazar"));
            assert_eq!(tenant(&headers), Err(IncompleteTenant), "{wrong}");
        }
    }

    #[test]
    fn bearer_tokens_are_read_whatever_the_case_of_their_scheme() {
        assert_eq!(bearer(&with("authorization", b"bearer  t ")), Some("t"));
        assert_eq!(bearer(&with("authorization", b"Basic t")), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
