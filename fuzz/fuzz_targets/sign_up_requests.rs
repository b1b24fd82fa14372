//! Requests of sign-up before anybody is logged in: bodies of registrations and logins, tokens, access
//! tokens, headers and queries of both APIs. None is a fault of the server, none has a session, a text in
//! a body that holds a card number is refused, and so is a registration whose address is none.
#![no_main]

use std::sync::{Arc, LazyLock};

use axum::Router;
use domain::card_data::contains_pan;
use faregate_fuzz::{World, call, request};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sign_up::email::EmailAddress;
use sign_up::operations::CallbackCheck;

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    let world = World::start();
    let (sign_up, tenants) = world.sign_up();
    let callbacks: CallbackCheck = Arc::new(|url| match url.starts_with("https://") {
        true => Ok(()),
        false => Err("must begin with https://".to_owned()),
    });
    let v1 = v1::sign_up::router(sign_up.clone(), tenants.clone(), Arc::clone(&callbacks), None);
    v1.merge(signup::router(signup::Api { sign_up, tenants, access: world.access, callbacks }))
});

fuzz_target!(|data: &[u8]| {
    let Some(mut request) = request(data) else {
        return;
    };
    // A password of an operator is hashed, which takes long and parses nothing.
    let basic = request.headers().get("authorization").map(http::HeaderValue::as_bytes);
    if basic.is_some_and(|it| it.get(..5).is_some_and(|it| it.eq_ignore_ascii_case(b"basic"))) {
        request.headers_mut().remove("authorization");
    }
    let body: Option<Value> = serde_json::from_slice(request.body()).ok();
    let path = request.uri().path().to_owned();
    let (head, answer) = call(&ROUTER, request);
    let is_success = head.status.is_success();
    for name in ["accessToken", "access_token", "refreshToken", "refresh_token"] {
        let name = format!("\"{name}\":");
        assert!(!answer.windows(name.len()).any(|it| it == name.as_bytes()), "a session");
    }
    let Some(body) = body.filter(|_| is_success) else {
        return;
    };
    if path == "/v1/registrations" || path == "/user/auth/register" {
        let email = body.get("email").and_then(Value::as_str);
        assert!(email.is_some_and(|it| EmailAddress::parse(it.trim()).is_ok()), "{email:?}");
        for name in ["firstName", "first_name", "company", "email"] {
            let text = body.get(name).and_then(Value::as_str).unwrap_or_default();
            assert!(!contains_pan(text), "{name}");
        }
    }
});
