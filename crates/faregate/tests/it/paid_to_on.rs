//! A feature that an account buys is on in the flags of its users: on streams, in requests, and in no other account.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::cluster::Cluster;
use crate::entitlements::{monthly, sell, wanted};
use crate::flags_streams::{Stream, secret};
use crate::gateways::account;
use crate::process::{Launch, Server, eventually};

pub const SIMULATOR: &str = "faregate-simulator";

/// A flag that the feature `pro` gates, one with a rule of its attribute, and one that depends on nothing.
fn flags() -> Value {
    let all = |id: &str| json!([{ "id": id, "rollout": [0, 1], "exptRollout": 1 }]);
    let flag = |key: &str, rules: Value, gate: Value| {
        json!({
            "key": key, "name": key, "variationType": "boolean", "isEnabled": true,
            "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
            "disabledVariationId": "off", "rules": rules, "gate": gate,
            "fallthrough": { "variations": all(if gate.is_null() { "off" } else { "on" }) },
        })
    };
    let many = json!([{
        "id": "r", "name": "many seats", "variations": all("on"),
        "conditions": [{ "property": "entitled.seats", "op": "BiggerEqualThan", "value": "5" }],
    }]);
    json!({ "segments": [], "featureFlags": [
        flag("gated", json!([]), json!("pro")),
        flag("ruled", many, Value::Null),
        flag("plain", json!([]), Value::Null),
    ] })
}

/// A server with the flags and an offer.
pub fn start(launch: Launch) -> (Server, Client) {
    let server = Server::start_with(launch);
    let client = server.tenant();
    sell(&client, &monthly());
    let imported = client.post("/v1/environments/dev/import", &flags());
    assert_eq!(imported.status, 200, "{}", imported.text());
    (server, client)
}

/// Buys the offer; the payment's id.
pub fn buy(client: &Client, account: &str) -> String {
    let bought = client.post(&format!("/v1/accounts/{account}/purchases"), &wanted());
    assert_eq!(bought.status, 201, "{}", bought.text());
    bought.json()["payment"]["paymentId"].as_str().unwrap().to_owned()
}

pub fn refund(client: &Client, payment: &str) {
    let path = format!("/1.0/kb/payments/{payment}/refunds");
    assert_eq!(client.post(&path, &json!({ "amount": 10 })).status, 201);
}

/// The flags of a message, each with its variation.
fn shown(data: &Value) -> Vec<(&str, &str)> {
    let flags = data["featureFlags"].as_array().unwrap().iter();
    flags.map(|it| (it["id"].as_str().unwrap(), it["variation"].as_str().unwrap())).collect()
}

/// A stream of a user, and what it was sent at first.
pub fn connect(server: &Server, secret: &str, user: &str, timestamp: i64) -> (Stream, Value) {
    let mut stream = Stream::open(server, "", "client", secret);
    let user = json!({ "keyId": user, "name": "", "customizedProperties":
        [{ "name": "entitled.seats", "value": "99" }, { "name": "entitled.pro", "value": "true" }] });
    let first = stream.ask_for(&json!({ "timestamp": timestamp, "user": user }));
    (stream, first)
}

/// The largest timestamp of a message, from which a client goes on.
fn latest(data: &Value) -> i64 {
    let flags = data["featureFlags"].as_array().unwrap().iter();
    flags.map(|it| it["timestamp"].as_i64().unwrap()).max().unwrap()
}

fn check_streams(launch: Launch) {
    let (server, client) = start(launch);
    let browser = secret(&client, "client");
    let (buyer, other) = (account(&client, SIMULATOR), account(&client, SIMULATOR));
    let off = [("gated", "false"), ("plain", "false"), ("ruled", "false")];
    let on = [("gated", "true"), ("plain", "false"), ("ruled", "true")];
    // What a client claims counts for nothing.
    let ((mut page, first), (mut others, _)) =
        (connect(&server, &browser, &buyer, 0), connect(&server, &browser, &other, 0));
    assert_eq!(shown(&first), off);
    let payment = buy(&client, &buyer);
    let patch = page.next();
    assert_eq!(patch["eventType"], "patch");
    assert_eq!(shown(&patch), [("gated", "true"), ("ruled", "true")]);
    // One that connects, or comes back with all that it had, has it too.
    for timestamp in [0, latest(&patch)] {
        assert_eq!(shown(&connect(&server, &browser, &buyer, timestamp).1), on);
    }
    refund(&client, &payment);
    assert_eq!(shown(&page.next()), [("gated", "false"), ("ruled", "false")]);
    assert_eq!(shown(&connect(&server, &browser, &buyer, latest(&patch)).1), off);
    // The first that the other account hears of is its own.
    let granted = json!({ "feature": "pro", "value": true, "reason": "goodwill" });
    let granted = client.post(&format!("/v1/accounts/{other}/grants"), &granted);
    assert_eq!(granted.status, 201, "{}", granted.text());
    assert_eq!(shown(&others.next()), [("gated", "true")]);
}

#[test]
fn a_stream_sees_what_its_account_bought_and_no_other() {
    check_streams(Launch::usual());
}

#[test]
fn a_stream_of_a_worker_sees_it_too() {
    let mut launch = Launch::usual();
    launch.arguments.extend(["--workers".to_owned(), "2".to_owned()]);
    check_streams(launch);
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn another_front_shows_what_was_bought_at_this_one() {
    let cluster = Cluster::start_with(&[]);
    let [client, _other] = cluster.tenant();
    sell(&client, &monthly());
    let imported = client.post("/v1/environments/dev/import", &flags());
    assert_eq!(imported.status, 200, "{}", imported.text());
    let browser = secret(&client, "client");
    eventually("the flags are at the other front", || {
        let (_, first) = connect(cluster.other_front(), &browser, "nobody", 0);
        (shown(&first).len() == 3).then_some(())
    });
    // Accounts of several partitions.
    for _ in 0..8 {
        let buyer = account(&client, "__EXTERNAL_PAYMENT__");
        let (mut page, first) = connect(cluster.other_front(), &browser, &buyer, 0);
        assert_eq!(shown(&first)[0], ("gated", "false"));
        let payment = buy(&client, &buyer);
        assert_eq!(shown(&page.next()), [("gated", "true"), ("ruled", "true")]);
        refund(&client, &payment);
        assert_eq!(shown(&page.next()), [("gated", "false"), ("ruled", "false")]);
    }
}

#[test]
fn a_flag_that_comes_to_depend_on_a_feature_is_right_at_once() {
    let (server, client) = start(Launch::usual());
    let browser = secret(&client, "client");
    let buyer = account(&client, SIMULATOR);
    let prod = client.get("/v1/environments").json();
    assert_eq!(prod.as_array().unwrap().len(), 2);
    for key in ["gated", "ruled"] {
        assert_eq!(client.delete(&format!("/v1/flags/{key}?environment=dev")).status, 204);
    }
    // Once the deletions are published: later they would be what comes next.
    let mut page = eventually("the deleted flags are gone", || {
        let (page, first) = connect(&server, &browser, &buyer, 0);
        let flags = first["featureFlags"].as_array().unwrap().iter();
        (flags.filter(|it| it["variation"].is_string()).count() == 1).then_some(page)
    });
    buy(&client, &buyer);
    let change = json!({ "gate": "pro", "fallthrough": flags()["featureFlags"][0]["fallthrough"] });
    let path = "/v1/flags/plain?environment=dev";
    let patched = client.send("PATCH", path, Some(change.to_string().as_bytes()));
    assert_eq!(patched.status, 200, "{}", patched.text());
    assert_eq!(shown(&page.next()), [("plain", "true")]);
}

#[test]
fn requests_see_what_an_account_has() {
    let (server, client) = start(Launch::usual());
    let browser = secret(&client, "client");
    let buyer = account(&client, SIMULATOR);
    let ofrep = server.client().header("X-API-Key", &browser);
    let context = json!({ "context": { "targetingKey": buyer, "entitled.pro": "true" } });
    let gated = || ofrep.post("/ofrep/v1/evaluate/flags/gated", &context).json()["value"].clone();
    eventually("the flags are published", || (gated() == json!(false)).then_some(()));
    let all = ofrep.post("/ofrep/v1/evaluate/flags", &context);
    let etag = all.header("etag").unwrap().to_owned();
    let unchanged = ofrep.clone().header("If-None-Match", &etag);
    assert_eq!(unchanged.post("/ofrep/v1/evaluate/flags", &context).status, 304);
    let events = all.json()["eventStreams"][0]["endpoint"]["requestUri"].clone();
    assert!(!events.as_str().unwrap().contains(&buyer), "{events}");

    let payment = buy(&client, &buyer);
    eventually("it is on", || (gated() == json!(true)).then_some(()));
    assert_eq!(unchanged.post("/ofrep/v1/evaluate/flags", &context).status, 200);
    let sdk = server.client().header("Authorization", &browser);
    let user = json!({ "keyId": buyer, "name": "", "customizedProperties": [] });
    let evaluated = sdk.post("/api/public/featureflag/evaluate", &json!({ "user": user })).json();
    assert_eq!(evaluated[0]["variation"]["value"], "true", "{evaluated}");
    let latest = sdk.post("/api/public/sdk/client/latest-all?timestamp=0", &user).json();
    assert_eq!(shown(&latest["data"])[0], ("gated", "true"));
    let explained = client.get(&format!("/v1/flags/ruled/explain?environment=dev&user={buyer}"));
    assert_eq!(explained.json()["reason"], "many seats", "{}", explained.text());
    let asked = json!({ "user": user, "keys": ["gated"] });
    let asked = client.post("/v1/flags/evaluate?environment=dev", &asked).json();
    assert_eq!(asked[0]["value"], true, "{asked}");
    refund(&client, &payment);
    eventually("it is off", || (gated() == json!(false)).then_some(()));
}

fn check_what_is_left(launch: Launch) {
    let (server, client) = start(launch);
    let browser = secret(&client, "client");
    let (buyer, other) = (account(&client, SIMULATOR), account(&client, SIMULATOR));
    buy(&client, &buyer);
    buy(&client, &other);
    let (mut page, first) = connect(&server, &browser, &buyer, 0);
    let (mut others, _) = connect(&server, &browser, &other, 0);
    assert_eq!(shown(&first), [("gated", "true"), ("plain", "false"), ("ruled", "true")]);
    // Five seats are enough, four are not.
    let reservations = format!("/v1/accounts/{buyer}/reservations");
    let body = json!({ "feature": "seats", "quantity": 1, "ttlSeconds": 600 });
    let reserved = client.post(&reservations, &body);
    assert_eq!(reserved.status, 201, "{}", reserved.text());
    assert_eq!(shown(&page.next()), [("ruled", "false")]);
    let path = format!("{}/release", reserved.header("location").unwrap());
    assert_eq!(client.send("POST", &path, None).status, 200);
    assert_eq!(shown(&page.next()), [("ruled", "true")]);
    let event = json!({ "feature": "seats", "quantity": 2, "eventId": "e1" });
    assert_eq!(client.post(&format!("/v1/accounts/{buyer}/usage"), &event).status, 200);
    assert_eq!(shown(&page.next()), [("ruled", "false")]);
    // Another change of the account does not bring it back; more seats do.
    let grant = |seats: i64| {
        let grant = json!({ "feature": "seats", "value": seats, "reason": "goodwill" });
        assert_eq!(client.post(&format!("/v1/accounts/{buyer}/grants"), &grant).status, 201);
    };
    grant(1);
    grant(1);
    assert_eq!(shown(&page.next()), [("ruled", "true")]);
    let context = json!({ "context": { "targetingKey": buyer } });
    let ofrep = server.client().header("X-API-Key", &browser);
    let ruled = || ofrep.post("/ofrep/v1/evaluate/flags/ruled", &context).json()["value"].clone();
    assert_eq!(ruled(), true);
    let event = json!({ "feature": "seats", "quantity": 1, "eventId": "e2" });
    assert_eq!(client.post(&format!("/v1/accounts/{buyer}/usage"), &event).status, 200);
    eventually("four are left", || (ruled() == json!(false)).then_some(()));
    assert_eq!(shown(&page.next()), [("ruled", "false")]);
    let explained = client.get(&format!("/v1/flags/ruled/explain?environment=dev&user={buyer}"));
    assert_eq!(explained.json()["reason"], "default", "{}", explained.text());
    // Nobody else hears of it.
    let granted = json!({ "feature": "seats", "value": 1, "reason": "goodwill" });
    assert_eq!(client.post(&format!("/v1/accounts/{other}/usage"), &event).status, 200);
    assert_eq!(shown(&others.next()), [("ruled", "false")]);
    assert_eq!(client.post(&format!("/v1/accounts/{other}/grants"), &granted).status, 201);
    assert_eq!(shown(&others.next()), [("ruled", "true")]);
}

#[test]
fn flags_see_what_is_left_of_a_limit() {
    check_what_is_left(Launch::usual());
}

#[test]
fn flags_of_a_worker_see_what_is_left_of_a_limit() {
    let mut launch = Launch::usual();
    launch.arguments.extend(["--workers".to_owned(), "2".to_owned()]);
    check_what_is_left(launch);
}

/// A feature may have the key of an attribute that flags look at: what a client sends is never the feature.
#[test]
fn a_feature_and_an_attribute_of_one_key_are_two() {
    let (_server, client) = start(Launch::usual());
    for feature in ["country", "name"] {
        let made = client
            .put(&format!("/v1/features/{feature}"), &json!({ "name": "F", "kind": "switch" }));
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let flag = |key: &str, property: &str, value: &str| {
        let mut flag = flags()["featureFlags"][1].clone();
        (flag["key"], flag["name"]) = (json!(key), json!(key));
        flag["rules"][0]["conditions"] =
            json!([{ "property": property, "op": "Equal", "value": value }]);
        flag
    };
    let made = json!({ "segments": [], "featureFlags": [
        flag("sent", "country", "true"),
        flag("bought", "entitled.country", "true"),
        flag("user", "entitled.name", "true"),
    ] });
    let imported = client.post("/v1/environments/dev/import", &made);
    assert_eq!(imported.status, 200, "{}", imported.text());
    let (buyer, other) = (account(&client, SIMULATOR), account(&client, SIMULATOR));
    for feature in ["country", "name"] {
        let grant = json!({ "feature": feature, "value": true, "reason": "goodwill" });
        assert_eq!(client.post(&format!("/v1/accounts/{buyer}/grants"), &grant).status, 201);
    }
    let values = |user: &str, sent: &[&str]| -> Vec<Value> {
        let sent = sent.iter().map(|name| json!({ "name": name, "value": "true" }));
        let user = json!({ "keyId": user, "customizedProperties": sent.collect::<Vec<_>>() });
        let asked = json!({ "user": user, "keys": ["bought", "sent", "user"] });
        let found = client.post("/v1/flags/evaluate?environment=dev", &asked);
        let found = found.json();
        found.as_array().unwrap().iter().map(|it| it["value"].clone()).collect()
    };
    let claims = ["country", "entitled.country", "entitled.name"];
    eventually("the account is known", || {
        (values(&buyer, &[]) == [true, false, true]).then_some(())
    });
    assert_eq!(values(&other, &claims), [false, true, false]);
}

#[test]
fn what_ends_is_off_whether_or_not_a_timer_has_fired() {
    let (server, client) = start(Launch::usual());
    let browser = secret(&client, "client");
    let buyer = account(&client, SIMULATOR);
    buy(&client, &buyer);
    let (mut page, first) = connect(&server, &browser, &buyer, 0);
    assert_eq!(shown(&first)[0], ("gated", "true"));
    let clock = "/1.0/kb/test/clock?days=32&timeoutSec=20";
    assert_eq!(client.send("PUT", clock, None).status, 200);
    let ofrep = server.client().header("X-API-Key", &browser);
    let context = json!({ "context": { "targetingKey": buyer } });
    let answer = ofrep.post("/ofrep/v1/evaluate/flags/gated", &context).json();
    assert_eq!(answer["value"], false, "{answer}");
    assert_eq!(shown(&page.next()), [("gated", "false"), ("ruled", "false")]);
}

#[test]
fn gates_and_segments_are_checked_when_they_are_written() {
    let (_server, client) = start(Launch::usual());
    let flag = |gate: &str| {
        let mut flag = flags()["featureFlags"][0].clone();
        flag["key"] = json!("another");
        flag["gate"] = json!(gate);
        client.post("/v1/flags?environment=dev", &flag)
    };
    let fields = |refused: &Answer| {
        let errors = refused.json()["problems"].clone();
        errors.as_array().unwrap().iter().map(|it| it["field"].clone()).collect::<Vec<_>>()
    };
    let refused = flag(" ");
    assert_eq!((refused.status, fields(&refused)), (422, vec![json!("gate")]));
    assert_eq!(flag("pro").status, 201);
    let segment = json!({ "id": "entitled:pro", "name": "mine" });
    let refused = client.post("/v1/segments?environment=dev", &segment);
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(fields(&refused), [json!("id")]);
}
