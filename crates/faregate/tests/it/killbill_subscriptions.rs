//! Subscriptions through Kill Bill's API: from a trial to months that are paid.

use serde_json::{Value, json};

use crate::catalogs;
use crate::client::Client;
use crate::process::{Launch, Server, TempDir, run};

const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";

/// Sets the clock, and waits for what is due then.
fn clock(client: &Client, at: &str) {
    let path = format!("/1.0/kb/test/clock?requestedDate={at}&timeoutSec=60");
    assert_eq!(client.send("POST", &path, Some(b"{}")).status, 200, "{at}");
}

/// A tenant with a catalog, on January 10.
fn shop(server: &Server) -> Client {
    let client = server.tenant();
    clock(&client, "2026-01-10T08:00:00.000Z");
    let catalog = catalogs::simple("Gold", "2025-01-01T00:00:00Z");
    let xml = client.clone().header("Content-Type", "text/xml");
    let stored = xml.send("POST", "/1.0/kb/catalog/xml", Some(catalog.as_bytes()));
    assert_eq!(stored.status, 201, "{}", stored.text());
    client
}

/// An account with an external method.
fn account(client: &Client) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let id = account["accountId"].as_str().unwrap().to_owned();
    let method = json!({ "pluginName": EXTERNAL, "pluginInfo": {} });
    client.create(&format!("/1.0/kb/accounts/{id}/paymentMethods?isDefault=true"), &method);
    id
}

fn invoices(client: &Client, account: &str) -> Vec<Value> {
    let path = format!("/1.0/kb/accounts/{account}/invoices?includeInvoiceComponents=true");
    client.get(&path).json().as_array().unwrap().clone()
}

fn shown(invoice: &Value) -> String {
    let item = &invoice["items"][0];
    format!(
        "{} {} {} {} {} > {}",
        invoice["invoiceNumber"],
        invoice["amount"],
        invoice["balance"],
        item["description"],
        item["startDate"],
        item["endDate"]
    )
    .replace('"', "")
}

#[test]
fn a_trial_becomes_months_that_are_paid_and_verified() {
    let server = Server::start();
    let client = shop(&server);
    let account = account(&client);
    let it = json!({ "accountId": account, "planName": "pro-monthly", "externalKey": "mine" });
    let made = client.create("/1.0/kb/subscriptions", &it);
    let path = format!("/1.0/kb/subscriptions/{}", made["subscriptionId"].as_str().unwrap());
    assert_eq!((&made["state"], &made["phaseType"]), (&json!("ACTIVE"), &json!("TRIAL")));
    assert_eq!((&made["externalKey"], &made["quantity"]), (&json!("mine"), &json!(1)));
    let all: Vec<_> = invoices(&client, &account).iter().map(shown).collect();
    assert_eq!(all, ["1 0.0 0.0 pro-monthly-trial 2026-01-10 > 2026-02-09"]);
    clock(&client, "2026-03-10T08:00:00.000Z");
    let all: Vec<_> = invoices(&client, &account).iter().map(shown).collect();
    assert_eq!(
        all,
        [
            "1 0.0 0.0 pro-monthly-trial 2026-01-10 > 2026-02-09",
            "2 20.0 0.0 pro-monthly-evergreen 2026-02-09 > 2026-03-09",
            "3 20.0 0.0 pro-monthly-evergreen 2026-03-09 > 2026-04-09",
        ]
    );
    let now = client.get(&path).json();
    assert_eq!(
        (&now["phaseType"], &now["chargedThroughDate"], &now["billCycleDayLocal"]),
        (&json!("EVERGREEN"), &json!("2026-04-09"), &json!(9))
    );
    let events: Vec<_> =
        now["events"].as_array().unwrap().iter().map(|it| &it["eventType"]).collect();
    assert_eq!(events, ["START_ENTITLEMENT", "START_BILLING", "PHASE"]);
    let payments = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
    let amounts: Vec<_> =
        payments.as_array().unwrap().iter().map(|it| &it["purchasedAmount"]).collect();
    assert_eq!(amounts, [&json!(20.00), &json!(20.00)]);
    let number = client.get("/1.0/kb/invoices/byNumber/2").json();
    assert_eq!(number["invoiceId"], invoices(&client, &account)[1]["invoiceId"]);
    let events = client.get("/v1/events?after=0&limit=100").json();
    let events = events["events"].as_array().unwrap().iter();
    let names: Vec<_> = events.map(|it| it["eventType"].as_str().unwrap().to_owned()).collect();
    let count = |name: &str| names.iter().filter(|it| *it == name).count();
    assert_eq!((count("SUBSCRIPTION_CREATION"), count("ENTITLEMENT_CREATION")), (2, 1));
    assert_eq!((count("INVOICE_CREATION"), count("INVOICE_PAYMENT_SUCCESS")), (3, 2));
    assert_eq!(count("SUBSCRIPTION_PHASE"), 1);
}

#[test]
fn what_cannot_be_subscribed_to_is_refused_by_name() {
    let server = Server::start();
    let client = shop(&server);
    let account = account(&client);
    let refused = |more: Value, status: u16, code: Value, message: &str| {
        let mut body = json!({ "accountId": account });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = client.post("/1.0/kb/subscriptions", &body);
        let json = answer.json();
        assert_eq!((answer.status, &json["code"]), (status, &code), "{}", answer.text());
        let text = json["message"].as_str().unwrap();
        assert!(text.contains(message), "{text}");
    };
    let plan = "pro-monthly";
    refused(json!({ "planName": "gold" }), 400, json!(2021), "the catalog has no plan gold");
    refused(json!({}), 400, Value::Null, "needs planName, or productName and billingPeriod");
    refused(
        json!({ "productName": "Pro", "billingPeriod": "ANNUAL" }),
        400,
        json!(2020),
        "no plan is offered for Pro ANNUAL DEFAULT",
    );
    refused(
        json!({ "productName": "Pro", "billingPeriod": "YEARLY" }),
        400,
        json!(7031),
        "billingPeriod",
    );
    refused(json!({ "planName": plan, "quantity": 0 }), 400, json!(7031), "quantity");
    refused(
        json!({ "planName": plan, "quantity": 2_147_483_648_i64 }),
        400,
        Value::Null,
        "quantity",
    );
    refused(
        json!({ "planName": plan, "billCycleDayLocal": 32 }),
        400,
        json!(7031),
        "billCycleDayLocal",
    );
    refused(
        json!({ "planName": plan, "bundleId": "00000000-0000-0000-0000-000000000001" }),
        404,
        json!(1081),
        "there is no bundle",
    );
    let other = json!({ "accountId": "00000000-0000-0000-0000-000000000001", "planName": plan });
    assert_eq!(client.post("/1.0/kb/subscriptions", &other).status, 404);
    assert_eq!(invoices(&client, &account), Vec::<Value>::new());
    let unknown = "00000000-0000-0000-0000-000000000001";
    for path in [format!("subscriptions/{unknown}"), format!("invoices/{unknown}")] {
        assert_eq!(client.get(&format!("/1.0/kb/{path}")).status, 404, "{path}");
    }
    assert_eq!(client.get("/1.0/kb/invoices/byNumber/nine").status, 404);
}

#[test]
fn what_was_billed_is_sound() {
    let folder = TempDir::new();
    let server = Server::start_in(folder.path(), Launch::usual());
    let client = shop(&server);
    let account = account(&client);
    let it = json!({ "accountId": account, "planName": "pro-monthly", "quantity": 3 });
    client.create("/1.0/kb/subscriptions", &it);
    clock(&client, "2026-05-10T08:00:00.000Z");
    let amounts: Vec<_> =
        invoices(&client, &account).iter().map(|it| it["amount"].to_string()).collect();
    assert_eq!(amounts, ["0.0", "60.0", "60.0", "60.0", "60.0"]);
    server.stop();
    let verified = run(&["verify", "--data-dir", folder.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn a_cancelled_subscription_leaves_credit_and_takes_no_change() {
    let folder = TempDir::new();
    let server = Server::start_in(folder.path(), Launch::usual());
    let client = shop(&server);
    let account = account(&client);
    let it = json!({ "accountId": account, "planName": "pro-monthly" });
    let made = client.create("/1.0/kb/subscriptions", &it);
    let path = format!("/1.0/kb/subscriptions/{}", made["subscriptionId"].as_str().unwrap());
    clock(&client, "2026-02-20T09:00:00.000Z");
    let refused = |method: &str, more: &str, body: Value, code: Value, message: &str| {
        let answer =
            client.send(method, &format!("{path}{more}"), Some(body.to_string().as_bytes()));
        let json = answer.json();
        assert_eq!((answer.status, &json["code"]), (400, &code), "{more} {}", answer.text());
        let text = json["message"].as_str().unwrap();
        assert!(text.contains(message), "{text}");
    };
    let plan = json!({ "planName": "pro-monthly" });
    refused("PUT", "", json!({ "planName": "gold" }), json!(2021), "no plan gold");
    refused("PUT", "?billingPolicy=START_OF_TERM", plan.clone(), json!(7031), "billingPolicy");
    refused("PUT", "?billingPolicy=SOON", plan.clone(), json!(7031), "billingPolicy");
    refused("PUT", "/quantity", json!({ "quantity": 0 }), json!(7031), "quantity");
    refused("PUT", "/bcd", json!({ "billCycleDayLocal": 32 }), json!(7031), "billCycleDayLocal");
    refused("PUT", "/bcd", json!({}), Value::Null, "billCycleDayLocal");
    refused("PUT", "/uncancel", json!({}), json!(1070), "cancel");
    refused("PUT", "/undoChangePlan", json!({}), json!(1071), "change");
    refused("DELETE", "?requestedDate=soon", json!({}), Value::Null, "requestedDate");
    assert_eq!(client.delete(&format!("{path}?entitlementPolicy=IMMEDIATE")).status, 204);
    assert_eq!(client.get(&path).json()["state"], "CANCELLED");
    refused("DELETE", "", json!({}), json!(1031), "cancelled");
    refused("PUT", "", plan, json!(1021), "ended");
    let balance = format!("/1.0/kb/accounts/{account}?accountWithBalanceAndCBA=true");
    let balance = client.get(&balance).json();
    assert_eq!(
        (&balance["accountBalance"], &balance["accountCBA"]),
        (&json!(-12.14), &json!(12.14))
    );
    let payments = client.get(&format!("/1.0/kb/accounts/{account}/invoicePayments")).json();
    assert_eq!(payments.as_array().unwrap().len(), 1);
    assert_eq!(payments[0]["targetInvoiceId"], invoices(&client, &account)[1]["invoiceId"]);
    let states = client.get(&format!("/1.0/kb/accounts/{account}/block")).json();
    let states: Vec<_> = states.as_array().unwrap().iter().map(|it| &it["stateName"]).collect();
    assert_eq!(states, ["ENT_STARTED", "ENT_CANCELLED"]);
    let ahead = format!("/1.0/kb/invoices?accountId={account}");
    assert_eq!(client.post(&ahead, &json!({})).status, 404);
    let ahead = client.post(&format!("{ahead}&targetDate=2029-06-01"), &json!({}));
    assert_eq!((ahead.status, &ahead.json()["code"]), (400, &json!(4005)), "{}", ahead.text());
    server.stop();
    let verified = run(&["verify", "--data-dir", folder.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}
