//! Two environments compared, and one copied into the other.

use expect_test::expect;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::{Server, faregate};

const STAFF: &str = "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0001";
const FOUNDERS: &str = "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0002";
const GUESTS: &str = "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0003";

/// A flag that is on for everybody.
fn flag(key: &str) -> Value {
    let everybody = json!([{ "id": "on", "rollout": [0, 1], "exptRollout": 1 }]);
    json!({
        "key": key,
        "name": key.to_uppercase(),
        "variationType": "boolean",
        "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
        "isEnabled": true,
        "disabledVariationId": "off",
        "fallthrough": { "variations": everybody },
    })
}

fn condition(property: &str, id: &str) -> Value {
    json!([{ "property": property, "op": "", "value": json!([id]).to_string() }])
}

/// A flag whose rule uses the segment of staff, which uses founders; another flag; and guests, which
/// no rule uses.
fn dev() -> Value {
    let mut checkout = flag("checkout");
    let everybody = checkout["fallthrough"]["variations"].clone();
    checkout["rules"] = json!([{ "id": "r", "name": "staff", "variations": everybody,
        "conditions": condition("User is in segment", STAFF) }]);
    let founders = json!([{ "id": "r", "name": "no founders",
        "conditions": condition("User is not in segment", FOUNDERS) }]);
    json!({ "featureFlags": [checkout, flag("dark-mode")], "segments": [
        { "id": STAFF, "name": "Staff", "rules": founders },
        { "id": FOUNDERS, "name": "Founders", "included": ["ada"] },
        { "id": GUESTS, "name": "Guests" },
    ] })
}

/// `dev`, and `prod` with a flag of its own and one that is another one in `dev`.
fn start() -> (Server, Client) {
    let server = Server::start();
    let client = server.tenant();
    let mut dark = flag("dark-mode");
    dark["isEnabled"] = json!(false);
    dark["description"] = json!("not yet");
    dark["creatorId"] = json!("somebody else");
    let prod = json!({ "featureFlags": [dark, flag("billing")] });
    for (key, documents) in [("dev", dev()), ("prod", prod)] {
        let imported = client.post(&format!("/v1/environments/{key}/import"), &documents);
        assert_eq!(imported.status, 200, "{}", imported.text());
    }
    (server, client)
}

fn diff(client: &Client) -> Value {
    let answer = client.get("/v1/environments/prod/diff?from=dev");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn copy(client: &Client, body: &Value) -> Answer {
    client.post("/v1/environments/prod/copy", body)
}

/// The environment's version, without the clock.
fn version(client: &Client, key: &str) -> i64 {
    let listed = client.get("/v1/environments").json();
    let found = listed.as_array().unwrap().iter().find(|it| it["key"] == key).unwrap();
    found["version"].as_i64().unwrap()
}

#[test]
fn differences_are_listed_field_by_field() {
    let (_server, client) = start();
    let found = diff(&client);
    for (side, key) in [("here", "prod"), ("there", "dev")] {
        assert_eq!(found[side], json!({ "key": key, "version": version(&client, key) }));
    }
    let dark = &found["flags"]["different"][0];
    let versions = (&dark["versionHere"], &dark["versionThere"]);
    assert_eq!(versions, (&found["here"]["version"], &found["there"]["version"]));
    let shown = serde_json::to_string(&dark["fields"]).unwrap();
    expect![[r#"[{"field":"description","here":"not yet","there":null},{"field":"isEnabled","here":false,"there":true}]"#]].assert_eq(&shown);
    let keys = |at: &str| -> Vec<String> {
        let listed = found.pointer(at).unwrap().as_array().unwrap().iter();
        listed.map(|it| it["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys("/flags/onlyHere"), ["billing"]);
    assert_eq!(keys("/flags/onlyThere"), ["checkout"]);
    assert_eq!(keys("/flags/different"), ["dark-mode"]);
    assert_eq!(keys("/segments/onlyHere"), Vec::<String>::new());
    assert_eq!(keys("/segments/onlyThere"), [STAFF, FOUNDERS, GUESTS]);
    assert_eq!(found["segments"]["onlyThere"][0]["name"], "Staff");
    for (query, status) in [("", 400), ("?from=prod", 400), ("?from=nowhere", 404)] {
        let refused = client.get(&format!("/v1/environments/prod/diff{query}"));
        assert_eq!(refused.status, status, "{query}: {}", refused.text());
    }
    assert_eq!(client.get("/v1/environments/nowhere/diff?from=dev").status, 404);
}

#[test]
fn flag_is_copied_with_the_segments_it_uses() {
    let (_server, client) = start();
    let answer = copy(&client, &json!({ "from": "dev", "flags": ["checkout"] }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let now = version(&client, "prod");
    let expected = json!({
        "from": "dev",
        "version": now,
        "flags": { "made": ["checkout"], "replaced": [] },
        "segments": { "made": [STAFF, FOUNDERS], "replaced": [] },
    });
    assert_eq!((answer.json(), answer.header("etag")), (expected, Some(&*format!("\"{now}\""))));
    let explained = client.get("/v1/flags/checkout/explain?user=joe&environment=prod").json();
    assert_eq!(explained["reason"], "staff");
    // It is another flag than that of dev, and guests were not requested.
    let copied = client.get("/v1/flags/checkout?environment=prod").json();
    let first = client.get("/v1/flags/checkout").json();
    assert_ne!(copied["id"], first["id"]);
    assert_eq!(copied["rules"], first["rules"]);
    assert_eq!(client.get(&format!("/v1/segments/{GUESTS}?environment=prod")).status, 404);

    // The same again changes nothing, and gives no version.
    let again = copy(&client, &json!({ "from": "dev", "flags": ["checkout"] })).json();
    let nothing = json!({ "made": [], "replaced": [] });
    assert_eq!((&again["version"], &again["flags"]), (&json!(now), &nothing));
    assert_eq!(version(&client, "prod"), now);
    let guests = copy(&client, &json!({ "from": "dev", "segments": [GUESTS] })).json();
    assert_eq!((&guests["segments"]["made"], &guests["flags"]), (&json!([GUESTS]), &nothing));
}

#[test]
fn whole_environment_is_copied_with_archived_flags() {
    let (_server, client) = start();
    assert_eq!(client.delete("/v1/flags/checkout").status, 204);
    let answer = copy(&client, &json!({ "from": "dev" })).json();
    assert_eq!(answer["flags"], json!({ "made": ["checkout"], "replaced": ["dark-mode"] }));
    assert_eq!(answer["segments"]["made"], json!([STAFF, FOUNDERS, GUESTS]));
    let left = diff(&client);
    let none = json!({ "onlyHere": [], "onlyThere": [], "different": [] });
    assert_eq!(left["segments"], none);
    assert_eq!(
        (&left["flags"]["different"], &left["flags"]["onlyThere"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(left["flags"]["onlyHere"][0]["key"], "billing", "what is only here stays");
    let copied = client.get("/v1/flags/checkout?environment=prod").json();
    assert_eq!(copied["isArchived"], true);
}

#[test]
fn copy_upon_another_version_is_refused() {
    let (_server, client) = start();
    let (seen, everything) = (diff(&client)["here"]["version"].clone(), json!({ "from": "dev" }));
    let off = json!({ "isEnabled": false }).to_string();
    let path = "/v1/flags/billing?environment=prod";
    assert_eq!(client.send("PATCH", path, Some(off.as_bytes())).status, 200);
    let now = version(&client, "prod");
    let refused = copy(&client.clone().header("If-Match", &format!("\"{seen}\"")), &everything);
    assert_eq!((refused.status, &refused.json()["version"]), (412, &json!(now)));
    assert_eq!(refused.json()["detail"], format!("prod is in the version {now}"));
    assert_eq!(version(&client, "prod"), now);
    let made = copy(&client.clone().header("If-Match", &format!("\"{now}\"")), &everything);
    assert_eq!(made.status, 200, "{}", made.text());
    // Also where there is nothing to change.
    let late = copy(&client.clone().header("If-Match", &format!("\"{now}\"")), &everything);
    assert_eq!(late.status, 412, "{}", late.text());
}

#[test]
fn copy_with_a_conflict_lists_it_and_copies_nothing() {
    let (server, client) = start();
    let before = client.get("/v1/environments/prod/export").json();
    let refused = copy(
        &client,
        &json!({ "from": "dev", "flags": ["checkout", "x"], "segments": [STAFF, "y"] }),
    );
    assert_eq!(refused.status, 422, "{}", refused.text());
    expect![[r#"[{"field":"flags[1]","reason":"there is no such flag in dev"},{"field":"segments[1]","reason":"there is no such segment in dev"}]"#]]
        .assert_eq(&refused.json()["problems"].to_string());
    // Here founders use staff: with dev's staff that would be a cycle.
    let rules =
        json!([{ "id": "r", "name": "r", "conditions": condition("User is in segment", STAFF) }]);
    let circle = json!({ "segments": [
        { "id": STAFF, "name": "Staff" },
        { "id": FOUNDERS, "name": "Founders", "rules": rules },
    ] });
    assert_eq!(client.post("/v1/environments/prod/import", &circle).status, 200);
    let dev = client.get("/v1/environments/dev/export").json();
    let fits = copy(&client, &json!({ "from": "dev", "segments": [STAFF] }));
    assert_eq!(fits.status, 200, "the founders come along: {}", fits.text());
    assert_eq!(client.get("/v1/environments/dev/export").json(), dev);
    for (body, status, field) in [
        (json!({}), 400, "from"),
        (json!({ "from": "prod" }), 400, "from"),
        (json!({ "from": "dev", "flag": [] }), 400, "flag"),
    ] {
        let refused = copy(&client, &body);
        let named = refused.json()["field"].clone();
        assert_eq!((refused.status, named), (status, json!(field)), "{body}");
    }
    assert_eq!(copy(&client, &json!({ "from": "nowhere" })).status, 404);
    let role = json!({ "role": "reader", "permissions": ["flag:read"] });
    assert_eq!(client.post("/1.0/kb/security/roles", &role).status, 201);
    let user = json!({ "username": "reader", "password": "x", "roles": ["reader"] });
    assert_eq!(client.post("/1.0/kb/security/users", &user).status, 201);
    let reader = client.clone().user("reader", "x");
    assert_eq!(copy(&reader, &json!({ "from": "dev" })).status, 403);
    assert_eq!(reader.get("/v1/environments/prod/diff?from=dev").status, 200);
    // Another tenant's environments are others.
    let other = json!({ "apiKey": "eve", "apiSecret": "adam" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &other).status, 201);
    let other = server.client().tenant("eve", "adam");
    let nothing = copy(&other, &json!({ "from": "dev" })).json();
    assert_eq!(nothing["flags"]["made"], json!([]));
    assert_eq!(before["featureFlags"].as_array().unwrap().len(), 2);
}

#[test]
fn environments_are_compared_and_copied_from_the_command_line() {
    let (server, client) = start();
    let run = |arguments: &[&str]| {
        let mut command = faregate(&["flags"]);
        command.args(arguments).args(["--url", &server.url, "--environment", "prod"]);
        command.envs([("FAREGATE_PASSWORD", "password"), ("FAREGATE_API_SECRET", "lazar")]);
        let output = command.env("FAREGATE_API_KEY", "bob").output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, said) = run(&["diff", "--from", "dev"]);
    assert_eq!(code, Some(1));
    expect![[r#"
        flag billing (BILLING): only in prod
        flag checkout (CHECKOUT): only in dev
        flag dark-mode (DARK-MODE): different
          description: "not yet" in prod, null in dev
          isEnabled: false in prod, true in dev
        segment 0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0001 (Staff): only in dev
        segment 0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0002 (Founders): only in dev
        segment 0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0003 (Guests): only in dev
    "#]]
    .assert_eq(&said);
    let (code, said) = run(&["diff", "--from", "dev", "--json"]);
    assert_eq!((code, serde_json::from_str::<Value>(&said).unwrap()), (Some(1), diff(&client)));
    let (code, said) = run(&["copy", "checkout", "--from", "dev", "--upon", "7"]);
    assert!(code == Some(1) && said.contains("prod is in the version"), "{said}");
    let upon = version(&client, "prod").to_string();
    let (code, said) = run(&["copy", "checkout", "--from", "dev", "--upon", &upon]);
    let now = version(&client, "prod");
    let expected = format!(
        "made flag checkout\nmade segment {STAFF}\nmade segment {FOUNDERS}\nprod is in the version {now} now\n"
    );
    assert_eq!((code, said), (Some(0), expected));
    let (code, said) = run(&["copy", "checkout", "--from", "dev"]);
    assert_eq!((code, said.as_str()), (Some(0), "prod has all of it already\n"));
    let (code, said) = run(&["copy", "--from", "dev", "--segment", GUESTS]);
    assert!(code == Some(0) && said.starts_with(&format!("made segment {GUESTS}\n")), "{said}");
    let (code, said) = run(&["copy", "nothing", "--from", "dev"]);
    let missing = "faregate: 422 Unprocessable Entity: fields are wrong: 1\n  flags[0]: there is no such flag in dev\n";
    assert_eq!((code, said.as_str()), (Some(1), missing));
    let off = json!({ "isArchived": true }).to_string();
    let path = "/v1/flags/billing?environment=prod";
    assert_eq!(client.send("DELETE", path, Some(off.as_bytes())).status, 204);
    assert_eq!(run(&["copy", "--from", "dev"]).0, Some(0));
    let copied = json!({ "from": "prod" });
    assert_eq!(client.post("/v1/environments/dev/copy", &copied).status, 200);
    assert_eq!(run(&["diff", "--from", "dev"]), (Some(0), String::new()));
}
