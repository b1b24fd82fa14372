//! Domain time over a restart: it never goes back.

use serde_json::json;

use crate::client::Client;
use crate::entitlements::{monthly, sell, wanted};
use crate::gateways::account;
use crate::process::{Launch, Server, TempDir, run};

const CLOCK: &str = "/1.0/kb/test/clock";
const SIMULATOR: &str = "faregate-simulator";

fn now(client: &Client) -> jiff::Timestamp {
    client.get(CLOCK).json()["currentUtcTime"].as_str().unwrap().parse().unwrap()
}

/// Puts the test clock ahead by days, and writes a journal row then.
fn write_ahead(data: &std::path::Path, days: i64) -> jiff::Timestamp {
    let server = Server::start_in(data, Launch::usual());
    let client = server.tenant();
    let clock = format!("{CLOCK}?days={days}&timeoutSec=20");
    assert_eq!(client.send("PUT", &clock, None).status, 200);
    let ahead = now(&client);
    account(&client, "__EXTERNAL_PAYMENT__");
    assert!(server.stop().0.success());
    ahead
}

#[test]
fn a_start_behind_the_journal_is_refused_unless_a_flag_accepts_it() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let ahead = write_ahead(&data, 40);
    let Err(refused) = Server::try_start_in(&data, Launch::in_earnest()) else {
        panic!("it starts, and time goes back")
    };
    let (year, today) = (ahead.to_string(), jiff::Timestamp::now().to_string());
    for shown in [&year[..13], &today[..13], "--accept-clock-behind", "newest journal row"] {
        assert!(refused.contains(shown), "{shown}: {refused}");
    }
    let mut accepting = Launch::in_earnest();
    accepting.arguments.push("--accept-clock-behind".to_owned());
    let server = Server::start_in(&data, accepting);
    let client = server.client().tenant("bob", "lazar");
    let made = account(&client, "__EXTERNAL_PAYMENT__");
    let audit = client.get(&format!("/1.0/kb/accounts/{made}?audit=FULL")).json();
    let written = audit["auditLogs"][0]["changeDate"].as_str().unwrap();
    assert!(written.parse::<jiff::Timestamp>().unwrap() >= ahead, "{written} is before {ahead}");
    let (ended, said) = server.stop();
    assert!(ended.success());
    assert!(said.contains("the clock is behind the newest journal row"), "{said}");
    let verified = run(&["verify", "--data-dir", data.to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn a_test_clock_goes_on_over_a_restart() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let ahead = write_ahead(&data, 40);
    let server = Server::start_in(&data, Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    assert!(now(&client) >= ahead);
    // It can still be set back, and a row that is written then is what the next start goes on from.
    assert_eq!(client.post(CLOCK, &json!({})).status, 200);
    account(&client, "__EXTERNAL_PAYMENT__");
    let (_, said) = server.stop();
    assert!(said.contains("the test clock goes on from the newest journal row"), "{said}");
    let server = Server::start_in(&data, Launch::usual());
    assert!(now(&server.client().tenant("bob", "lazar")) < ahead);
    let (_, said) = server.stop();
    assert!(!said.contains("the newest journal row"), "{said}");
}

#[test]
fn a_start_far_ahead_of_the_journal_warns() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let server = Server::start_in(&data, Launch::usual());
    let client = server.tenant();
    let clock = format!("{CLOCK}?days=-30&timeoutSec=20");
    assert_eq!(client.send("PUT", &clock, None).status, 200);
    account(&client, "__EXTERNAL_PAYMENT__");
    assert!(server.stop().0.success());
    let (_, said) = Server::start_in(&data, Launch::usual()).stop();
    assert!(said.contains("the clock is far ahead of the newest journal row"), "{said}");
}

#[test]
fn what_was_bought_is_there_again_when_the_test_clock_is_set_back() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let server = Server::start_in(&data, Launch::usual());
    let client = server.tenant();
    sell(&client, &monthly());
    let account = account(&client, SIMULATOR);
    let bought = client.post(&format!("/v1/accounts/{account}/purchases"), &wanted());
    assert_eq!(bought.status, 201, "{}", bought.text());
    let allowed = || {
        let path = format!("/v1/accounts/{account}/entitlements/pro");
        client.get(&path).json()["allowed"].clone()
    };
    let reserve = json!({ "feature": "seats", "quantity": 2, "ttlSeconds": 3_600 });
    let reserved = client.post(&format!("/v1/accounts/{account}/reservations"), &reserve);
    assert_eq!(reserved.status, 201, "{}", reserved.text());
    let clock = format!("{CLOCK}?days=60&timeoutSec=20");
    assert_eq!(client.send("PUT", &clock, None).status, 200);
    assert_eq!(allowed(), false);
    assert_eq!(client.post(CLOCK, &json!({})).status, 200);
    assert_eq!(allowed(), true);
    // Writes the row of what it has anew.
    let grant = json!({ "feature": "seats", "value": 1, "reason": "goodwill" });
    let granted = client.post(&format!("/v1/accounts/{account}/grants"), &grant);
    assert_eq!(granted.status, 201, "{}", granted.text());
    assert_eq!(allowed(), true);
    let confirm = format!("{}/confirm", reserved.header("location").unwrap());
    let confirmed = client.post(&confirm, &json!({}));
    assert_eq!(confirmed.status, 200, "{}", confirmed.text());
    assert!(server.stop().0.success());
    let verified = run(&["verify", "--data-dir", data.to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}
