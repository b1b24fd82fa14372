//! Retries of failed payments on a running server: scheduled, made, cancelled, suspended, and kept over a kill.

use serde_json::{Value, json};

use crate::client::{Client, advance};
use crate::process::{Launch, Server, TempDir};

const RETRIES: &str = "controlPluginName=faregate-rules&pluginProperty=IPCD_RETRIES%3Dtrue";
const AUTO_PAY_OFF: &str = "00000000-0000-0000-0000-000000000001";

fn new_account(client: &Client) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    account["accountId"].as_str().unwrap().to_owned()
}

/// A payment method, the account's default, whose payments end so.
fn method(client: &Client, account: &str, outcome: Option<&str>) -> String {
    let properties = outcome.map(|value| json!([{ "key": "outcome", "value": value }]));
    let properties = properties.unwrap_or(json!([]));
    let body =
        json!({ "pluginName": "faregate-simulator", "pluginInfo": { "properties": properties } });
    let path = format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true");
    client.create(&path, &body)["paymentMethodId"].as_str().unwrap().to_owned()
}

/// The path of a payment that fails and is retried.
fn failed(client: &Client, account: &str, key: &str) -> String {
    let purchase =
        json!({ "transactionType": "PURCHASE", "amount": "10", "transactionExternalKey": key });
    let answer = client.post(&format!("/1.0/kb/accounts/{account}/payments?{RETRIES}"), &purchase);
    assert!([402, 502].contains(&answer.status), "{}", answer.text());
    let location = answer.header("location").unwrap();
    let path = &location[location.find("/1.0").unwrap()..];
    path.trim_end_matches('/').to_owned()
}

fn texts(list: &Value, name: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|it| it[name].as_str().unwrap().to_owned()).collect()
}

/// The statuses of a payment's transactions, and the states of its attempts.
fn shown(client: &Client, payment: &str) -> (Vec<String>, Vec<String>) {
    let json = client.get(&format!("{payment}?withAttempts=true")).json();
    (texts(&json["transactions"], "status"), texts(&json["paymentAttempts"], "stateName"))
}

fn check(client: &Client, payment: &str, statuses: &[&str], states: &[&str]) {
    let (found_statuses, found_states) = shown(client, payment);
    assert_eq!(found_statuses, statuses);
    assert_eq!(found_states, states);
}

#[test]
fn a_declined_payment_is_retried_with_the_default_method_until_it_succeeds() {
    let server = Server::start();
    let client = server.tenant();
    let account = new_account(&client);
    let declining = method(&client, &account, Some("ERROR"));
    let payment = failed(&client, &account, "t-1");
    check(&client, &payment, &["PAYMENT_FAILURE"], &["RETRIED", "SCHEDULED"]);
    let attempts = client.get(&format!("{payment}?withAttempts=true")).json();
    let [made, due] = ["0", "1"].map(|at| {
        let date = attempts.pointer(&format!("/paymentAttempts/{at}/effectiveDate"));
        date.unwrap().as_str().unwrap()[..10].to_owned()
    });
    assert!(made < due, "{made} {due}");
    advance(&client, 7);
    check(&client, &payment, &["PAYMENT_FAILURE"], &["RETRIED", "SCHEDULED"]);
    advance(&client, 1);
    let twice = ["PAYMENT_FAILURE", "PAYMENT_FAILURE"];
    check(&client, &payment, &twice, &["RETRIED", "RETRIED", "SCHEDULED"]);
    method(&client, &account, None);
    assert_eq!(client.delete(&format!("/1.0/kb/paymentMethods/{declining}")).status, 204);
    advance(&client, 8);
    let thrice = ["PAYMENT_FAILURE", "PAYMENT_FAILURE", "SUCCESS"];
    check(&client, &payment, &thrice, &["RETRIED", "RETRIED", "SUCCESS"]);
    let json = client.get(&payment).json();
    assert_eq!(texts(&json["transactions"], "transactionExternalKey"), ["t-1"; 3]);
    advance(&client, 60);
    check(&client, &payment, &thrice, &["RETRIED", "RETRIED", "SUCCESS"]);
}

#[test]
fn scheduled_retries_are_notifications_of_the_queue_of_retries() {
    let server = Server::start();
    let client = server.tenant();
    let account = new_account(&client);
    method(&client, &account, Some("ERROR"));
    let payment = failed(&client, &account, "t-1");
    failed(&client, &account, "t-2");
    let of = |client: &Client, query: &str| {
        let queues = "/1.0/kb/admin/queues";
        let answer = client.clone().header("Accept", "*/*").get(&format!("{queues}?{query}"));
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        answer.json()["notifications"].as_array().unwrap().clone()
    };
    let listed = of(&client, &format!("accountId={account}"));
    assert_eq!(listed.len(), 2, "{listed:?}");
    let (json, first) = (client.get(&format!("{payment}?withAttempts=true")).json(), &listed[0]);
    let attempt = first["event"]["attemptId"].as_str().unwrap();
    let history = format!("/1.0/kb/payments/attempts/{attempt}/auditLogsWithHistory");
    assert_eq!(client.get(&history).json()[0]["history"]["transactionExternalKey"], "t-1");
    assert_eq!(
        first["event"],
        json!({
            "attemptId": attempt,
            "paymentControlPluginNames": ["faregate-rules"],
            "accountId": account,
            "paymentId": json["paymentId"],
        })
    );
    let second = |date: &Value| date.as_str().unwrap()[..19].to_owned();
    let due = json.pointer("/paymentAttempts/1/effectiveDate").unwrap();
    assert_eq!(second(&first["effectiveDate"]), second(due));
    assert_eq!(first["queueName"], "payment-service:retry");
    let class = "org.killbill.billing.payment.retry.PaymentRetryNotificationKey";
    assert_eq!(first["className"], class);
    assert_eq!(first["searchKey1"], listed[1]["searchKey1"]);
    for (query, expected) in [
        ("limit=1", 1),
        ("serviceName=payment-service&queueName=retry", 2),
        ("queueName=janitor", 0),
        ("withNotifications=false", 0),
        ("maxDate=2000-01-01", 0),
        ("minDate=2000-01-01&maxDate=9000-01-01", 2),
    ] {
        assert_eq!(of(&client, query).len(), expected, "{query}");
    }
    let stranger = json!({ "apiKey": "eve", "apiSecret": "eves" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &stranger).status, 201);
    assert_eq!(of(&server.client().tenant("eve", "eves"), "").len(), 0);
    let keeping = new_account(&client);
    method(&client, &keeping, Some("ERROR"));
    failed(&client, &keeping, "t-3");
    let closed = |account: &str, query: &str, left: usize| {
        let path = format!("/1.0/kb/accounts/{account}?{query}");
        assert_eq!(client.delete(&path).status, 204, "{path}");
        assert_eq!(of(&client, &format!("accountId={account}")).len(), left, "{path}");
    };
    closed(&keeping, "removeFutureNotifications=false", 1);
    closed(&account, "", 0);
}

#[test]
fn retries_are_cancelled_by_id_and_by_key() {
    let server = Server::start();
    let client = server.tenant();
    let account = new_account(&client);
    method(&client, &account, Some("CANCELED"));
    let payments = ["by-id", "by-key"].map(|key| failed(&client, &account, key));
    let transaction = client.get(&payments[0]).json()["transactions"][0]["transactionId"].clone();
    let transaction = transaction.as_str().unwrap();
    let cancel = "cancelScheduledPaymentTransaction";
    let by_id = format!("/1.0/kb/payments/{transaction}/{cancel}");
    let by_key = format!("/1.0/kb/payments/{cancel}?transactionExternalKey=by-key");
    for path in [&by_id, &by_id, &by_key] {
        assert_eq!(client.delete(path).status, 204, "{path}");
    }
    advance(&client, 1);
    for payment in &payments {
        check(&client, payment, &["PLUGIN_FAILURE"], &["ABORTED"]);
    }
    let unknown = client.delete(&format!("/1.0/kb/payments/{account}/{cancel}"));
    assert_eq!((unknown.status, unknown.json()["code"].as_i64()), (404, Some(7020)));
    let unknown = client.delete(&format!("/1.0/kb/payments/{cancel}?transactionExternalKey=none"));
    assert_eq!((unknown.status, unknown.json()["code"].as_i64()), (404, Some(7020)));
    let unnamed = client.delete(&format!("/1.0/kb/payments/{cancel}"));
    assert_eq!(unnamed.status, 400);
    assert_eq!(unnamed.json()["message"], "transactionExternalKey needs to be set");
}

#[test]
fn auto_pay_off_suspends_retries_until_it_is_removed() {
    let server = Server::start();
    let client = server.tenant();
    let account = new_account(&client);
    method(&client, &account, Some("CANCELED"));
    let payment = failed(&client, &account, "t");
    let tags = format!("/1.0/kb/accounts/{account}/tags");
    assert_eq!(client.post(&tags, &json!([AUTO_PAY_OFF])).status, 201);
    advance(&client, 1);
    check(&client, &payment, &["PLUGIN_FAILURE"], &["RETRIED", "SCHEDULED"]);
    assert_eq!(client.delete(&format!("{tags}?tagDef={AUTO_PAY_OFF}")).status, 204);
    advance(&client, 0);
    assert_eq!(client.get("/1.0/kb/test/queues?timeoutSec=20").status, 200);
    let (statuses, _) = shown(&client, &payment);
    assert_eq!(statuses, ["PLUGIN_FAILURE", "PLUGIN_FAILURE"]);
}

#[test]
fn a_scheduled_retry_outlives_a_kill() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let account = new_account(&client);
    method(&client, &account, Some("CANCELED"));
    let payment = failed(&client, &account, "t");
    server.kill();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    advance(&client, 1);
    let (statuses, _) = shown(&client, &payment);
    assert_eq!(statuses.len(), 2, "{statuses:?}");
    server.metrics_with("faregate_timers_total{kind=\"payment-retry\",result=\"fired\"} 1");
}
