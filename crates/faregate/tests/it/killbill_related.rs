//! An account's related objects in Kill Bill's API: children, timeline, and lists that are empty today.

use serde_json::json;

use crate::client::Client;
use crate::process::Server;

fn account(client: &Client, body: &serde_json::Value) -> String {
    let made = client.create("/1.0/kb/accounts", body);
    made["accountId"].as_str().unwrap().to_owned()
}

#[test]
fn children_are_those_whose_parent_the_account_is() {
    let server = Server::start();
    let client = server.tenant();
    let parent = account(&client, &json!({ "name": "parent" }));
    let child = |name: &str| account(&client, &json!({ "name": name, "parentAccountId": parent }));
    let children = [child("first"), child("second")];
    let of = |id: &str, more: &str| {
        let answer = client.get(&format!("/1.0/kb/accounts/{id}/children{more}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let ids: Vec<_> =
        of(&parent, "").as_array().unwrap().iter().map(|it| it["accountId"].clone()).collect();
    assert_eq!(ids, children);
    assert_eq!(of(&children[0], ""), json!([]));
    assert_eq!(of(&parent, "?accountWithBalance=true")[1]["accountBalance"], json!(0));
}

#[test]
fn the_timeline_has_the_account_and_its_payments() {
    let server = Server::start();
    let client = server.tenant();
    let id = account(&client, &json!({ "name": "Ada", "currency": "USD" }));
    let method = json!({ "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {} });
    let methods = format!("/1.0/kb/accounts/{id}/paymentMethods?isDefault=true");
    assert_eq!(client.post(&methods, &method).status, 201);
    let payments = format!("/1.0/kb/accounts/{id}/payments");
    for amount in ["1.00", "2.00"] {
        client.create(&payments, &json!({ "transactionType": "PURCHASE", "amount": amount }));
    }
    let timeline =
        client.get(&format!("/1.0/kb/accounts/{id}/timeline?parallel=true&audit=FULL")).json();
    assert_eq!(timeline["account"]["name"], "Ada");
    assert_eq!(timeline["account"]["auditLogs"][0]["changeType"], "INSERT");
    assert_eq!((&timeline["bundles"], &timeline["invoices"]), (&json!([]), &json!([])));
    let amounts = timeline["payments"].as_array().unwrap().iter();
    let amounts: Vec<_> = amounts.map(|it| it["purchasedAmount"].to_string()).collect();
    assert_eq!(amounts, ["1.0", "2.0"]);
    assert!(timeline["payments"][0]["targetInvoiceId"].is_null());
    assert_eq!(timeline["payments"][0]["transactions"][0]["auditLogs"][0]["changeType"], "INSERT");
}

#[test]
fn what_invoices_would_fill_is_empty_and_an_unknown_account_is_not_found() {
    let server = Server::start();
    let client = server.tenant();
    let known = account(&client, &json!({}));
    let unknown = "00000000-0000-4000-8000-000000000000";
    let lists =
        ["bundles", "bundles/pagination", "invoices", "invoices/pagination", "invoicePayments"];
    for list in lists {
        let answer = client.get(&format!("/1.0/kb/accounts/{known}/{list}"));
        assert_eq!((answer.status, answer.json()), (200, json!([])), "{list}");
        let total = answer.header("x-killbill-pagination-totalnbrecords");
        assert_eq!(total.is_some(), list.ends_with("pagination"), "{list}");
    }
    let rebalanced = |id: &str| {
        let path = format!("/1.0/kb/accounts/{id}/cbaRebalancing");
        client.send("PUT", &path, None).status
    };
    assert_eq!((rebalanced(&known), rebalanced(unknown)), (204, 404));
    for path in lists.iter().chain(&["children", "timeline"]) {
        let answer = client.get(&format!("/1.0/kb/accounts/{unknown}/{path}"));
        assert_eq!((answer.status, answer.json()["code"].clone()), (404, json!(3002)), "{path}");
    }
}
