//! Changes of segments and flags by several clients at the same time.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, Client};
use crate::flags::with_sample;
use crate::process::Server;

/// How often a race is run: each try is short, and most of them meet.
const ROUNDS: usize = 12;

fn segment(id: Uuid, other: Option<Uuid>) -> Value {
    let rule = |id: Uuid| {
        let value = json!([id]).to_string();
        json!([{ "id": "r", "name": "r", "conditions": [
            { "property": "User is in segment", "op": "", "value": value },
        ] }])
    };
    json!({ "id": id, "name": "S", "rules": other.map(rule).unwrap_or_else(|| json!([])) })
}

/// Sends requests at the same time; the answers in their order.
fn together<const N: usize>(send: [&(dyn Fn() -> Answer + Sync); N]) -> [Answer; N] {
    let start = Barrier::new(N);
    std::thread::scope(|scope| {
        let sent = send.map(|send| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                send()
            })
        });
        sent.map(|it| it.join().unwrap())
    })
}

/// Two segments without rules, among others: validating them takes a moment.
fn with_segments(client: &Client, [a, b]: [Uuid; 2]) {
    let others = (0..300).map(|_| segment(Uuid::now_v7(), None));
    let all: Vec<Value> = others.chain([segment(a, None), segment(b, None)]).collect();
    let imported = client.post("/v1/environments/dev/import", &json!({ "segments": all }));
    assert_eq!(imported.status, 200, "{}", imported.text());
}

#[test]
fn concurrent_changes_cannot_make_a_cycle_of_segments() {
    let server = Server::start();
    let client = server.tenant();
    let [a, b] = [Uuid::now_v7(), Uuid::now_v7()];
    with_segments(&client, [a, b]);
    let path = |id: Uuid| format!("/v1/segments/{id}");
    let plain = json!({ "segments": [segment(a, None), segment(b, None)] });
    for round in 0..ROUNDS {
        let (one, other) = (segment(a, Some(b)), segment(b, Some(a)));
        let puts = || client.put(&path(a), &one);
        let changes = || match round % 2 {
            0 => client.put(&path(b), &other),
            _ => client.post("/v1/environments/dev/import", &json!({ "segments": [other] })),
        };
        let answers = together([&puts, &changes]);
        let mut statuses = answers.each_ref().map(|it| it.status);
        statuses.sort_unstable();
        let said = answers.map(|it| it.text());
        assert_eq!(statuses, [200, 422], "{said:?}");
        let again = client.post("/v1/environments/dev/import", &plain);
        assert_eq!(again.status, 200, "{}", again.text());
    }
}

/// Constant changes of flags do not block changes of segments.
#[test]
fn segments_are_changed_while_flags_are() {
    let (server, client) = with_sample();
    let [a, b] = [Uuid::now_v7(), Uuid::now_v7()];
    with_segments(&client, [a, b]);
    let patch = |path: &str, body: Value| {
        let answer = client.send("PATCH", path, Some(body.to_string().as_bytes()));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    patch("/v1/flags/new-checkout", json!({ "isEnabled": true }));
                }
            });
        }
        let done = Done(&is_done);
        for round in 0..ROUNDS {
            patch(&format!("/v1/segments/{a}"), json!({ "description": round.to_string() }));
        }
        let import = json!({ "segments": [segment(a, Some(b))] });
        let imported = client.post("/v1/environments/dev/import", &import);
        assert_eq!(imported.status, 200, "{}", imported.text());
        drop(done);
    });
    drop(server);
}

/// Ends the others also where a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each client has its own segment: no request conflicts with a version or an existing segment.
#[test]
fn changes_of_other_segments_do_not_conflict() {
    let server = Server::start();
    let client = server.tenant();
    let [a, b] = [Uuid::now_v7(), Uuid::now_v7()];
    with_segments(&client, [a, b]);
    let (mut of_a, mut of_b) = (None, None);
    for round in 0..ROUNDS {
        let change = |id: Uuid, version: &Option<String>| {
            let path = format!("/v1/segments/{id}");
            let body = json!({ "description": round.to_string() }).to_string();
            let client = match version {
                Some(version) => client.clone().header("If-Match", version),
                None => client.clone(),
            };
            client.send("PATCH", &path, Some(body.as_bytes()))
        };
        let made = Uuid::now_v7();
        let answers = together([&|| change(a, &of_a), &|| change(b, &of_b), &|| {
            client.post("/v1/segments", &segment(made, None))
        }]);
        let statuses = answers.each_ref().map(|it| it.status);
        assert_eq!(statuses, [200, 200, 201], "{:?}", answers.map(|it| it.text()));
        let version = |answer: &Answer| answer.header("etag").map(str::to_owned);
        (of_a, of_b) = (version(&answers[0]), version(&answers[1]));
        assert!(of_a.is_some() && of_b.is_some());
    }
    // Two changes of the same version: one is a conflict.
    let put = |name: &str| {
        let body = json!({ "name": name }).to_string();
        let client = client.clone().header("If-Match", of_a.as_deref().unwrap());
        client.send("PATCH", &format!("/v1/segments/{a}"), Some(body.as_bytes()))
    };
    let mut statuses = together([&|| put("x"), &|| put("y")]).map(|it| it.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
    // Two who make the same: one finds the other's there.
    let id = Uuid::now_v7();
    let make = || client.post("/v1/segments", &segment(id, None));
    let mut statuses = together([&make, &make]).map(|it| it.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
}
