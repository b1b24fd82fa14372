//! Explained invoices: how each item has its amount, over `/v1` and on the command line.

use serde_json::{Value, json};

use crate::catalogs;
use crate::client::Client;
use crate::process::{Server, faregate};

/// Sets the clock, and waits for what is due then.
fn clock(client: &Client, at: &str) {
    let path = format!("/1.0/kb/test/clock?requestedDate={at}&timeoutSec=60");
    assert_eq!(client.send("POST", &path, Some(b"{}")).status, 200, "{at}");
}

/// A tenant whose plan costs 5.00 in its trial of 30 days, then 20.00 a month; on January 10.
fn shop(server: &Server) -> Client {
    let client = server.tenant();
    clock(&client, "2026-01-10T08:00:00.000Z");
    let catalog = catalogs::simple("Gold", "2025-01-01T00:00:00Z");
    let catalog = catalog.replace("<value>0</value>", "<value>5</value>");
    let xml = client.clone().header("Content-Type", "text/xml");
    let stored = xml.send("POST", "/1.0/kb/catalog/xml", Some(catalog.as_bytes()));
    assert_eq!(stored.status, 201, "{}", stored.text());
    client
}

/// A subscription of a new account with this bill cycle day.
fn subscribed(client: &Client, day: u8) -> (String, String) {
    let account = json!({ "currency": "USD", "billCycleDayLocal": day });
    let account = client.create("/1.0/kb/accounts", &account);
    let id = account["accountId"].as_str().unwrap().to_owned();
    let it = json!({ "accountId": id, "planName": "pro-monthly" });
    let made = client.create("/1.0/kb/subscriptions", &it);
    (id, made["subscriptionId"].as_str().unwrap().to_owned())
}

/// The explained invoices of an account, the first one first.
fn explained(client: &Client, account: &str) -> Vec<Value> {
    let invoices = client.get(&format!("/1.0/kb/accounts/{account}/invoices")).json();
    let explain = |it: &Value| {
        let path = format!("/v1/invoices/{}/explain", it["invoiceId"].as_str().unwrap());
        let answer = client.get(&path);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let json = answer.json();
        assert_eq!(json["more"], false);
        json
    };
    invoices.as_array().unwrap().iter().map(explain).collect()
}

fn items_of(invoices: &[Value]) -> Vec<Value> {
    invoices.iter().flat_map(|it| it["items"].as_array().unwrap().clone()).collect()
}

/// The item of a type.
fn item<'a>(items: &'a [Value], kind: &str) -> &'a Value {
    let found = items.iter().find(|it| it["itemType"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {items:?}"))
}

#[test]
fn a_part_of_a_period_is_explained_by_days_over_days_of_the_price() {
    let server = Server::start();
    let client = shop(&server);
    let (account, subscription) = subscribed(&client, 15);
    clock(&client, "2026-02-09T09:00:00.000Z");
    let items = items_of(&explained(&client, &account));
    let part = item(&items, "RECURRING");
    assert_eq!(part["amount"], "3.87", "{part}");
    assert_eq!(part["subscriptionId"], subscription);
    assert_eq!(
        (&part["startDate"], &part["endDate"]),
        (&json!("2026-02-09"), &json!("2026-02-15"))
    );
    assert_eq!(part["event"], json!({ "kind": "PHASE", "date": "2026-02-09" }));
    assert_eq!(part["catalogEffectiveAt"], "2025-01-01T00:00:00Z");
    assert_eq!(
        (&part["price"], &part["quantity"], &part["rate"]),
        (&json!("20"), &json!(1), &json!("20"))
    );
    assert_eq!(
        part["proration"],
        json!({
            "of": "20", "ofStartDate": null, "ofEndDate": null, "days": 6, "ofDays": 31,
            "ratio": "0.193548387", "exact": "3.87096774", "rounded": "3.87", "isLimited": false,
        })
    );
    // With another setting a run of today gives another amount.
    let text = client.clone().header("Content-Type", "text/plain");
    let setting = br#"{"org.killbill.invoice.proration.fixed.days": "30"}"#;
    let path = "/1.0/kb/tenants/uploadPerTenantConfig";
    assert_eq!(text.send("POST", path, Some(setting)).status, 201);
    let changed = items_of(&explained(&client, &account));
    let part_of_then = item(&changed, "RECURRING");
    assert_eq!(part_of_then["amount"], "3.87");
    assert_eq!((&part_of_then["proration"], &part_of_then["event"]), (&Value::Null, &Value::Null));
    let reason = part_of_then["notDerived"].as_str().unwrap();
    assert!(reason.contains("a setting was changed since"), "{reason}");
    let sentence = "PHASE of 2026-02-09: 6/31 days = 0.193548387 of 20 = 3.87096774, rounded 3.87";
    assert_eq!(part["explanation"], sentence);
    let fixed = item(&items, "FIXED");
    assert_eq!(fixed["event"], json!({ "kind": "CREATE", "date": "2026-01-10" }));
    assert_eq!((&fixed["price"], &fixed["amount"]), (&json!("5"), &json!("5.00")));
    assert_eq!(fixed["explanation"], "CREATE of 2026-01-10: 5 once, 1 times = 5.00");
}

#[test]
fn a_repair_names_its_item_and_what_a_client_said_its_client() {
    let server = Server::start();
    let client = shop(&server);
    let (account, subscription) = subscribed(&client, 0);
    clock(&client, "2026-02-09T09:00:00.000Z");
    let charge = json!([{ "amount": 7.5, "description": "setup" }]);
    let path = format!("/1.0/kb/invoices/charges/{account}?autoCommit=true");
    assert_eq!(client.post(&path, &charge).status, 200);
    clock(&client, "2026-02-20T09:00:00.000Z");
    let path = format!("/1.0/kb/subscriptions/{subscription}?callCompletion=true");
    let cancelled = client.send("DELETE", &path, None);
    assert_eq!(cancelled.status, 204, "{}", cancelled.text());
    let invoices = explained(&client, &account);
    let items = items_of(&invoices);
    assert!(items.iter().all(|it| it["notDerived"].is_null()), "{items:#?}");
    let month = item(&items, "RECURRING");
    assert_eq!(
        (&month["proration"]["days"], &month["proration"]["ofDays"]),
        (&json!(28), &json!(28))
    );
    let repair = item(&items, "REPAIR_ADJ");
    assert_eq!((&repair["amount"], &repair["repairs"]), (&json!("-12.14"), &month["itemId"]));
    assert_eq!(repair["event"], json!({ "kind": "CANCEL", "date": "2026-02-20" }));
    let proration = &repair["proration"];
    assert_eq!(
        (&proration["days"], &proration["ofDays"], &proration["exact"], &proration["rounded"]),
        (&json!(17), &json!(28), &json!("12.14285714"), &json!("12.14"))
    );
    let credits = items.iter().filter(|it| it["itemType"] == "CBA_ADJ");
    let credits: Vec<_> = credits
        .map(|it| format!("{} at {}: {}", it["amount"], it["balanceBefore"], it["explanation"]))
        .collect();
    assert_eq!(
        credits,
        [
            r#""-5.00" at "5.00": "credit of the account pays of 5.00""#,
            r#""-7.14" at "20.00": "credit of the account pays of 20.00""#,
            r#""12.14" at "-12.14": "the invoice was at -12.14: that is credit of the account""#,
        ]
    );
    let charge = item(&items, "EXTERNAL_CHARGE");
    assert_eq!(charge["explanation"], format!("{} set 7.50", charge["madeBy"].as_str().unwrap()));
    assert_eq!(charge["event"], Value::Null);
    let invoice = &invoices[1]["invoiceId"];
    let mut command = faregate(&["explain", "invoice", invoice.as_str().unwrap()]);
    command.args(["--url", &server.url, "--api-key", "bob"]).env("FAREGATE_API_SECRET", "lazar");
    command.env("FAREGATE_PASSWORD", "password").env("FAREGATE_PROFILES", "/nowhere/profiles.toml");
    let said = command.output().unwrap();
    let text = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
    assert!(text.contains("PHASE 2026-02-09"), "{text}");
    assert!(text.contains("28/28 days = 1 of 20 = 20, rounded 20.00"), "{text}");
}

#[test]
fn an_invoice_of_another_tenant_is_not_there() {
    let server = Server::start();
    let client = shop(&server);
    let (account, _) = subscribed(&client, 0);
    let invoice = explained(&client, &account)[0]["invoiceId"].as_str().unwrap().to_owned();
    let path = format!("/v1/invoices/{invoice}/explain");
    assert_eq!(server.another_tenant().get(&path).status, 404);
    assert_eq!(client.get(&format!("{path}?colour=red")).status, 400);
    let page = client.get(&format!("{path}?limit=0")).json();
    assert_eq!((&page["items"], &page["more"]), (&json!([]), &json!(true)));
}
