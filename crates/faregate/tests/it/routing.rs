//! Routing: rules, cascades and breakers, through Kill Bill's API on the running server.

use std::thread;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::gateways::{self, Program, payment_of};
use crate::process::{Launch, Server, TempDir, eventually};

const RULES: &str = "/1.0/kb/tenants/uploadPluginConfig/faregate-router";
const SIMULATOR: &str = "faregate-simulator";
const PLUGIN: &str = "killbill-payment-test";

fn set(client: &Client, rules: &Value) -> Answer {
    let client = client.clone().header("Content-Type", "text/plain");
    client.send("POST", RULES, Some(rules.to_string().as_bytes()))
}

/// Routes all payments of a tenant to these gateways.
fn route(client: &Client, gateways: &[&str]) {
    let answer = set(client, &json!({ "rules": [{ "name": "all", "gateways": gateways }] }));
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// An account whose default method is routed, and has a part for each of the gateways.
fn account(client: &Client, gateways: &[&str]) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let id = account["accountId"].as_str().unwrap().to_owned();
    let part = |it: &&str| json!({ "key": format!("{it}.externalPaymentMethodId"), "value": "x" });
    let properties: Vec<Value> = gateways.iter().map(part).collect();
    let method = json!({
        "pluginName": "faregate-router",
        "pluginInfo": { "properties": properties },
    });
    client.create(&format!("/1.0/kb/accounts/{id}/paymentMethods?isDefault=true"), &method);
    id
}

fn purchase(client: &Client, account: &str, query: &str) -> Answer {
    let path = format!("/1.0/kb/accounts/{account}/payments?{query}");
    client.post(&path, &json!({ "transactionType": "PURCHASE", "amount": 10 }))
}

/// The query that has the first gateway decline with a code.
fn declined(gateway: &str, code: &str) -> String {
    format!("pluginProperty={gateway}.outcome%3DERROR&pluginProperty={gateway}.errorCode%3D{code}")
}

/// The statuses of a payment's transactions.
fn statuses(client: &Client, payment: &str) -> Vec<String> {
    let payment = client.get(&format!("/1.0/kb/payments/{payment}")).json();
    let all = payment["transactions"].as_array().unwrap().iter();
    all.map(|it| format!("{} {}", it["transactionType"], it["status"]).replace('"', "")).collect()
}

#[test]
fn a_declined_payment_succeeds_at_the_next_gateway_within_the_request() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, &[PLUGIN, SIMULATOR]);
    let refused = purchase(&client, &account, "");
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("no rule of faregate-router matches"), "{}", refused.text());
    route(&client, &[PLUGIN, SIMULATOR]);
    let keyed = client.clone().header("Idempotency-Key", "once");
    let first = purchase(&keyed, &account, &declined(PLUGIN, "51"));
    assert_eq!(first.status, 201, "{}", first.text());
    let payment = payment_of(&first);
    let expected = ["PURCHASE PAYMENT_FAILURE", "PURCHASE SUCCESS"];
    assert_eq!(statuses(&client, &payment), expected);
    // The key's answer is that of the last try.
    let again = purchase(&keyed, &account, &declined(PLUGIN, "51"));
    assert_eq!((again.status, payment_of(&again)), (201, payment.clone()));
    assert_eq!(statuses(&client, &payment), expected);
    // What follows goes where the money is.
    let refund = format!("/1.0/kb/payments/{payment}/refunds");
    assert_eq!(client.post(&refund, &json!({ "amount": 4 })).status, 201);
    let hard = purchase(&client, &account, &declined(PLUGIN, "54"));
    assert_eq!(hard.status, 402, "{}", hard.text());
    let metrics = server.metrics();
    assert!(metrics.contains("faregate_cascaded_payments_total 1"), "{metrics}");
}

#[test]
fn rules_that_cannot_be_are_refused_by_field_and_naming_gateways_needs_a_permission() {
    let server = Server::start();
    let client = server.tenant();
    let refusal = |rules: Value| {
        let answer = set(&client, &rules);
        assert_eq!(answer.status, 400, "{}", answer.text());
        answer.json()["message"].as_str().unwrap().to_owned()
    };
    let gone = refusal(json!({ "rules": [{ "name": "a", "gateways": ["gone"] }] }));
    assert!(gone.contains("rules[0].gateways") && gone.contains("not there: gone"), "{gone}");
    let share = |percent| json!({ "percent": percent, "gateways": [SIMULATOR] });
    let split = json!({ "rules": [{ "name": "a", "split": [share(60), share(41)] }] });
    let sum = refusal(split);
    assert!(sum.contains("rules[0].split") && sum.contains("101 %"), "{sum}");
    route(&client, &[PLUGIN]);
    let account = account(&client, &[PLUGIN, SIMULATOR]);
    let named = format!("pluginProperty=gateways%3D{SIMULATOR}");
    assert_eq!(purchase(&client, &account, &named).status, 201);
    let role = json!({ "role": "payer", "permissions": ["payment:trigger"] });
    assert_eq!(client.post("/1.0/kb/security/roles", &role).status, 201);
    let user = json!({ "username": "paula", "password": "a long password", "roles": ["payer"] });
    assert_eq!(client.post("/1.0/kb/security/users", &user).status, 201);
    let payer = client.clone().user("paula", "a long password");
    assert_eq!(purchase(&payer, &account, "").status, 201);
    let denied = purchase(&payer, &account, &named);
    assert_eq!(denied.status, 401, "{}", denied.text());
    assert!(denied.text().contains("routing:override"), "{}", denied.text());
}

#[test]
fn an_explanation_says_which_rule_a_payment_would_take() {
    let server = Server::start();
    let client = server.tenant();
    let rules = json!({ "rules": [
        { "name": "euros", "when": { "currencies": ["EUR"] }, "gateways": [PLUGIN] },
        { "name": "rest", "gateways": [PLUGIN, SIMULATOR] },
    ] });
    assert_eq!(set(&client, &rules).status, 201);
    let account = account(&client, &[SIMULATOR]);
    let asked = json!({ "accountId": account, "amount": "10.00" });
    let explained = client.post("/v1/routing/explain", &asked);
    assert_eq!(explained.status, 200, "{}", explained.text());
    let expected = json!({
        "chosenBy": "rule",
        "rule": "rest",
        "gateway": SIMULATOR,
        "rules": [
            { "name": "euros", "matches": false, "mismatch": "currencies" },
            { "name": "rest", "matches": true, "mismatch": null },
        ],
        "gateways": [
            { "gateway": PLUGIN, "passedOver": "neither payment method nor request has a property for it" },
            { "gateway": SIMULATOR, "passedOver": null },
        ],
    });
    assert_eq!(explained.json(), expected);
}

#[test]
fn a_server_that_is_killed_during_the_next_try_charges_it_once() {
    let dir = TempDir::new();
    let (program, launch) = Program::start_for_server(dir.path());
    let data = dir.path().join("data");
    let server = Server::start_in(&data, launch());
    let client = server.tenant();
    route(&client, &[SIMULATOR, "acme"]);
    let account = account(&client, &[SIMULATOR, "acme"]);
    let paying = {
        let (client, account) = (client.clone(), account.clone());
        // Its connection is cut.
        thread::spawn(move || {
            std::panic::catch_unwind(|| purchase(&client, &account, &declined(SIMULATOR, "51")))
        })
    };
    eventually("the second try is under way", || {
        (program.state().charges.len() == 1).then_some(())
    });
    server.kill();
    program.answer_from_now_on();
    drop(paying.join());
    let server = Server::start_in(&data, launch());
    let client = server.client().tenant("bob", "lazar");
    let list = format!("/1.0/kb/accounts/{account}/payments");
    let payment = client.get(&list).json()[0]["paymentId"].as_str().unwrap().to_owned();
    eventually("the outcome is known", || {
        let all = statuses(&client, &payment);
        (all == ["PURCHASE PAYMENT_FAILURE", "PURCHASE SUCCESS"]).then_some(())
    });
    let charges: Vec<usize> = program.state().charges.values().map(Vec::len).collect();
    assert_eq!(charges, [1], "one charge of one transaction");
}

#[test]
fn a_breaker_opens_for_a_tenant_then_for_all_routes_around_and_closes_again() {
    let dir = TempDir::new();
    // A port on which nobody listens yet.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, config) = Program::start(dir.path());
    let text = std::fs::read_to_string(&config).unwrap();
    let url = text.lines().find(|line| line.starts_with("url")).unwrap().to_owned();
    let there = format!("url = \"http://{address}\"");
    std::fs::write(&config, text.replace(&url, &there)).unwrap();
    let launch = Launch::usual()
        .env("FAREGATE_CONFIG", &config)
        .env("FAREGATE_GATEWAY_BREAKER_CALLS_MIN", "3")
        .env("FAREGATE_GATEWAY_BREAKER_OPEN_FOR", "1s");
    let server = Server::start_with(launch);
    let client = server.tenant();
    route(&client, &["acme", SIMULATOR]);
    let account = account(&client, &["acme", SIMULATOR]);
    let acme = "pluginProperty=gateways%3Dacme";
    for _ in 0..3 {
        let failed = purchase(&client, &account, acme);
        assert_eq!(failed.status, 502, "{}", failed.text());
    }
    // Nothing else may call it meanwhile; nothing is written.
    let count = || client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
    let before = count().as_array().unwrap().len();
    let refused = purchase(&client, &account, acme);
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    assert_eq!(count().as_array().unwrap().len(), before);
    let routed = purchase(&client, &account, "");
    assert_eq!(routed.status, 201, "{}", routed.text());
    assert_eq!(statuses(&client, &payment_of(&routed)), ["PURCHASE SUCCESS"]);
    let metrics = server.metrics();
    for expected in [
        "faregate_gateway_breaker_opened_total{gateway=\"acme\",of=\"tenant\"} 1",
        "faregate_gateway_breaker_tenants{gateway=\"acme\"} 1",
    ] {
        assert!(metrics.contains(expected), "{metrics}");
    }
    // Another tenant has its own breaker. Where its calls fail too, the gateway is not called for anyone.
    let body = json!({ "apiKey": "alice", "apiSecret": "lazar" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &body).status, 201);
    let other = server.client().tenant("alice", "lazar");
    let account_of_other = gateways::account(&other, "acme");
    for _ in 0..2 {
        assert_eq!(gateways::pay(&other, &account_of_other, "PURCHASE").status, 502);
    }
    assert_eq!(gateways::pay(&other, &account_of_other, "PURCHASE").status, 503);
    let metrics = server.metrics();
    let shared = "faregate_gateway_breaker_opened_total{gateway=\"acme\",of=\"gateway\"} 1";
    assert!(metrics.contains(shared), "{metrics}");
    // The program is there from now on: probes find out.
    let elsewhere = TempDir::new();
    let (program, _) = Program::start_at(elsewhere.path(), &address.to_string());
    program.answer_from_now_on();
    eventually("the gateway is called again", || {
        let paid = purchase(&client, &account, acme);
        (paid.status == 201).then_some(())
    });
    let charged = || program.state().charges.len();
    eventually("its breaker is closed", || {
        purchase(&client, &account, "");
        (charged() >= 4).then_some(())
    });
}
