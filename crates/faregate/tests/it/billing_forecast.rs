//! What a tenant's accounts would be invoiced until a day.

use serde_json::{Value, json};

use crate::catalogs;
use crate::client::Client;
use crate::process::{Server, faregate};

fn subscribe(client: &Client) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let id = account["accountId"].as_str().unwrap().to_owned();
    client.create("/1.0/kb/subscriptions", &json!({ "accountId": id, "planName": "pro-monthly" }));
    id
}

#[test]
fn a_forecast_adds_up_what_the_runs_invoice_then() {
    let server = Server::start();
    let client = server.tenant();
    let clock = |at: &str| {
        let path = format!("/1.0/kb/test/clock?requestedDate={at}&timeoutSec=60");
        assert_eq!(client.send("POST", &path, Some(b"{}")).status, 200, "{at}");
    };
    clock("2026-01-10T08:00:00.000Z");
    let catalog = catalogs::simple("Gold", "2025-01-01T00:00:00Z");
    let xml = client.clone().header("Content-Type", "text/xml");
    assert_eq!(xml.send("POST", "/1.0/kb/catalog/xml", Some(catalog.as_bytes())).status, 201);
    let accounts: Vec<String> = (0..3).map(|_| subscribe(&client)).collect();
    let credit = json!([{ "accountId": accounts[0], "amount": 5, "description": "canary credit" }]);
    assert_eq!(client.post("/1.0/kb/credits?autoCommit=true", &credit).status, 200);
    let forecast = |query: &str| -> Value {
        let answer = client.get(&format!("/v1/billing/forecast?{query}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    // The trials end on February 9.
    assert_eq!(forecast("to=2026-02-06")["currencies"], json!([]));
    let march = forecast("to=2026-03-10");
    assert_eq!(
        (&march["accounts"], &march["refused"], &march["nextAfter"]),
        (&json!(3), &json!(0), &Value::Null)
    );
    assert_eq!(
        march["currencies"],
        json!([{ "currency": "USD", "invoices": 3, "charged": "120.00", "fromCredit": "5.00" }])
    );
    let first = forecast("to=2026-03-10&limit=2");
    assert_eq!(first["currencies"][0]["charged"], "80.00");
    let after = first["nextAfter"].as_str().unwrap();
    let rest = forecast(&format!("to=2026-03-10&limit=2&after={after}"));
    assert_eq!(
        (&rest["currencies"][0]["charged"], &rest["nextAfter"]),
        (&json!("40.00"), &Value::Null)
    );
    for (query, field) in [
        ("", "to"),
        ("to=soon", "to"),
        ("to=2026-03-10&limit=501", "limit"),
        ("to=2026-03-10&after=1", "after"),
    ] {
        let answer = client.get(&format!("/v1/billing/forecast?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().contains(field), "{}", answer.text());
    }
    assert_eq!(forecast("to=2030-01-01")["refused"], 3);
    let mut command = faregate(&["billing", "forecast", "--to", "2026-03-10"]);
    command.args(["--url", &server.url, "--api-key", "bob"]).env("FAREGATE_API_SECRET", "lazar");
    command.env("FAREGATE_PASSWORD", "password").env("FAREGATE_PROFILES", "/nowhere/profiles.toml");
    let said = command.output().unwrap();
    let text = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
    assert!(text.contains("USD       3         120.00   5.00"), "{text}");
    clock("2026-03-10T09:00:00.000Z");
    let invoiced: f64 = accounts
        .iter()
        .flat_map(|it| {
            client
                .get(&format!("/1.0/kb/accounts/{it}/invoices"))
                .json()
                .as_array()
                .unwrap()
                .clone()
        })
        .map(|it| it["amount"].as_f64().unwrap())
        .sum();
    assert!((invoiced - 120.0).abs() < 0.001, "{invoiced}");
}
