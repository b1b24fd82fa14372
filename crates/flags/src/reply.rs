//! Answers, for pages of any origin, and the bodies of requests.

use std::error::Error;
use std::iter::successors;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    CONTENT_TYPE, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::LengthLimitError;

use crate::door::Door;
use crate::settings::BodyError;

/// How long a page may remember that it may ask, in seconds.
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("600");

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The environments are not there yet, or there is no room for a body.
    Unavailable,
    /// No secret, an unknown one, or one for something else.
    Unauthorized,
    /// The secret is used too often; how long to wait.
    TooMany(Duration),
    /// A body that is too long.
    TooLarge,
    /// A body that does not come in time.
    TimedOut,
    /// Anything else that is wrong.
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
        let mut response = answer(status, reason);
        if !reason.is_empty() {
            response.headers_mut().insert(CONTENT_TYPE, TEXT);
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

/// An answer.
pub(crate) fn answer(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    response
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = answer(status, body);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// An answer in words.
pub(crate) fn text(body: impl Into<Body>) -> Response {
    let mut response = answer(StatusCode::OK, body);
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

/// What a browser asks before a page may: every page may, with whatever headers it likes.
pub(crate) async fn preflight(headers: HeaderMap) -> Response {
    let mut response = answer(StatusCode::NO_CONTENT, Body::empty());
    let allowed = response.headers_mut();
    allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
    allowed.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS);
    if let Some(wanted) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    response
}

/// All of a request's body.
pub(crate) async fn read_body(door: &Door, body: Body, bytes_max: usize) -> Result<Bytes, Refusal> {
    axum::body::to_bytes(body, bytes_max).await.map_err(|error| {
        let first: &(dyn Error + 'static) = &error;
        let mut causes = successors(Some(first), |it: &&(dyn Error + 'static)| (*it).source());
        let found = causes.find_map(|it| match it.is::<LengthLimitError>() {
            true => Some(BodyError::TooLarge),
            false => (door.settings.body_error)(it),
        });
        match found.unwrap_or(BodyError::Broken) {
            BodyError::TooLarge => Refusal::TooLarge,
            BodyError::TimedOut => Refusal::TimedOut,
            BodyError::NoRoom => Refusal::Unavailable,
            BodyError::Broken => Refusal::Bad("the body does not come"),
        }
    })
}
