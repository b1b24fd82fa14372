//! Features of plans: a subscription has them in the commit that makes it, and has them no more in the one that ends it.

use serde_json::{Value, json};

use crate::catalogs;
use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir, eventually, run};

/// Sets the clock, and waits for what is due then.
fn clock(client: &Client, at: &str) {
    let path = format!("/1.0/kb/test/clock?requestedDate={at}T08:00:00.000Z&timeoutSec=60");
    assert_eq!(client.send("POST", &path, Some(b"{}")).status, 200, "{at}");
}

/// A tenant with a catalog and three features, on January 10.
fn shop(server: &Server) -> Client {
    let client = server.tenant();
    clock(&client, "2026-01-10");
    let catalog = catalogs::simple("Gold", "2025-01-01T00:00:00Z");
    let xml = client.clone().header("Content-Type", "text/xml");
    let stored = xml.send("POST", "/1.0/kb/catalog/xml", Some(catalog.as_bytes()));
    assert_eq!(stored.status, 201, "{}", stored.text());
    for (key, feature) in [
        ("pro", json!({ "name": "Pro", "kind": "switch" })),
        ("support", json!({ "name": "Support", "kind": "switch" })),
        ("seats", json!({ "name": "Seats", "kind": "limit", "unit": "seats" })),
    ] {
        assert_eq!(client.put(&format!("/v1/features/{key}"), &feature).status, 201);
    }
    client
}

/// An account with an external method.
fn account(client: &Client) -> String {
    account_with(client, "__EXTERNAL_PAYMENT__")
}

/// An account with a method of a gateway.
fn account_with(client: &Client, gateway: &str) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let id = account["accountId"].as_str().unwrap().to_owned();
    let method = json!({ "pluginName": gateway, "pluginInfo": {} });
    client.create(&format!("/1.0/kb/accounts/{id}/paymentMethods?isDefault=true"), &method);
    id
}

/// The features of the plan: seats, one in the trial, for each of the quantity, and support once the first invoice is
/// paid.
fn of_plan() -> Value {
    json!({ "features": {
        "seats": { "value": 5, "phases": { "TRIAL": 1 }, "timesQuantity": true },
        "support": { "value": true, "from": "paid" },
    } })
}

/// An account's features with their values.
fn shown(client: &Client, account: &str) -> Value {
    let it = client.get(&format!("/v1/accounts/{account}/entitlements")).json();
    let features = it["features"].as_array().unwrap().iter();
    features.map(|it| (it["feature"].as_str().unwrap().to_owned(), it["value"].clone())).collect()
}

fn put_features(client: &Client) {
    let of_product = json!({ "features": { "pro": { "value": true } } });
    let put = client.put("/v1/products/Pro/features", &of_product);
    assert_eq!((put.status, put.header("etag")), (201, Some("\"1\"")), "{}", put.text());
    assert_eq!(client.put("/v1/plans/pro-monthly/features", &of_plan()).status, 201);
}

#[test]
fn a_subscription_has_the_features_of_its_plan_until_it_ends() {
    let folder = TempDir::new();
    let server = Server::start_in(folder.path(), Launch::usual());
    let client = shop(&server);
    put_features(&client);
    let account = account(&client);
    let body = json!({ "accountId": account, "planName": "pro-monthly", "quantity": 3 });
    let made = client.create("/1.0/kb/subscriptions", &body);
    let subscription = made["subscriptionId"].as_str().unwrap();
    assert_eq!(shown(&client, &account), json!({ "pro": true, "seats": 3 }));
    let document = client.get(&format!("/v1/accounts/{account}/entitlements")).json();
    let grant = &document["features"][1]["grants"][0];
    assert_eq!(
        (&grant["source"], &grant["subscriptionId"], &grant["plan"], &grant["phase"]),
        (&json!("subscription"), &json!(subscription), &json!("pro-monthly"), &json!("TRIAL"))
    );
    assert_eq!((&grant["givenBy"], &grant["featuresVersion"]), (&json!("plan"), &json!(1)));
    let grant = grant["grantId"].as_str().unwrap();
    let taken = client.send("DELETE", &format!("/v1/accounts/{account}/grants/{grant}"), None);
    assert_eq!((taken.status, kind(&taken)), (409, "grant-of-subscription".to_owned()));
    clock(&client, "2026-02-10");
    assert_eq!(shown(&client, &account), json!({ "pro": true, "seats": 15, "support": true }));
    let path = format!("/1.0/kb/subscriptions/{subscription}");
    let at_end = "?entitlementPolicy=END_OF_TERM&billingPolicy=END_OF_TERM";
    assert_eq!(client.send("DELETE", &format!("{path}{at_end}"), None).status, 204);
    let document = client.get(&format!("/v1/accounts/{account}/entitlements")).json();
    let until = document["features"][0]["until"].as_str().unwrap();
    assert!(until.starts_with("2026-03-09T08:00:00"), "{until}");
    assert_eq!(client.send("PUT", &format!("{path}/uncancel"), None).status, 204);
    assert_eq!(client.send("DELETE", &path, None).status, 204);
    assert_eq!(shown(&client, &account), json!({}));
    server.stop();
    let verified = run(&["verify", "--data-dir", folder.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{verified:?}");
}

/// What the reply's command looks at is loaded: the account goes on.
#[test]
fn what_waits_for_the_first_invoice_is_on_once_a_gateway_has_replied() {
    let folder = TempDir::new();
    let server = Server::start_in(folder.path(), Launch::usual());
    let client = shop(&server);
    put_features(&client);
    let account = account_with(&client, "faregate-simulator");
    client.create(
        "/1.0/kb/subscriptions",
        &json!({ "accountId": account, "planName": "pro-monthly" }),
    );
    assert_eq!(shown(&client, &account), json!({ "pro": true, "seats": 1 }));
    clock(&client, "2026-02-10");
    let all = json!({ "pro": true, "seats": 5, "support": true });
    assert_eq!(shown(&client, &account), all);
    clock(&client, "2026-03-10");
    let payments = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
    assert_eq!(payments.as_array().unwrap().len(), 2, "{payments}");
}

#[test]
fn a_flag_follows_a_subscription() {
    let server = Server::start();
    let client = shop(&server);
    put_features(&client);
    let flag = json!({
        "key": "help", "name": "Help", "variationType": "boolean", "isEnabled": true,
        "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
        "disabledVariationId": "off", "gate": "support",
        "fallthrough": { "variations": [{ "id": "on", "rollout": [0, 1] }] },
    });
    let made = client.post("/v1/flags?environment=dev", &flag);
    assert_eq!(made.status, 201, "{}", made.text());
    let account = account(&client);
    let body = json!({ "accountId": account, "planName": "pro-monthly" });
    let made = client.create("/1.0/kb/subscriptions", &body);
    let environments = client.get("/v1/environments").json();
    let mut environments = environments.as_array().unwrap().iter();
    let dev = environments.find(|it| it["key"] == "dev").unwrap();
    let mut secrets = dev["secrets"].as_array().unwrap().iter();
    let secret = secrets.find(|it| it["type"] == "client").unwrap()["value"].as_str().unwrap();
    let ofrep = Client::new(&server.url).header("X-API-Key", secret);
    let user = json!({ "context": { "targetingKey": account } });
    let is_on = || {
        let value = ofrep.post("/ofrep/v1/evaluate/flags/help", &user).json()["value"].clone();
        value.as_bool().expect("the flag has a value")
    };
    assert!(!is_on(), "nothing is paid yet");
    clock(&client, "2026-02-10");
    eventually("the flag is on once the first month is paid", || is_on().then_some(()));
    let path = format!("/1.0/kb/subscriptions/{}", made["subscriptionId"].as_str().unwrap());
    assert_eq!(client.send("DELETE", &path, None).status, 204);
    eventually("the flag is off again", || (!is_on()).then_some(()));
}

/// The last part of a problem's type.
fn kind(answer: &Answer) -> String {
    let json = answer.json();
    let kind = json["type"].as_str().unwrap_or_default();
    kind.rsplit(':').next().unwrap_or_default().to_owned()
}

#[test]
fn features_of_a_plan_have_versions_and_a_stale_one_is_not_replaced() {
    let server = Server::start();
    let client = shop(&server);
    let path = "/v1/plans/pro-monthly/features";
    assert_eq!(client.get(path).status, 404);
    put_features(&client);
    let none = json!({ "features": { "pro": null } });
    let stale = client.clone().header("If-Match", "\"2\"").put(path, &none);
    assert_eq!((stale.status, kind(&stale)), (412, "version-changed".to_owned()));
    let there = client.clone().header("If-None-Match", "*").put(path, &none);
    assert_eq!(there.status, 412);
    let next = client.clone().header("If-Match", "\"1\"").put(path, &none);
    assert_eq!((next.status, next.header("etag")), (200, Some("\"2\"")), "{}", next.text());
    let newest = client.get(path).json();
    assert_eq!(
        (&newest["name"], &newest["version"], &newest["features"]),
        (&json!("pro-monthly"), &json!(2), &json!({ "pro": null }))
    );
    let first = client.get(&format!("{path}?version=1")).json();
    assert_eq!(first["features"]["support"]["from"], "paid");
    assert_eq!(first["features"]["seats"]["phases"], json!({ "TRIAL": 1 }));
    assert_eq!(client.get(&format!("{path}?version=3")).status, 404);
    let versions = client.get(&format!("{path}/versions")).json();
    let versions = versions["versions"].as_array().unwrap().iter();
    assert_eq!(versions.map(|it| it["version"].clone()).collect::<Value>(), json!([2, 1]));
    let of_product = client.get("/v1/products/Pro/features/versions").json();
    assert_eq!(of_product["versions"].as_array().unwrap().len(), 1);
    let another = json!({ "apiKey": "joe", "apiSecret": "secret" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &another).status, 201);
    assert_eq!(server.client().tenant("joe", "secret").get(path).status, 404);
}

#[test]
fn wrong_features_of_a_plan_are_refused_by_their_field() {
    let server = Server::start();
    let client = shop(&server);
    let refused = |path: &str, features: Value, field: &str| {
        let answer = client.put(path, &json!({ "features": features }));
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains(field), "{field}: {}", answer.text());
    };
    let plan = "/v1/plans/pro-monthly/features";
    refused(plan, json!({ "none": { "value": true } }), "features.none");
    refused(plan, json!({ "pro": {} }), "features.pro");
    refused(plan, json!({ "pro": { "value": 1 } }), "features.pro.value");
    refused(plan, json!({ "seats": { "phases": { "EVER": 1 } } }), "features.seats.phases.EVER");
    refused(plan, json!({ "seats": { "phases": { "TRIAL": -1 } } }), "features.seats.phases.TRIAL");
    refused(plan, json!({ "seats": { "value": 1, "from": "now" } }), "features.seats.from");
    refused(
        plan,
        json!({ "pro": { "value": true, "timesQuantity": true } }),
        "features.pro.timesQuantity",
    );
    refused(plan, json!({ "seats": { "value": 1, "each": true } }), "each");
    refused("/v1/products/Pro/features", json!({ "pro": null }), "features.pro");
    refused(&format!("/v1/plans/{}/features", "a".repeat(256)), json!({}), "plan");
}
