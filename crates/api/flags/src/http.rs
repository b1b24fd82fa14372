//! FeatBit's HTTP API, for SDKs that do not stream. Pages of any origin may use it.

pub(crate) mod agent;
pub(crate) mod evaluate;
pub(crate) mod latest;
pub(crate) mod track;

use ::http::HeaderMap;
use ::http::header::AUTHORIZATION;

/// The secret of a request, in `Authorization` without a scheme.
fn secret(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok())
}
