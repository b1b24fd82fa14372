//! Invoices through Kill Bill's API: listed, searched, in groups, with their audit.

use serde_json::{Value, json};

use crate::catalogs;
use crate::client::Client;
use crate::process::{Launch, Server, TempDir, run};

const NOTHING: &str = "00000000-0000-4000-8000-000000000000";

/// A tenant with a catalog.
fn shop(server: &Server) -> Client {
    let client = server.tenant();
    let catalog = catalogs::simple("Gold", "2025-01-01T00:00:00Z");
    let xml = client.clone().header("Content-Type", "text/xml");
    assert_eq!(xml.send("POST", "/1.0/kb/catalog/xml", Some(catalog.as_bytes())).status, 201);
    client
}

fn account(client: &Client) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    account["accountId"].as_str().unwrap().to_owned()
}

/// Charges an account, on an invoice of its own.
fn charge(client: &Client, account: &str, amount: f64) -> Value {
    let path = format!("/1.0/kb/invoices/charges/{account}?autoCommit=true");
    let charged =
        client.post(&path, &json!([{ "amount": amount, "description": "canary charge" }]));
    assert_eq!(charged.status, 200, "{}", charged.text());
    charged.json()[0].clone()
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_else(|| panic!("{name} of {of}"))
}

#[test]
fn invoices_are_listed_by_page_and_found_by_id_account_number_and_currency() {
    let folder = TempDir::new();
    let server = Server::start_in(folder.path(), Launch::usual());
    let client = shop(&server);
    let (ada, bob) = (account(&client), account(&client));
    let first = charge(&client, &ada, 1.5);
    charge(&client, &bob, 2.0);
    charge(&client, &ada, 3.0);
    let amounts = |path: &str| {
        let answer = client.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let found = answer.json();
        found.as_array().unwrap().iter().map(|it| it["amount"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(amounts("/1.0/kb/invoices/pagination"), ["1.5", "2.0", "3.0"]);
    let page = client.get("/1.0/kb/invoices/pagination?limit=2");
    let header =
        |name: &str| page.header(&format!("x-killbill-pagination-{name}")).unwrap().to_owned();
    assert_eq!(
        (header("totalnbrecords"), header("maxnbrecords")),
        ("3".to_owned(), "3".to_owned())
    );
    assert_eq!(amounts(&header("nextpageuri")), ["3.0"]);
    assert_eq!(page.json()[0]["items"], json!([]));
    let of_ada = format!("/1.0/kb/accounts/{ada}/invoices/pagination");
    assert_eq!(amounts(&of_ada), ["1.5", "3.0"]);
    assert_eq!(amounts(&format!("{of_ada}?offset=1")), ["3.0"]);
    let search = |key: &str| amounts(&format!("/1.0/kb/invoices/search/{key}"));
    assert_eq!(search(text(&first, "invoiceId")), ["1.5"]);
    assert_eq!(search(&ada), ["1.5", "3.0"]);
    assert_eq!(search("2"), ["2.0"]);
    assert_eq!(search("USD"), ["1.5", "2.0", "3.0"]);
    assert_eq!(search("EUR"), [""; 0]);
    assert_eq!(search("none"), [""; 0]);
    let other = server.another_tenant();
    assert_eq!(other.get("/1.0/kb/invoices/pagination").json(), json!([]));
    assert_eq!(other.get("/1.0/kb/invoices/search/USD").json(), json!([]));
    server.stop();
    let verified = run(&["verify", "--data-dir", folder.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn a_group_is_an_invoice_of_its_account() {
    let server = Server::start();
    let client = shop(&server);
    let path = "/1.0/kb/test/clock?requestedDate=2026-01-10T08:00:00.000Z&timeoutSec=60";
    assert_eq!(client.send("POST", path, Some(b"{}")).status, 200);
    let account = account(&client);
    let it = json!({ "accountId": account, "planName": "pro-monthly", "phaseType": "EVERGREEN" });
    client.create("/1.0/kb/subscriptions", &it);
    let group =
        |query: &str| client.send("POST", &format!("/1.0/kb/invoices/group{query}"), Some(b"{}"));
    assert_eq!(group("").status, 400);
    assert_eq!(group(&format!("?accountId={account}")).status, 404);
    let made = group(&format!("?accountId={account}&targetDate=2026-02-10"));
    assert_eq!(made.status, 201, "{}", made.text());
    let location = made.header("location").unwrap();
    let (_, path) = location.split_once("/1.0/kb/").unwrap();
    assert!(path.ends_with(&format!("/group?accountId={account}")), "{path}");
    let found = client.get(&format!("/1.0/kb/{path}")).json();
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert_eq!(
        (&found[0]["amount"], &found[0]["items"][0]["itemType"]),
        (&json!(20.0), &json!("RECURRING"))
    );
    let path = path.split('?').next().unwrap();
    assert_eq!(client.get(&format!("/1.0/kb/{path}")).status, 400);
    assert_eq!(client.get(&format!("/1.0/kb/{path}?accountId={NOTHING}")).status, 404);
}

#[test]
fn an_invoice_and_its_items_have_an_audit_with_their_former_values() {
    let server = Server::start();
    let client = shop(&server);
    let account = account(&client);
    let item = charge(&client, &account, 5.0);
    let (invoice, id) = (text(&item, "invoiceId"), text(&item, "invoiceItemId"));
    let adjusted = client.post(
        &format!("/1.0/kb/invoices/{invoice}"),
        &json!({ "accountId": account, "invoiceItemId": id, "amount": 2.0 }),
    );
    assert_eq!(adjusted.status, 201, "{}", adjusted.text());
    let logs = |path: &str| {
        let answer = client.get(&format!("/1.0/kb/{path}/auditLogsWithHistory"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json().as_array().unwrap().clone()
    };
    let of_invoice = logs(&format!("invoices/{invoice}"));
    let kinds: Vec<_> = of_invoice.iter().map(|it| text(it, "changeType")).collect();
    assert_eq!(kinds, ["INSERT", "UPDATE"]);
    let history = &of_invoice[0]["history"];
    assert_eq!(
        (&of_invoice[0]["objectType"], &history["tableName"]),
        (&json!("INVOICE"), &json!("INVOICES"))
    );
    assert_eq!((&history["status"], &history["currency"]), (&json!("COMMITTED"), &json!("USD")));
    let of_item = logs(&format!("invoiceItems/{id}"));
    let history = &of_item[0]["history"];
    assert_eq!((&history["type"], &history["amount"]), (&json!("EXTERNAL_CHARGE"), &json!(5.0)));
    assert_eq!(
        (&history["description"], &history["tableName"]),
        (&json!("canary charge"), &json!("INVOICE_ITEMS"))
    );
    for path in ["invoices", "invoiceItems"] {
        let absent = client.get(&format!("/1.0/kb/{path}/{NOTHING}/auditLogsWithHistory"));
        assert_eq!(absent.status, 404, "{path}");
    }
}

#[test]
fn each_read_of_an_invoice_shows_as_much_of_its_audit_as_is_asked_for() {
    let server = Server::start();
    let client = shop(&server);
    let account = account(&client);
    let item = charge(&client, &account, 5.0);
    let (invoice, id) = (text(&item, "invoiceId"), text(&item, "invoiceItemId"));
    let body = json!({ "accountId": account, "invoiceItemId": id, "amount": 2.0 });
    assert_eq!(client.post(&format!("/1.0/kb/invoices/{invoice}"), &body).status, 201);
    for (path, at) in [
        (format!("invoices/{invoice}?"), ""),
        ("invoices/byNumber/1?".to_owned(), ""),
        (format!("invoices/byItemId/{id}?"), ""),
        (format!("invoices/{invoice}/group?accountId={account}&"), "/0"),
        ("invoices/pagination?".to_owned(), "/0"),
        ("invoices/search/1?".to_owned(), "/0"),
        ("invoices/search/USD?".to_owned(), "/0"),
        (format!("accounts/{account}/invoices?"), "/0"),
        (format!("accounts/{account}/invoices/pagination?"), "/0"),
        (format!("accounts/{account}/timeline?"), "/invoices/0"),
    ] {
        let changes = |level: &str| {
            let shown = client.get(&format!("/1.0/kb/{path}audit={level}")).json();
            let logs = shown.pointer(&format!("{at}/auditLogs")).and_then(Value::as_array).cloned();
            let logs = logs.unwrap_or_else(|| panic!("{path}: {shown}"));
            assert!(logs.iter().all(|it| it["objectType"] == "INVOICE"), "{path}: {shown}");
            logs.iter().map(|it| text(it, "changeType").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(changes("NONE"), [""; 0], "{path}");
        assert_eq!(changes("MINIMAL"), ["INSERT"], "{path}");
        assert_eq!(changes("FULL"), ["INSERT", "UPDATE"], "{path}");
        assert_eq!(client.get(&format!("/1.0/kb/{path}audit=SOME")).status, 400, "{path}");
    }
}
