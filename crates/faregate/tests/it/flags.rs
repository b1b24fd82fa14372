//! Feature flags over the native API: environments and their secrets, flags and segments, whole
//! environments in FeatBit's shape, and why a user gets what.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir, run};

const STAFF: &str = "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0001";

fn patch(client: &Client, path: &str, body: &Value) -> Answer {
    client.send("PATCH", path, Some(body.to_string().as_bytes()))
}

/// A flag that is on for the staff and for a part of the others.
pub fn checkout() -> Value {
    let everybody = |id: &str| json!([{ "id": id, "rollout": [0, 1], "exptRollout": 1 }]);
    json!({
        "id": "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f1001",
        "createdAt": "2024-02-03T04:05:06.789Z",
        "updatedAt": "2024-02-04T04:05:06.789Z",
        "creatorId": "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f9001",
        "updatorId": "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f9001",
        "envId": "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f9999",
        "name": "New checkout",
        "key": "new-checkout",
        "variationType": "boolean",
        "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
        "targetUsers": [{ "keyIds": ["ada"], "variationId": "on" }],
        "rules": [{
            "id": "rule-1",
            "name": "staff",
            "dispatchKey": null,
            "includedInExpt": false,
            "conditions": [{ "property": "User is in segment", "op": null, "value": json!([STAFF]).to_string() }],
            "variations": everybody("on"),
        }],
        "isEnabled": true,
        "disabledVariationId": "off",
        "fallthrough": { "dispatchKey": null, "includedInExpt": true, "variations": [
            { "id": "on", "rollout": [0, 0.25], "exptRollout": 1 },
            { "id": "off", "rollout": [0.25, 1], "exptRollout": 1 },
        ] },
        "exptIncludeAllTargets": false,
        "tags": ["shop"],
        "isArchived": false,
        "unknownToUs": 1,
    })
}

fn staff() -> Value {
    json!({
        "id": STAFF,
        "createdAt": "2024-02-03T04:05:06.789Z",
        "updatedAt": "2024-02-03T04:05:06.789Z",
        "envId": "",
        "name": "Staff",
        "description": "who works here",
        "included": ["grace"],
        "excluded": ["mallory"],
        "rules": [{ "id": "r", "name": "by mail", "conditions": [
            { "property": "mail", "op": "EndsWith", "value": "@example.com" },
        ] }],
        "isArchived": false,
    })
}

fn sample() -> Value {
    json!({ "featureFlags": [checkout()], "segments": [staff()] })
}

/// A server with a tenant that has the sample in `dev`.
pub fn with_sample() -> (Server, Client) {
    let server = Server::start();
    let client = server.tenant();
    let imported = client.post("/v1/environments/dev/import", &sample());
    assert_eq!(imported.status, 200, "{}", imported.text());
    (server, client)
}

pub fn secrets(client: &Client) -> Vec<(String, String, String)> {
    let listed = client.get("/v1/environments").json();
    let mut found = vec![];
    for environment in listed.as_array().unwrap() {
        for secret in environment["secrets"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (kind, value) = (text(&secret["type"]), text(&secret["value"]));
            found.push((text(&environment["key"]), kind, value));
        }
    }
    found
}

/// The secret of the environment `dev` for clients.
pub fn client_secret(client: &Client) -> String {
    let found = secrets(client).into_iter().find(|it| (&*it.0, &*it.1) == ("dev", "client"));
    found.expect("every environment has one").2
}

#[test]
fn every_tenant_has_two_environments_with_secrets() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let listed = client.get("/v1/environments").json();
    let listed = listed.as_array().unwrap();
    let names: Vec<&str> = listed.iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert_eq!(names, ["dev", "prod"]);
    for environment in listed {
        assert_eq!(environment["project"], "default");
        assert_eq!(environment["version"], 0);
        let id = Uuid::parse_str(environment["id"].as_str().unwrap()).unwrap();
        let kinds: Vec<&Value> =
            environment["secrets"].as_array().unwrap().iter().map(|it| &it["type"]).collect();
        assert_eq!(kinds, ["server", "client"]);
        for secret in environment["secrets"].as_array().unwrap() {
            let value = secret["value"].as_str().unwrap();
            assert_eq!(value.len(), 44);
            assert_eq!(BASE64.decode(&value[22..]).unwrap(), id.to_bytes_le());
        }
    }
    let known = secrets(&client);
    let other = json!({ "apiKey": "eve", "apiSecret": "adam" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &other).status, 201);
    let others = secrets(&server.client().tenant("eve", "adam"));
    assert_eq!(others.len(), 4);
    assert!(others.iter().all(|it| !known.contains(it)));
    drop(server);

    // They are the same after a restart, and nowhere on the disk as they are.
    let server = Server::start_in(dir.path(), Launch::usual());
    assert_eq!(secrets(&server.client().tenant("bob", "lazar")), known);
    drop(server);
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = if path.is_file() { std::fs::read(&path).unwrap() } else { vec![] };
        for (.., value) in &known {
            let random = &value.as_bytes()[..22];
            let is_there = bytes.windows(random.len()).any(|window| window == random);
            assert!(!is_there, "a secret is in {}", path.display());
        }
    }

    // With another key they cannot be read, and nothing else is given out in their place.
    std::fs::write(dir.path().join("secrets.key"), [7; 32]).unwrap();
    let server = Server::start_in(dir.path(), Launch::usual());
    let refused = server.client().tenant("bob", "lazar").get("/v1/environments");
    assert_eq!(
        (refused.status, &refused.json()["type"]),
        (500, &json!("urn:faregate:problem:secrets-key-wrong"))
    );
    drop(server);
    std::fs::write(dir.path().join("secrets.key"), [7; 31]).unwrap();
    let data = dir.path().to_str().unwrap();
    let ended = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data]);
    assert!(!ended.status.success());
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("secrets.key: 32 bytes were expected"), "{said}");
}

#[test]
fn concurrent_first_requests_find_the_same_environments() {
    let server = Server::start();
    let client = server.tenant();
    let found: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| secrets(&client))).collect();
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(found[0].len(), 4);
    assert!(found.iter().all(|it| *it == found[0]), "{found:?}");
}

#[test]
fn a_secret_takes_anothers_place() {
    let server = Server::start();
    let client = server.tenant();
    let path = "/v1/environments/prod/secrets";
    let made = client.post(path, &json!({ "type": "server", "name": "next" }));
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    assert_eq!((made["value"].as_str().unwrap().len(), &made["expiresAt"]), (44, &Value::Null));
    assert_eq!(secrets(&client).len(), 5);
    let listed = client.get("/v1/environments").json();
    let first = listed[1]["secrets"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(client.delete(&format!("{path}/{first}?after=3600")).status, 204);
    let listed = client.get("/v1/environments").json();
    assert_eq!(listed[1]["secrets"].as_array().unwrap().len(), 3, "it may be used for an hour");
    assert!(listed[1]["secrets"][0]["expiresAt"].is_string());
    assert_eq!(client.delete(&format!("{path}/{first}")).status, 204);
    let left = secrets(&client);
    assert_eq!(left.len(), 4, "it has ended");
    assert!(left.iter().any(|(.., value)| *value == made["value"]));
    // It is prod's.
    let elsewhere = format!("/v1/environments/dev/secrets/{first}");
    assert_eq!(client.delete(&elsewhere).status, 404);
    let wrong = client.post(path, &json!({ "type": "master", "name": "x" }));
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!("type")));
    assert_eq!(client.post(path, &json!({ "type": "client", "name": "" })).status, 400);
    assert_eq!(client.delete(&format!("{path}/x")).status, 400);
    assert_eq!(client.post("/v1/environments/test/secrets", &json!({})).status, 404);
}

#[test]
fn an_environment_is_made() {
    let server = Server::start();
    let client = server.tenant();
    let new = json!({ "key": "test", "project": "shop", "name": "Test" });
    let made = client.post("/v1/environments", &new);
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.json()["secrets"].as_array().unwrap().len(), 2);
    let one = client.get("/v1/environments/test?project=shop");
    assert_eq!((one.status, one.json()), (200, made.json()));
    assert_eq!(client.get("/v1/environments/test").status, 404);
    assert_eq!(client.get("/v1/flags?environment=test&project=shop").status, 200);
    assert_eq!(client.get("/v1/flags?environment=test").status, 404);
    let again = client.post("/v1/environments", &new);
    assert_eq!(
        (again.status, &again.json()["type"]),
        (409, &json!("urn:faregate:problem:already-exists"))
    );
    let dev = client.post("/v1/environments", &json!({ "key": "dev" }));
    assert_eq!(dev.status, 409, "every tenant has it");
    for (body, field) in [
        (json!({ "key": "a b" }), "key"),
        (json!({ "key": "a", "project": "/" }), "project"),
        (json!({ "key": "a", "name": " " }), "name"),
        (json!({ "key": "a", "colour": "red" }), "colour"),
        (json!({}), "key"),
    ] {
        let refused = client.post("/v1/environments", &body);
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{body}");
    }
}

#[test]
fn permissions() {
    let (server, admin) = with_sample();
    let may = |name: &str, permissions: &[&str]| {
        let role = json!({ "role": name, "permissions": permissions });
        let made = admin.post("/1.0/kb/security/roles", &role);
        assert_eq!(made.status, 201, "{}", made.text());
        let user = json!({ "username": name, "password": "x", "roles": [name] });
        assert_eq!(admin.post("/1.0/kb/security/users", &user).status, 201);
        admin.clone().user(name, "x")
    };
    let (flag, off) = ("/v1/flags/new-checkout", json!({ "isEnabled": false }));
    let unprivileged = may("nobody", &["account:create"]);
    for (path, permission) in [
        ("/v1/environments", "environment:read"),
        ("/v1/flags", "flag:read"),
        (flag, "flag:read"),
        ("/v1/flags/new-checkout/explain?user=x", "flag:read"),
        ("/v1/segments", "flag:read"),
        ("/v1/environments/dev/export", "flag:read"),
        ("/v1/environments/dev/diff?from=prod", "flag:read"),
    ] {
        let refused = unprivileged.get(path);
        assert_eq!(
            (refused.status, &refused.json()["detail"]),
            (403, &json!(format!("the user does not have the permission {permission}")))
        );
    }
    let user = json!({ "user": { "keyId": "x" } });
    assert_eq!(unprivileged.post("/v1/flags/evaluate", &user).status, 403);
    let reader = may("reader", &["flag:read", "environment:read"]);
    assert_eq!(reader.post("/v1/flags/evaluate", &user).status, 200);
    assert_eq!(reader.get(flag).status, 200);
    let listed = reader.get("/v1/environments").json();
    assert_eq!((listed.as_array().unwrap().len(), listed[0].get("secrets")), (2, None));
    assert_eq!(patch(&reader, flag, &off).status, 403);
    assert_eq!(reader.put(flag, &off).status, 403);
    assert_eq!(reader.delete(flag).status, 403);
    assert_eq!(reader.post("/v1/flags", &off).status, 403);
    assert_eq!(reader.post("/v1/environments", &json!({ "key": "x" })).status, 403);
    let secret = json!({ "type": "server", "name": "x" });
    assert_eq!(reader.post("/v1/environments/dev/secrets", &secret).status, 403);
    assert_eq!(reader.post("/v1/environments/dev/import", &sample()).status, 403);
    let writer = may("writer", &["flag:write"]);
    assert_eq!(patch(&writer, flag, &off).status, 200);
    let creator = may("creator", &["environment:*"]);
    let made = creator.post("/v1/environments", &json!({ "key": "x" }));
    assert_eq!((made.status, made.json().get("secrets")), (201, None));
    drop(server);
}

#[test]
fn imported_environment_is_exported_unchanged() {
    let (server, client) = with_sample();
    let out = client.get("/v1/environments/dev/export").json();
    let (flag, segment) = (&out["featureFlags"][0], &out["segments"][0]);
    let environment = client.get("/v1/environments").json()[0].clone();
    for document in [flag, segment] {
        assert_eq!(document["envId"], environment["id"]);
        let updated = document["updatedAt"].as_str().unwrap();
        let updated: jiff::Timestamp = updated.parse().unwrap();
        assert_eq!(updated.as_millisecond(), environment["version"].as_i64().unwrap());
    }
    let ours = ["createdAt", "updatedAt", "envId"];
    let same = |given: &Value, out: &Value| {
        let mut given = given.clone();
        given.as_object_mut().unwrap().remove("unknownToUs");
        for field in ours {
            given[field] = out[field].clone();
        }
        if let Some(op) = given.pointer_mut("/rules/0/conditions/0/op")
            && op.is_null()
        {
            *op = json!("");
        }
        // 0 and 0.0 are the same number.
        let numbers = |value: &Value| {
            value.to_string().replace(".0,", ",").replace(".0]", "]").replace(".0}", "}")
        };
        assert_eq!(numbers(&given), numbers(out));
    };
    same(&checkout(), flag);
    same(&staff(), segment);
    // What was given out is taken in elsewhere, and there again.
    let copied = client.post("/v1/environments/prod/import", &out);
    assert_eq!(copied.status, 200, "{}", copied.text());
    let again = client.get("/v1/environments/prod/export").json();
    same(flag, &again["featureFlags"][0]);
    same(segment, &again["segments"][0]);
    let before = again["featureFlags"][0]["updatedAt"].as_str().unwrap().to_owned();
    let repeated = client.post("/v1/environments/prod/import", &out).json();
    assert_eq!((&repeated["featureFlags"], &repeated["segments"]), (&json!(1), &json!(1)));
    let after = client.get("/v1/environments/prod/export").json();
    let after = after["featureFlags"][0]["updatedAt"].as_str().unwrap();
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    assert!(at(after) > at(&before), "{after} follows {before}");
    drop(server);
}

#[test]
fn null_in_an_import_is_a_missing_field() {
    let (_server, client) = with_sample();
    let (mut flag, mut segment) = (checkout(), staff());
    for field in ["creatorId", "updatorId", "name", "description", "targetUsers", "tags"] {
        flag[field] = Value::Null;
    }
    flag["rules"][0]["name"] = Value::Null;
    flag["fallthrough"]["variations"][0]["exptRollout"] = Value::Null;
    for field in ["description", "included", "rules"] {
        segment[field] = Value::Null;
    }
    let import = json!({ "featureFlags": [flag], "segments": [segment] });
    let imported = client.post("/v1/environments/dev/import", &import);
    assert_eq!(imported.status, 200, "{}", imported.text());
    let flag = client.get("/v1/flags/new-checkout").json();
    assert_eq!(
        (&flag["tags"], &flag["name"], &flag["targetUsers"]),
        (&json!([]), &json!(""), &json!([]))
    );
    let segment = client.get(&format!("/v1/segments/{STAFF}")).json();
    assert_eq!((&segment["included"], &segment["description"]), (&json!([]), &json!("")));
}

/// Checks the problems of a refused import, and that it changed nothing.
fn refuse(client: &Client, import: &Value, expected: Expect) {
    let before = client.get("/v1/environments/dev/export").json();
    let refused = client.post("/v1/environments/dev/import", import);
    assert_eq!(refused.status, 422, "{}", refused.text());
    let body = refused.json();
    assert_eq!(body["type"], "urn:faregate:problem:wrong-fields");
    let lines: Vec<String> = body["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{}: {}", it["field"].as_str().unwrap(), it["reason"].as_str().unwrap()))
        .collect();
    expected.assert_eq(&lines.join("\n"));
    assert_eq!(client.get("/v1/environments/dev/export").json(), before);
}

#[test]
fn an_import_with_one_bad_flag_takes_nothing_in_and_lists_every_problem() {
    let (server, client) = with_sample();
    let (mut good, mut bad) = (checkout(), checkout());
    good["key"] = json!("good");
    good["id"] = json!(Uuid::now_v7());
    bad["key"] = json!("bad");
    bad["id"] = json!("no uuid");
    bad["disabledVariationId"] = json!("nothing");
    bad["fallthrough"]["variations"][1]["rollout"] = json!([0.25, 0.9]);
    bad["rules"][0]["conditions"][0] =
        json!({ "property": "mail", "op": "MatchRegex", "value": "((a{1000}){1000}){1000}" });
    let import = json!({ "featureFlags": [good, bad], "segments": [] });
    refuse(
        &client,
        &import,
        expect![[r#"
        featureFlags[1].id: is no UUID
        featureFlags[1].disabledVariationId: there is no variation "nothing"
        featureFlags[1].rules[0].conditions[0].value: the regular expression cannot be used: it takes too much memory
        featureFlags[1].fallthrough.variations: the parts end at 0.9, 1 was expected"#]],
    );
    let mut twice = sample();
    twice["featureFlags"].as_array_mut().unwrap().push(checkout());
    refuse(&client, &twice, expect![[r#"featureFlags[1].key: "new-checkout" is there twice"#]]);
    let segment_using = |id: &str, other: &str| {
        let conditions = json!([{ "property": "User is in segment", "op": "", "value": json!([other]).to_string() }]);
        json!({ "id": id, "name": id, "rules": [{ "id": "r", "name": "r", "conditions": conditions }] })
    };
    let (a, b) = (STAFF.replace('1', "a"), STAFF.replace('1', "b"));
    let cycle = json!({ "segments": [segment_using(&a, &b), segment_using(&b, &a)] });
    refuse(
        &client,
        &cycle,
        expect![[r#"
        segments[0].rules: the segment asks about itself: 0b3ff6f2-2f42-4f0c-8a3c-bf6f8b7f000b > 0b3ff6f2-2f42-4f0c-8a3c-af6f8b7f000a
        segments[1].rules: the segment asks about itself: 0b3ff6f2-2f42-4f0c-8a3c-af6f8b7f000a > 0b3ff6f2-2f42-4f0c-8a3c-bf6f8b7f000b"#]],
    );
    let mut lost = sample();
    lost["featureFlags"][0]["rules"][0]["conditions"][0]["value"] = json!(json!([a]).to_string());
    refuse(
        &client,
        &lost,
        expect![[
            r#"featureFlags[0].rules[0].conditions[0].value: there is no segment "0b3ff6f2-2f42-4f0c-8a3c-af6f8b7f000a""#
        ]],
    );
    for (body, field) in [
        ("", "body"),
        ("{", "body"),
        ("[]", "body"),
        ("{\"featureFlags\": 1}", "featureFlags"),
        ("{}", "body"),
    ] {
        let path = "/v1/environments/dev/import";
        let refused = client.send("POST", path, Some(body.as_bytes()));
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{body}");
    }
    let large = vec![b' '; 1024 * 1024 + 1];
    let refused = client.send("POST", "/v1/environments/dev/import", Some(&large));
    assert_eq!(
        (refused.status, &refused.json()["type"]),
        (413, &json!("urn:faregate:problem:body-too-large"))
    );
    drop(server);
}

#[test]
fn fields_of_another_type_are_problems_of_an_import_like_all_others() {
    let (_server, client) = with_sample();
    let (mut odd, mut bad, mut other) = (checkout(), checkout(), checkout());
    odd["isEnabled"] = json!("yes");
    bad["key"] = json!("bad");
    bad["id"] = json!("no uuid");
    bad["fallthrough"]["variations"][1]["rollout"] = json!([0.25, 0.9]);
    other["fallthrough"]["variations"][0]["rollout"] = json!(["0", 1]);
    other["disabledVariationId"] = json!("of what cannot be read nothing else is said");
    let import =
        json!({ "featureFlags": [odd, bad, other], "segments": [{ "id": STAFF, "included": 1 }] });
    refuse(
        &client,
        &import,
        expect![[r#"
            segments[0].included: invalid type: integer `1`, expected a sequence
            featureFlags[0].isEnabled: invalid type: string "yes", expected a boolean
            featureFlags[2].fallthrough.variations[0].rollout[0]: invalid type: string "0", expected f64
            featureFlags[1].id: is no UUID
            featureFlags[1].fallthrough.variations: the parts end at 0.9, 1 was expected"#]],
    );
    let misnamed = json!({ "flags": [checkout()], "segments": [staff()] });
    let path = "/v1/environments/dev/import";
    let refused = client.post(path, &misnamed);
    assert_eq!((refused.status, &refused.json()["field"]), (400, &json!("flags")));
}

#[test]
fn an_import_that_is_tried_changes_nothing_and_finds_what_is_wrong() {
    let server = Server::start();
    let client = server.tenant();
    let tried = client.post("/v1/environments/dev/import?dryRun=true", &sample());
    let expected = json!({ "featureFlags": 1, "segments": 1, "version": 0, "dryRun": true });
    assert_eq!((tried.status, tried.json()), (200, expected));
    let nothing = json!({ "featureFlags": [], "segments": [] });
    assert_eq!(client.get("/v1/environments/dev/export").json(), nothing);
    let refused = client.post("/v1/environments/dev/import?dryRun=maybe", &sample());
    assert_eq!((refused.status, &refused.json()["field"]), (400, &json!("dryRun")));

    // More than there may be: also where each import alone is not too much.
    let segments = |prefix: &str| {
        let segment = |n| json!({ "id": Uuid::now_v7(), "name": format!("{prefix}{n}") });
        json!({ "segments": (0..2_501).map(segment).collect::<Vec<_>>() })
    };
    let first = client.post("/v1/environments/dev/import", &segments("a"));
    assert_eq!(first.json()["dryRun"], false, "{}", first.text());
    for query in ["?dryRun=true", ""] {
        let path = format!("/v1/environments/dev/import{query}");
        let refused = client.post(&path, &segments("b"));
        assert_eq!(refused.status, 400, "{query}");
        let detail = "body: the environment would have more than 5000";
        assert_eq!(refused.json()["detail"], detail);
    }
    drop(server);
}

#[test]
fn flag_is_created_changed_and_archived() {
    let (server, client) = with_sample();
    let mut new = checkout();
    for field in ["unknownToUs", "id", "envId", "createdAt", "updatedAt"] {
        new.as_object_mut().unwrap().remove(field);
    }
    new["key"] = json!("dark.mode_2");
    let path = "/v1/flags/dark.mode_2";
    let made = client.post("/v1/flags?environment=dev", &new);
    assert_eq!(made.status, 201, "{}", made.text());
    let etag = made.header("etag").unwrap().to_owned();
    Uuid::parse_str(made.json()["id"].as_str().unwrap()).unwrap();
    assert_eq!(client.get(path).json(), made.json());
    assert_eq!(client.get(path).header("etag"), Some(etag.as_str()));
    let again = client.post("/v1/flags", &new);
    assert_eq!(
        (again.status, &again.json()["type"]),
        (409, &json!("urn:faregate:problem:already-exists"))
    );

    let upon = |version: &str| client.clone().header("If-Match", version);
    let changed = patch(&upon(&etag), path, &json!({ "isEnabled": false }));
    assert_eq!((changed.status, &changed.json()["isEnabled"]), (200, &json!(false)));
    assert_eq!(changed.json()["name"], "New checkout");
    let newer = changed.header("etag").unwrap().to_owned();
    assert_ne!(newer, etag);
    for refused in [
        patch(&upon(&etag), path, &json!({ "isEnabled": true })),
        upon(&etag).put(path, &made.json()),
        upon(&etag).delete(path),
    ] {
        assert_eq!(refused.status, 412, "{}", refused.text());
        assert_eq!(refused.header("etag"), Some(newer.as_str()));
        assert_eq!(format!("\"{}\"", refused.json()["version"]), newer);
    }
    let replaced = upon(&newer).put(path, &made.json());
    assert_eq!((replaced.status, &replaced.json()["isEnabled"]), (200, &json!(true)));
    assert_eq!(replaced.json()["createdAt"], made.json()["createdAt"]);
    let described = patch(&client, path, &json!({ "description": "x", "tags": [] })).json();
    assert_eq!((&described["description"], &described["tags"]), (&json!("x"), &json!([])));
    let undone = patch(&client, path, &json!({ "description": null })).json();
    assert_eq!(undone.get("description"), None);

    let keys = |query: &str| -> Vec<String> {
        let listed = client.get(&format!("/v1/flags{query}")).json();
        let flags = listed["flags"].as_array().unwrap();
        flags.iter().map(|it| it["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(""), ["dark.mode_2", "new-checkout"]);
    assert_eq!(keys("?limit=1"), ["dark.mode_2"]);
    assert_eq!(client.get("/v1/flags?limit=1").json()["more"], true);
    assert_eq!(keys("?offset=1"), ["new-checkout"]);
    assert_eq!(keys("?environment=prod"), Vec::<String>::new());
    assert_eq!(client.delete(path).status, 204);
    assert_eq!(keys(""), ["new-checkout"]);
    assert_eq!(keys("?archived=true"), ["dark.mode_2"]);
    assert_eq!(client.get(path).json()["isArchived"], true);
    assert_eq!(patch(&client, path, &json!({ "isArchived": false })).status, 200);
    assert_eq!(keys("").len(), 2);
    drop(server);
}

#[test]
fn wrong_changes_of_a_flag_are_named() {
    let (server, client) = with_sample();
    let path = "/v1/flags/new-checkout";
    let refused = patch(&client, path, &json!([]));
    assert_eq!((refused.status, &refused.json()["field"]), (400, &json!("body")));
    let refused = patch(&client, path, &json!({ "key": "other" }));
    let expected = json!([{ "field": "key", "reason": "cannot change" }]);
    assert_eq!((refused.status, &refused.json()["problems"]), (422, &expected));
    let refused =
        patch(&client, path, &json!({ "disabledVariationId": "x", "variationType": "y" }));
    assert_eq!(refused.status, 422);
    expect![[r#"{"type":"urn:faregate:problem:wrong-fields","title":"Unprocessable Entity","status":422,"detail":"fields are wrong: 2","problems":[{"field":"variationType","reason":"boolean, string, number or json was expected"},{"field":"disabledVariationId","reason":"there is no variation \"x\""}]}"#]].assert_eq(&refused.text());
    let stale = client.clone().header("If-Match", "now");
    let refused = patch(&stale, path, &json!({ "isEnabled": false }));
    assert_eq!((refused.status, &refused.json()["field"]), (400, &json!("If-Match")));
    assert_eq!(patch(&client, "/v1/flags/nothing", &json!({})).status, 404);
    assert_eq!(client.get("/v1/flags/nothing").status, 404);
    assert_eq!(client.get("/v1/flags?environment=nowhere").status, 404);
    assert_eq!(client.get("/v1/flags?colour=red").status, 400);
    assert_eq!(client.send("TRACE", path, None).status, 405);
    let large = json!({ "description": "x".repeat(600 * 1024) });
    let refused = patch(&client, path, &large);
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(client.get(path).json()["isEnabled"], true);
    drop(server);
}

/// Two who change the same flag at once without naming a version: neither change is lost.
#[test]
fn changes_at_the_same_time_are_both_made() {
    let (server, client) = with_sample();
    let path = "/v1/flags/new-checkout";
    std::thread::scope(|scope| {
        let change = |body: Value| {
            let client = &client;
            scope.spawn(move || assert_eq!(patch(client, path, &body).status, 200))
        };
        let changes =
            [json!({ "isEnabled": false }), json!({ "name": "N" }), json!({ "tags": [] })];
        changes.map(change).into_iter().for_each(|it| it.join().unwrap());
    });
    let flag = client.get(path).json();
    assert_eq!(
        (&flag["isEnabled"], &flag["name"], &flag["tags"]),
        (&json!(false), &json!("N"), &json!([]))
    );
    drop(server);
}

/// A secret is valid as soon as it is returned; no request here waits for it.
#[test]
fn new_secret_is_valid_as_soon_as_it_is_returned() {
    let (_server, client) = with_sample();
    let opens = |secret: &Value, path: &str, body: Option<&[u8]>| {
        let client = client.clone().header("Authorization", secret.as_str().unwrap());
        let method = if body.is_some() { "POST" } else { "GET" };
        let answer = client.send(method, path, body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    };
    let all = "/api/public/sdk/server/latest-all";
    for number in 0..10 {
        let new = json!({ "type": "server", "name": number.to_string() });
        let made = client.post("/v1/environments/dev/secrets", &new);
        opens(&made.json()["value"], all, None);
        let new = json!({ "name": number.to_string(), "environments": "all" });
        let made = client.post("/v1/relay-proxies", &new);
        opens(&made.json()["value"], "/api/public/agent/register", Some(b"\"agent\""));
        let made = client.post("/v1/environments", &json!({ "key": format!("e{number}") }));
        opens(&made.json()["secrets"][0]["value"], all, None);
    }
}

#[test]
fn a_path_that_is_no_text_is_a_problem() {
    let (_server, client) = with_sample();
    for path in ["/v1/flags/%FF", "/v1/flags/%C3/history", "/v1/environments/a%80/export"] {
        let refused = client.get(path);
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!("path")), "{path}");
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    }
}

/// Ids identify flags, for clients that store flags by id.
#[test]
fn no_two_flags_have_the_same_id() {
    let (_server, client) = with_sample();
    let id = checkout()["id"].clone();
    let named = |key: &str, id: &Value| {
        let mut flag = checkout();
        flag.as_object_mut().unwrap().remove("unknownToUs");
        (flag["key"], flag["id"]) = (json!(key), id.clone());
        flag
    };
    let taken = json!([{ "field": "id",
        "reason": "is another flag's: leave it out, and one is made up" }]);
    let refused = client.post("/v1/flags", &named("second", &id));
    assert_eq!((refused.status, &refused.json()["problems"]), (422, &taken));
    let other = json!(Uuid::now_v7());
    let import = |flags: &[Value]| {
        client.post("/v1/environments/dev/import", &json!({ "featureFlags": flags }))
    };
    let refused = import(&[named("a", &other), named("b", &other), named("c", &id)]);
    let fields = refused.json()["problems"].as_array().unwrap().clone();
    let fields: Vec<&Value> = fields.iter().map(|it| &it["field"]).collect();
    assert_eq!(fields, ["featureFlags[1].id", "featureFlags[2].id"], "{}", refused.text());
    // One that is there keeps its id, whatever is said; another environment's are others.
    assert_eq!(import(&[named("new-checkout", &other)]).status, 200);
    assert_eq!(client.get("/v1/flags/new-checkout").json()["id"], id);
    assert_eq!(client.post("/v1/flags", &named("second", &other)).status, 201);
    let prod = json!({ "featureFlags": [named("new-checkout", &id)], "segments": [staff()] });
    assert_eq!(client.post("/v1/environments/prod/import", &prod).status, 200);
}

#[test]
fn segment_is_created_changed_and_archived() {
    let (server, client) = with_sample();
    let new = json!({ "name": "Guests", "included": ["eve"] });
    let made = client.post("/v1/segments", &new);
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/segments/{id}");
    let listed = client.get("/v1/segments").json();
    assert_eq!(listed["segments"].as_array().unwrap().len(), 2);
    let changed = patch(&client, &path, &json!({ "included": ["eve", "joe"] }));
    assert_eq!((changed.status, &changed.json()["included"]), (200, &json!(["eve", "joe"])));
    let refused = patch(&client, &path, &json!({ "id": STAFF }));
    let expected = json!([{ "field": "id", "reason": "cannot change" }]);
    assert_eq!((refused.status, &refused.json()["problems"]), (422, &expected));
    let condition =
        json!({ "property": "User is in segment", "op": "", "value": json!([id]).to_string() });
    let rules = json!([{ "id": "r", "name": "r", "conditions": [condition] }]);
    let refused = patch(&client, &path, &json!({ "rules": rules }));
    assert_eq!(refused.status, 422);
    let said = refused.text().replace(&id, "ID");
    assert!(said.contains("the segment asks about itself"), "{said}");
    let refused = client.post("/v1/segments", &json!({ "id": "x", "name": "X" }));
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(client.delete(&path).status, 204);
    assert_eq!(client.get("/v1/segments").json()["segments"].as_array().unwrap().len(), 1);
    drop(server);
}

#[test]
fn a_decision_is_explained() {
    let (server, client) = with_sample();
    let path = "/v1/flags/new-checkout/explain";
    let explained = client.get(&format!("{path}?user=ada")).json();
    assert_eq!((&explained["reason"], &explained["rules"]), (&json!("targeted"), &json!([])));
    let user = json!({ "keyId": "joe", "name": "Joe", "customizedProperties": [{ "name": "mail", "value": "joe@example.com" }] });
    let explained = client.post(path, &user);
    assert_eq!(explained.status, 200, "{}", explained.text());
    let shown = serde_json::to_string_pretty(&explained.json()).unwrap();
    expect![[r#"
        {
          "key": "new-checkout",
          "reason": "staff",
          "rules": [
            {
              "conditions": [
                {
                  "found": null,
                  "holds": true,
                  "op": "",
                  "property": "User is in segment",
                  "segments": [
                    "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0001"
                  ],
                  "value": "[\"0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0001\"]"
                }
              ],
              "isMet": true,
              "name": "staff"
            }
          ],
          "sendToExperiment": false,
          "spread": {
            "bucket": 0.3207452613860369,
            "interval": [
              0.0,
              1.0
            ],
            "key": "new-checkoutjoe"
          },
          "variation": {
            "id": "on",
            "value": "true"
          }
        }"#]]
    .assert_eq(&shown);
    let explained = client.get(&format!("{path}?user=mallory")).json();
    assert_eq!(explained["reason"], "default");
    assert_eq!(explained["rules"][0]["isMet"], false);
    assert_eq!(explained["spread"]["key"], "new-checkoutmallory");
    patch(&client, "/v1/flags/new-checkout", &json!({ "isEnabled": false }));
    let explained = client.get(&format!("{path}?user=ada")).json();
    assert_eq!(
        (&explained["reason"], &explained["variation"]["value"]),
        (&json!("flag disabled"), &json!("false"))
    );
    for (body, field) in [(json!({}), "keyId"), (json!([1]), "body")] {
        let refused = client.post(path, &body);
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{body}");
    }
    let properties: Vec<Value> =
        (0..10_000).map(|n| json!({ "name": n.to_string(), "value": "" })).collect();
    let refused = client.post(path, &json!({ "keyId": "x", "customizedProperties": properties }));
    assert_eq!((refused.status, &refused.json()["field"]), (400, &json!("customizedProperties")));
    assert_eq!(client.get(path).status, 400);
    assert_eq!(client.get("/v1/flags/nothing/explain?user=x").status, 404);
    drop(server);
}

#[test]
fn resources_of_another_tenant_are_not_found() {
    let (server, client) = with_sample();
    let other = json!({ "apiKey": "eve", "apiSecret": "adam" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &other).status, 201);
    let other = server.client().tenant("eve", "adam");
    assert_eq!(other.get("/v1/flags/new-checkout").status, 404);
    assert_eq!(
        other.get("/v1/environments/dev/export").json(),
        json!({ "featureFlags": [], "segments": [] })
    );
    let secret = client.get("/v1/environments").json()[0]["secrets"][0]["id"].clone();
    let path = format!("/v1/environments/dev/secrets/{}", secret.as_str().unwrap());
    assert_eq!(other.delete(&path).status, 404);
    assert_eq!(secrets(&client).len(), 4);
    assert_eq!(server.client().get("/v1/flags").status, 401);
}
