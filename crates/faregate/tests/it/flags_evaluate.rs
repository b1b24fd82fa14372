//! Several flags evaluated in one question to the native API.

use serde_json::{Value, json};

use crate::flags::{checkout, secrets, with_sample};
use crate::process::{Launch, Server, eventually};

#[test]
fn flags_are_evaluated_together() {
    let (server, client) = with_sample();
    let add = |key: &str, kind: &str, value: &str, tags: Value| {
        let mut flag = checkout();
        let fields = flag.as_object_mut().unwrap();
        for field in ["id", "unknownToUs", "rules", "targetUsers"] {
            fields.remove(field);
        }
        flag["key"] = json!(key);
        flag["variationType"] = json!(kind);
        flag["variations"] =
            json!([{ "id": "on", "value": value }, { "id": "off", "value": value }]);
        flag["tags"] = tags;
        let made = client.post("/v1/flags", &flag);
        assert_eq!(made.status, 201, "{}", made.text());
        made.header("etag").unwrap().trim_matches('"').parse::<i64>().unwrap()
    };
    let limit = add("limit", "number", "-0.50", json!(["shop", "limits"]));
    add("evaluate", "json", r#"{ "a": 1 }"#, json!([]));
    add("gone", "string", "x", json!(["shop"]));
    assert_eq!(client.delete("/v1/flags/gone").status, 204);
    let ask = |body: &Value| client.post("/v1/flags/evaluate?environment=dev", body);
    let keys = |body: &Value| -> Vec<String> {
        let answer = ask(body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let values = answer.json();
        values.as_array().unwrap().iter().map(|it| it["key"].as_str().unwrap().to_owned()).collect()
    };
    let ada = json!({ "keyId": "ada" });
    assert_eq!(keys(&json!({ "user": ada })), ["evaluate", "limit", "new-checkout"]);
    assert_eq!(keys(&json!({ "user": ada, "tags": ["shop"] })), ["limit", "new-checkout"]);
    assert_eq!(keys(&json!({ "user": ada, "tags": ["shop", "limits"] })), ["limit"]);
    assert_eq!(
        keys(&json!({ "user": ada, "keys": ["new-checkout", "gone", "x"], "tags": ["shop"] })),
        ["new-checkout"]
    );
    let text = ask(&json!({ "user": ada, "keys": ["limit", "evaluate"] })).text();
    // As they are written.
    assert!(
        text.contains(r#""value":-0.50,"#) && text.contains(r#""value":{ "a": 1 },"#),
        "{text}"
    );
    let version = format!(r#""reason":"default","version":{limit}}}"#);
    assert!(text.contains(&version), "{text}");
    let mail = json!([{ "name": "mail", "value": "joe@example.com" }]);
    let joe = json!({ "keyId": "joe", "customizedProperties": mail });
    let found = ask(&json!({ "user": joe, "keys": ["new-checkout"] })).json();
    let expected = (&json!("staff"), &json!(true), &json!("on"));
    assert_eq!((&found[0]["reason"], &found[0]["value"], &found[0]["variationId"]), expected);

    // A flag of that key is still there, and others take no POST.
    assert_eq!(client.get("/v1/flags/evaluate").json()["key"], "evaluate");
    assert_eq!(client.post("/v1/flags/limit", &json!({})).status, 405);
    let many: Vec<String> = (0..5_001).map(|n| n.to_string()).collect();
    for (body, field) in [
        (json!({}), "user"),
        (json!({ "user": {} }), "user.keyId"),
        (json!({ "user": ada, "key": [] }), "key"),
        (json!({ "user": ada, "keys": many }), "keys"),
        (json!({ "user": ada, "tags": many[..101] }), "tags"),
        (
            json!({ "user": { "keyId": "x", "customizedProperties": vec![json!({}); 1_001] } }),
            "user.customizedProperties",
        ),
    ] {
        let refused = ask(&body);
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)));
    }
    assert_eq!(
        client.post("/v1/flags/evaluate?environment=x", &json!({ "user": ada })).status,
        404
    );
    drop(server);
}

/// Numbers that JSON does not write so are read by FeatBit's SDKs.
#[test]
fn numbers_have_one_form_and_attributes_one_meaning_in_all_apis() {
    let (server, client) = with_sample();
    let environments = client.get("/v1/environments").json();
    let secret = environments[0]["secrets"][0]["value"].as_str().unwrap().to_owned();
    let sdk = server.client().header("X-API-Key", &secret);
    let number = |key: &str, value: &str, property: &str, expected: &str| {
        let mut flag = checkout();
        let fields = flag.as_object_mut().unwrap();
        for field in ["id", "unknownToUs", "targetUsers"] {
            fields.remove(field);
        }
        flag["key"] = json!(key);
        flag["variationType"] = json!("number");
        flag["variations"] = json!([{ "id": "on", "value": value }, { "id": "off", "value": "0" }]);
        flag["rules"] = json!([{ "name": "asked", "conditions":
            [{ "property": property, "op": "Equal", "value": expected }],
            "variations": [{ "id": "on", "rollout": [0, 1] }] }]);
        flag["fallthrough"] = json!({ "variations": [{ "id": "off", "rollout": [0, 1] }] });
        let made = client.post("/v1/flags", &flag);
        assert_eq!(made.status, 201, "{}", made.text());
    };
    number("half", ".5", "age", "18");
    number("five", "+5", "isMember", "true");
    number("seven", "007", "tags", r#"["a",1]"#);
    let values = json!({ "age": 18, "isMember": true, "tags": ["a", 1] });
    let list: Vec<Value> = values
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    let user = json!({ "keyId": "ann", "customizedProperties": list });
    let mut context = values.clone();
    context["targetingKey"] = json!("ann");
    for (key, expected) in [("half", "0.5"), ("five", "5"), ("seven", "7")] {
        let asked = json!({ "user": user, "keys": [key] });
        let native = client.post("/v1/flags/evaluate?environment=dev", &asked);
        assert_eq!(native.status, 200, "{}", native.text());
        assert!(native.text().contains(&format!(r#""value":{expected},"#)), "{}", native.text());
        let why = client.post(&format!("/v1/flags/{key}/explain?environment=dev"), &user).json();
        assert_eq!(why["reason"], "asked", "{why}");
        let ofrep = format!("/ofrep/v1/evaluate/flags/{key}");
        let asked = || sdk.post(&ofrep, &json!({ "context": context })).text();
        let found = format!(r#""value":{expected},"reason":"TARGETING_MATCH""#);
        eventually("the flag over OFREP", || Some(asked()).filter(|it| it.contains(&found)));
        let asked = json!({ "user": user, "filter": { "keys": [key] } });
        let featbit = sdk.clone().header("Authorization", &secret);
        let featbit = featbit.post("/api/public/featureflag/evaluate", &asked).json();
        assert_eq!(featbit[0]["variation"]["matchReason"], "asked", "{featbit}");
    }
}

/// As the streams have it.
#[test]
fn an_attribute_that_is_missing_is_what_the_configuration_says() {
    let launch = Launch::usual().env("FAREGATE_FLAGS_MISSING_ATTRIBUTE", "absent");
    for (server, reason) in [(Server::start(), "rule"), (Server::start_with(launch), "default")] {
        let client = server.tenant();
        let mut flag = checkout();
        flag["targetUsers"] = json!([]);
        flag["rules"][0]["name"] = json!("rule");
        flag["rules"][0]["conditions"] =
            json!([{ "property": "plan", "op": "NotEqual", "value": "free" }]);
        let imported =
            client.post("/v1/environments/dev/import", &json!({ "featureFlags": [flag] }));
        assert_eq!(imported.status, 200, "{}", imported.text());
        let explained = client.get("/v1/flags/new-checkout/explain?user=joe").json();
        assert_eq!(explained["reason"], reason);
        let found =
            client.post("/v1/flags/evaluate", &json!({ "user": { "keyId": "joe" } })).json();
        assert_eq!(found[0]["reason"], reason);
    }
}

/// The answer to a write comes once this process evaluates with it.
#[test]
fn a_written_flag_is_read_at_once() {
    let (server, client) = with_sample();
    let mut flag = checkout();
    for field in ["id", "unknownToUs", "rules", "targetUsers", "fallthrough"] {
        flag.as_object_mut().unwrap().remove(field);
    }
    flag["key"] = json!("switch");
    let everybody = json!([{ "id": "on", "rollout": [0, 1], "exptRollout": 1 }]);
    flag["fallthrough"] = json!({ "variations": everybody });
    let made = client.post("/v1/flags?environment=dev", &flag);
    assert_eq!(made.status, 201, "{}", made.text());
    let secrets = secrets(&client);
    let dev = secrets.iter().find(|it| it.0 == "dev" && it.1 == "client").unwrap();
    let ofrep = server.client().header("X-API-Key", &dev.2);
    let old = (0..200).filter(|time| {
        let is_on = time % 2 == 0;
        let body = json!({ "isEnabled": is_on }).to_string();
        let path = "/v1/flags/switch?environment=dev";
        assert_eq!(client.send("PATCH", path, Some(body.as_bytes())).status, 200);
        let read = ofrep.post("/ofrep/v1/evaluate/flags/switch", &json!({})).json();
        read["value"] != json!(is_on)
    });
    assert_eq!(old.count(), 0, "of 200");
}
