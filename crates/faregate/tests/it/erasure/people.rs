//! People who have the canary in every personal field, through every API.

use std::io::Write;
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use grpc::api::{
    AccountServiceCreateRequest, AddPaymentMethodRequest, EvaluateRequest, FlagUser, Person,
};
use serde_json::{Value, json};

use crate::client::Client;
use crate::flags_streams::{FLAG, Stream, sample, secret};
use crate::grpc::Caller;
use crate::process::{Launch, Server, TempDir, eventually};
use crate::signup;

/// The text in every personal field. In lower case, because addresses are compared in lower case.
pub const CANARY: &str = "canary-7f3a";

/// Has a call leave an attempt, with a property that says something of the person.
const CONTROLLED: &str = "controlPluginName=faregate-rules&pluginProperty=note%3Dcanary-7f3a";

/// A port of this machine without a listener.
const CLOSED: &str = "http://127.0.0.1:65535";

/// Those who were entered.
pub struct People {
    /// The ids of their accounts.
    pub accounts: Vec<String>,
    /// How many of these accounts are not those of customers: they are the first ones.
    pub without_customer: usize,
    /// A customer who is logged in.
    pub customer: Client,
    /// A request for a payment whose gateway is still to answer.
    pub running: TcpStream,
}

/// Makes a server one of the tenant `bob` for all APIs, which logs all that it can and soon asks for
/// outcomes that are awaited.
pub fn launch(launch: Launch) -> Launch {
    let launch = launch.grpc().env("FAREGATE_SIGNUP_TENANT", "bob");
    let launch = launch.env("FAREGATE_RESOLVER_PENDING_DELAYS", &["1s"; 30].join(","));
    launch.env("FAREGATE_LOG_LEVEL", "trace")
}

/// Enters people through every API; `dir` has the server's mails.
pub fn enter(server: &Server, dir: &TempDir) -> People {
    let client = server.tenant();
    let callback = format!("/1.0/kb/tenants/registerNotificationCallback?cb={CLOSED}");
    assert_eq!(client.send("POST", &callback, None).status, 201);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut accounts = vec![killbill_account(&client), runtime.block_on(grpc_account(server))];
    refused_repeatedly(&client);
    let without_customer = accounts.len();
    let customer = customer(server, dir);
    register_later(&client);
    report_evaluations(server, &client);
    runtime.block_on(evaluate_by_grpc(server, &client));
    let found = client.get(&format!("/1.0/kb/accounts/search/{CANARY}")).json();
    let found = found.as_array().unwrap().iter().map(|it| it["accountId"].as_str().unwrap());
    let of_customers: Vec<String> =
        found.map(str::to_owned).filter(|id| !accounts.contains(id)).collect();
    assert_eq!(of_customers.len(), 3, "one of the customer, two of registrations made later");
    accounts.extend(of_customers);
    eventually("a notification waits for another attempt", || {
        let metrics = server.metrics();
        let waiting = metrics.lines().find_map(|it| it.strip_prefix("faregate_push_waiting "));
        (waiting.unwrap().parse::<f64>().unwrap() > 0.0).then_some(())
    });
    let running = awaited_payments(&client, &accounts[0]);
    People { accounts, without_customer, customer, running }
}

/// A client whose every request leaves the canary in the audit.
fn marked(client: &Client) -> Client {
    ["X-Killbill-CreatedBy", "X-Killbill-Reason", "X-Killbill-Comment"]
        .into_iter()
        .fold(client.clone(), |client, name| client.header(name, &format!("{CANARY} {name}")))
        .header("User-Agent", CANARY)
}

/// An account of Kill Bill's API with all that can be said of a person, and a payment.
pub fn killbill_account(client: &Client) -> String {
    let client = marked(client);
    let account = client.create("/1.0/kb/accounts", &person());
    let id = account["accountId"].as_str().unwrap().to_owned();
    let again = client.clone().header("X-Killbill-Comment", &format!("{CANARY} again"));
    let name = json!({ "name": format!("{CANARY} 2") });
    let renamed = again.put(&format!("/1.0/kb/accounts/{id}"), &name);
    assert_eq!(renamed.status, 204, "{}", renamed.text());
    let method = add_method(&client, &id, "__EXTERNAL_PAYMENT__", "isDefault=true");
    let path = format!("/1.0/kb/accounts/{id}/payments?{CONTROLLED}");
    let purchase = json!({ "transactionType": "PURCHASE", "amount": "10" });
    let payment = client.create(&path, &purchase);
    let payment_id = payment["paymentId"].as_str().unwrap();
    let transaction = payment["transactions"][0]["transactionId"].as_str().unwrap();
    let emails = format!("/1.0/kb/accounts/{id}/emails");
    for email in [CANARY, "removed-canary-7f3a"] {
        assert_eq!(client.post(&emails, &json!({ "email": email })).status, 201);
    }
    assert_eq!(client.delete(&format!("{emails}/removed-{CANARY}")).status, 204);
    for object in [
        format!("accounts/{id}"),
        format!("paymentMethods/{method}"),
        format!("payments/{payment_id}"),
        format!("paymentTransactions/{transaction}"),
    ] {
        put_fields(&client, &format!("/1.0/kb/{object}/customFields"));
    }
    let users = json!({ "users": [CANARY, format!("{CANARY}@example.com")] });
    assert_eq!(client.put(&format!("/v1/accounts/{id}/users"), &users).status, 200);
    let other = json!({ "users": [format!("{CANARY} 2"), format!("{CANARY}@example.com")] });
    assert_eq!(client.put(&format!("/v1/accounts/{id}/users"), &other).status, 200);
    let of_user = format!("/v1/users/{CANARY}%202/entitlements");
    assert_eq!(client.get(&of_user).json()["accountId"], id);
    assert_eq!(client.get(&format!("/v1/users/{CANARY}-3/entitlements")).status, 404);
    id
}

/// Custom fields of an object: one that has another value later, and one that is removed.
fn put_fields(client: &Client, path: &str) {
    let field = json!({ "name": CANARY, "value": CANARY });
    assert_eq!(client.post(path, &json!([field, field])).status, 201);
    let fields = client.get(path).json();
    let id = |at: usize| fields[at]["customFieldId"].as_str().unwrap().to_owned();
    let other = json!([{ "customFieldId": id(0), "value": format!("{CANARY} later") }]);
    assert_eq!(client.put(path, &other).status, 204);
    assert_eq!(client.delete(&format!("{path}?customField={}", id(1))).status, 204);
}

fn person() -> Value {
    json!({
        "externalKey": format!("{CANARY}@example.com"), "currency": "USD",
        "name": CANARY, "firstNameLength": 3, "email": format!("{CANARY}@example.com"),
        "address1": CANARY, "address2": CANARY, "postalCode": CANARY, "company": CANARY,
        "city": CANARY, "state": CANARY, "country": "NZ", "locale": "en_NZ",
        "phone": CANARY, "notes": CANARY,
    })
}

fn add_method(client: &Client, account: &str, gateway: &str, query: &str) -> String {
    let path = format!("/1.0/kb/accounts/{account}/paymentMethods?{query}");
    let method = json!({
        "pluginName": gateway,
        "pluginInfo": {
            "externalPaymentMethodId": CANARY,
            "properties": [{ "key": "holder", "value": CANARY }],
        },
    });
    let made = client.post(&path, &method);
    assert_eq!(made.status, 201, "{}", made.text());
    let location = made.header("location").unwrap();
    location.rsplit('/').next().unwrap().to_owned()
}

/// Payments that name the person as who asked for them and why: one that its gateway has not decided
/// about, and one whose gateway answers after three seconds.
fn awaited_payments(client: &Client, account: &str) -> TcpStream {
    let client = marked(client);
    let method = add_method(&client, account, "faregate-simulator", "isDefault=false");
    let path = format!("/1.0/kb/accounts/{account}/payments?paymentMethodId={method}&{CONTROLLED}");
    let purchase = json!({ "transactionType": "PURCHASE", "amount": "10" });
    client.create(&format!("{path}&pluginProperty=outcome%3DPENDING"), &purchase);
    let path = format!("{path}&pluginProperty=delayMs%3D3000");
    let body = purchase.to_string();
    let request = client.request("POST", &path, Some(body.as_bytes()), "close");
    let mut running = client.connect();
    running.write_all(&request).unwrap();
    eventually("the gateway is called", || {
        let payments = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
        (payments.as_array().unwrap().len() == 3).then_some(())
    });
    running
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

/// A customer with sessions, a profile, preferences, a second factor that is offered, a failed log-in
/// and a token that was requested for another password.
fn customer(server: &Server, dir: &TempDir) -> Client {
    let email = format!("{CANARY}@example.org");
    let client = Client::new(&server.url).header("User-Agent", CANARY);
    let (mine, _) = signup::customer(dir, &client, &email);
    let ok = |answer: crate::client::Answer, status| {
        assert_eq!(answer.status, status, "{}", answer.text());
    };
    let profile = json!({ "first_name": CANARY, "last_name": CANARY, "company": CANARY });
    ok(mine.put("/user/users/profile", &profile), 200);
    let preferences = json!({ "preferences": { "nickname": CANARY, CANARY: 1 } });
    ok(mine.send("PATCH", "/v1/me", Some(preferences.to_string().as_bytes())), 200);
    let factor = json!({ "password": signup::PASSWORD });
    ok(mine.post("/v1/me/second-factor", &factor), 201);
    for (path, password, status) in [
        ("/user/auth/login", "Wrong-9384!", 401),
        ("/v1/sessions", CANARY, 401),
        ("/v1/sessions", signup::PASSWORD, 201),
    ] {
        ok(client.post(path, &json!({ "email": email, "password": password })), status);
    }
    let unknown =
        json!({ "email": format!("{CANARY}@nowhere.example"), "password": "Wrong-9384!" });
    ok(client.post("/v1/sessions", &unknown), 401);
    ok(client.post("/user/auth/password-reset", &json!({ "email": email })), 200);
    mine
}

/// Registrations that are made later, without a callback, with one that fails, and with one address
/// that is taken.
fn register_later(client: &Client) {
    let hasty = client.clone().header("Prefer", "respond-async");
    let secret = BASE64.encode(CANARY.repeat(3));
    let called = hasty
        .clone()
        .header("X-Faregate-Callback", &format!("{CLOSED}/{CANARY}"))
        .header("X-Faregate-Callback-Secret", &secret);
    let cases = [(&hasty, "later", "succeeded"), (&called, "called", "succeeded")];
    for (client, name, expected) in cases.into_iter().chain([(&called, "later", "failed")]) {
        let mut entered = signup::entered(&format!("{CANARY}.{name}@example.org"));
        entered["first_name"] = json!(CANARY);
        let queued = client.post("/user/auth/register", &entered);
        assert_eq!(queued.status, 202, "{}", queued.text());
        let location = queued.header("location").unwrap();
        let ended = eventually("the end of the operation", || {
            let shown = client.get(location).json();
            (shown["status"] != "waiting").then_some(shown)
        });
        assert_eq!(ended["status"], expected, "{ended}");
    }
}

/// Evaluates flags for a user, syncs a stream and reports insights, as SDKs of feature flags do.
fn report_evaluations(server: &Server, client: &Client) {
    let imported = client.post("/v1/environments/dev/import", &sample());
    assert_eq!(imported.status, 200, "{}", imported.text());
    let (of_server, of_client) = (secret(client, "server"), secret(client, "client"));
    let properties = json!([{ "name": "email", "value": format!("{CANARY}@example.com") }]);
    let user = json!({ "keyId": CANARY, "name": CANARY, "customizedProperties": properties });
    let evaluated = eventually("the flag in the cache", || {
        let evaluated = client.post("/v1/flags/evaluate?environment=dev", &json!({ "user": user }));
        (evaluated.text().contains(FLAG)).then_some(evaluated)
    });
    assert_eq!(evaluated.status, 200);
    let context = json!({ "targetingKey": CANARY, "name": CANARY, "email": CANARY });
    let sdk = server.client().header("Authorization", &format!("Bearer {of_server}"));
    for path in ["/ofrep/v1/evaluate/flags", &format!("/ofrep/v1/evaluate/flags/{FLAG}")] {
        let evaluated = sdk.post(path, &json!({ "context": context }));
        assert_eq!(evaluated.status, 200, "{}", evaluated.text());
    }
    let mut stream = Stream::open(server, "", "client", &of_client);
    stream.ask_for(&json!({ "timestamp": 0, "user": user }));
    let now = jiff::Timestamp::now().as_millisecond();
    let insight = json!([{
        "user": user,
        "variations": [{
            "featureFlagKey": FLAG, "variation": { "id": "on", "value": CANARY },
            "sendToExperiment": true, "timestamp": now,
        }],
        "metrics": [{ "type": "CustomEvent", "eventName": "paid", "numericValue": 1 }],
    }]);
    let sdk = server.client().header("Authorization", &of_server);
    let taken = sdk.post("/api/public/insight/track", &insight);
    assert_eq!(taken.status, 200, "{}", taken.text());
    eventually("counts in the store", || {
        let path = format!("/v1/flags/{FLAG}/insights?environment=dev");
        (client.get(&path).text().contains("\"on\"")).then_some(())
    });
}

async fn evaluate_by_grpc(server: &Server, client: &Client) {
    let caller = ["authorization", "x-faregate-apikey", "x-faregate-apisecret"]
        .into_iter()
        .fold(Caller::of(server), |caller, name| caller.with(name, ""))
        .with("x-api-key", &secret(client, "server"));
    let attributes = [("email".to_owned(), format!("{CANARY}@example.com"))].into();
    let user = FlagUser { key: CANARY.to_owned(), name: Some(CANARY.to_owned()), attributes };
    let ask = EvaluateRequest { user: Some(user), ..EvaluateRequest::default() };
    let evaluated = caller.flags().evaluate(caller.request(ask)).await.unwrap();
    assert_eq!(evaluated.into_inner().flags.len(), 1);
}

/// A request that can be repeated, and was refused with a text that names the person's key.
fn refused_repeatedly(client: &Client) {
    let client = client.clone().header("Idempotency-Key", "again");
    for _ in 0..2 {
        let refused = client.post("/1.0/kb/accounts", &person());
        assert_eq!(refused.status, 409, "{}", refused.text());
    }
}
