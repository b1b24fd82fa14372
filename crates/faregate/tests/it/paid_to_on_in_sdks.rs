//! A feature that an account buys is on for readers that evaluate by themselves: server SDKs and relay proxies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evaluation::{Flag, MissingAttribute, Segment, Snapshot, User};
use serde_json::{Value, json};

use crate::client::Client;
use crate::flags_streams::{Stream, secret};
use crate::gateways::account;
use crate::paid_to_on::{SIMULATOR, buy, connect, refund, start};
use crate::process::{Launch, Server, eventually};

/// From a purchase's answer to the value in a server SDK.
const WITHIN: Duration = Duration::from_secs(2);

/// The definitions that a server SDK holds, and the latest of their times.
#[derive(Default)]
struct Sdk {
    flags: BTreeMap<String, Flag>,
    segments: BTreeMap<String, Segment>,
    newest: String,
}

impl Sdk {
    /// As the SDK that is strictest: what is not later than all that it has is passed over.
    fn take(&mut self, data: &Value) {
        let read = |name: &str| data[name].as_array().unwrap().iter();
        let flags: Vec<Flag> = read("featureFlags").map(parsed).collect();
        let segments: Vec<Segment> = read("segments").map(parsed).collect();
        let times = flags.iter().map(|it| &it.updated_at);
        let times = times.chain(segments.iter().map(|it| &it.updated_at));
        let (first, last) = (times.clone().min().cloned(), times.max().cloned());
        let is_full = data["eventType"] == "full";
        let later = if is_full { &last } else { &first };
        if later.as_ref().is_none_or(|it| *it <= self.newest) {
            return;
        }
        if is_full {
            (self.flags, self.segments) = (BTreeMap::new(), BTreeMap::new());
        }
        self.newest = last.unwrap();
        self.flags.extend(flags.into_iter().map(|it| (it.key.clone(), it)));
        self.segments.extend(segments.into_iter().map(|it| (it.id.clone(), it)));
    }

    fn value(&self, flag: &str, user: &str) -> String {
        let (flags, segments) = (self.flags.values().cloned(), self.segments.values().cloned());
        let snapshot = Snapshot::new(MissingAttribute::Empty).with(flags, segments);
        let evaluation = snapshot.evaluate(flag, &User::new(user)).unwrap();
        evaluation.variation.unwrap().value.clone()
    }

    /// Reads until a flag has a value for a user.
    fn follow(&mut self, stream: &mut Stream, flag: &str, user: &str, value: &str) {
        let asked_at = Instant::now();
        while self.value(flag, user) != value {
            let data = stream.next();
            self.take(&data);
        }
        assert!(asked_at.elapsed() < WITHIN, "{:?}", asked_at.elapsed());
    }

    fn newest_ms(&self) -> i64 {
        self.newest.parse::<jiff::Timestamp>().unwrap().as_millisecond()
    }
}

fn parsed<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("it is of this type")
}

fn sdk(server: &Server, secret: &str, timestamp: i64) -> (Stream, Sdk) {
    let mut stream = Stream::open(server, "", "server", secret);
    let full = stream.ask_for(&json!({ "timestamp": timestamp }));
    assert_eq!(full["eventType"], "full");
    let mut sdk = Sdk::default();
    sdk.take(&full);
    assert!(sdk.newest_ms() > timestamp);
    (stream, sdk)
}

fn check_server_sdks(launch: Launch) {
    let (server, client) = start(launch);
    let (browser, program) = (secret(&client, "client"), secret(&client, "server"));
    let (buyer, other) = (account(&client, SIMULATOR), account(&client, SIMULATOR));
    let (mut page, _) = connect(&server, &browser, &other, 0);
    let (mut stream, mut it) = sdk(&server, &program, 0);
    let is = |it: &Sdk, user: &str, value: &str| assert_eq!(it.value("gated", user), value);
    is(&it, &buyer, "false");
    is(&it, &other, "false");

    let payment = buy(&client, &buyer);
    it.follow(&mut stream, "gated", &buyer, "true");
    is(&it, &other, "false");
    // One that comes back has it too, and takes it over.
    let (_, again) = sdk(&server, &program, it.newest_ms());
    is(&again, &buyer, "true");
    // One that polls, too.
    let polling = server.client().header("Authorization", &program);
    let path = format!("/api/public/sdk/server/latest-all?timestamp={}", it.newest_ms());
    let mut polled = Sdk::default();
    polled.take(&polling.get(&path).json()["data"]);
    is(&polled, &buyer, "true");
    is(&polled, &other, "false");

    // A flag is changed right after it, by times of another clock.
    let change = json!({ "description": "changed" }).to_string();
    let path = "/v1/flags/plain?environment=dev";
    let answer = client.send("PATCH", path, Some(change.as_bytes()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    while it.flags["plain"].description.is_none() {
        let data = stream.next();
        it.take(&data);
    }
    // Of this, other users' clients hear what changed for them, and nothing of the purchase.
    assert_eq!(page.next()["featureFlags"][0]["id"], "plain");

    refund(&client, &payment);
    it.follow(&mut stream, "gated", &buyer, "false");
    page.ask(&json!({ "messageType": "echo", "data": { "n": 1 } }));
    assert_eq!(page.next_of("echo")["n"], 1);
}

#[test]
fn a_server_sdk_sees_what_accounts_bought() {
    check_server_sdks(Launch::usual());
}

#[test]
fn a_server_sdk_of_a_worker_sees_it_too() {
    let mut launch = Launch::usual();
    launch.arguments.extend(["--workers".to_owned(), "2".to_owned()]);
    check_server_sdks(launch);
}

/// A stream that is open before a flag asks for a feature gets both.
#[test]
fn a_gate_that_is_added_comes_with_its_users() {
    let (server, client) = start(Launch::usual());
    let program = secret(&client, "server");
    let buyer = account(&client, SIMULATOR);
    for key in ["gated", "ruled"] {
        assert_eq!(client.delete(&format!("/v1/flags/{key}?environment=dev")).status, 204);
    }
    buy(&client, &buyer);
    let (mut stream, mut it) = {
        let mut stream = Stream::open(&server, "", "server", &program);
        let full = stream.ask_for(&json!({ "timestamp": 0 }));
        let mut it = Sdk::default();
        it.take(&full);
        (stream, it)
    };
    let on = json!([{ "id": "on", "rollout": [0, 1], "exptRollout": 1 }]);
    let gate = json!({ "gate": "pro", "fallthrough": { "variations": on } }).to_string();
    let path = "/v1/flags/plain?environment=dev";
    assert_eq!(client.send("PATCH", path, Some(gate.as_bytes())).status, 200);
    it.follow(&mut stream, "plain", &buyer, "true");
    assert_eq!(it.value("plain", "nobody"), "false");
}

#[test]
fn what_ends_is_off_in_server_sdks() {
    let (server, client) = start(Launch::usual());
    let buyer = account(&client, SIMULATOR);
    buy(&client, &buyer);
    let (mut stream, mut it) = sdk(&server, &secret(&client, "server"), 0);
    assert_eq!(it.value("gated", &buyer), "true");
    let clock = "/1.0/kb/test/clock?days=32&timeoutSec=20";
    assert_eq!(client.send("PUT", clock, None).status, 200);
    it.follow(&mut stream, "gated", &buyer, "false");
}

/// The users of an account with an external key are named by it.
#[test]
fn an_account_is_named_by_its_external_key() {
    let (server, client) = start(Launch::usual());
    let made = json!({ "currency": "USD", "externalKey": "ann" });
    let id = client.create("/1.0/kb/accounts", &made)["accountId"].clone();
    let granted = json!({ "feature": "pro", "value": true, "reason": "goodwill" });
    let path = format!("/v1/accounts/{}/grants", id.as_str().unwrap());
    assert_eq!(client.post(&path, &granted).status, 201);
    let (_, it) = sdk(&server, &secret(&client, "server"), 0);
    assert_eq!(it.value("gated", "ann"), "true");
    assert_eq!(it.value("gated", "bob"), "false");
}

#[test]
fn a_relay_proxy_sees_it() {
    let (server, client) = start(Launch::usual());
    let relay = made_relay(&client);
    let buyer = account(&client, SIMULATOR);
    let (mut agent, full) = eventually("the relay proxy's secret opens its environments", || {
        let mut agent = Stream::open(&server, "", "relay-proxy", &relay);
        Some((agent.try_ask_for(&json!({ "timestamp": 0 }))?, agent)).map(|(it, agent)| (agent, it))
    });
    assert_eq!(full["eventType"], "rp_full");
    let of_dev = |data: &Value| {
        let items = data["items"].as_array().unwrap();
        let mut item = items.iter().find(|it| it["featureFlags"][0]["key"] == "gated").cloned();
        let mut item = item.take().expect("the environment is listed");
        item["eventType"] = json!("full");
        item
    };
    let mut it = Sdk::default();
    it.take(&of_dev(&full));
    assert_eq!(it.value("gated", &buyer), "false");
    let payment = buy(&client, &buyer);
    it.follow(&mut agent, "gated", &buyer, "true");
    // One that comes back with all that it has gets all.
    let items = full["items"].as_array().unwrap().iter();
    let had = items.map(|item| json!({ "envId": item["envId"], "timestamp": it.newest_ms() }));
    let had = json!({ "timestamp": it.newest_ms(), "envs": had.collect::<Vec<_>>() });
    let mut again = Stream::open(&server, "", "relay-proxy", &relay);
    let answer = again.ask_for(&had);
    assert_eq!(answer["eventType"], "rp_full");
    let mut returned = Sdk { newest: it.newest.clone(), ..Sdk::default() };
    returned.take(&of_dev(&answer));
    assert_eq!(returned.value("gated", &buyer), "true");
    refund(&client, &payment);
    it.follow(&mut agent, "gated", &buyer, "false");
}

fn made_relay(client: &Client) -> String {
    let made = json!({ "name": "agent", "environments": "all" });
    let made = client.post("/v1/relay-proxies", &made);
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["value"].as_str().unwrap().to_owned()
}
