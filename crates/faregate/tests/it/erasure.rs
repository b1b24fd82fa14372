//! Erasure: a text that stood in every personal field, through every API, is found nowhere afterwards.

use std::path::{Path, PathBuf};

use grpc::api::{AccountServiceCreateRequest, AddPaymentMethodRequest, Person};
use serde_json::json;

use crate::client::Client;
use crate::grpc::Caller;
use crate::process::{Server, TempDir, run};
use crate::signup;

/// What every personal field has. In lower case, because addresses are compared in lower case.
const CANARY: &str = "canary-7f3a";

/// A client whose every request leaves the canary in the audit.
fn marked(client: &Client) -> Client {
    ["X-Killbill-CreatedBy", "X-Killbill-Reason", "X-Killbill-Comment"]
        .into_iter()
        .fold(client.clone(), |client, name| client.header(name, &format!("{CANARY} {name}")))
}

/// Every file of a directory that has the canary in it, but for mails that were sent.
fn files_with_canary(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("mail") {
                found.extend(files_with_canary(&path));
            }
        } else {
            let bytes = std::fs::read(&path).unwrap().to_ascii_lowercase();
            if bytes.windows(CANARY.len()).any(|it| it == CANARY.as_bytes()) {
                found.push(path);
            }
        }
    }
    found
}

/// An account of Kill Bill's API with all that can be said of a person, and a payment.
fn killbill_account(client: &Client) -> String {
    let client = marked(client);
    let account = client.create(
        "/1.0/kb/accounts",
        &json!({
            "externalKey": format!("{CANARY}@example.com"), "currency": "USD",
            "name": CANARY, "firstNameLength": 3, "email": format!("{CANARY}@example.com"),
            "address1": CANARY, "address2": CANARY, "postalCode": CANARY, "company": CANARY,
            "city": CANARY, "state": CANARY, "country": "NZ", "locale": "en_NZ",
            "phone": CANARY, "notes": CANARY,
        }),
    );
    let id = account["accountId"].as_str().unwrap().to_owned();
    let renamed =
        client.put(&format!("/1.0/kb/accounts/{id}"), &json!({ "name": format!("{CANARY} 2") }));
    assert_eq!(renamed.status, 204, "{}", renamed.text());
    let methods = format!("/1.0/kb/accounts/{id}/paymentMethods?isDefault=true");
    let method = json!({
        "pluginName": "__EXTERNAL_PAYMENT__",
        "pluginInfo": {
            "externalPaymentMethodId": CANARY,
            "properties": [{ "key": "holder", "value": CANARY }],
        },
    });
    let made = client.post(&methods, &method);
    assert_eq!(made.status, 201, "{}", made.text());
    let path = format!("/1.0/kb/accounts/{id}/payments");
    client.create(&path, &json!({ "transactionType": "PURCHASE", "amount": "10" }));
    id
}

async fn grpc_account(server: &Server) -> String {
    let caller = Caller::of(server).with("x-faregate-comment", CANARY);
    let text = || CANARY.to_owned();
    let person = Person {
        name: text(),
        email: format!("{CANARY}@example.com"),
        company: text(),
        phone: text(),
        ..Person::default()
    };
    let create = AccountServiceCreateRequest {
        account_key: format!("{CANARY} by gRPC"),
        currency_code: "USD".to_owned(),
        person: Some(person),
    };
    let made = caller.accounts().create(caller.request(create)).await.unwrap();
    let account_id = made.into_inner().account_id;
    let method = AddPaymentMethodRequest {
        account_id: account_id.clone(),
        gateway: "__EXTERNAL_PAYMENT__".to_owned(),
        is_default: true,
        ..AddPaymentMethodRequest::default()
    };
    caller.accounts().add_payment_method(caller.request(method)).await.unwrap();
    account_id
}

#[test]
fn nothing_personal_is_left_of_erased_accounts() {
    let dir = TempDir::new();
    let launch = || {
        let launch = signup::launch().env("FAREGATE_SIGNUP_TENANT", "bob").grpc();
        launch.env("FAREGATE_LOG_LEVEL", "trace")
    };
    let server = Server::start_in(dir.path(), launch());
    let client = server.tenant();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let accounts = [killbill_account(&client), runtime.block_on(grpc_account(&server))];
    let email = format!("{CANARY}@example.org");
    let (mine, _) = signup::customer(&dir, &Client::new(&server.url), &email);
    let changed = mine.put("/user/users/profile", &json!({ "first_name": CANARY }));
    assert_eq!(changed.status, 200, "{}", changed.text());
    let of_customer = client.get(&format!("/1.0/kb/accounts/search/{CANARY}")).json();
    let of_customer =
        of_customer.as_array().unwrap().iter().map(|it| it["accountId"].as_str().unwrap());
    let of_customer: Vec<String> =
        of_customer.map(str::to_owned).filter(|id| !accounts.contains(id)).collect();
    assert_eq!(of_customer.len(), 1, "the customer's account");
    assert_ne!(files_with_canary(dir.path()), Vec::<PathBuf>::new(), "they are there before");

    let erase = |id: &str| client.post(&format!("/v1/accounts/{id}/erase"), &json!(null)).status;
    for id in accounts.iter().chain(&of_customer) {
        assert_eq!(erase(id), 204);
        assert_eq!(erase(id), 204, "once more");
    }
    for id in &accounts {
        let read = client.get(&format!("/1.0/kb/accounts/{id}?audit=FULL"));
        assert_eq!(read.json()["externalKey"], *id, "the key is gone");
        assert_eq!(read.json()["auditLogs"][0]["changedBy"], "admin", "who acted stays");
        assert!(!read.text().contains(CANARY), "{}", read.text());
    }
    let taken = json!({ "externalKey": format!("{CANARY}@example.com") });
    assert_eq!(client.post("/1.0/kb/accounts", &taken).status, 409, "nobody else gets the key");
    assert_eq!(mine.get("/user/auth/me").status, 401, "the customer is erased too");

    let metrics = Client::new(&server.url).get("/metrics").text();
    assert!(!metrics.to_ascii_lowercase().contains(CANARY));
    let backup = dir.path().join("backup.db");
    let data_dir = dir.path().to_str().unwrap();
    let made = run(&["backup", backup.to_str().unwrap(), "--data-dir", data_dir]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (_, log) = server.stop();
    let lines = log.lines().filter(|line| line.to_ascii_lowercase().contains(CANARY));
    assert_eq!(lines.collect::<Vec<_>>(), Vec::<&str>::new());
    assert_eq!(files_with_canary(dir.path()), Vec::<PathBuf>::new());
    let verified = run(&["verify", "--data-dir", data_dir]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn erasing_takes_a_permission_and_an_account_of_the_tenant() {
    let server = Server::start();
    let client = server.tenant();
    let id = killbill_account(&client);
    let path = format!("/v1/accounts/{id}/erase");
    let user = json!({ "username": "joe", "password": "right", "roles": [] });
    assert_eq!(server.client().post("/1.0/kb/security/users", &user).status, 201);
    assert_eq!(client.clone().user("joe", "right").post(&path, &json!(null)).status, 403);
    assert_eq!(server.client().post(&path, &json!(null)).status, 401);
    let other = json!({ "apiKey": "eve", "apiSecret": "secret of eve" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &other).status, 201);
    let eve = server.client().tenant("eve", "secret of eve");
    assert_eq!(eve.post(&path, &json!(null)).status, 404);
    assert_eq!(client.post("/v1/accounts/none/erase", &json!(null)).status, 404);
    assert_eq!(client.post(&format!("{path}?force=true"), &json!(null)).status, 400);
    assert_eq!(client.get(&format!("/1.0/kb/accounts/{id}")).json()["company"], CANARY);
}
