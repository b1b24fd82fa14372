//! Simple plans through Kill Bill's API: a tenant sells without XML.

use serde_json::{Value, json};

use crate::catalogs;
use crate::client::Client;
use crate::process::Server;

const SIMPLE: &str = "/1.0/kb/catalog/simplePlan";
const XML: &str = "/1.0/kb/catalog/xml";

/// Sets the clock, and waits for what is due then.
fn clock(client: &Client, at: &str) {
    let path = format!("/1.0/kb/test/clock?requestedDate={at}&timeoutSec=60");
    assert_eq!(client.send("POST", &path, Some(b"{}")).status, 200, "{at}");
}

/// A tenant without a catalog, on January 10.
fn shop(server: &Server) -> Client {
    let client = server.tenant();
    clock(&client, "2026-01-10T08:00:00.000Z");
    client
}

fn pro() -> Value {
    json!({
        "planId": "pro-monthly", "productName": "Pro", "productCategory": "BASE",
        "currency": "USD", "amount": 29.95, "billingPeriod": "MONTHLY", "trialLength": 10,
        "trialTimeUnit": "DAYS", "availableBaseProducts": [],
    })
}

fn extra() -> Value {
    json!({
        "planId": "extra-monthly", "productName": "Extra", "productCategory": "ADD_ON",
        "currency": "USD", "amount": "5.00", "billingPeriod": "MONTHLY", "trialLength": 0,
        "trialTimeUnit": "UNLIMITED", "availableBaseProducts": ["Pro"],
    })
}

fn add(client: &Client, plan: &Value) {
    let added = client.post(SIMPLE, plan);
    assert_eq!(added.status, 201, "{}", added.text());
    assert!(added.header("location").unwrap().ends_with("/1.0/kb/catalog"));
}

fn with(mut plan: Value, others: &Value) -> Value {
    plan.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
    plan
}

fn refused(client: &Client, plan: &Value, reason: &str) {
    let answer = client.post(SIMPLE, plan);
    let json = answer.json();
    assert_eq!((answer.status, &json["code"]), (400, &json!(2060)), "{}", answer.text());
    let message = json["message"].as_str().unwrap();
    assert!(message.contains(reason), "{message}");
}

/// An account with an external method.
fn account(client: &Client, currency: &str) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": currency }));
    let id = account["accountId"].as_str().unwrap().to_owned();
    let method = json!({ "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {} });
    client.create(&format!("/1.0/kb/accounts/{id}/paymentMethods?isDefault=true"), &method);
    id
}

fn subscribe(client: &Client, it: &Value) -> Value {
    client.create("/1.0/kb/subscriptions", it)
}

/// The items of an account's invoices, each with the balance of its invoice.
fn items(client: &Client, account: &str) -> Vec<String> {
    let path = format!("/1.0/kb/accounts/{account}/invoices?includeInvoiceComponents=true");
    let invoices = client.get(&path).json();
    let of = |invoice: &Value| {
        let item = |it: &Value| {
            let of = [&it["phaseName"], &it["amount"], &invoice["balance"]];
            let of = of.map(|it| it.to_string().replace('"', "")).join(" ");
            format!("{of} {} > {}", it["startDate"], it["endDate"]).replace('"', "")
        };
        invoice["items"].as_array().unwrap().iter().map(item).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = invoices.as_array().unwrap().iter().flat_map(of).collect();
    all.sort();
    all
}

fn versions(client: &Client) -> Value {
    client.get("/1.0/kb/catalog/versions").json()
}

#[test]
fn a_tenant_with_simple_plans_only_subscribes_and_is_paid() {
    let server = Server::start();
    let client = shop(&server);
    assert_eq!(client.get("/1.0/kb/catalog/availableBasePlans").json(), json!([]));
    add(&client, &pro());
    add(&client, &extra());
    let version = versions(&client);
    let dates: Vec<_> = version.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    // The clock goes on.
    assert!(matches!(dates[..], [date] if date.starts_with("2026-01-10T08:0")), "{dates:?}");
    let account = account(&client, "USD");
    let base = json!({ "accountId": account, "planName": "pro-monthly" });
    let base = subscribe(&client, &base);
    assert_eq!((&base["phaseType"], &base["priceList"]), (&json!("TRIAL"), &json!("DEFAULT")));
    let bundle = &base["bundleId"];
    let add_on = json!({
        "accountId": account, "bundleId": bundle, "productName": "Extra",
        "productCategory": "ADD_ON", "billingPeriod": "MONTHLY",
    });
    subscribe(&client, &add_on);
    // The account's bill cycle day is the one on which the trial ends.
    let first = [
        "extra-monthly-evergreen 1.61 0.0 2026-01-10 > 2026-01-20",
        "pro-monthly-trial 0.0 0.0 2026-01-10 > 2026-01-20",
    ];
    assert_eq!(items(&client, &account), first);
    clock(&client, "2026-01-21T08:00:00.000Z");
    // What is added later leaves subscriptions as they are.
    add(&client, &with(pro(), &json!({ "planId": "pro-annual", "billingPeriod": "ANNUAL" })));
    add(&client, &with(pro(), &json!({ "currency": "EUR", "amount": 27 })));
    assert_eq!(versions(&client), version);
    clock(&client, "2026-02-20T09:00:00.000Z");
    let months = [
        "extra-monthly-evergreen 1.61 0.0 2026-01-10 > 2026-01-20",
        "extra-monthly-evergreen 5.0 0.0 2026-01-20 > 2026-02-20",
        "extra-monthly-evergreen 5.0 0.0 2026-02-20 > 2026-03-20",
        "pro-monthly-evergreen 29.95 0.0 2026-01-20 > 2026-02-20",
        "pro-monthly-evergreen 29.95 0.0 2026-02-20 > 2026-03-20",
        "pro-monthly-trial 0.0 0.0 2026-01-10 > 2026-01-20",
    ];
    assert_eq!(items(&client, &account), months);
    let cancelled = client
        .delete(&format!("/1.0/kb/subscriptions/{}", base["subscriptionId"].as_str().unwrap()));
    assert_eq!(cancelled.status, 204, "{}", cancelled.text());
    let in_euro = self::account(&client, "EUR");
    let of_euro = subscribe(&client, &json!({ "accountId": in_euro, "planName": "pro-monthly" }));
    assert_eq!(of_euro["prices"][0]["fixedPrice"], json!(0));
}

#[test]
fn what_simple_plans_make_is_listed_and_uploads_again() {
    let server = Server::start();
    let client = shop(&server);
    add(&client, &pro());
    add(&client, &extra());
    add(&client, &extra());
    let bases = client.get("/1.0/kb/catalog/availableBasePlans").json();
    let price = |amount: f64| json!([{ "currency": "USD", "value": amount }]);
    let base = json!({
        "product": "Pro", "plan": "pro-monthly", "priceList": "DEFAULT",
        "finalPhaseBillingPeriod": "MONTHLY", "finalPhaseRecurringPrice": price(29.95),
    });
    assert_eq!(bases, json!([base]));
    let add_ons =
        |query: &str| client.get(&format!("/1.0/kb/catalog/availableAddons?{query}")).json();
    let extra = json!({
        "product": "Extra", "plan": "extra-monthly", "priceList": "DEFAULT",
        "finalPhaseBillingPeriod": "MONTHLY",
        "finalPhaseRecurringPrice": [{ "currency": "USD", "value": 5 }],
    });
    assert_eq!(add_ons("baseProductName=Pro"), json!([extra]));
    assert_eq!(add_ons("baseProductName=Pro&priceListName=PROMO"), json!([]));
    assert_eq!(add_ons("baseProductName=None"), json!([]));
    assert_eq!(client.get("/1.0/kb/catalog/availableAddons").status, 400);
    let catalog = client.get("/1.0/kb/catalog").json();
    let xml = client.clone().header("Accept", "text/xml").get(XML);
    assert_eq!(xml.status, 200, "{}", xml.text());
    let stored = client.get("/1.0/kb/tenants/userKeyValue/CATALOG").json();
    assert_eq!(stored["values"], json!([xml.text()]));
    // The same in another tenant's catalog, which grows by a simple plan, too.
    let other = server.another_tenant();
    let upload = other.clone().header("Content-Type", "text/xml");
    let uploaded = upload.send("POST", XML, Some(xml.text().as_bytes()));
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    assert_eq!(other.get("/1.0/kb/catalog").json(), catalog);
    let best = with(pro(), &json!({ "planId": "best", "productName": "Best" }));
    add(&other, &best);
    let grown = other.get("/1.0/kb/catalog").json();
    assert_eq!(grown.as_array().unwrap().len(), 1);
    assert_eq!(grown[0]["effectiveDate"], catalog[0]["effectiveDate"]);
    assert_eq!(grown[0]["priceLists"][0]["plans"], json!(["pro-monthly", "extra-monthly", "best"]));
    let text = other.clone().header("Accept", "text/xml").get(XML);
    assert!(text.text().contains("<plan name=\"best\">"), "{}", text.text());
}

#[test]
fn a_simple_plan_that_contradicts_the_catalog_is_refused() {
    let server = Server::start();
    let client = shop(&server);
    refused(&client, &json!({ "planId": "pro" }), "currency: needs to be set");
    refused(&client, &extra(), "availableBaseProducts: there is no base product Pro");
    assert_eq!(versions(&client), json!([]));
    add(&client, &pro());
    for (others, reason) in [
        (json!({ "amount": 30 }), "amount: the plan costs 29.95 USD"),
        (json!({ "amount": -1 }), "amount: -1 is below zero"),
        (json!({ "billingPeriod": "ANNUAL" }), "billingPeriod: the plan has MONTHLY"),
        (json!({ "trialLength": 11 }), "trialLength: the plan has a trial of 10 DAYS"),
        (json!({ "productName": "Best" }), "productName: the plan is of Pro"),
        (json!({ "productCategory": "STANDALONE" }), "productCategory: Pro is BASE"),
        (json!({ "trialTimeUnit": null }), "trialTimeUnit: needs to be set"),
        (json!({ "planId": "Pro" }), "planId: it is the name of the product too"),
        (json!({ "planId": "p q" }), "planId: p q is no name of XML"),
    ] {
        refused(&client, &with(pro(), &others), reason);
    }
    for (field, value) in
        [("productCategory", "BASIS"), ("billingPeriod", "YEARLY"), ("trialTimeUnit", "HOURS")]
    {
        let answer = client.post(SIMPLE, &with(pro(), &json!({ field: value })));
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains(field), "{}", answer.text());
    }
    // Two versions, of which the plan has a trial in one.
    let text = catalogs::simple("DEFAULT", "2027-01-01T00:00:00Z");
    let text = text.replace("pro-monthly", "next");
    let upload = client.clone().header("Content-Type", "text/xml");
    let uploaded = upload.send("POST", XML, Some(text.as_bytes()));
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let next = json!({ "planId": "next", "trialLength": 0, "trialTimeUnit": "DAYS" });
    refused(&client, &with(pro(), &next), "another version has the plan with other phases");
}

#[test]
fn a_subscription_has_its_plan_at_a_date() {
    let server = Server::start();
    let client = shop(&server);
    add(&client, &pro());
    let best = json!({ "planId": "best", "productName": "Best", "trialLength": null, "trialTimeUnit": null });
    add(&client, &with(pro(), &best));
    let account = account(&client, "USD");
    let it = subscribe(
        &client,
        &json!({
            "accountId": account, "planName": "pro-monthly",
            "priceOverrides": [{ "phaseType": "EVERGREEN", "recurringPrice": 19.5 }],
        }),
    );
    let id = it["subscriptionId"].as_str().unwrap();
    let of = |kind: &str, date: &str| {
        let date = if date.is_empty() { String::new() } else { format!("&requestedDate={date}") };
        client.get(&format!("/1.0/kb/catalog/{kind}?subscriptionId={id}{date}"))
    };
    let plan = of("plan", "").json();
    assert_eq!(plan["name"], it["planName"]);
    assert_ne!(plan["name"], "pro-monthly");
    let price = json!([{ "currency": "USD", "value": 19.5 }]);
    assert_eq!(plan["phases"][1]["prices"], price);
    let phase = of("phase", "").json();
    assert_eq!((&phase["type"], &phase["duration"]["number"]), (&json!("TRIAL"), &json!(10)));
    let later = of("phase", "2026-01-20").json();
    assert_eq!((&later["type"], &later["prices"]), (&json!("EVERGREEN"), &price));
    assert_eq!(of("product", "").json()["name"], "Pro");
    assert_eq!(of("product", "").json()["plans"][0]["name"], "pro-monthly");
    let list = json!({ "name": "DEFAULT", "plans": ["pro-monthly", "best"] });
    assert_eq!(of("priceList", "").json(), list);
    assert_eq!(of("plan", it["startDate"].as_str().unwrap()).status, 200);

    clock(&client, "2026-01-25T08:00:00.000Z");
    let path = format!("/1.0/kb/subscriptions/{id}");
    assert_eq!(client.put(&path, &json!({ "planName": "best" })).status, 204);
    assert_eq!(of("plan", "").json()["name"], "best");
    assert_eq!(of("product", "").json()["name"], "Best");
    assert_eq!(of("product", "2026-01-20").json()["name"], "Pro");

    clock(&client, "2026-02-02T08:00:00.000Z");
    assert_eq!(client.delete(&path).status, 204);
    for kind in ["plan", "phase", "product", "priceList"] {
        for (date, reason) in [
            ("2026-01-09", "is before the subscription start date"),
            ("2026-02-03", "is after the subscription cancel date"),
            ("never", "requestedDate"),
        ] {
            let answer = of(kind, date);
            assert_eq!(answer.status, 400, "{}", answer.text());
            assert!(answer.text().contains(reason), "{}", answer.text());
        }
        let missing = client.get(&format!("/1.0/kb/catalog/{kind}"));
        assert_eq!(missing.status, 400, "{}", missing.text());
        let nothing = "00000000-0000-0000-0000-000000000001";
        let unknown = client.get(&format!("/1.0/kb/catalog/{kind}?subscriptionId={nothing}"));
        assert_eq!((unknown.status, &unknown.json()["code"]), (404, &json!(1080)));
    }
}
