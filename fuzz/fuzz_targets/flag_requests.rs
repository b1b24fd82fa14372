//! Requests of feature flags whose secret is known, as that of a client stands in every page: OFREP's
//! contexts, FeatBit's users, filters and insights. No request is a fault of the server; a body is taken
//! by OFREP exactly where it is an object with a context that has a key; the value of one flag is the one
//! among all flags; and without a secret there is nothing but 401.
#![no_main]

use std::sync::LazyLock;

use axum::Router;
use bytes::Bytes;
use faregate_fuzz::{CLIENT_SECRET, RELAY_SECRET, SERVER_SECRET, call, flag_cache};
use flags::Settings;
use http::{Request, StatusCode};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    let rate_limits =
        feature_flags::RateLimits { streaming: 0, sdk: 0, insight: 0, feature_flag: 0, ofrep: 0 };
    let settings = Settings { user_bytes_max: 4_096, rate_limits, ..Settings::default() };
    flags::router(flag_cache(), settings)
});

const TARGETS: [(&str, &str, &str); 7] = [
    ("POST", "/ofrep/v1/evaluate/flags", CLIENT_SECRET),
    ("POST", "/ofrep/v1/evaluate/flags/new-checkout", SERVER_SECRET),
    ("POST", "/api/public/featureflag/evaluate", CLIENT_SECRET),
    ("POST", "/api/public/insight/track", CLIENT_SECRET),
    ("POST", "/api/public/sdk/client/latest-all?timestamp=", CLIENT_SECRET),
    ("GET", "/api/public/sdk/server/latest-all?timestamp=", SERVER_SECRET),
    ("POST", "/api/public/agent/register", RELAY_SECRET),
];

fn send((method, target, secret): (&str, &str, Option<&str>), body: &[u8]) -> (StatusCode, Bytes) {
    let mut request = Request::builder().method(method).uri(target);
    if let Some(secret) = secret {
        // OFREP's header and FeatBit's.
        request = request.header("x-api-key", secret).header("authorization", secret);
    }
    let request = request.body(Bytes::copy_from_slice(body)).expect("it is a request");
    let (head, body) = call(&ROUTER, request);
    (head.status, body)
}

/// Whether the context of a body has a key; `None` where members are given twice, or numbers are larger
/// than `Value` can hold.
fn has_key(body: &[u8]) -> Option<bool> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return None;
    };
    let key = value.get("context").and_then(|it| it.get("targetingKey"));
    Some(key.and_then(Value::as_str).is_some_and(|it| !it.trim().is_empty()))
}

fn check_ofrep(body: &[u8], all: &(StatusCode, Bytes)) {
    let is_ok = all.0 == StatusCode::OK;
    if body.len() > 4_096 {
        assert_eq!(all.0, StatusCode::PAYLOAD_TOO_LARGE);
        return;
    }
    let names = body.windows(12).filter(|it| it == b"targetingKey").count();
    if names < 2
        && let Some(has_key) = has_key(body)
    {
        assert!(is_ok == has_key || body.contains(&b'\\'), "{}", String::from_utf8_lossy(body));
    }
    if !is_ok {
        return;
    }
    let all: Value = serde_json::from_slice(&all.1).expect("it is JSON");
    let flags = all["flags"].as_array().expect("a list of flags");
    for flag in flags {
        let key = flag["key"].as_str().expect("a flag has a key");
        let target = format!("/ofrep/v1/evaluate/flags/{key}");
        let (_, one) = send(("POST", &target, Some(CLIENT_SECRET)), body);
        let one: Value = serde_json::from_slice(&one).expect("it is JSON");
        assert_eq!((&one["value"], &one["variant"]), (&flag["value"], &flag["variant"]), "{key}");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((which, body)) = data.split_first() else {
        return;
    };
    let which = usize::from(*which) % TARGETS.len();
    let (method, path, secret) = TARGETS[which];
    let digits: String =
        body.iter().take(20).filter(|it| it.is_ascii_digit()).map(|it| char::from(*it)).collect();
    let target = if path.ends_with('=') { format!("{path}{digits}") } else { path.to_owned() };
    assert_eq!(send((method, &target, None), body).0, StatusCode::UNAUTHORIZED);
    let answer = send((method, &target, Some(secret)), body);
    let taken = [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE];
    assert!(taken.contains(&answer.0), "{} {target}", answer.0);
    if which == 0 {
        check_ofrep(body, &answer);
    }
});
