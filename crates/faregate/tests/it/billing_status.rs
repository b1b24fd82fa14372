//! How far billing is, over `/v1`, on the command line and in metrics.

use serde_json::{Value, json};

use crate::catalogs;
use crate::process::{Server, eventually, faregate};

#[test]
fn an_account_that_cannot_be_billed_is_listed_with_its_reason_until_it_can() {
    let server = Server::start();
    let client = server.tenant();
    let clock = |at: &str| {
        let path = format!("/1.0/kb/test/clock?requestedDate={at}&timeoutSec=60");
        assert_eq!(client.send("POST", &path, Some(b"{}")).status, 200, "{at}");
    };
    clock("2026-01-10T08:00:00.000Z");
    let catalog = catalogs::simple("Gold", "2025-01-01T00:00:00Z");
    let catalog = catalog.replace("20.00", "900000000000000");
    let xml = client.clone().header("Content-Type", "text/xml");
    assert_eq!(xml.send("POST", "/1.0/kb/catalog/xml", Some(catalog.as_bytes())).status, 201);
    let status = |query: &str| -> Value {
        let answer = client.get(&format!("/v1/billing{query}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let nothing = status("");
    assert_eq!(
        (&nothing["due"], &nothing["lagSeconds"], &nothing["parked"]),
        (&json!(0), &json!(0), &json!(0))
    );
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let it = json!({
        "accountId": account["accountId"], "planName": "pro-monthly", "quantity": 2_147_483_647,
    });
    client.create("/1.0/kb/subscriptions", &it);
    clock("2026-02-09T09:00:00.000Z");
    let parked = status("");
    assert_eq!(
        (&parked["due"], &parked["parked"], &parked["more"]),
        (&json!(0), &json!(1), &json!(false))
    );
    let it = &parked["parkedAccounts"][0];
    assert_eq!(it["accountId"], account["accountId"]);
    assert_eq!(it["reason"], "an amount is beyond 64 bits");
    assert_eq!(it["remedy"], "lower the price or the quantity of the subscription");
    assert!(it["since"].as_str().unwrap().starts_with("2026-02-09T"), "{it}");
    let page = status("?limit=0");
    assert_eq!((&page["parkedAccounts"], &page["more"]), (&json!([]), &json!(true)));
    let other = server.another_tenant().get("/v1/billing").json();
    assert_eq!(other["parked"], 0);
    eventually("the gauge", || {
        server.metrics().contains("faregate_billing_parked 1").then_some(())
    });
    let mut command = faregate(&["billing", "status"]);
    command.args(["--url", &server.url, "--api-key", "bob"]).env("FAREGATE_API_SECRET", "lazar");
    command.env("FAREGATE_PASSWORD", "password").env("FAREGATE_PROFILES", "/nowhere/profiles.toml");
    let said = command.output().unwrap();
    let text = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
    assert!(text.contains("reason=an amount is beyond 64 bits"), "{text}");
}
