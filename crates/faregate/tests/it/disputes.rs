//! Disputes that a gateway reports, and how they are shown.

use serde_json::{Value, json};

use crate::client::Client;
use crate::gateways::{Program, account, pay, payment_of};
use crate::process::{Launch, Server, TempDir};

/// A payment of 10 USD through a gateway, and its transaction.
pub fn paid(client: &Client, gateway: &str) -> (String, Value) {
    let payment = payment_of(&pay(client, &account(client, gateway), "PURCHASE"));
    let shown = client.get(&format!("/1.0/kb/payments/{payment}")).json();
    (payment, shown["transactions"][0]["transactionId"].clone())
}

/// A dispute as a gateway says it.
pub fn said(transaction: &Value, status: &str, withdrawn: &str, reinstated: &str) -> Value {
    json!({
        "transactionId": transaction, "disputeId": "case-7", "status": status, "reason": "general",
        "amount": "10", "currency": "USD", "evidenceDueBy": "2030-01-01T00:00:00Z",
        "withdrawn": withdrawn, "reinstated": reinstated,
    })
}

fn list(client: &Client, query: &str) -> Vec<Value> {
    let answer = client.get(&format!("/v1/disputes?{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["disputes"].as_array().unwrap().clone()
}

/// The status and the booked amounts of a payment's one dispute: charged back, reversed, excess, excess returned.
pub fn booked(client: &Client, payment: &str) -> String {
    let all = list(client, &format!("payment={payment}"));
    assert_eq!(all.len(), 1, "{all:?}");
    let text = |name: &str| all[0]["booked"][name].as_str().unwrap().to_owned();
    let booked = ["chargedBack", "reversed", "excess", "excessReturned"].map(text).join(" ");
    format!("{} {booked}", all[0]["status"].as_str().unwrap())
}

#[test]
fn a_dispute_of_the_simulator_is_booked_shown_and_found() {
    let server = Server::start();
    let client = server.tenant();
    let (payment, transaction) = paid(&client, "faregate-simulator");
    let notify = |dispute: Value| {
        let body =
            json!({ "paymentId": payment, "transactionId": transaction, "dispute": dispute });
        client.post("/1.0/kb/paymentGateways/notification/faregate-simulator", &body).status
    };
    let open = || said(&transaction, "NEEDS_RESPONSE", "12", "0");
    assert_eq!([notify(open()), notify(open())], [200, 200]);
    assert_eq!(booked(&client, &payment), "NEEDS_RESPONSE 10.00 0.00 2.00 0.00");
    let dispute = list(&client, "").remove(0);
    assert_eq!(dispute["gatewayDisputeId"], "case-7");
    assert_eq!(dispute["evidenceDueBy"], "2030-01-01T00:00:00Z");
    let id = dispute["disputeId"].as_str().unwrap();
    assert_eq!(client.get(&format!("/v1/disputes/{id}")).json(), dispute);
    assert_eq!(client.get("/v1/disputes/x").status, 404);
    assert_eq!(list(&client, "status=NEEDS_RESPONSE&limit=1")[0], dispute);
    assert_eq!(list(&client, "status=WON"), [Value::Null; 0]);
    let account = dispute["accountId"].as_str().unwrap();
    assert_eq!(list(&client, &format!("account={account}")), list(&client, ""));
    assert_eq!(list(&client, "account=0192aabb-ccdd-7000-8000-000000000001"), [Value::Null; 0]);
    for (query, field) in
        [("status=won", "status"), ("account=x", "account"), ("limit=-1", "limit"), ("a=b", "a")]
    {
        let refused = client.get(&format!("/v1/disputes?{query}"));
        assert_eq!((refused.status, refused.json()["field"].clone()), (400, json!(field)));
    }
    // Wrong in a field, and of another transaction.
    for (field, wrong) in [("amount", "-1"), ("status", "lost"), ("disputeId", "4111111111111111")]
    {
        let mut dispute = open();
        dispute[field] = json!(wrong);
        assert_eq!(notify(dispute), 400, "{field}");
    }
    let other = json!("0192aabb-ccdd-7000-8000-000000000001");
    assert_eq!(notify(said(&other, "LOST", "12", "0")), 200);
    assert_eq!(booked(&client, &payment), "NEEDS_RESPONSE 10.00 0.00 2.00 0.00");
    assert_eq!(notify(said(&transaction, "WON", "12", "12")), 200);
    assert_eq!(booked(&client, &payment), "WON 10.00 10.00 2.00 2.00");
    let metrics = server.metrics();
    for (name, count) in [
        ("faregate_disputes_total{gateway=\"faregate-simulator\"}", 1),
        ("faregate_dispute_excess_total", 1),
    ] {
        assert!(metrics.contains(&format!("{name} {count}")), "{name}");
    }
}

#[test]
fn a_dispute_of_a_program_is_booked_and_one_that_is_wrong_is_not() {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    program.answer_from_now_on();
    let server = Server::start_with(Launch::usual().env("FAREGATE_CONFIG", &config));
    let client = server.tenant();
    let (payment, transaction) = paid(&client, "acme");
    let notify = |about: Value| {
        program.state().about = about;
        client.send("POST", "/1.0/kb/paymentGateways/notification/acme", Some(b"case 7")).status
    };
    let open = said(&transaction, "NEEDS_RESPONSE", "4", "0");
    let about = |dispute: &Value| json!({ "paymentId": payment, "dispute": dispute });
    let outcome = json!({ "transactionId": transaction, "status": "PROCESSED" });
    let mut both = about(&open);
    both["outcome"] = outcome;
    for wrong in [json!({ "dispute": open }), both, about(&json!({ "status": "WON" }))] {
        assert_eq!(notify(wrong), 503);
    }
    assert_eq!(list(&client, ""), [Value::Null; 0]);
    assert_eq!([notify(about(&open)), notify(about(&open))], [200, 200]);
    assert_eq!(booked(&client, &payment), "NEEDS_RESPONSE 4.00 0.00 0.00 0.00");
    // The same case of another payment is not believed.
    let (other, of_other) = paid(&client, "acme");
    let dispute = said(&of_other, "LOST", "10", "0");
    assert_eq!(notify(json!({ "paymentId": other, "dispute": dispute })), 200);
    assert_eq!(list(&client, &format!("payment={other}")), [Value::Null; 0]);
    assert_eq!(booked(&client, &payment), "NEEDS_RESPONSE 4.00 0.00 0.00 0.00");
}
