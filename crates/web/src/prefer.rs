//! Requests that are executed later (`Prefer: respond-async`, RFC 7240), and the answer to them.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: &str = "respond-async";

/// Whether a client prefers not to wait for the result of its request.
#[must_use]
pub fn is_async_preferred(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
    let mut preferences = lines.flat_map(|line| line.split(','));
    preferences.any(|it| {
        let name = it.split([';', '=']).next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case(RESPOND_ASYNC)
    })
}

/// The answer to a request that is executed later: 202 with the id of its operation, whose status is
/// at `location`.
///
/// # Panics
/// Where `location` is not visible ASCII.
#[must_use]
pub fn accepted(operation_id: &str, location: &str) -> Response {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body<'a> {
        operation_id: &'a str,
        status: &'static str,
    }
    let body = serde_json::to_vec(&Body { operation_id, status: "waiting" });
    let body = body.expect("an id is plain JSON");
    let mut response = (StatusCode::ACCEPTED, body).into_response();
    let headers = response.headers_mut();
    let location = HeaderValue::try_from(location).expect("a location is visible ASCII");
    headers.insert(LOCATION, location);
    headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static(RESPOND_ASYNC));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn respond_async_is_found_among_other_preferences() {
        let is_preferred = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(PREFER, HeaderValue::from_static(line));
            }
            is_async_preferred(&headers)
        };
        for lines in [
            &["respond-async"][..],
            &["Respond-Async"],
            &["wait=10, respond-async"],
            &["return=minimal", "respond-async; x=1"],
        ] {
            assert!(is_preferred(lines), "{lines:?}");
        }
        for lines in [&[][..], &["wait=10"], &["no-respond-async"], &["x=respond-async"]] {
            assert!(!is_preferred(lines), "{lines:?}");
        }
    }

    #[test]
    fn an_accepted_request_names_its_operation_and_is_not_cached() {
        let response = accepted("0192aabb", "/v1/operations/0192aabb?proof=x");
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        assert_eq!(header("location"), "/v1/operations/0192aabb?proof=x");
        assert_eq!(header("preference-applied"), "respond-async");
        assert_eq!(header("cache-control"), "no-store");
    }
}
