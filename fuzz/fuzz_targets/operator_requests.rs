//! Requests of operators without credentials that are right: paths, methods, headers and queries of Kill
//! Bill's API and of `/v1`. None is a fault of the server, and none is answered with anything but what
//! every client may read.
#![no_main]

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use axum::Router;
use engine::access::read_basic;
use faregate_fuzz::{World, call, flag_cache, request};
use feature_flags::WriteLocks;
use http::Method;
use killbill::KillBillApi;
use libfuzzer_sys::fuzz_target;

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    let World { engine, access } = World::start();
    let settings = killbill::Settings::default();
    let killbill = KillBillApi::new(engine.clone(), access.clone(), settings);
    let v1 = v1::router(v1::Api {
        engine,
        access,
        analytics: None,
        sealer: None,
        cache: flag_cache(),
        write_locks: Arc::new(WriteLocks::default()),
        missing: evaluation::MissingAttribute::Empty,
        webhooks: v1::webhooks::Settings {
            reach: outbound::Reach::Public,
            log: None,
            replays: None,
        },
        event_streams: v1::events::Streams::default(),
        gateways: v1::gateways::Settings::new(BTreeSet::new(), String::new(), vec![]),
    });
    killbill::router(killbill).merge(v1)
});

/// What Kill Bill answers to every client.
const PUBLIC: [&str; 3] = ["/1.0/kb/healthcheck", "/1.0/healthcheck", "/swagger.json"];

fuzz_target!(|data: &[u8]| {
    let Some(mut request) = request(data) else {
        return;
    };
    // A password is hashed, which takes long and parses nothing.
    let basic = request.headers().get("authorization").map(http::HeaderValue::as_bytes);
    if basic.is_some_and(|it| read_basic(it).is_some()) {
        request.headers_mut().remove("authorization");
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let id = request.headers().get("x-request-id").cloned();
    let (head, _) = call(&ROUTER, request);
    let is_public = method == Method::OPTIONS || PUBLIC.contains(&path.trim_end_matches('/'));
    assert!(!head.status.is_success() || is_public, "{method} {path}: {}", head.status);
    // Kill Bill's API repeats an id, or makes one.
    if path.starts_with("/1.0/kb/")
        && let Some(echo) = head.headers.get("x-request-id")
    {
        assert!(echo.to_str().is_ok() && (1..=255).contains(&echo.len()));
        assert!(id.is_none_or(|it| it == *echo
            || it.len() > 255
            || it.is_empty()
            || it.to_str().is_err()));
    }
});
