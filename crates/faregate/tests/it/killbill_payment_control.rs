//! Payment control through Kill Bill's API: the rules of `faregate-rules`, what they abort, and attempts.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::Server;

const RULES: &str = "/1.0/kb/tenants/uploadPluginConfig/faregate-rules";
const SETTINGS: &str = "/1.0/kb/tenants/uploadPerTenantConfig";
const CONTROLLED: &str = "controlPluginName=faregate-rules";

/// An account that pays through the simulated gateway: the path of its payments.
fn payments(client: &Client) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let account = account["accountId"].as_str().unwrap();
    let method = json!({ "pluginName": "faregate-simulator", "pluginInfo": {} });
    let path = format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true");
    client.create(&path, &method);
    format!("/1.0/kb/accounts/{account}/payments")
}

fn set(client: &Client, path: &str, text: &str) -> Answer {
    client.clone().header("Content-Type", "text/plain").send("POST", path, Some(text.as_bytes()))
}

fn rules(client: &Client, rules: &Value) {
    let answer = set(client, RULES, &rules.to_string());
    assert_eq!(answer.status, 201, "{}", answer.text());
}

fn purchase(client: &Client, path: &str, amount: &str) -> Answer {
    client.post(path, &json!({ "transactionType": "PURCHASE", "amount": amount }))
}

/// Status, and what is said where a plugin aborted.
fn shown(answer: &Answer) -> String {
    match answer.status {
        422 => format!("{} {}", answer.json()["code"], answer.json()["message"].as_str().unwrap()),
        status => status.to_string(),
    }
}

fn attempts(payment: &Value) -> Vec<String> {
    let attempts = payment["paymentAttempts"].as_array().unwrap().iter();
    attempts.map(|it| format!("{} {}", it["stateName"].as_str().unwrap(), it["amount"])).collect()
}

#[test]
fn rules_hold_for_calls_that_name_the_plugin_or_for_all() {
    let server = Server::start();
    let client = server.tenant();
    let path = payments(&client);
    let named = format!("{path}?{CONTROLLED}");
    assert_eq!(shown(&purchase(&client, &named, "1000")), "201", "there are no rules");
    rules(&client, &json!({ "limits": { "USD": { "payment": "100.00" } }, "paymentsPerDay": 3 }));
    assert_eq!(shown(&purchase(&client, &path, "100.01")), "201", "it does not name the plugin");
    let above = "7106 Control plugin aborted call: faregate-rules: 100.01 USD exceeds the limit of \
                 100.00 USD for a payment";
    assert_eq!(shown(&purchase(&client, &named, "100.01")), above);
    assert_eq!(shown(&purchase(&client, &named, "100")), "201");
    let declined = purchase(&client, &format!("{named}&pluginProperty=outcome%3DERROR"), "9");
    assert_eq!(declined.status, 402, "it is given back");
    assert_eq!(shown(&purchase(&client, &named, "8")), "201");
    let third = "7106 Control plugin aborted call: faregate-rules: the account has had 3 payments \
                 this day, the limit";
    assert_eq!(shown(&purchase(&client, &named, "1")), third);
    let other = payments(&client);
    rules(&client, &json!({ "everyPayment": true, "currencies": ["EUR"], "gateways": ["x"] }));
    let currency =
        "7106 Control plugin aborted call: faregate-rules: the currency USD is not allowed";
    assert_eq!(shown(&purchase(&client, &other, "1")), currency);
    assert_eq!(client.delete(RULES).status, 204);
    assert_eq!(shown(&purchase(&client, &other, "1")), "201");
    let listed = client.get(&other).json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "what was aborted is no payment");
}

#[test]
fn rules_lower_an_amount_and_refuse_what_they_leave_nothing_of() {
    let server = Server::start();
    let client = server.tenant();
    let path = payments(&client);
    let limits = json!({ "USD": { "payment": "100.00", "day": "150.00" } });
    rules(&client, &json!({ "everyPayment": true, "limits": limits, "lowerAmounts": true }));
    for (asked, begun) in [("120", 100.0), ("120", 50.0)] {
        let body = json!({ "transactionType": "PURCHASE", "amount": asked });
        let payment = client.create(&path, &body);
        assert_eq!(payment["transactions"][0]["amount"], begun, "{asked}");
    }
    let over = "7106 Control plugin aborted call: faregate-rules: 60.00 USD exceeds the limit of \
                150.00 USD for a day, of which 150.00 USD are used";
    assert_eq!(shown(&purchase(&client, &path, "60")), over);
}

#[test]
fn attempts_are_shown_with_their_payment_and_have_a_history() {
    let server = Server::start();
    let client = server.tenant();
    let path = payments(&client);
    let body = json!({ "transactionType": "AUTHORIZE", "amount": "10", "paymentExternalKey": "p" });
    let properties = "pluginProperty=outcome%3DERROR&pluginProperty=note%3Dn";
    let named = format!("{path}?{CONTROLLED}");
    assert_eq!(client.post(&format!("{named}&{properties}"), &body).status, 402);
    let payment = client.create(&named, &body);
    let id = payment["paymentId"].as_str().unwrap();
    assert_eq!(payment["paymentAttempts"], Value::Null);
    let read = format!("/1.0/kb/payments/{id}");
    let shown = client.get(&format!("{read}?withAttempts=true&audit=MINIMAL")).json();
    assert_eq!(attempts(&shown), ["ABORTED 10.0", "SUCCESS 10.0"]);
    let first = &shown["paymentAttempts"][0];
    assert_eq!(first["pluginName"], "faregate-rules");
    assert_eq!(first["paymentExternalKey"], "p");
    assert_eq!(first["transactionId"], shown["transactions"][0]["transactionId"]);
    let property = json!({ "key": "note", "value": "n", "isUpdatable": false });
    assert_eq!(first["pluginProperties"][1], property);
    let attempt = first["auditLogs"][0]["objectId"].as_str().unwrap();
    let history = format!("/1.0/kb/payments/attempts/{attempt}/auditLogsWithHistory");
    let states = client.get(&history).json();
    let states = states.as_array().unwrap().iter();
    let states: Vec<_> =
        states.map(|it| format!("{} {}", it["changeType"], it["history"]["stateName"])).collect();
    assert_eq!(states, [r#""INSERT" "INIT""#, r#""UPDATE" "ABORTED""#]);
    // What follows and names the plugin has its attempt too, and counts for no limit.
    let capture = client.post(&format!("{read}?{CONTROLLED}"), &json!({ "amount": "4" }));
    assert_eq!(capture.status, 201, "{}", capture.text());
    let shown = client.get(&format!("{read}?withAttempts=true")).json();
    assert_eq!(attempts(&shown), ["ABORTED 10.0", "SUCCESS 10.0", "SUCCESS 4.0"]);
    let other = client.create(&named, &json!({ "transactionType": "AUTHORIZE", "amount": "1" }));
    let other = format!("/1.0/kb/payments/{}", other["paymentId"].as_str().unwrap());
    assert_eq!(client.delete(&format!("{other}?{CONTROLLED}")).status, 204);
    let voided = client.get(&format!("{other}?withAttempts=true")).json();
    assert_eq!(attempts(&voided), ["SUCCESS 1.0", "SUCCESS null"]);
    let account = shown["accountId"].as_str().unwrap();
    rules(&client, &json!({ "paymentsPerDay": 0 }));
    assert_eq!(purchase(&client, &named, "1").status, 422);
    let logs = client.get(&format!("/1.0/kb/accounts/{account}/auditLogs")).json();
    let logs = logs.as_array().unwrap().iter();
    assert_eq!(logs.filter(|it| it["objectType"] == "PAYMENT_ATTEMPT").count(), 11);
    let nothing =
        "/1.0/kb/payments/attempts/00000000-0000-0000-0000-00000000000a/auditLogsWithHistory";
    assert_eq!(client.get(nothing).status, 404);
}

#[test]
fn an_aborted_call_is_repeated_with_its_answer() {
    let server = Server::start();
    let client = server.tenant();
    let path = format!("{}?{CONTROLLED}", payments(&client));
    rules(&client, &json!({ "paymentsPerDay": 0 }));
    let once = client.clone().header("Idempotency-Key", "k");
    let first = purchase(&once, &path, "1");
    assert_eq!(first.status, 422);
    rules(&client, &json!({}));
    let second = purchase(&once, &path, "1");
    assert_eq!((second.status, second.text()), (422, first.text()));
    assert_eq!(purchase(&client, &path, "1").status, 201);
}

#[test]
fn rules_of_one_tenant_are_not_anothers() {
    let server = Server::start();
    let client = server.tenant();
    rules(&client, &json!({ "everyPayment": true, "paymentsPerDay": 0 }));
    let body = json!({ "apiKey": "eve", "apiSecret": "eves" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &body).status, 201);
    let stranger = server.client().tenant("eve", "eves");
    assert_eq!(purchase(&stranger, &payments(&stranger), "1").status, 201);
    assert_eq!(purchase(&client, &payments(&client), "1").status, 422);
}

#[test]
fn rules_and_settings_that_cannot_be_are_refused_and_change_nothing() {
    let server = Server::start();
    let client = server.tenant();
    let path = payments(&client);
    rules(&client, &json!({ "everyPayment": true, "paymentsPerDay": 0 }));
    for (at, text, field) in [
        (RULES, "no rules", "FaregateRules"),
        (RULES, r#"{"limits":{"USD":{"payment":"1.001"}}}"#, "limits.USD.payment"),
        (RULES, r#"{"limits":{"XXX":{}}}"#, "limits"),
        (RULES, r#"{"limits":{"USD":{"day":-1}}}"#, "limits.USD.day"),
        (RULES, r#"{"perDay":1}"#, "perDay"),
        (
            SETTINGS,
            r#"{"org.killbill.payment.retry.days":"-1"}"#,
            "org.killbill.payment.retry.days",
        ),
        (SETTINGS, r#"{"faregate.payment.retry.api":"1"}"#, "faregate.payment.retry.api"),
    ] {
        let answer = set(&client, at, text);
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert_eq!((answer.status, message.contains(field)), (400, true), "{text}: {message}");
    }
    let nope = purchase(&client, &format!("{path}?{CONTROLLED}&controlPluginName=nope"), "1");
    assert_eq!(nope.status, 400, "{}", nope.text());
    assert_eq!(purchase(&client, &path, "1").status, 422, "the rules are what they were");
}
