//! Operations on a payment while another one of it runs: they wait for their turn.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::thread;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::native::{account, purchase};
use crate::process::{Launch, Server, TempDir, eventually, run};

/// A payment of this amount through the simulated gateway.
fn paid(client: &Client, amount: &str) -> String {
    let account = account(client, "faregate-simulator");
    purchase(client, &account, amount, "")["paymentId"].as_str().unwrap().to_owned()
}

/// So many refunds of 1.00 at once, with a query each.
fn refund_at_once(client: &Client, payment: &str, count: usize, query: &str) -> Vec<Answer> {
    let refund = || {
        let path = format!("/1.0/kb/payments/{payment}/refunds{query}");
        client.post(&path, &json!({ "amount": "1" }))
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..count).map(|_| scope.spawn(refund)).collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

fn by_status(answers: &[Answer]) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for it in answers {
        *counts.entry(it.status).or_default() += 1;
    }
    counts
}

/// How many refunds the payment has, and the sum that went back.
fn refunds(client: &Client, payment: &str) -> (usize, Value) {
    let shown = client.get(&format!("/1.0/kb/payments/{payment}")).json();
    let transactions = shown["transactions"].as_array().unwrap();
    let refunds = transactions.iter().filter(|it| it["transactionType"] == "REFUND");
    (refunds.count(), shown["refundedAmount"].clone())
}

#[test]
fn refunds_at_once_are_all_carried_out() {
    let server = Server::start();
    let client = server.tenant();
    let payment = paid(&client, "70");
    let answers = refund_at_once(&client, &payment, 32, "?pluginProperty=delayMs%3D20");
    assert_eq!(by_status(&answers), [(201, 32)].into());
    assert_eq!(refunds(&client, &payment), (32, json!(32.0)));
}

#[test]
fn what_is_left_decides_when_its_turn_comes() {
    let server = Server::start();
    let client = server.tenant();
    let payment = paid(&client, "5");
    let answers = refund_at_once(&client, &payment, 8, "?pluginProperty=delayMs%3D20");
    assert_eq!(by_status(&answers), [(201, 5), (400, 3)].into());
    let refused = answers.iter().filter(|it| it.status == 400);
    let codes: Vec<_> = refused.map(|it| it.json()["code"].clone()).collect();
    assert_eq!(codes, [7031, 7031, 7031], "too much, and not a wrong transition");
    assert_eq!(refunds(&client, &payment), (5, json!(5.0)));
}

#[test]
fn so_many_wait_for_so_long_and_the_rest_is_told_to_come_back() {
    let launch = Launch::usual().env("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "1500ms");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let payment = paid(&client, "70");
    let answers = refund_at_once(&client, &payment, 68, "?pluginProperty=delayMs%3D700");
    let counts = by_status(&answers);
    let carried_out = counts.get(&201).copied().unwrap_or_default();
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [201, 503], "{counts:?}");
    assert!((2..=4).contains(&carried_out), "as many as fit into the time: {counts:?}");
    for it in answers.iter().filter(|it| it.status == 503) {
        assert!(it.header("retry-after").is_some() && it.header("location").is_none());
        assert_eq!(it.header("x-faregate-outcome"), None, "nothing happened");
    }
    let (count, sum) = refunds(&client, &payment);
    assert_eq!(count, carried_out, "nothing is written of the others");
    assert_eq!(sum.to_string(), format!("{carried_out}.0"));
}

#[test]
fn an_outcome_that_is_unknown_is_not_waited_for() {
    let launch = Launch::usual().env("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "1s");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let account = account(&client, "faregate-simulator");
    let late = "?pluginProperty=delayMs%3D600000&pluginProperty=chargeAfterMs%3D600000";
    let purchase = json!({ "transactionType": "PURCHASE", "amount": "10" });
    let paid = client.post(&format!("/1.0/kb/accounts/{account}/payments{late}"), &purchase);
    assert_eq!(paid.status, 504, "its outcome is unknown from now on");
    let payments = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
    let payment = payments[0]["paymentId"].as_str().unwrap();
    let refused = refund_at_once(&client, payment, 1, "").remove(0);
    assert_eq!((refused.status, &refused.json()["code"]), (400, &json!(7032)));
}

#[test]
fn a_key_that_is_pending_elsewhere_is_refused_at_once() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "faregate-simulator");
    let path = format!("/1.0/kb/accounts/{account}/payments");
    let pending = format!("{path}?pluginProperty=outcome%3DPENDING");
    let purchase = json!({
        "transactionType": "PURCHASE", "amount": "10", "transactionExternalKey": "k",
    });
    assert_eq!(client.post(&pending, &purchase).status, 201);
    let refused = client.post(&path, &purchase);
    assert_eq!((refused.status, &refused.json()["code"]), (400, &json!(7032)));
    let commands = server.metrics();
    let repeated = commands.lines().find(|it| it.starts_with("faregate_batch_commands_sum"));
    let executed: f64 = repeated.and_then(|it| it.rsplit(' ').next()).unwrap().parse().unwrap();
    assert!(executed < 100.0, "it is not tried again and again: {executed}");
}

#[test]
fn what_a_client_waits_for_no_longer_is_not_carried_out() {
    let server = Server::start();
    let client = server.tenant();
    let payment = paid(&client, "70");
    let path = format!("/1.0/kb/payments/{payment}/refunds");
    let begin = |query: &str| {
        let mut stream = client.connect();
        let path = format!("{path}{query}");
        let request = client.request("POST", &path, Some(br#"{"amount": "1"}"#), "keep-alive");
        stream.write_all(&request).unwrap();
        stream
    };
    let mut first = begin("?pluginProperty=delayMs%3D1500");
    eventually("the first one runs", || (refunds(&client, &payment).0 == 1).then_some(()));
    let (gone, mut waiting) = (begin(""), begin(""));
    server.metrics_with("faregate_requests_in_progress 3");
    drop(gone);
    for stream in [&mut first, &mut waiting] {
        let answer = Answer::read(stream);
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    assert_eq!(refunds(&client, &payment), (2, json!(2.0)));
}

#[test]
fn a_crash_loses_what_waits_and_nothing_else() {
    let dir = TempDir::new();
    // The call that runs may not have reached the gateway: that is final a second after its deadline.
    let launch = || {
        Launch::usual()
            .env("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "10s")
            .env("FAREGATE_GATEWAY_SIMULATOR_SETTLE_AFTER", "1s")
    };
    let server = Server::start_in(dir.path(), launch());
    let client = server.tenant();
    let payment = paid(&client, "70");
    let path = format!("/1.0/kb/payments/{payment}/refunds?pluginProperty=delayMs%3D150");
    let request = client.request("POST", &path, Some(br#"{"amount": "1"}"#), "keep-alive");
    let mut sent: Vec<_> = (0..12).map(|_| client.connect()).collect();
    sent.iter_mut().for_each(|stream| stream.write_all(&request).unwrap());
    eventually("some are done and others wait", || {
        (refunds(&client, &payment).0 >= 4).then_some(())
    });
    server.kill();
    let acknowledged = sent.into_iter().filter_map(|mut stream| {
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        answer.starts_with(b"HTTP/1.1 201").then_some(())
    });
    let acknowledged = acknowledged.count();
    let server = Server::start_in(dir.path(), launch());
    let client = server.client().tenant("bob", "lazar");
    let path = format!("/1.0/kb/payments/{payment}?withPluginInfo=true");
    let settled = eventually("the one that ran has its outcome", || {
        let shown = client.get(&path).json();
        let transactions = shown["transactions"].as_array().unwrap();
        let of = |status| transactions.iter().filter(|it| it["status"] == status).count();
        let (done, never_arrived) = (of("SUCCESS"), of("PLUGIN_FAILURE"));
        (done + never_arrived == transactions.len()).then_some(done - 1)
    });
    assert!((acknowledged..=acknowledged + 1).contains(&settled), "{acknowledged}, {settled}");
    assert!((3..12).contains(&settled), "{settled}");
    let (status, _) = server.stop();
    assert_eq!(status.code(), Some(0));
    for command in ["verify", "reconcile"] {
        let checked = run(&[command, "--data-dir", dir.path().to_str().unwrap()]);
        assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}
