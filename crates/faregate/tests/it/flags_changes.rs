//! The history of feature flags (fields, author, reason), and changes that wait for a time or for approval.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::flags_streams::{Stream, secret};
use crate::process::{Launch, Server, TempDir, eventually, run};

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
fn history_names_author_fields_and_reason() {
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
    let shown: Vec<Value> = versions
        .iter()
        .map(|it| json!([it["user"], it["reason"], it["comment"], it["changed"]]))
        .collect();
    assert_eq!(
        shown,
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

/// Creates a change. Returns it as the API shows it.
fn keep(client: &Client, change: &Value) -> Value {
    let kept = client.post("/v1/changes", change);
    assert_eq!(kept.status, 201, "{}", kept.text());
    let kept = kept.json();
    assert_eq!(kept, client.get(&format!("/v1/changes/{}", id(&kept))).json());
    kept
}

fn id(change: &Value) -> &str {
    change["id"].as_str().unwrap()
}

/// Who approves what they saw does not approve what became of it meanwhile.
#[test]
fn approval_applies_to_the_reviewed_version() {
    let server = Server::start();
    let admin = server.tenant();
    assert_eq!(admin.post("/v1/flags", &checkout()).status, 201);
    let off = json!({ "flag": "checkout", "patch": { "isEnabled": false }, "needsApproval": true });
    let kept = admin.post("/v1/changes", &off);
    let path = format!("/v1/changes/{}", id(&kept.json()));
    let seen = admin.get(&path).header("etag").unwrap().to_owned();
    assert_eq!(kept.header("etag"), Some(&*seen));
    let bob = user(&admin, "bob", &["flag:read", "flag:approve"]);
    let approve = |etag: &str| {
        bob.clone().header("If-Match", etag).send("POST", &format!("{path}/approve"), None)
    };
    let (revision, version) = seen.trim_matches('"').split_once('-').unwrap();
    assert_eq!(admin.get(FLAG).header("etag"), Some(&*format!("\"{version}\"")));
    for (wrong, status) in [("\"x\"", 400), ("7", 400), (&*format!("\"{revision}-7\""), 412)] {
        let refused = approve(wrong);
        assert_eq!(refused.status, status, "{wrong}: {}", refused.text());
    }
    // The rollout that was seen is another one now.
    assert_eq!(patch(&admin, FLAG, &json!({ "name": "Check-out" })).status, 200);
    let refused = approve(&seen);
    assert_eq!(
        (refused.status, &refused.json()["type"]),
        (412, &json!("urn:faregate:problem:version-changed"))
    );
    let now = admin.get(FLAG).header("etag").unwrap().trim_matches('"').parse::<i64>().unwrap();
    assert_eq!(refused.json()["version"], now);
    let now = bob.get(&path).header("etag").unwrap().to_owned();
    assert_ne!(now, seen);
    let approved = approve(&now);
    assert_eq!((approved.status, &approved.json()["decidedBy"]), (200, &json!("bob")));
    assert_eq!(approve("*").status, 409);
}

fn decide(client: &Client, change: &Value, decision: &str) -> Answer {
    client.send("POST", &format!("/v1/changes/{}/{decision}", id(change)), None)
}

/// A change that has come to its end.
fn settled(client: &Client, change: &Value) -> Value {
    eventually("the change's end", || {
        let now = client.get(&format!("/v1/changes/{}", id(change))).json();
        now["settledAt"].is_string().then_some(now)
    })
}

/// So many days from now, by the server's clock.
fn days_later(client: &Client, days: i64) -> String {
    let clock = client.get("/1.0/kb/test/clock").json();
    let now: jiff::Timestamp = clock["currentUtcTime"].as_str().unwrap().parse().unwrap();
    (now + jiff::SignedDuration::from_hours(24 * days)).to_string()
}

fn wait_days(client: &Client, days: i64) {
    let moved = client.put(&format!("/1.0/kb/test/clock?days={days}"), &json!({}));
    assert_eq!(moved.status, 200, "{}", moved.text());
}

/// A refusal's status and type.
fn refused(answer: &Answer) -> (u16, String) {
    let kind = answer.json()["type"].as_str().unwrap_or_default().to_owned();
    (answer.status, kind.replace("urn:faregate:problem:", ""))
}

fn is(status: u16, kind: &str) -> (u16, String) {
    (status, kind.to_owned())
}

#[test]
fn a_change_is_made_at_its_time_and_pushed() {
    let server = Server::start();
    let client = server.tenant();
    assert_eq!(client.post("/v1/flags", &checkout()).status, 201);
    // A commit is published a moment later.
    eventually("the flag in the cache", || {
        let sdk = server.client().header("Authorization", &secret(&client, "server"));
        let flags = sdk.get("/api/public/sdk/server/latest-all");
        flags.text().contains("checkout").then_some(())
    });
    let mut page = Stream::open(&server, "", "client", &secret(&client, "client"));
    assert_eq!(page.sync(0)["featureFlags"][0]["variation"], "true");
    let due = days_later(&client, 1);
    let off = json!({ "isEnabled": false });
    let change =
        json!({ "flag": "checkout", "patch": off, "dueAt": due, "reason": "the sale ends" });
    let kept = keep(&client, &change);
    let shown = (&kept["status"], &kept["author"], &kept["reason"], &kept["patch"]);
    assert_eq!(shown, (&json!("scheduled"), &json!("admin"), &json!("the sale ends"), &off));
    let diff = json!([{ "field": "isEnabled", "from": true, "to": false }]);
    assert_eq!(kept["diff"], diff);
    let waiting = |status: &str| {
        let listed = client.get(&format!("/v1/changes?status={status}")).json();
        listed["changes"].as_array().unwrap().len()
    };
    assert_eq!((waiting("scheduled"), waiting("applied")), (1, 0));
    // Another user changes another field meanwhile.
    assert_eq!(patch(&client, FLAG, &json!({ "tags": ["shop"] })).status, 200);
    assert_eq!(page.next()["featureFlags"][0]["variation"], "true");

    wait_days(&client, 2);
    assert_eq!(page.next()["featureFlags"][0]["variation"], "false");
    let made = settled(&client, &kept);
    let flag = client.get(FLAG);
    let version = flag.header("etag").unwrap().trim_matches('"').to_owned();
    assert_eq!((&made["status"], &made["version"].to_string()), (&json!("applied"), &version));
    assert_eq!((made.get("diff"), &flag.json()["tags"]), (None, &json!(["shop"])));
    assert_eq!((waiting("scheduled"), waiting("applied")), (0, 1));
    let newest = client.get(&format!("{FLAG}/history?limit=1")).json()["versions"][0].clone();
    assert_eq!((&newest["user"], &newest["reason"]), (&json!("admin"), &json!("the sale ends")));
    assert_eq!(newest["comment"], format!("change {}", id(&kept)));
    assert_eq!(newest["changed"], json!(["isEnabled"]));
}

#[test]
fn a_change_survives_a_kill_and_is_made_once() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    assert_eq!(client.post("/v1/flags", &checkout()).status, 201);
    let change = json!({
        "flag": "checkout", "patch": { "isEnabled": false }, "dueAt": days_later(&client, 1),
    });
    let kept = keep(&client, &change);
    server.kill();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(client.get(&format!("/v1/changes/{}", id(&kept))).json(), kept);
    wait_days(&client, 2);
    let made = settled(&client, &kept);
    assert_eq!(made["status"], "applied");
    server.kill();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    wait_days(&client, 3);
    // It is looked for again by the time that another one is made.
    let on = json!({ "flag": "checkout", "patch": { "isEnabled": true } });
    let on = client.post("/v1/changes", &on);
    assert_eq!(settled(&client, &on.json())["status"], "applied", "{}", on.text());
    assert_eq!(client.get(&format!("/v1/changes/{}", id(&kept))).json(), made);
    let history = client.get(&format!("{FLAG}/history")).json();
    assert_eq!(history["versions"].as_array().unwrap().len(), 3);
}

/// Killed as soon as the first of many changes is made.
#[test]
fn changes_that_were_due_at_a_kill_are_made_once() {
    const FLAGS: usize = 60;
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let named = |at: usize| {
        let mut flag = checkout();
        flag["key"] = json!(format!("flag-{at}"));
        flag
    };
    let flags: Vec<Value> = (0..FLAGS).map(named).collect();
    let imported = client.post("/v1/environments/dev/import", &json!({ "featureFlags": flags }));
    assert_eq!(imported.status, 200, "{}", imported.text());
    let due = days_later(&client, 1);
    for at in 0..FLAGS {
        let off = json!({ "isEnabled": false });
        keep(&client, &json!({ "flag": format!("flag-{at}"), "patch": off, "dueAt": due }));
    }
    let made = |client: &Client| {
        let listed = client.get("/v1/changes?status=applied").json();
        listed["changes"].as_array().unwrap().len()
    };
    wait_days(&client, 2);
    eventually("the first change", || (made(&client) > 0).then_some(()));
    server.kill();

    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    wait_days(&client, 2);
    eventually("the last change", || (made(&client) == FLAGS).then_some(()));
    for at in 0..FLAGS {
        let history = client.get(&format!("/v1/flags/flag-{at}/history")).json();
        let versions = history["versions"].as_array().unwrap();
        assert_eq!((versions.len(), &versions[0]["changed"]), (2, &json!(["isEnabled"])), "{at}");
    }
    let (status, said) = server.stop();
    assert!(status.success(), "{said}");
    let data = dir.path().to_str().unwrap();
    let verified = run(&["verify", "--data-dir", data]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn an_environment_demands_anothers_approval() {
    let server = Server::start();
    let admin = server.tenant();
    let ann = user(&admin, "ann", &["flag:*"]);
    let bob = user(&admin, "bob", &["flag:write"]);
    let carol = user(&admin, "carol", &["flag:read", "flag:approve"]);
    assert_eq!(admin.post("/v1/flags", &checkout()).status, 201);
    let demand = json!({ "changesNeedApproval": true, "name": "Live" });
    assert_eq!(patch(&ann, "/v1/environments/dev", &demand).status, 403);
    let demanded = patch(&admin, "/v1/environments/dev", &demand);
    assert_eq!(demanded.status, 200, "{}", demanded.text());
    let listed = admin.get("/v1/environments").json();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["changesNeedApproval"]),
        (&json!("Live"), &json!(true))
    );
    assert_eq!(
        (&listed[1]["name"], &listed[1]["changesNeedApproval"]),
        (&json!("Prod"), &json!(false))
    );

    let off = json!({ "isEnabled": false });
    let mut another = checkout();
    another["key"] = json!("another");
    let segment = json!({ "name": "Staff", "included": ["grace"] });
    let import = json!({ "featureFlags": [another], "segments": [] });
    for refusal in [
        patch(&admin, FLAG, &off),
        admin.put(FLAG, &checkout()),
        admin.delete(FLAG),
        admin.post("/v1/flags", &another),
        admin.post("/v1/segments", &segment),
        admin.post("/v1/environments/dev/import", &import),
    ] {
        assert_eq!(refused(&refusal), is(409, "approval-needed"));
        let detail = refusal.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("/v1/changes"), "{detail}");
    }
    let elsewhere = admin.post("/v1/environments/prod/import", &import);
    assert_eq!(elsewhere.status, 200, "{}", elsewhere.text());

    let kept = keep(&ann, &json!({ "flag": "checkout", "patch": off }));
    assert_eq!((&kept["status"], &kept["dueAt"]), (&json!("pending"), &Value::Null));
    assert_eq!(refused(&decide(&ann, &kept, "approve")), is(403, "approval-by-author"));
    assert_eq!(refused(&decide(&bob, &kept, "approve")), is(403, "permission-missing"));
    assert_eq!(admin.get(FLAG).json()["isEnabled"], true);
    let approved = decide(&carol, &kept, "approve");
    assert_eq!(approved.status, 200, "{}", approved.text());
    let made = settled(&carol, &kept);
    assert_eq!((&made["status"], &made["decidedBy"]), (&json!("applied"), &json!("carol")));
    assert_eq!(admin.get(FLAG).json()["isEnabled"], false);
    assert_eq!(refused(&decide(&carol, &kept, "approve")), is(409, "change-not-waiting"));
    let newest = admin.get(&format!("{FLAG}/history?limit=1")).json()["versions"][0].clone();
    let note = format!("change {}, approved by carol", id(&kept));
    assert_eq!((&newest["user"], &newest["comment"]), (&json!("ann"), &json!(note)));

    // What is new comes the same way.
    let id_of_staff = "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0001";
    for new in [
        json!({ "flag": "another", "patch": checkout_without_key() }),
        json!({ "segment": id_of_staff, "patch": segment }),
    ] {
        let kept = keep(&ann, &new);
        assert_eq!(decide(&carol, &kept, "approve").status, 200);
        assert_eq!(settled(&carol, &kept)["status"], "applied");
    }
    assert_eq!(admin.get("/v1/flags/another").json()["isEnabled"], true);
    let path = format!("/v1/segments/{id_of_staff}");
    assert_eq!(admin.get(&path).json()["included"], json!(["grace"]));
    let demand = json!({ "changesNeedApproval": false });
    assert_eq!(patch(&admin, "/v1/environments/dev", &demand).status, 200);
    assert_eq!(admin.delete(&path).status, 204);
}

fn checkout_without_key() -> Value {
    let mut flag = checkout();
    flag.as_object_mut().unwrap().remove("key");
    flag
}

#[test]
fn a_change_that_does_not_fit_any_more_says_why() {
    let server = Server::start();
    let client = server.tenant();
    let made = client.post("/v1/flags", &checkout());
    let version: i64 = made.header("etag").unwrap().trim_matches('"').parse().unwrap();
    let due = days_later(&client, 1);
    let upon = json!({
        "flag": "checkout", "patch": { "isEnabled": false }, "dueAt": due,
        "expectedVersion": version,
    });
    let upon = keep(&client, &upon);
    let late = json!({
        "flag": "checkout", "dueAt": due, "patch": { "disabledVariationId": "late" },
    });
    let wrong = client.post("/v1/changes", &late);
    assert_eq!(wrong.status, 422, "it is validated when it is requested: {}", wrong.text());
    let variation = |id: &str| json!({ "id": id, "value": "false" });
    let with = |id: &str| {
        json!({ "disabledVariationId": id, "variations": [
        { "id": "on", "value": "true" }, variation(id),
    ] })
    };
    assert_eq!(patch(&client, FLAG, &with("late")).status, 200);
    let late = keep(&client, &late);
    assert_eq!(late["diff"], json!([]));
    assert_eq!(patch(&client, FLAG, &with("off")).status, 200);
    let now = client.get(&format!("/v1/changes/{}", id(&late))).json();
    let problem = now["problem"].as_str().unwrap();
    wait_days(&client, 2);
    let failed = settled(&client, &late);
    assert_eq!((&failed["status"], &failed["version"]), (&json!("failed"), &Value::Null));
    let why = failed["explanation"].as_str().unwrap();
    assert!(why.contains("disabledVariationId"), "{why}");
    assert_eq!(why, problem, "it was reported before");
    let failed = settled(&client, &upon);
    assert_eq!(failed["status"], "failed");
    let now = client.get(FLAG).header("etag").unwrap().trim_matches('"').to_owned();
    let why = format!("it is in the version {now}, not {version}");
    assert_eq!(failed["explanation"], why);
    assert_eq!(client.get(FLAG).json()["isEnabled"], true);
}

#[test]
fn withdrawn_or_rejected_change_is_not_applied() {
    let server = Server::start();
    let admin = server.tenant();
    let ann = user(&admin, "ann", &["flag:*"]);
    assert_eq!(admin.post("/v1/flags", &checkout()).status, 201);
    let due = days_later(&admin, 1);
    let off = json!({ "flag": "checkout", "patch": { "isEnabled": false }, "dueAt": due });
    let own = keep(&ann, &off);
    assert_eq!(refused(&decide(&admin, &own, "withdraw")), is(403, "withdrawal-by-another"));
    let withdrawn = decide(&ann, &own, "withdraw").json();
    assert_eq!((&withdrawn["status"], withdrawn.get("diff")), (&json!("withdrawn"), None));
    assert_eq!(refused(&decide(&ann, &own, "withdraw")), is(409, "change-not-waiting"));
    let other = keep(&ann, &off);
    let why = json!({ "reason": "not on a Friday" });
    let rejected = admin.post(&format!("/v1/changes/{}/reject", id(&other)), &why).json();
    assert_eq!(
        (&rejected["status"], &rejected["decidedBy"], &rejected["explanation"]),
        (&json!("rejected"), &json!("admin"), &json!("not on a Friday"))
    );
    // It needs approval although the environment does not demand that, and it is not approved.
    let mut pending = off.clone();
    pending["needsApproval"] = json!(true);
    let pending = keep(&ann, &pending);
    wait_days(&admin, 2);
    let last = keep(&ann, &json!({ "flag": "checkout", "patch": { "tags": ["last"] } }));
    assert_eq!(settled(&admin, &last)["status"], "applied");
    assert_eq!(admin.get(FLAG).json()["isEnabled"], true);
    let listed = admin.get("/v1/changes").json();
    let statuses: Vec<&Value> =
        listed["changes"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(statuses, ["applied", "pending", "rejected", "withdrawn"]);
    let second = admin.get("/v1/changes?offset=1&limit=1").json();
    assert_eq!((id(&second["changes"][0]), &second["more"]), (id(&pending), &json!(true)));
    assert_eq!(admin.get("/v1/changes?environment=prod").json()["changes"], json!([]));
}

#[test]
fn wrong_changes_are_named() {
    let server = Server::start();
    let client = server.tenant();
    let made = client.post("/v1/flags", &checkout());
    assert_eq!(made.status, 201);
    let off = json!({ "isEnabled": false });
    for (change, field) in [
        (json!({ "patch": off }), "flag"),
        (json!({ "flag": "checkout", "segment": "x", "patch": off }), "flag"),
        (json!({ "flag": "checkout", "patch": off, "dueAt": "tomorrow" }), "dueAt"),
        (json!({ "flag": "checkout", "patch": off, "colour": "red" }), "colour"),
        (json!({ "flag": "checkout", "patch": off, "reason": "x".repeat(256) }), "reason"),
    ] {
        let wrong = client.post("/v1/changes", &change);
        assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!(field)), "{change}");
    }
    // As without a date.
    for (flag, patch, field) in [
        ("checkout", json!({ "key": "other" }), "key"),
        ("checkout", json!({ "colour": "red" }), "colour"),
        ("", checkout_without_key(), "key"),
    ] {
        let wrong = client.post("/v1/changes", &json!({ "flag": flag, "patch": patch }));
        assert_eq!(refused(&wrong), is(422, "wrong-fields"), "{}", wrong.text());
        assert_eq!(wrong.json()["problems"][0]["field"], field);
    }
    // Nothing is made of a name that is misspelled.
    let unknown = client.post("/v1/changes", &json!({ "flag": "chekcout", "patch": off }));
    assert_eq!(refused(&unknown), is(422, "wrong-fields"), "{}", unknown.text());
    let stale = json!({ "flag": "checkout", "patch": off, "expectedVersion": 7 });
    let stale = client.post("/v1/changes", &stale);
    assert_eq!(refused(&stale), is(412, "version-changed"));
    assert_eq!(stale.header("etag"), made.header("etag"));
    assert_eq!(client.get("/v1/changes?status=lost").status, 400);
    assert_eq!(client.get("/v1/changes/x").status, 400);
    let unknown = "/v1/changes/0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0001";
    assert_eq!(client.get(unknown).status, 404);
    assert_eq!(client.send("POST", &format!("{unknown}/approve"), None).status, 404);

    let kept = keep(&client, &json!({ "flag": "checkout", "patch": off, "needsApproval": true }));
    let other = json!({ "apiKey": "eve", "apiSecret": "adam" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &other).status, 201);
    let other = server.client().tenant("eve", "adam");
    assert_eq!(decide(&other, &kept, "approve").status, 404);
    assert_eq!(other.get(&format!("/v1/changes/{}", id(&kept))).status, 404);
    let unprivileged = user(&client, "nobody", &["account:create"]);
    assert_eq!(unprivileged.get("/v1/changes").status, 403);
    assert_eq!(unprivileged.post("/v1/changes", &json!({})).status, 403);
    assert_eq!(decide(&unprivileged, &kept, "withdraw").status, 403);
    assert_eq!(decide(&unprivileged, &kept, "reject").status, 403);
    assert_eq!(patch(&client, "/v1/environments/dev", &json!({ "key": "x" })).status, 400);
    assert_eq!(patch(&client, "/v1/environments/dev", &json!({ "name": "" })).status, 400);
    assert_eq!(patch(&client, "/v1/environments/test", &json!({ "name": "x" })).status, 404);
}
