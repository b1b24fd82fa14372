//! Currencies that Kill Bill's own clients cannot read: clients and operators are warned, and a tenant can refuse them.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::{Server, eventually};

const SETTINGS: &str = "/1.0/kb/tenants/uploadPerTenantConfig";

fn account(client: &Client, currency: Option<&str>) -> Answer {
    client.post("/1.0/kb/accounts", &json!({ "currency": currency }))
}

fn settings(client: &Client, all: &Value) -> Answer {
    let text = client.clone().header("Content-Type", "text/plain");
    text.send("POST", SETTINGS, Some(all.to_string().as_bytes()))
}

fn path_of(made: &Answer) -> String {
    let location = made.header("location").unwrap();
    location[location.find("/1.0/").unwrap()..].to_owned()
}

fn refused(answer: &Answer) {
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert_eq!((answer.status, answer.json()["code"].clone()), (400, json!(7031)), "{message}");
    let expected =
        "Invalid parameter currency: BYN is not one of Kill Bill's, as `killbill.currencies` asks";
    assert_eq!(message, expected);
}

#[test]
fn a_currency_that_kill_bill_lacks_is_warned_of() {
    let server = Server::start();
    let client = server.tenant();
    assert_eq!(account(&client, Some("USD")).header("x-faregate-warning"), None);
    let made = account(&client, Some("BYN"));
    let warning = "currency: Kill Bill's Java client cannot read BYN";
    assert_eq!((made.status, made.header("x-faregate-warning")), (201, Some(warning)));
    let without = path_of(&account(&client, None));
    let changed = client.put(&without, &json!({ "currency": "VES" }));
    assert_eq!(changed.status, 204, "{}", changed.text());
    assert!(changed.header("x-faregate-warning").unwrap().ends_with("VES"));
    let (_, log) = server.stop();
    assert_eq!(log.matches("Kill Bill's Java client cannot read").count(), 2, "{log}");
}

#[test]
fn a_tenant_can_refuse_currencies_that_kill_bill_lacks() {
    let server = Server::start();
    let (client, other) = (server.tenant(), server.another_tenant());
    let wrong = settings(&client, &json!({ "killbill.currencies": "ours" }));
    let message = "perTenantConfig killbill.currencies: should be all or theirs";
    assert_eq!((wrong.status, &wrong.json()["message"]), (400, &json!(message)));
    let paying = path_of(&account(&client, Some("USD")));
    let method = json!({ "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {} });
    client.create(&format!("{paying}/paymentMethods?isDefault=true"), &method);
    let without = path_of(&account(&client, None));

    assert_eq!(settings(&client, &json!({ "killbill.currencies": "theirs" })).status, 201);
    eventually("the setting holds", || (account(&client, Some("BYN")).status == 400).then_some(()));
    refused(&account(&client, Some("BYN")));
    refused(&client.put(&without, &json!({ "currency": "BYN" })));
    let purchase = json!({ "transactionType": "PURCHASE", "amount": 1, "currency": "BYN" });
    refused(&client.post(&format!("{paying}/payments"), &purchase));
    let combo = json!({
        "account": { "currency": "BYN" }, "paymentMethod": method,
        "transaction": { "transactionType": "PURCHASE", "amount": 1 },
    });
    refused(&client.post("/1.0/kb/payments/combo", &combo));
    let price = json!({ "amount": "1.00", "currency": "BYN" });
    let offer = json!({ "name": "BYN", "price": price, "features": {} });
    let put = client.clone().header("If-None-Match", "*").put("/v1/offers/byn", &offer);
    assert_eq!(put.status, 400, "{}", put.text());
    assert!(put.text().contains("not one of Kill Bill's"), "{}", put.text());
    assert_eq!(account(&client, Some("USD")).status, 201);
    assert_eq!(account(&other, Some("BYN")).status, 201, "another tenant's");
}
