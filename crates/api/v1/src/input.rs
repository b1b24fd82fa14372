//! The body of a request as JSON, and the version that it expects.

use axum::body::Body;
use domain::card_data::NumericKeys;
use engine::access::TenantRef;
use http::HeaderMap;
use http::header::{ETAG, HeaderValue, IF_MATCH};
use serde::de::DeserializeOwned;
use web::headers::IDEMPOTENCY_KEY_BYTES_MAX;
use web::{body, card_data};

use crate::error::Error;
use crate::json::{self, Values};
use crate::parameters::{invalid, refuse_card_number};

/// Reads the body of a tenant's request as JSON.
///
/// # Errors
/// The body cannot be read, has a card number in it, or is no such JSON.
pub async fn json<T: DeserializeOwned>(body: Body, tenant: &TenantRef) -> Result<T, Error> {
    parse(&body::read(body).await?, tenant.numeric_keys)
}

/// As [`json`], of a body that may be empty.
///
/// # Errors
/// See [`json`].
pub async fn json_or_nothing<T: DeserializeOwned + Default>(
    body: Body,
    tenant: &TenantRef,
) -> Result<T, Error> {
    let bytes = body::read(body).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse(&bytes, tenant.numeric_keys) }
}

/// As [`json`], of a request without a tenant, whose body may be empty.
///
/// # Errors
/// See [`json`].
pub async fn installation_json_or_nothing<T: DeserializeOwned + Default>(
    body: Body,
) -> Result<T, Error> {
    let bytes = body::read(body).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse(&bytes, NumericKeys::Checked) }
}

/// The JSON of a request that is about the installation.
///
/// # Errors
/// As [`installation_json_or_nothing`].
pub async fn installation_json<T: DeserializeOwned>(body: Body) -> Result<T, Error> {
    parse(&body::read(body).await?, NumericKeys::Checked)
}

fn parse<T: DeserializeOwned>(bytes: &[u8], keys: NumericKeys) -> Result<T, Error> {
    refuse_card_number(card_data::find_in_json(bytes, keys))?;
    json::read(bytes, Values::Shown)
}

/// The version that `If-Match` expects.
///
/// # Errors
/// It is no version.
pub fn expected(headers: &HeaderMap) -> Result<Option<i64>, Error> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim().trim_matches('"');
    // Any version: the definition has to exist in any case.
    if text == "*" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| invalid("If-Match", "is no version, such as \"123\""))
}

/// The key that makes a request repeatable.
///
/// # Errors
/// It is no key.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    web::headers::idempotency_key(headers).map_err(|_| {
        let reason =
            format!("1 to {IDEMPOTENCY_KEY_BYTES_MAX} visible ASCII characters were expected");
        invalid("Idempotency-Key", reason)
    })
}

/// A version as `ETag`.
#[must_use]
pub fn etag(version: i64) -> (http::HeaderName, HeaderValue) {
    let value = HeaderValue::try_from(format!("\"{version}\""));
    (ETAG, value.expect("digits are a header's value"))
}
