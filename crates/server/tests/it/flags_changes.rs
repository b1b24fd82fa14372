//! What was changed of feature flags, by whom and why.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::Server;

const FLAG: &str = "/v1/flags/checkout";

/// A flag that is on for everybody.
fn checkout() -> Value {
    let everybody = |id: &str| json!([{ "id": id, "rollout": [0, 1], "exptRollout": 1 }]);
    json!({
        "key": "checkout",
        "name": "Checkout",
        "variationType": "boolean",
        "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
        "isEnabled": true,
        "disabledVariationId": "off",
        "fallthrough": { "variations": everybody("on") },
    })
}

fn patch(client: &Client, path: &str, body: &Value) -> Answer {
    client.send("PATCH", path, Some(body.to_string().as_bytes()))
}

/// A user who may do this.
fn user(admin: &Client, name: &str, permissions: &[&str]) -> Client {
    let role = json!({ "role": name, "permissions": permissions });
    assert_eq!(admin.post("/1.0/kb/security/roles", &role).status, 201);
    let user = json!({ "username": name, "password": "x", "roles": [name] });
    assert_eq!(admin.post("/1.0/kb/security/users", &user).status, 201);
    admin.clone().user(name, "x")
}

#[test]
fn a_history_tells_who_changed_what_and_why() {
    let server = Server::start();
    let admin = server.tenant();
    let path = format!("{FLAG}/history");
    assert_eq!(admin.get(&path).status, 404);
    let made = admin.clone().header("X-Faregate-Reason", "ticket 7").post("/v1/flags", &checkout());
    assert_eq!(made.status, 201, "{}", made.text());
    let eve = user(&admin, "eve", &["flag:write"]);
    let why = eve.clone().header("X-Killbill-Reason", "an incident").header(
        "X-Faregate-Comment", // Not ASCII.
        "zu früh",
    );
    let change = json!({ "isEnabled": false, "tags": ["shop"] });
    assert_eq!(patch(&why, FLAG, &change).status, 200);
    assert_eq!(admin.delete(FLAG).status, 204);

    let history = admin.get(&path).json();
    let versions = history["versions"].as_array().unwrap();
    let told: Vec<Value> = versions
        .iter()
        .map(|it| json!([it["user"], it["reason"], it["comment"], it["changed"]]))
        .collect();
    assert_eq!(
        told,
        [
            json!(["admin", null, null, ["isArchived"]]),
            json!(["eve", "an incident", "zu früh", ["isEnabled", "tags"]]),
            json!(["admin", "ticket 7", null, null]),
        ]
    );
    assert_eq!(history["more"], false);
    let switched = |at: usize| &versions[at]["document"]["isEnabled"];
    assert_eq!((switched(2), switched(1), switched(0)), (&json!(true), &json!(false), switched(1)));
    for it in versions {
        let at: jiff::Timestamp = it["at"].as_str().unwrap().parse().unwrap();
        assert!(at.as_millisecond() <= it["version"].as_i64().unwrap());
    }
    let second = admin.get(&format!("{path}?offset=1&limit=1")).json();
    assert_eq!((&second["versions"], &second["more"]), (&json!([versions[1]]), &json!(true)));

    let segment = admin.post("/v1/segments", &json!({ "name": "Staff", "included": ["grace"] }));
    assert_eq!(segment.status, 201, "{}", segment.text());
    let path = format!("/v1/segments/{}", segment.json()["id"].as_str().unwrap());
    assert_eq!(patch(&admin, &path, &json!({ "included": [] })).status, 200);
    let history = admin.get(&format!("{path}/history")).json();
    assert_eq!(history["versions"][0]["changed"], json!(["included"]));
    assert_eq!(history["versions"][1]["document"]["included"], json!(["grace"]));

    assert_eq!(admin.get(&format!("{path}/history?limit=51")).status, 400);
    assert_eq!(admin.get(&format!("{path}/history?environment=prod")).status, 404);
    assert_eq!(eve.get(&format!("{path}/history")).status, 403);
    let wordy = admin.clone().header("X-Faregate-Reason", &"x".repeat(256));
    let refused = wordy.delete(FLAG);
    assert_eq!((refused.status, &refused.json()["field"]), (400, &json!("x-faregate-reason")));
}
