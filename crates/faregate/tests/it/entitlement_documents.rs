//! Documents of what an account may do: until when they may be held, signed, and for a customer's session.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::entitlements::sell;
use crate::process::{Launch, Server, TempDir, eventually};
use crate::signup;

/// The document that a text has, where the installation signed it.
fn opened(server: &Server, signed: &Answer) -> Value {
    assert_eq!(signed.status, 200, "{}", signed.text());
    assert_eq!(signed.header("content-type"), Some("application/jose"));
    let text = signed.text();
    let (message, signature) = text.rsplit_once('.').unwrap();
    let (header, document) = message.split_once('.').unwrap();
    let json =
        |text: &str| -> Value { serde_json::from_slice(&BASE64.decode(text).unwrap()).unwrap() };
    // Nobody has to show credentials.
    let keys = Client::new(&server.url).get("/v1/keys");
    assert_eq!(keys.header("content-type"), Some("application/jwk-set+json"));
    let key = keys.json()["keys"][0].clone();
    let named = json!({ "alg": "EdDSA", "typ": "entitlements+jose", "kid": key["kid"] });
    assert_eq!(json(header), named);
    assert_eq!([&key["kty"], &key["crv"], &key["use"]], ["OKP", "Ed25519", "sig"]);
    let public = BASE64.decode(key["x"].as_str().unwrap()).unwrap();
    let verifier = UnparsedPublicKey::new(&ED25519, &public);
    let signature = BASE64.decode(signature).unwrap();
    verifier.verify(message.as_bytes(), &signature).unwrap();
    let changed = message.replacen('.', ".A", 1);
    assert!(verifier.verify(changed.as_bytes(), &signature).is_err());
    json(document)
}

fn seconds(text: &Value) -> i64 {
    let at: jiff::Timestamp = text.as_str().unwrap().parse().unwrap();
    at.as_second()
}

/// An account with a trial of a week, and a switch for ever.
fn furnish(client: &Client) -> String {
    let offer = json!({ "name": "Week", "features": { "seats": 2 }, "lasts": { "days": 7 } });
    sell(client, &offer);
    let account = client.create("/1.0/kb/accounts", &json!({ "externalKey": "ada" }));
    let account = account["accountId"].as_str().unwrap().to_owned();
    let path = format!("/v1/accounts/{account}");
    let bought = client.post(&format!("{path}/purchases"), &json!({ "offer": "monthly" }));
    assert_eq!(bought.status, 201, "{}", bought.text());
    let grant = json!({ "feature": "pro", "value": true, "reason": "goodwill" });
    assert_eq!(client.post(&format!("{path}/grants"), &grant).status, 201);
    account
}

fn hold(client: &Client, seconds: i64) -> Answer {
    client.send(
        "PATCH",
        "/v1/tenant",
        Some(json!({ "entitlementsHeldSeconds": seconds }).to_string().as_bytes()),
    )
}

#[test]
fn a_signed_document_says_what_the_other_one_does() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let account = furnish(&client);
    let signing = client.clone().header("Accept", "application/jose");
    let path = format!("/v1/accounts/{account}/entitlements");
    let plain = client.get(&path);
    let document = opened(&server, &signing.get(&path));
    let without_times = |mut it: Value| {
        it["validUntil"] = Value::Null;
        it["features"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|it| it["validUntil"] = json!(0));
        it
    };
    assert_eq!(without_times(document.clone()), without_times(plain.json()));
    assert_eq!(document["accountId"], account);
    let of_user = opened(&server, &signing.get("/v1/users/ada/entitlements"));
    assert_eq!(without_times(of_user), without_times(document));
    // One who has the version gets no document to hold for longer, unless it is a signed one.
    let etag = plain.header("etag").unwrap().to_owned();
    let asked = client.clone().header("If-None-Match", &etag);
    assert_eq!(asked.get(&path).status, 304);
    opened(&server, &asked.header("Accept", "application/jose").get(&path));
    // The key stays.
    let key = client.get("/v1/keys").json();
    assert!(server.stop().0.success());
    let server = Server::start_in(dir.path(), Launch::usual());
    assert_eq!(Client::new(&server.url).get("/v1/keys").json(), key);
}

#[test]
fn a_document_may_be_held_for_as_long_as_the_tenant_says() {
    let server = Server::start();
    let client = server.tenant();
    let account = furnish(&client);
    let path = format!("/v1/accounts/{account}/entitlements");
    let now = || jiff::Timestamp::now().as_second();
    let is_about =
        |shown: &Value, seconds_held: i64| (seconds(shown) - now() - seconds_held).abs() < 30;
    let day = 24 * 3600;
    let first = client.get(&path).json();
    assert!(is_about(&first["validUntil"], day), "{first}");
    for refused in [0, 59, 30 * day + 1, -1] {
        let answer = hold(&client, refused);
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.json()["field"], "entitlementsHeldSeconds");
    }
    let changed = hold(&client, 30 * day);
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.json()["entitlementsHeldSeconds"], 30 * day);
    let shown = eventually("the setting holds", || {
        let shown = client.get(&path).json();
        is_about(&shown["validUntil"], 30 * day).then_some(shown)
    });
    assert_eq!(client.get("/v1/tenant").json()["entitlementsHeldSeconds"], 30 * day);
    // What ends before is held no longer than that.
    let [pro, seats] = [&shown["features"][0], &shown["features"][1]];
    assert_eq!(pro["validUntil"], shown["validUntil"]);
    assert_eq!((&seats["feature"], &seats["validUntil"]), (&json!("seats"), &seats["until"]));
    assert!(is_about(&seats["validUntil"], 7 * day), "{shown}");
    let other = server.another_tenant();
    assert_eq!(other.get("/v1/tenant").json()["entitlementsHeldSeconds"], day);
}

#[test]
fn a_customer_sees_what_they_may_do() {
    let dir = TempDir::new();
    let launch = signup::launch().env("FAREGATE_SIGNUP_TENANT", "bob");
    let server = Server::start_in(dir.path(), launch);
    let client = server.tenant();
    sell(&client, &json!({ "name": "Trial", "features": { "pro": true }, "forNewcomers": true }));
    let anyone = Client::new(&server.url);
    assert_eq!(anyone.get("/v1/me/entitlements").status, 401);
    let (customer, _) = signup::customer(&dir, &anyone, "ada@example.com");
    let shown = customer.get("/v1/me/entitlements");
    assert_eq!(shown.status, 200, "{}", shown.text());
    assert_eq!(shown.json()["features"][0]["feature"], "pro");
    assert_eq!(shown.header("cache-control"), Some("no-store"));
    let etag = shown.header("etag").unwrap().to_owned();
    let again = customer.clone().header("If-None-Match", &etag);
    assert_eq!(again.get("/v1/me/entitlements").status, 304);
    let signed = customer.clone().header("Accept", "application/jose").get("/v1/me/entitlements");
    assert_eq!(opened(&server, &signed)["accountId"], shown.json()["accountId"]);
    assert_eq!(hold(&client, 60).status, 200);
    let held = customer.get("/v1/me/entitlements").json();
    let left = seconds(&held["validUntil"]) - jiff::Timestamp::now().as_second();
    assert!((0..=60).contains(&left), "{held}");
    // Nobody else's.
    let (other, _) = signup::customer(&dir, &anyone, "bea@example.com");
    let others = other.get("/v1/me/entitlements").json();
    assert_ne!(others["accountId"], shown.json()["accountId"]);
}
