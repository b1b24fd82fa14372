//! Users of feature flags and the accounts that they belong to.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::entitlements::sell;
use crate::process::{Launch, Server, TempDir, eventually, run};
use crate::signup;

fn set(client: &Client, account: &str, users: &Value) -> Answer {
    client.put(&format!("/v1/accounts/{account}/users"), &json!({ "users": users }))
}

/// The account of a user, or the status.
fn account_of(client: &Client, user: &str) -> String {
    let answer = client.get(&format!("/v1/users/{user}/entitlements"));
    match answer.status {
        200 => answer.json()["accountId"].as_str().unwrap().to_owned(),
        status => status.to_string(),
    }
}

/// Stops the server, and verifies what it wrote.
fn verify(server: Server, dir: &TempDir) {
    assert!(server.stop().0.success());
    let verified = run(&["verify", "--data-dir", dir.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

fn account(client: &Client, key: &str) -> String {
    let made = client.create("/1.0/kb/accounts", &json!({ "externalKey": key }));
    made["accountId"].as_str().unwrap().to_owned()
}

#[test]
fn a_user_has_what_its_account_has() {
    let server = Server::start();
    let client = server.tenant();
    let offer = json!({ "name": "Free", "features": { "pro": true } });
    sell(&client, &offer);
    let (ann, bea) = (account(&client, "ann@example.com"), account(&client, "b"));
    // By default: the account's id, and its external key.
    assert_eq!(account_of(&client, &ann), ann);
    assert_eq!(account_of(&client, "ann%40example.com"), ann);
    assert_eq!(account_of(&client, "nobody"), "404");
    let path = format!("/v1/accounts/{ann}/users");
    let first = client.get(&path);
    assert_eq!(first.json(), json!({ "accountId": ann, "version": 0, "users": [] }));
    let bought =
        client.post(&format!("/v1/accounts/{ann}/purchases"), &json!({ "offer": "monthly" }));
    assert_eq!(bought.status, 201, "{}", bought.text());
    let mapped = set(&client, &ann, &json!(["u/2 ü", "u1"]));
    assert_eq!(mapped.status, 200, "{}", mapped.text());
    assert_eq!(mapped.json(), json!({ "accountId": ann, "version": 1, "users": ["u/2 ü", "u1"] }));
    assert_eq!(mapped.header("etag"), Some("\"1\""));
    let shown = client.get("/v1/users/u%2F2%20%C3%BC/entitlements");
    assert_eq!(shown.json()["accountId"], ann);
    assert_eq!(shown.json()["features"][0]["feature"], "pro");
    // Its users are a change of what the account may do: its followers see it.
    assert_eq!(shown.json()["version"], 2);
    assert_eq!(shown.header("etag"), Some("\"2\""));
    let same = client.clone().header("If-None-Match", "\"2\"");
    assert_eq!(same.get("/v1/users/u1/entitlements").status, 304);
    // The list is replaced, in the version that the caller saw.
    let stale = client.clone().header("If-Match", "\"0\"");
    let refused = set(&stale, &ann, &json!(["u3"]));
    assert_eq!(refused.status, 412, "{}", refused.text());
    let current = client.clone().header("If-Match", "\"1\"");
    assert_eq!(set(&current, &ann, &json!(["u3"])).json()["version"], 2);
    assert_eq!([account_of(&client, "u1"), account_of(&client, "u3")], ["404".to_owned(), ann]);
    assert_eq!(set(&client, &bea, &json!(["u1"])).status, 200);
    assert_eq!(account_of(&client, "u1"), bea);
}

#[test]
fn a_key_is_of_one_account() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let (ann, bea) = (account(&client, "a"), account(&client, "b"));
    assert_eq!(set(&client, &ann, &json!(["u", "a", ann])).status, 200);
    let check = |account: &str, users: Value, status: u16, named: &str| {
        let answer = set(&client, account, &users);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(answer.json()["field"], named, "{}", answer.text());
    };
    check(&bea, json!(["v", "u"]), 409, "users[1]");
    check(&bea, json!(["a"]), 409, "users[0]");
    check(&bea, json!([ann]), 409, "users[0]");
    check(&bea, json!([""]), 400, "users[0]");
    check(&bea, json!(["v", "k".repeat(256)]), 400, "users[1]");
    let many = |count: usize| json!((0..count).map(|n| format!("user-{n}")).collect::<Vec<_>>());
    check(&bea, many(10_001), 400, "users");
    let taken = client.post("/1.0/kb/accounts", &json!({ "externalKey": "u" }));
    assert_eq!(taken.status, 409, "{}", taken.text());
    let refused = set(&client, &bea, &json!(["v", "u"]));
    assert!(!refused.text().contains("\"u\""), "no error quotes a key: {}", refused.text());
    // Nothing of that was mapped.
    assert_eq!(account_of(&client, "v"), "404");
    // A key that is mapped to its own account names it still, and only there.
    let by_key = client.get("/1.0/kb/accounts?externalKey=a");
    assert_eq!(by_key.json()["accountId"], ann);
    assert_eq!(client.get("/1.0/kb/accounts?externalKey=u").status, 404);
    let nameless = client.create("/1.0/kb/accounts", &json!({}));
    let nameless = nameless["accountId"].as_str().unwrap();
    assert_eq!(set(&client, nameless, &json!([nameless])).status, 200);
    let by_id = client.get(&format!("/1.0/kb/accounts?externalKey={nameless}"));
    assert_eq!(by_id.json()["accountId"], nameless);
    // As many as may be; and the key is free again.
    assert_eq!(set(&client, &bea, &many(10_000)).status, 200);
    assert_eq!(account_of(&client, "user-9999"), bea);
    assert_eq!(set(&client, &bea, &json!([])).status, 200);
    assert_eq!(set(&client, &ann, &json!(["user-9999"])).status, 200);
    assert_eq!(account_of(&client, "user-9999"), ann);
    verify(server, &dir);
}

/// Many want one key at once: one gets it.
#[test]
fn of_those_who_want_a_key_at_once_one_gets_it() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    race(&client);
    verify(server, &dir);
}

fn race(client: &Client) {
    for round in 0..5 {
        let accounts: Vec<String> =
            (0..6).map(|n| account(client, &format!("racer-{round}-{n}"))).collect();
        let key = format!("key-{round}");
        let got: Vec<(String, u16)> = std::thread::scope(|scope| {
            let mapping = accounts.iter().map(|id| {
                let (client, key) = (client.clone(), key.clone());
                scope.spawn(move || (id.clone(), set(&client, id, &json!([key])).status))
            });
            let making = (0..2).map(|_| {
                let (client, key) = (client.clone(), key.clone());
                scope.spawn(move || {
                    let made = client.post("/1.0/kb/accounts", &json!({ "externalKey": key }));
                    let id = made.header("location").unwrap_or_default().rsplit('/').next();
                    (id.unwrap_or_default().to_owned(), made.status)
                })
            });
            let all: Vec<_> = mapping.chain(making).collect();
            all.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = got.into_iter().partition(|(_, status)| *status < 300);
        assert_eq!(won.len(), 1, "{won:?} {lost:?}");
        assert!(lost.iter().all(|(_, status)| *status == 409), "{lost:?}");
        assert_eq!(account_of(client, &key), won[0].0);
    }
}

#[test]
fn another_tenants_users_are_its_own() {
    let server = Server::start();
    let client = server.tenant();
    let another = json!({ "apiKey": "joe", "apiSecret": "secret" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &another).status, 201);
    let other = server.client().tenant("joe", "secret");
    let (mine, theirs) = (account(&client, "a"), account(&other, "a"));
    assert_eq!(set(&client, &mine, &json!(["u"])).status, 200);
    assert_eq!(account_of(&other, "u"), "404");
    assert_eq!(account_of(&other, &mine), "404");
    assert_eq!(set(&other, &mine, &json!(["v"])).status, 404);
    assert_eq!(set(&other, &theirs, &json!(["u", mine])).status, 200);
    assert_eq!([account_of(&client, "u"), account_of(&other, "u")], [mine, theirs]);
}

/// However a customer is registered, they have the offer for newcomers at once.
#[test]
fn a_newcomer_has_the_offer_for_newcomers() {
    let dir = TempDir::new();
    let launch = signup::launch().env("FAREGATE_SIGNUP_TENANT", "bob");
    let server = Server::start_in(dir.path(), launch);
    let client = server.tenant();
    let anyone = Client::new(&server.url);
    let early = anyone.post("/user/auth/register", &signup::entered("early@example.com"));
    assert_eq!(early.status, 201, "{}", early.text());
    let offer = json!({
        "name": "Trial", "features": { "pro": true, "seats": 2 }, "lasts": { "days": 14 },
        "trial": true, "forNewcomers": true, "currencies": ["USD"],
    });
    sell(&client, &offer);
    let features = |customer: &str| -> Vec<Value> {
        let shown = client.get(&format!("/v1/users/{customer}/entitlements"));
        assert_eq!(shown.status, 200, "{}", shown.text());
        shown.json()["features"].as_array().unwrap().clone()
    };
    let expect_trial = |customer: &str| {
        let features = features(customer);
        let named = |at: usize| (&features[at]["feature"], &features[at]["grants"][0]["source"]);
        assert_eq!(named(0), (&json!("pro"), &json!("trial")));
        assert_eq!(named(1), (&json!("seats"), &json!("trial")));
    };
    let direct = anyone.post("/user/auth/register", &signup::entered("direct@example.com"));
    expect_trial(direct.json()["customer"]["id"].as_str().unwrap());
    let later = anyone.clone().header("Prefer", "respond-async");
    let later = later.post("/user/auth/register", &signup::entered("later@example.com"));
    assert_eq!(later.status, 202, "{}", later.text());
    let location = later.header("location").unwrap();
    let customer = eventually("the registration", || {
        anyone.get(location).json()["customerId"].as_str().map(str::to_owned)
    });
    expect_trial(&customer);
    let native = json!({
        "email": "native@example.com", "password": signup::PASSWORD, "firstName": "Ada",
        "lastName": "Lovelace", "acceptTerms": true,
    });
    assert_eq!(client.post("/v1/registrations", &native).status, 202);
    let found = client.get("/1.0/kb/accounts/search/native@example.com").json();
    expect_trial(found[0]["externalKey"].as_str().unwrap());
    assert_eq!(features(early.json()["customer"]["id"].as_str().unwrap()), [] as [Value; 0]);
    // Once it is withdrawn, the next one gets nothing.
    let withdrawn = json!({
        "name": "Trial", "features": { "pro": true }, "forNewcomers": true, "withdrawn": true,
    });
    assert_eq!(client.put("/v1/offers/monthly", &withdrawn).status, 200);
    let last = anyone.post("/user/auth/register", &signup::entered("last@example.com"));
    assert_eq!(features(last.json()["customer"]["id"].as_str().unwrap()), [] as [Value; 0]);
    verify(server, &dir);
}
