//! Responses: JSON, empty, or the location of a created resource.

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The bytes that are escaped in a path segment (RFC 3986, section 3.3).
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A response with a JSON body.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut response = ok_encoded(encode(body));
    *response.status_mut() = status;
    response
}

/// A body in JSON.
pub(crate) fn encode(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("these types have string keys and no failing parts")
}

/// 200 with a body that is JSON.
pub(crate) fn ok_encoded(body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// 200 with a JSON body.
pub(crate) fn ok(body: &impl Serialize) -> Response {
    json(StatusCode::OK, body)
}

/// A response without a body. Its `Content-Type` is Kill Bill's: clients choose by it how they read an answer, also one
/// that is empty.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

pub(crate) fn no_content() -> Response {
    empty(StatusCode::NO_CONTENT)
}

/// 201 with an empty body and the `Location` of the created resource.
pub(crate) fn created(location: HeaderValue) -> Response {
    let mut response = empty(StatusCode::CREATED);
    response.headers_mut().insert(LOCATION, location);
    response
}

/// An absolute URL on the host of the request; only a path if the request has no host (HTTP/1.0).
pub(crate) fn location(headers: &HeaderMap, tls: bool, path: &[&str]) -> HeaderValue {
    let host = headers.get(HOST).map_or(&b""[..], HeaderValue::as_bytes);
    let length: usize = path.iter().map(|part| part.len()).sum();
    let mut url = BytesMut::with_capacity(8 + host.len() + length);
    if !host.is_empty() {
        url.put_slice(if tls { b"https://" } else { b"http://" });
        url.put_slice(host);
    }
    path.iter().for_each(|part| url.put_slice(part.as_bytes()));
    let url: Bytes = url.freeze();
    HeaderValue::from_maybe_shared(url)
        .expect("the host is a header value, and the segments are encoded")
}

/// A URL below a base without a slash at its end.
pub(crate) fn location_below(base: &str, path: &[&str]) -> HeaderValue {
    let url = format!("{base}{}", path.concat());
    HeaderValue::try_from(url).expect("the base is a URL, and the segments are encoded")
}

/// Encodes a name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(host: Option<&'static str>, tls: bool, path: &[&str], expected: Expect) {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, HeaderValue::from_static(host));
        }
        expected.assert_eq(location(&headers, tls, path).to_str().unwrap());
    }

    #[test]
    fn locations_are_absolute_if_the_request_has_a_host() {
        let path = ["/1.0/kb/payments/", "x", "/"];
        check(Some("kb:8080"), false, &path, expect!["http://kb:8080/1.0/kb/payments/x/"]);
        check(Some("kb"), true, &path, expect!["https://kb/1.0/kb/payments/x/"]);
        check(None, true, &path, expect!["/1.0/kb/payments/x/"]);
        let public = location_below("https://pay.example.com/kb", &path);
        assert_eq!(public, "https://pay.example.com/kb/1.0/kb/payments/x/");
        let role = segment("a b/ü");
        check(None, false, &["/roles/", &role], expect!["/roles/a%20b%2F%C3%BC"]);
    }
}
