//! Responses, for pages of any origin, and the bodies of requests.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use feature_flags::CachedEnvironment;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    CONTENT_TYPE, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use web::BodyError;
use web::answer_budget;
use web::body::read_limited;
use web::refusal_log::Why;

/// How long a browser may cache a preflight response, in seconds.
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("600");

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The environments are not loaded yet, or the memory for bodies is full.
    Unavailable,
    /// The secret is missing, unknown, or of another kind.
    Unauthorized,
    /// The secret is used more often than its limit; how long to wait.
    TooMany(Duration),
    /// The body is too long.
    TooLarge,
    /// The body did not arrive in time.
    TimedOut,
    /// The request is invalid, for this reason.
    Bad(&'static str),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, reason) = match self {
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, ""),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, ""),
            Self::TooMany(_) => (StatusCode::TOO_MANY_REQUESTS, "too many requests"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
            Self::TimedOut => (StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
            Self::Bad(reason) => (StatusCode::BAD_REQUEST, reason),
        };
        let mut response = response(status, reason);
        if !reason.is_empty() {
            response.headers_mut().insert(CONTENT_TYPE, TEXT);
        }
        if matches!(self, Self::Unauthorized) {
            let why = "the secret is missing, unknown, expired or of another kind";
            response.extensions_mut().insert(Why(why.into()));
        }
        let retry_after_s = match self {
            Self::Unavailable => Some(1),
            Self::TooMany(wait) => Some(wait.as_secs() + 1),
            Self::Unauthorized | Self::TooLarge | Self::TimedOut | Self::Bad(_) => None,
        };
        if let Some(seconds) = retry_after_s {
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Retry-After"));
        }
        response
    }
}

/// A response that pages of any origin may read (CORS).
pub(crate) fn response(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    response
}

/// A response in JSON.
pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = response(status, body);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A response in JSON with the tenant whose environment it is of, for the limits of its bytes.
pub(crate) fn of(environment: &CachedEnvironment, body: impl Into<Body>) -> Response {
    let mut response = json(StatusCode::OK, body);
    answer_budget::name_tenant(&mut response, Some(environment.tenant()));
    response
}

/// A response in plain text.
pub(crate) fn text(body: impl Into<Body>) -> Response {
    let mut response = response(StatusCode::OK, body);
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

/// The answer to a CORS preflight: any origin may send any headers.
pub(crate) async fn preflight(headers: HeaderMap) -> Response {
    let mut response = response(StatusCode::NO_CONTENT, Body::empty());
    let allowed = response.headers_mut();
    allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
    allowed.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS);
    if let Some(wanted) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    response
}

/// A request's whole body, of at most `bytes_max` bytes.
pub(crate) async fn read_body(body: Body, bytes_max: usize) -> Result<Bytes, Refusal> {
    read_limited(body, bytes_max).await.map_err(|error| match error {
        BodyError::TooLarge => Refusal::TooLarge,
        BodyError::TimedOut => Refusal::TimedOut,
        BodyError::NoRoom => Refusal::Unavailable,
        BodyError::Broken => Refusal::Bad("the body does not come"),
    })
}
