//! The export of an account through Kill Bill's API.

use std::collections::BTreeMap;

use serde_json::json;

use crate::client::{Answer, Client};
use crate::native::purchase;
use crate::process::Server;

fn export(client: &Client, account: &str) -> Answer {
    client.clone().header("Accept", "text/plain").get(&format!("/1.0/kb/export/{account}"))
}

/// The rows of each table, each with its cells by column. Cells of this test are quoted where they have `|`.
fn tables(text: &str) -> BTreeMap<String, Vec<BTreeMap<String, String>>> {
    let (mut tables, mut columns) = (BTreeMap::new(), vec![]);
    let mut name = String::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("-- ") {
            let (table, of) = head.split_once(' ').unwrap();
            (name, columns) = (table.to_owned(), of.split('|').map(str::to_owned).collect());
            tables.insert(name.clone(), vec![]);
            continue;
        }
        let cells: Vec<String> = line.replace("x|y", "x/y").split('|').map(str::to_owned).collect();
        assert_eq!(cells.len(), columns.len(), "{name}: {line}");
        let row = columns.iter().cloned().zip(cells).collect();
        tables.get_mut(&name).unwrap().push(row);
    }
    tables
}

/// An account with one of everything. Returns its id and that of its method.
fn account(client: &Client) -> (String, String) {
    let body = json!({ "currency": "USD", "name": "x|y \"c\"", "notes": "1\n2" });
    let account = client.create("/1.0/kb/accounts", &body);
    let id = account["accountId"].as_str().unwrap().to_owned();
    let path = format!("/1.0/kb/accounts/{id}/paymentMethods?isDefault=true");
    let method = client.create(&path, &json!({ "pluginName": "__EXTERNAL_PAYMENT__" }));
    let post = |path: &str, body| {
        let answer = client.post(&format!("/1.0/kb/accounts/{id}/{path}"), &body);
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    };
    post("tags", json!(["00000000-0000-0000-0000-000000000001"]));
    post("customFields", json!([{ "name": "colour", "value": "blue" }]));
    post("emails", json!({ "email": "further@example.org" }));
    post("block", json!({ "stateName": "OD1", "service": "overdue-service" }));
    for amount in ["10.00", "20.5"] {
        purchase(client, &id, amount, "");
    }
    let charge = format!("/1.0/kb/invoices/charges/{id}?autoCommit=true");
    let items = json!([{ "accountId": id, "amount": "3.05", "currency": "USD" }]);
    assert_eq!(client.post(&charge, &items).status, 200);
    (id, method["paymentMethodId"].as_str().unwrap().to_owned())
}

#[test]
fn an_account_is_exported_table_by_table() {
    let server = Server::start();
    let client = server.tenant();
    let (id, method) = account(&client);
    // Of another account there is nothing.
    account(&client.clone());
    let exported = export(&client, &id);
    assert_eq!(exported.status, 200, "{}", exported.text());
    assert_eq!(exported.header("content-type"), Some("text/plain;charset=utf-8"));
    let text = exported.text();
    let tables = tables(&text);
    let counts: Vec<_> = tables.iter().map(|(name, rows)| (name.as_str(), rows.len())).collect();
    let expected = [
        ("account", 1),
        ("account_billing", 0),
        ("account_email", 1),
        ("account_person", 1),
        ("account_user", 0),
        ("actor", 0),
        ("audit_imported", 0),
        ("blocking_state", 1),
        ("bundle", 0),
        ("custom_field", 1),
        ("custom_field_value", 1),
        ("dispute", 0),
        ("entitlements", 0),
        ("feature_usage", 0),
        ("invoice", 1),
        ("invoice_item", 1),
        ("object_tag", 1),
        ("payment", 2),
        ("payment_attempt", 0),
        ("payment_method", 1),
        ("payment_transaction", 2),
        ("payment_velocity", 0),
        ("posting", 3),
        ("purchase", 0),
        ("subscription", 0),
        ("usage_event", 0),
        ("usage_reservation", 0),
    ];
    assert_eq!(counts, expected, "{text}");
    let cell = |table: &str, row: usize, column: &str| tables[table][row][column].clone();
    assert_eq!(cell("account", 0, "id"), id);
    assert_eq!(cell("account", 0, "payment_method_id"), method);
    assert_eq!(cell("account_person", 0, "name"), r#""x/y ""c""""#);
    assert_eq!(cell("account_person", 0, "notes"), r#""1\n2""#);
    assert_eq!(cell("account_person", 0, "email"), "");
    let transaction = |column| cell("payment_transaction", 1, column);
    let shown = [transaction("kind"), transaction("status"), transaction("amount_minor")];
    assert_eq!(shown, ["PURCHASE", "SUCCESS", "2050"]);
    assert!(transaction("effective_at").ends_with('Z'), "{text}");
    let posting = |row: usize| [cell("posting", row, "debit"), cell("posting", row, "credit")];
    assert_eq!([posting(0), posting(2)], [["GATEWAY", "CUSTOMER"], ["CUSTOMER", "SALES"]]);
    let invoice = ["status", "charged", "credit"].map(|column| cell("invoice", 0, column));
    assert_eq!(invoice, ["COMMITTED", "305", "0"]);
    assert_eq!(cell("invoice_item", 0, "kind"), "EXTERNAL_CHARGE");
    for hidden in ["check_", "salt", "hash", "tenant"] {
        let heads = text.lines().filter(|it| it.starts_with("-- "));
        assert!(heads.into_iter().all(|it| !it.contains(hidden)), "{hidden}");
    }
}

#[test]
fn an_account_is_exported_for_those_who_may_and_of_the_tenant() {
    let server = Server::start();
    let client = server.tenant();
    let (id, _) = account(&client);
    let eve = json!({ "apiKey": "eve", "apiSecret": "eves" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &eve).status, 201);
    assert_eq!(export(&server.client().tenant("eve", "eves"), &id).status, 404);
    assert_eq!(export(&client, "0192aabb-ccdd-7000-8000-000000000001").status, 404);
    assert_eq!(export(&client, "x").status, 400);
    assert_eq!(client.get(&format!("/1.0/kb/export/{id}")).status, 406, "it is no JSON");
    let user = json!({ "username": "joe", "password": "joes password", "roles": [] });
    assert_eq!(server.client().post("/1.0/kb/security/users", &user).status, 201);
    assert_eq!(export(&client.clone().user("joe", "joes password"), &id).status, 401);
}
