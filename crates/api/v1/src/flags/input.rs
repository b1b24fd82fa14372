//! The body of a request as JSON, and the version that it expects.

use axum::body::Body;
use http::HeaderMap;
use http::header::{ETAG, HeaderValue, IF_MATCH};
use serde::de::DeserializeOwned;
use web::body;

use crate::error::Error;
use crate::parameters::invalid;

/// Reads a body as JSON.
///
/// # Errors
/// The body cannot be read, or is no such JSON.
pub async fn json<T: DeserializeOwned>(body: Body) -> Result<T, Error> {
    parse(&body::read(body).await?)
}

/// As [`json`], of a body that may be empty.
///
/// # Errors
/// See [`json`].
pub async fn json_or_nothing<T: DeserializeOwned + Default>(body: Body) -> Result<T, Error> {
    let bytes = body::read(body).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse(&bytes) }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| invalid("body", error))
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

/// A version as `ETag`.
#[must_use]
pub fn etag(version: i64) -> (http::HeaderName, HeaderValue) {
    let value = HeaderValue::try_from(format!("\"{version}\""));
    (ETAG, value.expect("digits are a header's value"))
}
