//! Purchases whose server is killed between the commit that starts them and the gateway's answer.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::entitlements::{monthly, sell, wanted};
use crate::gateways::{Program, account};
use crate::process::{Launch, Server, TempDir, eventually, run};

/// How many accounts buy at once.
const BUYERS: usize = 4;

/// A request with an `Idempotency-Key` whose answer is not waited for.
fn send(client: &Client, key: &str, path: &str, body: &Value) -> TcpStream {
    let mut stream = client.connect();
    let keyed = client.clone().header("Idempotency-Key", key);
    let body = body.to_string();
    stream.write_all(&keyed.request("POST", path, Some(body.as_bytes()), "close")).unwrap();
    stream
}

/// The purchases of an account.
fn purchases(client: &Client, account: &str) -> Vec<Value> {
    let listed = client.get(&format!("/v1/accounts/{account}/purchases")).json();
    listed["purchases"].as_array().unwrap().clone()
}

/// Starts a purchase of each account, with the account's id as key, and waits until all are committed.
fn buy_all(client: &Client, accounts: &[String]) -> Vec<TcpStream> {
    let path = |account: &String| format!("/v1/accounts/{account}/purchases");
    let begun = accounts.iter().map(|it| send(client, it, &path(it), &wanted()));
    let begun = begun.collect();
    for account in accounts {
        eventually("the purchase is committed", || {
            let all = purchases(client, account);
            (all.len() == 1 && all[0]["status"] == "PENDING").then_some(())
        });
        assert_eq!(grants(client, account), (vec![], 0), "what is not paid grants nothing");
    }
    begun
}

/// Sends the same request again.
fn buy_again(client: &Client, account: &str) -> Answer {
    let keyed = client.clone().header("Idempotency-Key", account);
    keyed.post(&format!("/v1/accounts/{account}/purchases"), &wanted())
}

/// An account's grants, each as its feature and its purchase; and the version of the entitlements.
fn grants(client: &Client, account: &str) -> (Vec<(Value, Value)>, i64) {
    let it = client.get(&format!("/v1/accounts/{account}/entitlements")).json();
    let mut granted = vec![];
    for feature in it["features"].as_array().unwrap() {
        let grants = feature["grants"].as_array().unwrap().iter();
        granted.extend(grants.map(|it| (feature["feature"].clone(), it["purchaseId"].clone())));
    }
    (granted, it["version"].as_i64().unwrap())
}

/// Checks that an account has what the offer gives, once, by this purchase.
fn granted_once(client: &Client, account: &str, purchase: &Value, version: i64) {
    let once = ["pro", "seats"].map(|feature| (json!(feature), purchase["purchaseId"].clone()));
    assert_eq!(grants(client, account), (once.to_vec(), version));
}

/// Waits until the only purchase of an account has a status.
fn resolved(client: &Client, account: &str, status: &str) -> Value {
    eventually(&format!("the purchase is {status}"), || {
        let mut all = purchases(client, account);
        assert_eq!(all.len(), 1, "{all:?}");
        let it = all.remove(0);
        (it["status"] == status).then_some(it)
    })
}

fn transactions(client: &Client, purchase: &Value) -> Vec<Value> {
    let path = format!("/1.0/kb/payments/{}", purchase["paymentId"].as_str().unwrap());
    client.get(&path).json()["transactions"].as_array().unwrap().clone()
}

fn stop_and_verify(server: Server, data: &Path) {
    assert!(server.stop().0.success());
    let verified = run(&["verify", "--data-dir", data.to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

/// The gateway took the charge, and the server was killed before its answer.
fn check_killed_before_the_answer(outcome: &'static str, status: &str, repeated: u16) {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    let data = dir.path().join("data");
    let launch = || {
        let timeout = if status == "ACTIVE" { "30s" } else { "5s" };
        let launch = Launch::usual().env("FAREGATE_CONFIG", &config);
        launch.env("FAREGATE_GATEWAY_HTTP_ACME_TIMEOUT", timeout)
    };
    let server = Server::start_in(&data, launch());
    let client = server.tenant();
    sell(&client, &monthly());
    let accounts: Vec<String> = (0..BUYERS).map(|_| account(&client, "acme")).collect();
    let begun = buy_all(&client, &accounts);
    eventually("the gateway has all charges", || {
        (program.state().charges.len() == BUYERS).then_some(())
    });
    server.kill();
    drop(begun);
    program.state().status = Some(outcome);
    program.answer_from_now_on();

    let server = Server::start_in(&data, launch());
    let client = server.client().tenant("bob", "lazar");
    for account in &accounts {
        let purchase = resolved(&client, account, status);
        let transaction = &transactions(&client, &purchase)[0];
        assert_eq!(program.state().charges_of(&transaction["transactionId"]), 1);
        match status {
            "ACTIVE" => granted_once(&client, account, &purchase, 1),
            _ => assert_eq!(grants(&client, account), (vec![], 0)),
        }
        // Only a decline waits: until the call's deadline, it may still charge.
        let again = eventually("the repetition is answered", || {
            let again = buy_again(&client, account);
            (status == "ACTIVE" || again.status != 409).then_some(again)
        });
        assert_eq!(again.status, repeated, "{}", again.text());
        if repeated == 201 {
            assert_eq!(again.json()["purchase"], purchase);
        }
        assert_eq!(purchases(&client, account), [purchase], "a repetition buys nothing more");
    }
    assert_eq!(program.state().charges.len(), BUYERS, "no charge but these");
    stop_and_verify(server, &data);
}

#[test]
fn a_charge_whose_answer_was_cut_off_is_granted_once() {
    check_killed_before_the_answer("PROCESSED", "ACTIVE", 201);
}

#[test]
fn a_decline_that_was_cut_off_grants_nothing() {
    check_killed_before_the_answer("ERROR", "FAILED", 402);
}

/// The purchase is committed, and the gateway never reads the call.
#[test]
fn a_purchase_whose_call_never_arrived_fails_and_charges_nothing() {
    let dir = TempDir::new();
    // Connections are made, and what is sent lies unread in them.
    let unread = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unread.local_addr().unwrap().to_string();
    let config = Program::configure(dir.path(), &address);
    let data = dir.path().join("data");
    let launch = || {
        Launch::usual()
            .env("FAREGATE_CONFIG", &config)
            .env("FAREGATE_GATEWAY_HTTP_ACME_TIMEOUT", "2s")
            .env("FAREGATE_GATEWAY_HTTP_ACME_SETTLE_AFTER", "1s")
            .env("FAREGATE_RESOLVER_UNKNOWN_DELAYS", "250ms,1s,1s,1s,1s,1s,1s")
    };
    let server = Server::start_in(&data, launch());
    let client = server.tenant();
    sell(&client, &monthly());
    let accounts: Vec<String> = (0..BUYERS).map(|_| account(&client, "acme")).collect();
    let begun = buy_all(&client, &accounts);
    server.kill();
    drop((begun, unread));
    let (program, _) = Program::start_at(dir.path(), &address);
    program.answer_from_now_on();

    let server = Server::start_in(&data, launch());
    let client = server.client().tenant("bob", "lazar");
    for account in &accounts {
        let purchase = resolved(&client, account, "FAILED");
        assert_eq!(transactions(&client, &purchase)[0]["status"], "PLUGIN_FAILURE");
        assert_eq!(grants(&client, account), (vec![], 0));
        let again = buy_again(&client, account);
        assert_eq!(again.status, 502, "{}", again.text());
        assert_eq!(purchases(&client, account), [purchase]);
    }
    assert!(program.state().charges.is_empty(), "{:?}", program.state().charges);
    assert!(program.state().inquiries >= BUYERS);
    // Nothing of it is in the way of another purchase.
    let path = format!("/v1/accounts/{}/purchases", accounts[0]);
    let bought = client.post(&path, &wanted());
    assert_eq!(bought.status, 201, "{}", bought.text());
    granted_once(&client, &accounts[0], &bought.json()["purchase"], 1);
    assert_eq!(program.state().charges.len(), 1);
    stop_and_verify(server, &data);
}

/// A refund takes back what was bought, once, although its answer was cut off.
#[test]
fn a_refund_whose_answer_was_cut_off_takes_back_once() {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    program.answer_from_now_on();
    let data = dir.path().join("data");
    let launch = || Launch::usual().env("FAREGATE_CONFIG", &config);
    let server = Server::start_in(&data, launch());
    let client = server.tenant();
    sell(&client, &monthly());
    let account = account(&client, "acme");
    let bought = client.post(&format!("/v1/accounts/{account}/purchases"), &wanted());
    assert_eq!(bought.status, 201, "{}", bought.text());
    let bought = bought.json()["purchase"].clone();
    program.hold_answers();
    let refunds = format!("/1.0/kb/payments/{}/refunds", bought["paymentId"].as_str().unwrap());
    let refund = json!({ "amount": "10" });
    let begun = send(&client, "refund", &refunds, &refund);
    eventually("the gateway has the refund", || (program.state().charges.len() == 2).then_some(()));
    granted_once(&client, &account, &bought, 1);
    server.kill();
    drop(begun);
    program.answer_from_now_on();

    let server = Server::start_in(&data, launch());
    let client = server.client().tenant("bob", "lazar");
    resolved(&client, &account, "RETURNED");
    assert_eq!(grants(&client, &account), (vec![], 2));
    let again = client.clone().header("Idempotency-Key", "refund").post(&refunds, &refund);
    assert_eq!(again.status, 201, "{}", again.text());
    let sent = transactions(&client, &bought);
    assert_eq!(sent.len(), 2, "{sent:?}");
    for it in &sent {
        assert_eq!(program.state().charges_of(&it["transactionId"]), 1, "{it}");
    }
    stop_and_verify(server, &data);
}
