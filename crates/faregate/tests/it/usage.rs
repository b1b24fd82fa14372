//! Limits are counted in the commit that checks them: none is passed, and what ends comes back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::client::{Answer, Client, advance};
use crate::process::{Launch, Server, TempDir, run};

/// An account that may make 10 calls a day and has 100 credits.
fn account(client: &Client) -> String {
    let feature = |key: &str, body: Value| {
        let answer = client.put(&format!("/v1/features/{key}"), &body);
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    };
    let limit = |resets: &str, overdraft: bool| json!({ "name": "A", "kind": "limit", "unit": "calls", "resets": resets, "overdraft": overdraft });
    feature("calls", limit("day", false));
    feature("credits", limit("never", false));
    feature("units", limit("never", true));
    feature("pro", json!({ "name": "Pro", "kind": "switch" }));
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let account = account["accountId"].as_str().unwrap().to_owned();
    for (key, value) in [("calls", 10), ("credits", 100), ("units", 5)] {
        let grant = json!({ "feature": key, "value": value, "reason": "test" });
        let granted = client.post(&format!("/v1/accounts/{account}/grants"), &grant);
        assert_eq!(granted.status, 201, "{}", granted.text());
    }
    account
}

fn record(client: &Client, account: &str, event: &str, body: &Value) -> Answer {
    let mut body = body.clone();
    body["eventId"] = json!(event);
    client.post(&format!("/v1/accounts/{account}/usage"), &body)
}

fn calls(quantity: i64) -> Value {
    json!({ "feature": "calls", "quantity": quantity })
}

fn reserve(client: &Client, account: &str, quantity: i64, seconds: i64) -> Answer {
    let body = json!({ "feature": "calls", "quantity": quantity, "ttlSeconds": seconds });
    client.post(&format!("/v1/accounts/{account}/reservations"), &body)
}

fn check(client: &Client, account: &str, feature: &str) -> Value {
    let answer = client.get(&format!("/v1/accounts/{account}/entitlements/{feature}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The used, reserved and left quantities of a limit.
fn level(it: &Value) -> [i64; 3] {
    ["used", "reserved", "left"].map(|name| it[name].as_i64().unwrap())
}

fn verified(dir: &TempDir) {
    let verified = run(&["verify", "--data-dir", dir.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn usage_is_counted_up_to_the_limit_and_starts_again() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let account = account(&client);
    let counted = record(&client, &account, "e1", &calls(7));
    assert_eq!(counted.status, 200, "{}", counted.text());
    assert_eq!(level(&counted.json()), [7, 0, 3]);
    let too_much = record(&client, &account, "e2", &calls(4));
    assert_eq!(too_much.status, 409, "{}", too_much.text());
    assert_eq!(level(&too_much.json()["known"]), [7, 0, 3]);
    assert_eq!(check(&client, &account, "calls")["allowed"], true);
    assert_eq!(record(&client, &account, "e2", &calls(3)).status, 200);
    let checked = check(&client, &account, "calls");
    assert_eq!([&checked["allowed"], &checked["reason"]], [&json!(false), &json!("limit-reached")]);
    assert_eq!(level(&checked["usage"]), [10, 0, 0]);
    // With an overdraft it is allowed.
    let units = json!({ "feature": "units", "quantity": 9 });
    assert_eq!(level(&record(&client, &account, "e3", &units).json()), [9, 0, 0]);
    assert_eq!(check(&client, &account, "units")["allowed"], true);
    let path = format!("/v1/accounts/{account}/entitlements");
    let all = client.get(&path);
    let used: Vec<_> = all.json()["features"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["feature"].clone(), level(&it["usage"])))
        .collect();
    let expected = [("calls", [10, 0, 0]), ("credits", [0, 0, 100]), ("units", [9, 0, 0])];
    assert_eq!(used, expected.map(|(key, level)| (json!(key), level)));
    // What is used changes the document, and so its ETag.
    let etag = all.header("etag").unwrap().to_owned();
    let asked = client.clone().header("If-None-Match", &etag);
    assert_eq!(asked.get(&path).status, 304);
    let credits = json!({ "feature": "credits", "quantity": 1 });
    assert_eq!(record(&client, &account, "e4", &credits).status, 200);
    assert_eq!(asked.get(&path).status, 200);
    advance(&client, 1);
    assert_eq!(level(&check(&client, &account, "calls")["usage"]), [0, 0, 10]);
    assert_eq!(record(&client, &account, "e5", &calls(2)).status, 200);
    let listed = client.get(&format!("/v1/accounts/{account}/usage?feature=calls")).json();
    let used: Vec<_> = listed["usage"].as_array().unwrap().iter().map(|it| &it["used"]).collect();
    assert_eq!(used, [2, 10]);
    let first = client.get(&format!("/v1/accounts/{account}/usage?feature=calls&limit=1")).json();
    assert_eq!(first["nextOffset"], 1);
    verified(&dir);
}

#[test]
fn an_event_is_counted_once_for_35_days() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client);
    let first = record(&client, &account, "e1", &calls(3));
    assert_eq!(record(&client, &account, "e2", &calls(1)).status, 200);
    let again = record(&client, &account, "e1", &calls(5));
    assert_eq!(again.status, 409, "{}", again.text());
    let problem = again.json();
    assert!(problem["type"].as_str().unwrap().ends_with("event-counted"), "{problem}");
    assert_eq!(problem["known"], first.json());
    let batch = json!({ "events": [
        { "feature": "calls", "quantity": 2, "eventId": "e3" },
        { "feature": "calls", "quantity": 3, "eventId": "e1" },
        { "feature": "calls", "quantity": 9, "eventId": "e4" },
        { "feature": "none", "quantity": 1, "eventId": "e5" },
        { "feature": "calls", "quantity": 2, "eventId": "e3" },
    ] });
    let answer = client.post(&format!("/v1/accounts/{account}/usage"), &batch);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["counted"], 1);
    let events = answer["events"].as_array().unwrap();
    let outcomes: Vec<_> = events.iter().map(|it| it["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["counted", "duplicate", "refused", "refused", "duplicate"]);
    assert_eq!(events[1]["counted"], first.json());
    assert_eq!(events[3]["problem"]["field"], "feature");
    assert_eq!(level(&events[4]["counted"]), [6, 0, 4]);
    advance(&client, 34);
    assert_eq!(record(&client, &account, "e1", &calls(3)).status, 409);
    advance(&client, 1);
    assert_eq!(record(&client, &account, "e1", &calls(3)).status, 200);
}

#[test]
fn what_is_reserved_comes_back_at_its_end() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let account = account(&client);
    let reserved = reserve(&client, &account, 6, 86_000);
    assert_eq!(reserved.status, 201, "{}", reserved.text());
    assert_eq!(level(&reserved.json()), [0, 6, 4]);
    let path = reserved.header("location").unwrap().to_owned();
    assert_eq!(client.get(&path).json()["status"], "open");
    assert_eq!(record(&client, &account, "e1", &calls(5)).status, 409);
    assert_eq!(reserve(&client, &account, 5, 60).status, 409);
    let more = client.post(&format!("{path}/confirm"), &json!({ "quantity": 7 }));
    assert_eq!((more.status, more.json()["field"].clone()), (400, json!("quantity")));
    let keyed = client.clone().header("Idempotency-Key", "k1");
    let confirmed = keyed.post(&format!("{path}/confirm"), &json!({ "quantity": 2 }));
    assert_eq!(confirmed.status, 200, "{}", confirmed.text());
    assert_eq!(level(&confirmed.json()), [2, 0, 8]);
    assert_eq!(keyed.post(&format!("{path}/confirm"), &json!({ "quantity": 2 })).status, 200);
    let shown = client.get(&path).json();
    assert_eq!([&shown["status"], &shown["confirmed"]], [&json!("confirmed"), &json!(2)]);
    for action in ["confirm", "release"] {
        let again = client.send("POST", &format!("{path}/{action}"), None);
        assert_eq!(again.status, 409, "{}", again.text());
        assert!(again.json()["type"].as_str().unwrap().ends_with("reservation-ended"));
    }
    let other = reserve(&client, &account, 8, 3_600).header("location").unwrap().to_owned();
    advance(&client, 1);
    assert_eq!(client.get(&other).json()["status"], "expired");
    assert_eq!(client.send("POST", &format!("{other}/confirm"), None).status, 409);
    let released = reserve(&client, &account, 8, 3_600).header("location").unwrap().to_owned();
    let answer = client.send("POST", &format!("{released}/release"), None);
    assert_eq!(level(&answer.json()), [0, 0, 10]);
    assert_eq!(client.send("POST", &format!("{released}/confirm"), None).status, 409);
    // Closing the account ends them.
    let last = reserve(&client, &account, 8, 3_600).header("location").unwrap().to_owned();
    let closed = client.send("DELETE", &format!("/1.0/kb/accounts/{account}"), None);
    assert_eq!(closed.status, 204, "{}", closed.text());
    assert_eq!(client.get(&last).json()["status"], "expired");
    assert_eq!(client.send("POST", &format!("{last}/confirm"), None).status, 409);
    verified(&dir);
    // It is known until 35 days after its end.
    advance(&client, 34);
    assert_eq!(client.get(&last).status, 200);
    advance(&client, 2);
    assert_eq!(client.get(&last).status, 404);
}

/// Checks a refusal: its status, and the field or the end of the type of its problem.
fn refused(answer: Answer, status: u16, named: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let problem = answer.json();
    let kind = problem["type"].as_str().unwrap_or_default();
    let field = problem["field"].as_str().unwrap_or_default();
    assert!(field == named || kind.ends_with(named), "{named}: {problem}");
}

#[test]
fn reservations_that_are_refused() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client);
    let reservations = format!("/v1/accounts/{account}/reservations");
    let reserve = |name: &str, value: Value| {
        let mut body = json!({ "feature": "calls", "quantity": 1, "ttlSeconds": 60 });
        body[name] = value;
        client.post(&reservations, &body)
    };
    refused(reserve("feature", json!("none")), 404, "feature");
    refused(reserve("feature", json!("pro")), 400, "feature");
    refused(reserve("quantity", json!(0)), 400, "quantity");
    refused(reserve("quantity", json!(11)), 409, "limit-reached");
    refused(reserve("ttlSeconds", json!(0)), 400, "ttlSeconds");
    refused(reserve("ttlSeconds", json!(2_678_401)), 400, "ttlSeconds");
    refused(reserve("ttlSeconds", json!(i64::MAX)), 400, "ttlSeconds");
    refused(reserve("ttlSeconds", Value::Null), 400, "until");
    refused(reserve("until", json!("2001-01-01")), 400, "ttlSeconds");
    let closed = client.send("DELETE", &format!("/1.0/kb/accounts/{account}"), None);
    assert_eq!(closed.status, 204, "{}", closed.text());
    refused(reserve("quantity", json!(1)), 409, "account-closed");
}

#[test]
fn usage_that_is_refused() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client);
    let path = format!("/v1/accounts/{account}/usage");
    let with = |name: &str, value: Value| {
        let mut body = json!({ "feature": "calls", "quantity": 1, "eventId": "e" });
        body[name] = value;
        client.post(&path, &body)
    };
    refused(with("feature", json!("none")), 404, "feature");
    refused(with("feature", json!("pro")), 400, "feature");
    refused(with("feature", Value::Null), 400, "feature");
    refused(with("quantity", json!(0)), 400, "quantity");
    refused(with("quantity", json!(-1)), 400, "quantity");
    refused(with("quantity", json!(1.5)), 400, "quantity");
    refused(with("quantity", json!(9_007_199_254_740_992_u64)), 400, "quantity");
    refused(with("quantity", json!(9_223_372_036_854_775_808_u64)), 400, "quantity");
    refused(with("quantity", json!("1")), 400, "quantity");
    refused(with("eventId", json!("x".repeat(1_024))), 400, "eventId");
    refused(with("eventId", json!("é".repeat(257))), 400, "eventId");
    refused(with("eventId", json!("")), 400, "eventId");
    refused(with("at", json!("2001-01-01T00:00:00Z")), 400, "at");
    refused(with("at", json!("9000-01-01T00:00:00Z")), 400, "at");
    refused(with("at", json!("now")), 400, "at");
    refused(with("more", json!(1)), 400, "more");
    assert_eq!(with("eventId", json!("é".repeat(256))).status, 200);
    let batch = |events: Value| client.post(&path, &json!({ "events": events }));
    refused(batch(json!([])), 400, "events");
    let event = |n: usize| json!({ "feature": "calls", "quantity": 1, "eventId": n.to_string() });
    refused(batch((0..1_001).map(event).collect()), 400, "events");
    let mut long = event(2);
    long["eventId"] = json!("x".repeat(257));
    refused(batch(json!([event(1), long])), 400, "events[1].eventId");
    let mixed = json!({ "events": [event(1)], "quantity": 1 });
    refused(client.post(&path, &mixed), 400, "quantity");
    let reservations = format!("/v1/accounts/{account}/reservations");
    let nobody = uuid::Uuid::nil().to_string();
    refused(
        client.send("POST", &format!("{reservations}/{nobody}/confirm"), None),
        404,
        "not-found",
    );
    refused(client.send("POST", &format!("{reservations}/x/release"), None), 404, "not-found");
    refused(client.get(&format!("{path}?feature=none")), 404, "not-found");
    refused(client.get(&path), 400, "feature");
    let of_nobody = format!("/v1/accounts/{nobody}/usage");
    refused(client.post(&of_nobody, &event(1)), 404, "not-found");
    let poor = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let poor = format!("/v1/accounts/{}/usage", poor["accountId"].as_str().unwrap());
    refused(client.post(&poor, &event(1)), 409, "not-entitled");
    let closed = client.send("DELETE", &format!("/1.0/kb/accounts/{account}"), None);
    assert_eq!(closed.status, 204, "{}", closed.text());
    refused(client.post(&path, &event(1)), 409, "account-closed");
    refused(batch(json!([event(1)])), 409, "account-closed");
}

/// Clients that reserve, confirm, release and die use as much as there is, and never more.
#[test]
fn a_bank_of_64_clients_spends_exactly_the_limit() {
    const LIMIT: i64 = 2_000;
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let account = account(&client);
    let grant = json!({ "feature": "credits", "value": LIMIT, "reason": "test" });
    let granted = client.post(&format!("/v1/accounts/{account}/grants"), &grant);
    assert_eq!(granted.status, 201, "{}", granted.text());
    let (used, held) = (&AtomicI64::new(0), &AtomicI64::new(0));
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| watch(&client, &account, LIMIT, is_over));
        let all: Vec<_> = (0..64)
            .map(|n| {
                let (client, account) = (client.clone(), &account);
                scope.spawn(move || spend(&client, account, n, (used, held)))
            })
            .collect();
        let ended: Vec<_> = all.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::SeqCst);
        assert!(ended.iter().all(Result::is_ok));
        assert!(reader.join().expect("a limit that is never passed") > 0);
    });
    let (spent, held) = (used.load(Ordering::SeqCst), held.load(Ordering::SeqCst));
    assert!(held > 0, "some clients died");
    let now = level(&check(&client, &account, "credits")["usage"]);
    assert_eq!(now, [spent, held, LIMIT - spent - held], "what was answered is what is counted");
    // What the dead had reserved comes back, and all is spent to the last unit.
    advance(&client, 1);
    let now = level(&check(&client, &account, "credits")["usage"]);
    assert_eq!(now, [spent, 0, LIMIT - spent]);
    let outcomes: BTreeSet<u16> = thread::scope(|scope| {
        let all: Vec<_> = (0..64)
            .map(|n| {
                let (client, account) = (client.clone(), &account);
                scope.spawn(move || drain(&client, account, n, used))
            })
            .collect();
        all.into_iter().map(|it| it.join().expect("a client that ends")).collect()
    });
    assert_eq!(outcomes, BTreeSet::from([409]), "each ended because nothing was left");
    assert_eq!(used.load(Ordering::SeqCst), LIMIT);
    assert_eq!(level(&check(&client, &account, "credits")["usage"]), [LIMIT, 0, 0]);
    verified(&dir);
}

/// Reads what is used, reserved and left until the clients have ended; how often.
fn watch(client: &Client, account: &str, limit: i64, is_over: &AtomicBool) -> usize {
    let mut reads = 0;
    while !is_over.load(Ordering::SeqCst) {
        let now = level(&check(client, account, "credits")["usage"]);
        assert!(now.iter().all(|it| *it >= 0), "{now:?}");
        assert_eq!(now.iter().sum::<i64>(), limit, "{now:?}");
        reads += 1;
    }
    reads
}

/// The reservations of one client, each confirmed or released, until it dies with an open one or after 12 turns.
fn spend(client: &Client, account: &str, n: i64, (used, held): (&AtomicI64, &AtomicI64)) {
    let reservations = format!("/v1/accounts/{account}/reservations");
    for turn in 0..12 {
        let quantity = 1 + (n + turn) % 5;
        let body = json!({ "feature": "credits", "quantity": quantity, "ttlSeconds": 3_600 });
        let reserved = client.post(&reservations, &body);
        if reserved.status == 409 {
            continue;
        }
        assert_eq!(reserved.status, 201, "{}", reserved.text());
        let path = reserved.header("location").unwrap();
        match (n + turn * 7) % 11 {
            0 => {
                held.fetch_add(quantity, Ordering::SeqCst);
                return;
            }
            1..=3 => {
                let released = client.send("POST", &format!("{path}/release"), None);
                assert_eq!(released.status, 200, "{}", released.text());
            }
            part => {
                let less = if part < 7 { quantity } else { (quantity + 1) / 2 };
                let body = json!({ "quantity": less });
                let confirmed = client.post(&format!("{path}/confirm"), &body);
                assert_eq!(confirmed.status, 200, "{}", confirmed.text());
                used.fetch_add(less, Ordering::SeqCst);
            }
        }
    }
}

/// Uses one unit after the other until there is none left; the status of the refusal.
fn drain(client: &Client, account: &str, n: i64, used: &AtomicI64) -> u16 {
    for turn in 0.. {
        let body = json!({ "feature": "credits", "quantity": 1 });
        let answer = record(client, account, &format!("{n}-{turn}"), &body);
        if answer.status != 200 {
            return answer.status;
        }
        used.fetch_add(1, Ordering::SeqCst);
    }
    unreachable!("the limit ends it")
}
