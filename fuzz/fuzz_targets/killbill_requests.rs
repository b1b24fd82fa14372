//! Requests to Kill Bill's API of an operator who may do everything: the body and the query of every route are
//! read, and what they ask for is done. None is a fault of the server.
//! `{accountId}`, `{paymentMethodId}`, `{paymentId}`, `{transactionId}` and `{tagDefinitionId}` in an input
//! stand for objects that are there.
#![no_main]

use std::sync::{Arc, LazyLock};

use axum::Router;
use bytes::Bytes;
use faregate_fuzz::{World, call, request};
use http::{HeaderMap, Method, Request, StatusCode};
use killbill::KillBillApi;
use libfuzzer_sys::fuzz_target;
use secrets::{RootKey, Sealer};
use serde_json::{Value, json};

struct Sample {
    router: Router,
    /// The headers of each request.
    headers: HeaderMap,
    /// The names of objects in braces, with their ids.
    objects: Vec<(&'static str, String)>,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let world = World::start();
    let headers = world.admit();
    let sealer = Sealer::derived(&RootKey::new([7; 32]));
    let settings = killbill::Settings { sealer: Some(Arc::new(sealer)), ..Default::default() };
    let api = KillBillApi::new(world.engine, world.access, settings);
    let mut sample = Sample { router: killbill::router(api), headers, objects: vec![] };
    sample.make_objects();
    sample
});

impl Sample {
    fn make_objects(&mut self) {
        let account = self.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
        let of_account = format!("/1.0/kb/accounts/{account}");
        let method = json!({ "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {} });
        let methods = format!("{of_account}/paymentMethods?isDefault=true");
        let method = self.create(&methods, &method);
        let purchase = json!({ "transactionType": "PURCHASE", "amount": "10" });
        let payment = self.create(&format!("{of_account}/payments"), &purchase);
        let shown = self.send(Method::GET, &format!("/1.0/kb/payments/{payment}"), Bytes::new()).1;
        let shown: Value = serde_json::from_slice(&shown).expect("a payment is JSON");
        let transaction = shown["transactions"][0]["transactionId"].as_str().expect("it has one");
        let definition =
            json!({ "name": "vip", "description": "vip", "applicableObjectTypes": ["ACCOUNT"] });
        let definition = self.create("/1.0/kb/tagDefinitions", &definition);
        self.objects = vec![
            ("{accountId}", account),
            ("{paymentMethodId}", method),
            ("{paymentId}", payment),
            ("{transactionId}", transaction.to_owned()),
            ("{tagDefinitionId}", definition),
        ];
    }

    /// Makes an object, and returns its id.
    fn create(&self, target: &str, body: &Value) -> String {
        let (head, said) = self.send(Method::POST, target, body.to_string().into());
        assert_eq!(
            head.status,
            StatusCode::CREATED,
            "{target}: {}",
            String::from_utf8_lossy(&said)
        );
        let location = head.headers["location"].to_str().expect("a location is a text");
        location.trim_end_matches('/').rsplit('/').next().expect("it ends with an id").to_owned()
    }

    fn send(&self, method: Method, target: &str, body: Bytes) -> (http::response::Parts, Bytes) {
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut()) = (method, target.parse().expect("a target"));
        request.headers_mut().insert("content-type", "application/json".parse().expect("a header"));
        self.call(request)
    }

    fn call(&self, mut request: Request<Bytes>) -> (http::response::Parts, Bytes) {
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        call(&self.router, request)
    }

    /// An input with ids in place of the names of objects.
    fn fill(&self, input: &[u8]) -> Vec<u8> {
        let mut filled = input.to_vec();
        for (name, id) in &self.objects {
            while let Some(at) = filled.windows(name.len()).position(|it| it == name.as_bytes()) {
                filled.splice(at..at + name.len(), id.bytes());
            }
        }
        filled
    }
}

/// Whether a request would hash a secret, which takes long and more memory than one allocation may have,
/// take the operator's rights away, or set the clock.
fn is_left_out(request: &Request<Bytes>) -> bool {
    let path = request.uri().path();
    let is_read = request.method() == Method::GET;
    let changes_rights = path.starts_with("/1.0/kb/security/") && !is_read;
    let makes_tenant = path.trim_end_matches('/') == "/1.0/kb/tenants" && !is_read;
    changes_rights || makes_tenant || path.starts_with("/1.0/kb/test/")
}

fuzz_target!(|data: &[u8]| {
    let Some(request) = request(&SAMPLE.fill(data)).filter(|it| !is_left_out(it)) else {
        return;
    };
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let (head, body) = SAMPLE.call(request);
    let is_fault = head.status.is_server_error()
        && head.status != StatusCode::NOT_IMPLEMENTED
        && head.status != StatusCode::SERVICE_UNAVAILABLE;
    let said = String::from_utf8_lossy(&body);
    assert!(!is_fault, "{method} {path}: {} {said}", head.status);
    assert_ne!(head.status, StatusCode::UNAUTHORIZED, "{method} {path}: {said}");
});
