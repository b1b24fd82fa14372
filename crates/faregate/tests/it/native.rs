//! The native API after payments: ledger, analytics, unresolved payments.

use expect_test::expect;
use serde_json::{Value, json};

use crate::client::Client;
use crate::process::{Server, eventually};

/// An account with a default payment method of this gateway.
pub fn account(client: &Client, gateway: &str) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let id = account["accountId"].as_str().unwrap().to_owned();
    let path = format!("/1.0/kb/accounts/{id}/paymentMethods?isDefault=true");
    let method = client.post(&path, &json!({ "pluginName": gateway, "pluginInfo": {} }));
    assert_eq!(method.status, 201, "{}", method.text());
    id
}

/// A purchase on the account's default payment method.
pub fn purchase(client: &Client, account: &str, amount: &str, query: &str) -> Value {
    let path = format!("/1.0/kb/accounts/{account}/payments{query}");
    client.create(&path, &json!({ "transactionType": "PURCHASE", "amount": amount }))
}

#[test]
fn users_are_listed_by_name_without_their_passwords() {
    let server = Server::start();
    let client = server.client();
    for name in ["zoe", "joe"] {
        let user = json!({ "username": name, "password": "their password", "roles": ["clerks"] });
        assert_eq!(client.post("/1.0/kb/security/users", &user).status, 201);
    }
    assert_eq!(client.delete("/1.0/kb/security/users/joe").status, 204);
    let all = client.get("/v1/users").json();
    assert_eq!(all["more"], false);
    let users = all["users"].as_array().unwrap();
    let shown: Vec<_> = users.iter().map(|it| (&it["username"], &it["active"])).collect();
    let [yes, no] = [json!(true), json!(false)];
    let names = ["admin", "joe", "zoe"].map(|it| json!(it));
    assert_eq!(shown, [(&names[0], &yes), (&names[1], &no), (&names[2], &yes)]);
    assert_eq!(users[2]["roles"], json!(["clerks"]));
    let fields: Vec<_> = users[2].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["active", "roles", "updatedAt", "username"]);
    let part = client.get("/v1/users?offset=1&limit=1").json();
    assert_eq!(part, json!({ "users": [users[1]], "more": true }));
    assert_eq!(client.get("/v1/users?name=joe").status, 400);
    assert_eq!(client.clone().user("zoe", "their password").get("/v1/users").status, 403);
}

#[test]
fn a_payment_is_in_the_ledger() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    let payment = purchase(&client, &account, "10.50", "");
    let payment = payment["paymentId"].as_str().unwrap();
    let refund = format!("/1.0/kb/payments/{payment}/refunds");
    client.create(&refund, &json!({ "amount": "0.50" }));

    let balances = client.get("/v1/ledger/accounts").json();
    let shown = serde_json::to_string_pretty(&balances).unwrap();
    expect![[r#"
        {
          "accounts": [
            {
              "account": "customers",
              "balance": "-10.00",
              "credit": "10.50",
              "currency": "USD",
              "debit": "0.50"
            },
            {
              "account": "gateway:__EXTERNAL_PAYMENT__",
              "balance": "10.50",
              "credit": "0.00",
              "currency": "USD",
              "debit": "10.50"
            },
            {
              "account": "refunds:__EXTERNAL_PAYMENT__",
              "balance": "-0.50",
              "credit": "0.50",
              "currency": "USD",
              "debit": "0.00"
            }
          ],
          "trialBalance": [
            {
              "balanced": true,
              "credit": "11.00",
              "currency": "USD",
              "debit": "11.00"
            }
          ]
        }"#]]
    .assert_eq(&shown);

    let customer = client.get(&format!("/v1/ledger/accounts?account={account}")).json();
    assert_eq!(customer["accounts"][0]["account"], format!("customer:{account}"));
    assert_eq!(customer["accounts"][0]["balance"], "-10.00");

    for filter in [format!("account={account}"), format!("payment={payment}"), String::new()] {
        let entries = client.get(&format!("/v1/ledger/entries?{filter}")).json();
        let entries = entries["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 2, "{filter}");
        assert_eq!(entries[0]["debit"], "gateway:__EXTERNAL_PAYMENT__");
        assert_eq!(entries[0]["credit"], format!("customer:{account}"));
        assert_eq!(entries[0]["amount"], "10.50");
        assert_eq!(entries[1]["paymentId"], payment);
    }
    let page = client.get("/v1/ledger/entries?limit=1").json();
    assert_eq!(page["nextOffset"], 1);
    let page = client.get("/v1/ledger/entries?limit=5&offset=1").json();
    assert_eq!((page["entries"].as_array().unwrap().len(), &page["nextOffset"]), (1, &Value::Null));
    let page = client.get("/v1/ledger/entries?to=2020-01-01").json();
    assert_eq!(page["entries"], json!([]));
}

#[test]
fn an_invoice_is_in_the_ledger() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    let charge = format!("/1.0/kb/invoices/charges/{account}?autoCommit=true");
    let items = json!([{ "accountId": account, "amount": "3.05", "currency": "USD" }]);
    let charged = client.post(&charge, &items).json();
    let (invoice, item) = (&charged[0]["invoiceId"], &charged[0]["invoiceItemId"]);
    let filter = format!("/v1/ledger/entries?invoice={}", invoice.as_str().unwrap());
    let entries = client.get(&filter).json();
    let entries = entries["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["debit"], format!("customer:{account}"));
    assert_eq!((&entries[0]["credit"], &entries[0]["amount"]), (&json!("sales"), &json!("3.05")));
    assert_eq!((&entries[0]["invoiceId"], &entries[0]["itemId"]), (invoice, item));
    assert_eq!(entries[0].get("paymentId"), None);
}

#[test]
fn resources_of_another_tenant_are_not_found() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    purchase(&client, &account, "1", "");
    let other = json!({ "apiKey": "eve", "apiSecret": "adam" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &other).status, 201);
    let other = server.client().tenant("eve", "adam");
    let path = format!("/v1/ledger/accounts?account={account}");
    let refused = other.get(&path);
    assert_eq!(refused.status, 404, "{}", refused.text());
    let empty = other.get(&format!("/v1/ledger/entries?account={account}")).json();
    assert_eq!(empty["entries"], json!([]));
    assert_eq!(other.get(&format!("/v1/analytics/accounts/{account}")).status, 404);
    let wrong = server.client().tenant("bob", "wrong").get(&path);
    assert_eq!(
        (wrong.status, &wrong.json()["type"]),
        (401, &json!("urn:faregate:problem:tenant-unknown"))
    );
    let own_headers = server.client().header("X-Faregate-ApiKey", "bob");
    assert_eq!(own_headers.header("X-Faregate-ApiSecret", "lazar").get(&path).status, 200);
}

const BOTH_SOURCES: &str = "/v1/ledger/entries?payment=018df974-d500-767e-b938-0084452ec4ee\
    &invoice=018df974-d500-767e-b938-0084452ec4ef";

#[test]
fn a_wrong_parameter_is_named() {
    let server = Server::start();
    let client = server.tenant();
    for (path, field) in [
        ("/v1/ledger/accounts?account=x", "account"),
        ("/v1/ledger/entries?from=yesterday", "from"),
        ("/v1/ledger/entries?to=10000-01-01", "to"),
        ("/v1/ledger/entries?limit=0x10", "limit"),
        (BOTH_SOURCES, "invoice"),
        ("/v1/ledger/entries?limit=1001", "limit"),
        ("/v1/analytics/payments?currency=XXX", "currency"),
        ("/v1/analytics/payments?status=GONE", "status"),
        ("/v1/analytics/accounts?colour=red", "colour"),
        ("/v1/payments/unresolved?limit=-1", "limit"),
    ] {
        let refused = client.get(path);
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{path}");
    }
}

#[test]
fn analytics_follow_the_payments() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    purchase(&client, &account, "10", "");
    purchase(&client, &account, "5.25", "");
    let summary = eventually("both payments are counted", || {
        let summary = client.get(&format!("/v1/analytics/accounts/{account}")).json();
        (summary["payments"] == 2).then_some(summary)
    });
    assert_eq!(summary["amounts"][0]["purchased"], "15.25");
    let payments = client.get("/v1/analytics/payments?type=PURCHASE&status=SUCCESS").json();
    assert_eq!(payments["payments"].as_array().unwrap().len(), 1);
    let line = &payments["payments"][0];
    assert_eq!(
        (&line["transactions"], &line["amount"], &line["gateway"]),
        (&json!(2), &json!("15.25"), &json!("__EXTERNAL_PAYMENT__"))
    );
    let accounts = client.get("/v1/analytics/accounts").json();
    assert_eq!(accounts["accounts"][0]["accounts"], 1);
    assert_eq!(accounts["accounts"][0]["day"], line["day"]);
}

#[test]
fn an_unknown_payment_is_listed_until_it_is_settled() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "faregate-simulator");
    let path = format!("/1.0/kb/accounts/{account}/payments?pluginProperty=outcome%3DUNDEFINED");
    let body = json!({ "transactionType": "PURCHASE", "amount": "7" });
    assert_eq!(client.post(&path, &body).status, 503);
    let listed = client.get("/v1/payments/unresolved").json();
    let unresolved = &listed["unresolved"][0];
    assert_eq!(
        (&unresolved["accountId"], &unresolved["status"], &unresolved["amount"]),
        (&json!(account), &json!("UNKNOWN"), &json!("7.00"))
    );
    for page in ["offset=1", "limit=0"] {
        let page = client.get(&format!("/v1/payments/unresolved?{page}")).json();
        assert_eq!(page["unresolved"], json!([]));
    }
    let metrics = server.metrics();
    for (status, count) in [("unknown", 1), ("pending", 0)] {
        let line = format!("faregate_unresolved_transactions{{status=\"{status}\"}} {count}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    let (payment, transaction) = (&unresolved["paymentId"], &unresolved["transactionId"]);
    let path = format!(
        "/1.0/kb/admin/payments/{}/transactions/{}",
        payment.as_str().unwrap(),
        transaction.as_str().unwrap()
    );
    let fixed = client.put(&path, &json!({ "transactionStatus": "PAYMENT_FAILURE" }));
    assert_eq!(fixed.status, 204, "{}", fixed.text());
    let listed = client.get("/v1/payments/unresolved").json();
    assert_eq!(listed, json!({ "unresolved": [], "more": false }));
}
