//! Payments of invoices through Kill Bill's API: by hand, of all at once, and after a tag is gone.

use serde_json::{Value, json};

use crate::catalogs;
use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir, run};

const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";
const SIMULATOR: &str = "faregate-simulator";
const AUTO_PAY_OFF: &str = "00000000-0000-0000-0000-000000000001";
const NOBODY: &str = "00000000-0000-0000-0000-0000000000aa";

/// Sets the clock, and waits for what is due then.
fn clock(client: &Client, at: &str) {
    let path = format!("/1.0/kb/test/clock?requestedDate={at}&timeoutSec=60");
    assert_eq!(client.send("POST", &path, Some(b"{}")).status, 200, "{at}");
}

/// A tenant whose account has an invoice of 20.00 that nobody paid, from January 10.
struct Shop {
    client: Client,
    account: String,
}

impl Shop {
    /// `gateway`: that of the account's default method, where it has one.
    fn new(server: &Server, gateway: Option<&str>) -> Self {
        let client = server.tenant();
        clock(&client, "2026-01-10T08:00:00.000Z");
        let catalog = catalogs::simple("Gold", "2025-01-01T00:00:00Z");
        let xml = client.clone().header("Content-Type", "text/xml");
        let stored = xml.send("POST", "/1.0/kb/catalog/xml", Some(catalog.as_bytes()));
        assert_eq!(stored.status, 201, "{}", stored.text());
        let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
        let account = account["accountId"].as_str().unwrap().to_owned();
        let shop = Self { client, account };
        if let Some(gateway) = gateway {
            let method = json!({ "pluginName": gateway, "pluginInfo": {} });
            let path = shop.of_account("/paymentMethods?isDefault=true");
            assert_eq!(shop.client.post(&path, &method).status, 201);
        }
        let tags = shop.of_account("/tags");
        assert_eq!(shop.client.post(&tags, &json!([AUTO_PAY_OFF])).status, 201);
        let subscription = json!({
            "accountId": shop.account, "planName": "pro-monthly", "phaseType": "EVERGREEN",
        });
        shop.client.create("/1.0/kb/subscriptions", &subscription);
        shop
    }

    fn of_account(&self, rest: &str) -> String {
        format!("/1.0/kb/accounts/{}{rest}", self.account)
    }

    fn invoices(&self) -> Vec<Value> {
        self.client.get(&self.of_account("/invoices")).json().as_array().unwrap().clone()
    }

    /// What is to be paid of each invoice.
    fn balances(&self) -> Vec<String> {
        self.invoices().iter().map(|it| it["balance"].to_string()).collect()
    }

    fn invoice(&self) -> String {
        self.invoices()[0]["invoiceId"].as_str().unwrap().to_owned()
    }

    fn pay(&self, query: &str, more: &Value) -> Answer {
        let invoice = self.invoice();
        let mut body = json!({ "accountId": self.account, "targetInvoiceId": invoice });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.client.post(&format!("/1.0/kb/invoices/{invoice}/payments{query}"), &body)
    }

    fn refused(&self, (query, more): (&str, Value), expected: (u16, Value), text: &str) {
        let answer = self.pay(query, &more);
        let json = answer.json();
        assert_eq!((answer.status, json["code"].clone()), expected, "{}", answer.text());
        let message = json["message"].as_str().unwrap();
        assert!(message.contains(text), "{message}");
    }

    /// The payment that an answer names.
    fn made(&self, answer: &Answer) -> Value {
        assert_eq!(answer.status, 201, "{}", answer.text());
        let location = answer.header("location").unwrap();
        let (_, path) = location.split_once("/1.0/kb/invoicePayments/").unwrap();
        assert!(path.ends_with('/'), "{location}");
        let path = format!("/1.0/kb/invoicePayments/{}", path.trim_end_matches('/'));
        let read = self.client.get(&path);
        assert_eq!(read.status, 200, "{}", read.text());
        assert_eq!(self.client.get(&format!("{path}/auditLogsWithHistory")).status, 200);
        read.json()
    }

    fn balance(&self) -> String {
        let account = self.client.get(&self.of_account("?accountWithBalance=true")).json();
        account["accountBalance"].to_string()
    }

    /// How often an event was published.
    fn count(&self, name: &str) -> usize {
        let events = self.client.get("/v1/events?after=0&limit=1000").json();
        let events = events["events"].as_array().unwrap().iter();
        events.filter(|it| it["eventType"] == name).count()
    }
}

#[test]
fn an_invoice_is_paid_in_parts_and_no_more_than_it_is() {
    let folder = TempDir::new();
    let server = Server::start_in(folder.path(), Launch::usual());
    let shop = Shop::new(&server, Some(EXTERNAL));
    assert_eq!((shop.balance().as_str(), shop.balances()), ("20.0", vec!["20.0".to_owned()]));
    let keys = json!({
        "purchasedAmount": 5, "paymentExternalKey": "p",
        "transactions": [{ "transactionExternalKey": "t" }],
    });
    let payment = shop.made(&shop.pay("", &keys));
    assert_eq!(payment["targetInvoiceId"], shop.invoice());
    assert_eq!(payment["paymentExternalKey"], "p");
    assert_eq!(payment["transactions"][0]["transactionExternalKey"], "t");
    assert_eq!((shop.balance().as_str(), shop.balances()), ("15.0", vec!["15.0".to_owned()]));
    let too_much = json!({ "purchasedAmount": "15.01" });
    let text = "invoice balance is = '15.00'";
    shop.refused(("", too_much), (400, json!(7199)), text);
    let again = json!({ "transactionExternalKey": "t", "purchasedAmount": 5 });
    shop.refused(("", again), (400, json!(7030)), "t already exists");
    let other = shop.client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let other = json!({ "accountId": other["accountId"] });
    shop.refused(("", other), (400, json!(4001)), "another account");
    let target = json!({ "targetInvoiceId": NOBODY });
    shop.refused(("", target), (400, json!(7031)), "targetInvoiceId");
    let method = json!({ "paymentMethodId": NOBODY });
    shop.refused(("?externalPayment=true", method.clone()), (400, json!(7031)), "takes none");
    shop.refused(("", method), (404, json!(7000)), NOBODY);
    shop.refused(("", json!({ "accountId": null })), (400, Value::Null), "accountId");
    let unknown = format!("/1.0/kb/invoices/{NOBODY}/payments");
    let body = json!({ "accountId": shop.account });
    let answer = shop.client.post(&unknown, &body);
    assert_eq!((answer.status, &answer.json()["code"]), (404, &json!(4006)), "{}", answer.text());
    assert_eq!(shop.client.get(&unknown).status, 404);
    assert_eq!(shop.client.get(&format!("/1.0/kb/invoicePayments/{NOBODY}")).status, 404);
    let payment = shop.made(&shop.pay("", &json!({})));
    assert_eq!(payment["purchasedAmount"], json!(15.0));
    assert_eq!(shop.pay("", &json!({})).status, 204);
    assert_eq!((shop.balance().as_str(), shop.balances()), ("0", vec!["0.0".to_owned()]));
    let listed = shop.client.get(&format!("/1.0/kb/invoices/{}/payments", shop.invoice())).json();
    let amounts: Vec<_> =
        listed.as_array().unwrap().iter().map(|it| it["purchasedAmount"].to_string()).collect();
    assert_eq!(amounts, ["5.0", "15.0"]);
    assert_eq!((shop.count("INVOICE_PAYMENT_SUCCESS"), shop.count("PAYMENT_SUCCESS")), (2, 2));
    server.stop();
    let verified = run(&["verify", "--data-dir", folder.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn what_is_on_its_way_is_not_paid_twice_and_a_decline_leaves_the_invoice_unpaid() {
    let server = Server::start();
    let shop = Shop::new(&server, Some(SIMULATOR));
    let action =
        |status: &str| format!("?pluginProperty=ACTION_RETURN_PLUGIN_STATUS_{status}%3D%2A");
    let declined = shop.made(&shop.pay(&action("ERROR"), &json!({})));
    assert_eq!(declined["transactions"][0]["status"], "PAYMENT_FAILURE");
    assert_eq!(shop.balance(), "20.0");
    assert_eq!((shop.count("INVOICE_PAYMENT_FAILED"), shop.count("PAYMENT_FAILED")), (1, 1));
    let pending = shop.made(&shop.pay(&action("PENDING"), &json!({ "purchasedAmount": 15 })));
    assert_eq!(pending["transactions"][0]["status"], "PENDING");
    let text = "invoice balance is = '20.00', of which '15.00' is on its way";
    let more = json!({ "purchasedAmount": 6 });
    shop.refused(("", more), (400, json!(7199)), text);
    shop.made(&shop.pay("", &json!({ "purchasedAmount": 5 })));
    shop.refused(("", json!({})), (400, json!(7199)), "is on its way");
    let payment = pending["paymentId"].as_str().unwrap();
    let completed = shop.client.put(&format!("/1.0/kb/payments/{payment}"), &json!({}));
    assert_eq!(completed.status, 204, "{}", completed.text());
    assert_eq!(shop.balances(), ["0.0"]);
}

#[test]
fn all_invoices_are_paid_the_oldest_first_until_the_amount_is_used_up() {
    let server = Server::start();
    let shop = Shop::new(&server, None);
    clock(&shop.client, "2026-02-10T09:00:00.000Z");
    assert_eq!(shop.balances(), ["20.0", "20.0"]);
    let all = |query: &str| {
        shop.client.post(&shop.of_account(&format!("/invoicePayments{query}")), &json!({}))
    };
    let refused = |query: &str, text: &str| {
        let answer = all(query);
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (400, &json!(7031)),
            "{}",
            answer.text()
        );
        assert!(answer.text().contains(text), "{}", answer.text());
    };
    refused("", "paymentMethodId");
    refused("?externalPayment=true&paymentAmount=40.01", "is more than is to be paid");
    refused("?externalPayment=true&paymentAmount=0", "greater than 0");
    refused("?externalPayment=true&paymentAmount=1.001", "paymentAmount");
    refused("?externalPayment=true&targetDate=soon", "targetDate");
    refused(&format!("?externalPayment=true&paymentMethodId={NOBODY}"), "takes none");
    // Of the first one alone, whose target is not later.
    let answer = all("?externalPayment=true&targetDate=2026-01-31&paymentAmount=1");
    assert_eq!(answer.status, 201, "{}", answer.text());
    let location = answer.header("location").unwrap();
    assert!(location.ends_with(&shop.of_account("/invoicePayments")), "{location}");
    assert_eq!(shop.balances(), ["19.0", "20.0"]);
    // Sent again with its key it is the same request.
    let keyed = shop.client.clone().header("Idempotency-Key", "once");
    let path = shop.of_account("/invoicePayments?externalPayment=true&paymentAmount=24");
    for _ in 0..2 {
        assert_eq!(keyed.post(&path, &json!({})).status, 201);
        assert_eq!(shop.balances(), ["0.0", "15.0"]);
    }
    let methods = shop.client.get(&shop.of_account("/paymentMethods")).json();
    let methods: Vec<_> = methods.as_array().unwrap().iter().collect();
    assert_eq!(methods.len(), 1);
    assert_eq!(
        (&methods[0]["pluginName"], &methods[0]["isDefault"]),
        (&json!(EXTERNAL), &json!(false))
    );
    assert_eq!(all("?externalPayment=true").status, 201);
    assert_eq!((shop.balances(), shop.balance().as_str()), (vec!["0.0".to_owned(); 2], "0"));
    assert_eq!(all("?externalPayment=true").status, 204);
    let nobody = format!("/1.0/kb/accounts/{NOBODY}/invoicePayments");
    assert_eq!(shop.client.post(&nobody, &json!({})).status, 404);
}

#[test]
fn what_a_tag_held_up_is_paid_once_it_is_gone() {
    let server = Server::start();
    let shop = Shop::new(&server, Some(EXTERNAL));
    clock(&shop.client, "2026-02-10T09:00:00.000Z");
    assert_eq!(shop.balances(), ["20.0", "20.0"]);
    let untag = shop.of_account(&format!("/tags?tagDef={AUTO_PAY_OFF}"));
    assert_eq!(shop.client.delete(&untag).status, 204);
    clock(&shop.client, "2026-02-10T09:01:00.000Z");
    assert_eq!(shop.balances(), ["0.0", "0.0"]);
    assert_eq!(shop.count("INVOICE_PAYMENT_SUCCESS"), 2);
}
