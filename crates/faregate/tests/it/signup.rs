//! Sign-up by the paths, statuses and bodies that SaaSOdoo's clients know.

use std::io::Write;
use std::path::Path;
use std::sync::Barrier;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir, eventually};

pub const PASSWORD: &str = "LoadTest123@";

/// A server whose hashes cost nearly nothing.
pub fn launch() -> Launch {
    Launch::usual()
        .env("FAREGATE_SIGNUP_ARGON2_MEMORY_KIB", "64")
        .env("FAREGATE_SIGNUP_ARGON2_PASSES", "1")
}

fn start(dir: &TempDir) -> (Server, Client) {
    let server = Server::start_in(dir.path(), launch().env("FAREGATE_SIGNUP_TENANT", "bob"));
    let client = Client::new(&server.url);
    let bob = json!({ "apiKey": "bob", "apiSecret": "lazar" });
    let made = server.client().post("/1.0/kb/tenants", &bob);
    assert!(matches!(made.status, 201 | 409), "{}", made.text());
    (server, client)
}

/// The administrator, of the tenant of [`start`].
fn operator(server: &Server) -> Client {
    server.client().tenant("bob", "lazar")
}

pub fn entered(email: &str) -> Value {
    json!({
        "email": email,
        "password": PASSWORD,
        "first_name": "John",
        "last_name": "Smith",
        "accept_terms": true,
    })
}

fn register(client: &Client, email: &str) -> Value {
    let answer = client.post("/user/auth/register", &entered(email));
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

fn log_in(client: &Client, email: &str, password: &str) -> Answer {
    client.post("/user/auth/login", &json!({ "email": email, "password": password }))
}

/// The fields that a 422 is about.
fn wrong_fields(answer: &Answer) -> String {
    let json = answer.json();
    let detail = json["detail"].as_array().unwrap();
    let fields: Vec<&str> = detail.iter().map(|it| it["loc"][1].as_str().unwrap()).collect();
    fields.join(" ")
}

fn message(answer: &Answer) -> String {
    let body = answer.json();
    assert_eq!((&body["error"], &body["status_code"]), (&json!(true), &json!(answer.status)));
    body["message"].as_str().unwrap().to_owned()
}

/// The token of the newest mail to an address with such a link.
pub fn mailed_token(dir: &Path, email: &str, link: &str) -> String {
    let marker = format!("/{link}?token=");
    eventually("the mail", || {
        let mut newest = None;
        for entry in std::fs::read_dir(dir.join("mail")).ok()?.flatten() {
            // Soft line breaks of quoted-printable go, and `=3D` is an equals sign.
            let text = std::fs::read_to_string(entry.path()).ok()?;
            let text = text.replace("=\r\n", "").replace("=3D", "=");
            let Some((_, rest)) = text.split_once(&marker) else { continue };
            let token = rest.chars().take_while(|it| it.is_alphanumeric() || "-_".contains(*it));
            if text.contains(email) {
                let at = entry.metadata().ok()?.modified().ok()?;
                newest = newest.max(Some((at, token.collect::<String>())));
            }
        }
        newest.map(|(_, token)| token)
    })
}

/// A customer who verified their address and is logged in.
pub fn customer(dir: &TempDir, client: &Client, email: &str) -> (Client, Value) {
    register(client, email);
    let token = mailed_token(dir.path(), email, "verify-email");
    let verified = client.post("/user/auth/verify-email", &json!({ "token": token }));
    assert_eq!(verified.status, 200, "{}", verified.text());
    let tokens = log_in(client, email, PASSWORD).json()["tokens"].clone();
    (bearer(client, &tokens), tokens)
}

fn bearer(client: &Client, tokens: &Value) -> Client {
    let token = tokens["access_token"].as_str().unwrap();
    client.clone().header("Authorization", &format!("Bearer {token}"))
}

#[test]
fn registration_creates_a_user_with_an_account() {
    let dir = TempDir::new();
    let (server, client) = start(&dir);
    let body = register(&client, "John.Smith@Example.com");
    let id = body["customer"]["id"].as_str().unwrap();
    let expected = json!({
        "success": true,
        "message": "Customer registered successfully",
        "customer": {
            "id": id,
            "email": "john.smith@example.com",
            "first_name": "John",
            "last_name": "Smith",
            "requires_verification": true,
        },
    });
    assert_eq!(body, expected);
    let again = client.post("/user/auth/register", &entered("JOHN.SMITH@example.com"));
    assert_eq!(again.status, 409);
    assert_eq!(message(&again), "Customer with this email already exists");
    // The account exists, with its tag, for users who may read it.
    let path = format!("/billing/api/billing/accounts/{id}");
    assert_eq!(client.get(&path).status, 401);
    let of_no_tenant = server.client();
    assert_eq!(of_no_tenant.get(&path).status, 401, "an operator shows the tenant's credentials");
    let account = operator(&server).get(&path).json();
    assert_eq!(account["account"]["externalKey"], json!(id));
    assert_eq!(account["account"]["name"], json!("John Smith"));
    let internal = format!("/user/users/internal/{id}");
    assert_eq!(client.get(&internal).status, 401);
    assert_eq!(of_no_tenant.get(&internal).status, 401);
    let alice = json!({ "apiKey": "alice", "apiSecret": "secret" });
    assert_eq!(of_no_tenant.post("/1.0/kb/tenants", &alice).status, 201);
    let of_alice = server.client().tenant("alice", "secret");
    assert_eq!([of_alice.get(&internal).status, of_alice.get(&path).status], [404, 404]);
    let internal = operator(&server).get(&format!("/user/users/internal/{id}")).json();
    assert_eq!(internal["status"], json!("pending"));
    let unverified = log_in(&client, "john.smith@example.com", PASSWORD);
    assert_eq!(unverified.status, 401);
    assert!(message(&unverified).starts_with("Email verification required."));
}

#[test]
fn each_broken_rule_is_reported() {
    let server = Server::start_with(launch());
    let client = Client::new(&server.url);
    let check = |change: Value, wrong: &[(&str, &str)]| {
        let mut body = entered("rules@example.com");
        for (field, value) in change.as_object().unwrap() {
            body[field] = value.clone();
        }
        let answer = client.post("/user/auth/register", &body);
        assert_eq!(answer.status, 422, "{change}: {}", answer.text());
        let json = answer.json();
        let detail = json["detail"].as_array().unwrap();
        let errors: Vec<(&str, &str)> = detail
            .iter()
            .map(|it| (it["loc"][1].as_str().unwrap(), it["type"].as_str().unwrap()))
            .collect();
        assert_eq!(errors, wrong, "{change}");
        assert!(detail.iter().all(|it| it["loc"][0] == "body" && it["msg"].is_string()));
        let entered = body["password"].as_str().unwrap_or(PASSWORD);
        assert!(entered.is_empty() || !answer.text().contains(entered), "no password in answers");
    };
    check(json!({ "email": "nobody" }), &[("email", "value_error")]);
    check(json!({ "email": "a@b.example\r\nBcc: c@d.example" }), &[("email", "value_error")]);
    check(json!({ "email": 7 }), &[("email", "string_type")]);
    check(json!({ "password": "Ab1@" }), &[("password", "string_too_short")]);
    check(json!({ "password": "loadtest123@" }), &[("password", "value_error")]);
    check(json!({ "password": "LOADTEST123@" }), &[("password", "value_error")]);
    check(json!({ "password": "LoadTestLoad@" }), &[("password", "value_error")]);
    check(json!({ "password": "LoadTest1234" }), &[("password", "value_error")]);
    check(json!({ "password": "Password123!" }), &[("password", "value_error")]);
    let long = format!("Ab1@{}", "x".repeat(10_000));
    check(json!({ "password": long }), &[("password", "string_too_long")]);
    check(json!({ "first_name": "" }), &[("first_name", "value_error")]);
    check(json!({ "last_name": "x".repeat(51) }), &[("last_name", "value_error")]);
    check(json!({ "accept_terms": false }), &[("accept_terms", "value_error")]);
    check(json!({ "accept_terms": null }), &[("accept_terms", "missing")]);
    check(json!({ "phone": "12-34" }), &[("phone", "string_pattern_mismatch")]);
    check(json!({ "timezone": "Mars/Olympus" }), &[("timezone", "value_error")]);
    check(json!({ "company": "x".repeat(101) }), &[("company", "string_too_long")]);
    check(
        json!({ "email": "x", "password": "", "accept_terms": false }),
        &[
            ("accept_terms", "value_error"),
            ("password", "string_too_short"),
            ("email", "value_error"),
        ],
    );
    let missing = client.post("/user/auth/register", &json!({}));
    assert_eq!(missing.json()["detail"][0]["type"], json!("missing"));
    let broken = client.send("POST", "/user/auth/register", Some(b"{"));
    assert_eq!((broken.status, &broken.json()["detail"][0]["type"]), (422, &json!("json_invalid")));
    let array = client.send("POST", "/user/auth/register", Some(b"[]"));
    assert_eq!(array.status, 422);
    let large = format!(r#"{{"email":"{}"}}"#, "x".repeat(100_000));
    assert_eq!(client.send("POST", "/user/auth/register", Some(large.as_bytes())).status, 413);
    assert_eq!(client.get("/user/auth/register").status, 405);
    let unknown = client.get("/user/nothing");
    assert_eq!((unknown.status, message(&unknown).as_str()), (404, "Not Found"));
}

#[test]
fn an_address_is_registered_once_by_however_many_at_once() {
    let server = Server::start_with(launch());
    let client = Client::new(&server.url);
    let start = Barrier::new(64);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = || {
            start.wait();
            client.post("/user/auth/register", &entered("once@example.com")).status
        };
        let asking: Vec<_> = (0..64).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|it| **it == 201).count(), 1);
    assert_eq!(statuses.iter().filter(|it| **it == 409).count(), 63);
}

#[test]
fn repeated_registration_is_answered_again() {
    let dir = TempDir::new();
    let (server, client) = start(&dir);
    let keyed = client.clone().header("Idempotency-Key", "k-1");
    let first = keyed.post("/user/auth/register", &entered("again@example.com"));
    assert_eq!(first.status, 201);
    server.kill();
    let (_server, client) = start(&dir);
    let keyed = client.header("Idempotency-Key", "k-1");
    let second = keyed.post("/user/auth/register", &entered("again@example.com"));
    assert_eq!((second.status, second.json()), (201, first.json()));
    let mut other = entered("again@example.com");
    other["last_name"] = json!("Byron");
    assert_eq!(keyed.post("/user/auth/register", &other).status, 422);
    let another = keyed.post("/user/auth/register", &entered("other@example.com"));
    assert_eq!(another.status, 201, "the same key of somebody else");
}

#[test]
fn a_client_that_ends_its_sending_side_is_answered() {
    let dir = TempDir::new();
    let (_server, client) = start(&dir);
    let body = json!({ "email": "none@example.com", "password": PASSWORD }).to_string();
    let head =
        "POST /user/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    let mut stream = client.connect();
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(Answer::read(&mut stream).status, 401);
}

#[test]
fn a_session_from_login_to_logout() {
    let dir = TempDir::new();
    let (_server, client) = start(&dir);
    let email = "session@example.com";
    let (mine, tokens) = customer(&dir, &client, email);
    assert_eq!(tokens["access_token"].as_str().unwrap().len(), 43);
    assert_eq!(tokens["token_type"], json!("redis"));
    for (who, password) in [(email, "Wrong123@"), ("nobody@example.com", PASSWORD)] {
        let wrong = log_in(&client, who, password);
        assert_eq!((wrong.status, message(&wrong).as_str()), (401, "Invalid email or password"));
    }
    let me = mine.get("/user/auth/me").json();
    assert_eq!((&me["email"], &me["first_name"]), (&json!(email), &json!("John")));
    assert_eq!(client.get("/user/auth/me").status, 401);
    let forged = client.clone().header("Authorization", &format!("Bearer {}", "A".repeat(43)));
    assert_eq!(forged.get("/user/auth/me").status, 401);
    // The tokens are renewed: the old ones are worth nothing, but that two tabs may renew at once, and
    // showing older ones again ends it all.
    let refresh = |tokens: &Value| {
        let body = json!({ "refresh_token": tokens["refresh_token"] });
        client.post("/user/auth/refresh-token", &body)
    };
    let none = (401, "Invalid or expired refresh token");
    for (path, body) in [("", None), ("", Some(&b"{}"[..])), ("?refresh_token=none", None)] {
        let refused = client.send("POST", &format!("/user/auth/refresh-token{path}"), body);
        assert_eq!((refused.status, message(&refused).as_str()), none, "{path} {body:?}");
    }
    // The parameter of the query does as well.
    let token = tokens["refresh_token"].as_str().unwrap();
    let query = format!("/user/auth/refresh-token?refresh_token={token}");
    let oldest = tokens.clone();
    let tokens = client.send("POST", &query, None).json()["tokens"].clone();
    let mine = bearer(&client, &tokens);
    let renewed = refresh(&tokens).json()["tokens"].clone();
    assert_eq!(mine.get("/user/auth/me").status, 401);
    let mine = bearer(&client, &renewed);
    assert_eq!(mine.get("/user/auth/me").status, 200);
    assert_eq!(refresh(&tokens).json()["tokens"]["refresh_token"], renewed["refresh_token"]);
    assert_eq!(mine.get("/user/auth/me").status, 200);
    assert_eq!(refresh(&oldest).status, 401);
    assert_eq!(mine.get("/user/auth/me").status, 401);
    assert_eq!(refresh(&renewed).status, 401);
    let mine = bearer(&client, &log_in(&client, email, PASSWORD).json()["tokens"]);
    let other = bearer(&client, &log_in(&client, email, PASSWORD).json()["tokens"]);
    let sessions = mine.get("/user/users/sessions").json();
    assert_eq!(sessions["total_count"], json!(2));
    let listed = sessions["sessions"].as_array().unwrap();
    let id = listed.iter().find(|it| it["is_current"] == json!(false)).unwrap()["id"].clone();
    let path = format!("/user/users/sessions/{}", id.as_str().unwrap());
    assert_eq!(mine.delete(&path).status, 200);
    assert_eq!(other.get("/user/auth/me").status, 401);
    assert_eq!(mine.post("/user/auth/logout", &json!({})).status, 200);
    assert_eq!(mine.get("/user/auth/me").status, 401);
}

#[test]
fn passwords_are_changed_and_reset() {
    let dir = TempDir::new();
    let (_server, client) = start(&dir);
    let email = "password@example.com";
    let (mine, _) = customer(&dir, &client, email);
    let change = |current: &str, new: &str, confirmed: &str| {
        let body = json!({
            "current_password": current,
            "new_password": new,
            "confirm_password": confirmed,
        });
        mine.post("/user/auth/password-change", &body)
    };
    let wrong = change("Wrong123@", "Another123@", "Another123@");
    assert_eq!((wrong.status, message(&wrong).as_str()), (400, "Current password is incorrect"));
    let unequal = change(PASSWORD, "Another123@", "Different123@");
    assert_eq!(wrong_fields(&unequal), "confirm_password");
    assert_eq!(wrong_fields(&change(PASSWORD, "weak", "another")), "new_password");
    let nothing = mine.post("/user/auth/password-change", &json!({}));
    assert_eq!(wrong_fields(&nothing), "current_password new_password confirm_password");
    assert_eq!(change(PASSWORD, "Another123@", "Another123@").status, 200);
    assert_eq!(mine.get("/user/auth/me").status, 401, "all sessions have ended");
    assert_eq!(log_in(&client, email, PASSWORD).status, 401);
    assert_eq!(log_in(&client, email, "Another123@").status, 200);
    let ask = |email: &str| {
        let answer = client.post("/user/auth/password-reset", &json!({ "email": email }));
        (answer.status, answer.text())
    };
    assert_eq!(ask(email), ask("nobody@example.com"), "registered addresses are not disclosed");
    let token = mailed_token(dir.path(), email, "reset-password");
    let complete = |token: &str, password: &str| {
        let body = json!({
            "token": token,
            "new_password": password,
            "confirm_password": password,
        });
        client.post("/user/auth/password-reset-complete", &body)
    };
    assert_eq!(complete("nonsense", "Third1234@").status, 400);
    assert_eq!(complete(&token, "weak").status, 422);
    assert_eq!(complete(&token, "Third1234@").status, 200);
    assert_eq!(complete(&token, "Fourth1234@").status, 400, "a token is used once");
    assert_eq!(log_in(&client, email, "Third1234@").status, 200);
}

#[test]
fn a_profile_is_shown_and_changed() {
    let dir = TempDir::new();
    let (_server, client) = start(&dir);
    let (mine, _) = customer(&dir, &client, "profile@example.com");
    let change =
        json!({ "first_name": "Jane", "phone": "+4930123456", "timezone": "Europe/Berlin" });
    let changed = mine.put("/user/users/profile", &change).json();
    assert_eq!((&changed["first_name"], &changed["last_name"]), (&json!("Jane"), &json!("Smith")));
    assert_eq!(changed["status"], json!("active"));
    let shown = mine.get("/user/users/profile").json();
    assert_eq!((&shown["phone"], &shown["timezone"]), (&change["phone"], &change["timezone"]));
    assert_eq!(mine.put("/user/users/profile", &json!({ "first_name": "" })).status, 422);
    let preferences = mine.put("/user/users/preferences", &json!({ "theme": "dark" })).json();
    assert_eq!(
        (&preferences["theme"], &preferences["timezone"]),
        (&json!("dark"), &change["timezone"])
    );
    assert_eq!(mine.get("/user/users/preferences").json(), preferences);
    assert_eq!(mine.put("/user/users/preferences", &json!({ "theme": "loud" })).status, 422);
    let several = [
        json!({ "theme": "light" }),
        json!({ "date_format": "YYYY-MM-DD" }),
        json!({ "time_format": "12" }),
        json!({ "currency": "EUR" }),
        json!({ "marketing_emails": true }),
        json!({ "sms_notifications": true }),
    ];
    std::thread::scope(|scope| {
        let put = |it| assert_eq!(mine.put("/user/users/preferences", it).status, 200, "{it}");
        several.iter().for_each(|it| drop(scope.spawn(move || put(it))));
    });
    let kept = mine.get("/user/users/preferences").json();
    for (name, value) in several.iter().flat_map(|it| it.as_object().unwrap()) {
        assert_eq!(kept[name], *value, "{name}: what comes at once is all kept");
    }
    for path in ["stats", "instances", "billing"] {
        assert_eq!(mine.get(&format!("/user/users/{path}")).status, 200, "{path}");
    }
    assert_eq!(mine.post("/user/users/deactivate", &json!({})).status, 200);
    assert_eq!(mine.get("/user/auth/me").status, 401);
    let refused = log_in(&client, "profile@example.com", PASSWORD);
    assert_eq!((refused.status, message(&refused).as_str()), (401, "Account is deactivated"));
}

#[test]
fn a_token_erases_its_customer_where_the_setting_says_so() {
    let dir = TempDir::new();
    let launch = launch().env("FAREGATE_SIGNUP_ERASURE_NEEDS_PASSWORD", "false");
    let server = Server::start_in(dir.path(), launch);
    let client = Client::new(&server.url);
    let (mine, _) = customer(&dir, &client, "by.token@example.com");
    assert_eq!(mine.delete("/user/users/account?confirmation=DELETE").status, 200);
    assert_eq!(mine.get("/user/auth/me").status, 401);
}

#[test]
fn erased_customer_leaves_an_anonymous_account() {
    let dir = TempDir::new();
    let (server, client) = start(&dir);
    let email = "forget.me@example.com";
    let (mine, _) = customer(&dir, &client, email);
    let id = mine.get("/user/auth/me").json()["id"].as_str().unwrap().to_owned();
    assert_eq!(mine.delete("/user/users/account").status, 400);
    let path = "/user/users/account?confirmation=DELETE";
    let erase = |body: Option<&[u8]>| mine.send("DELETE", path, body);
    assert_eq!(erase(None).status, 422, "a token alone does not erase");
    let wrong = erase(Some(br#"{"password": "Wrong1!x"}"#));
    assert_eq!((wrong.status, message(&wrong).as_str()), (400, "Password is incorrect"));
    assert_eq!(mine.get("/user/auth/me").status, 200);
    let right = json!({ "password": PASSWORD }).to_string();
    assert_eq!(erase(Some(right.as_bytes())).status, 200);
    assert_eq!(mine.get("/user/auth/me").status, 401);
    assert_eq!(log_in(&client, email, PASSWORD).status, 401);
    let account = operator(&server).get(&format!("/billing/api/billing/accounts/{id}")).json();
    assert_eq!(account["account"]["externalKey"], json!(id));
    assert_eq!(
        (&account["account"]["name"], &account["account"]["email"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(operator(&server).get(&format!("/user/users/internal/{id}")).status, 404);
    register(&client, email);
    assert!(server.stop().0.success());
    let verified = crate::process::run(&["verify", "--data-dir", dir.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn billing_accounts_are_made_once_per_customer() {
    let server = Server::start_with(launch());
    let admin = server.tenant();
    let body = json!({ "customer_id": "c-1", "email": "c@example.com", "name": "C" });
    let path = "/billing/api/billing/accounts/";
    assert_eq!(Client::new(&server.url).post(path, &body).status, 401);
    assert_eq!(server.client().post(path, &body).status, 401, "without a tenant's credentials");
    let first = admin.post(path, &body);
    assert_eq!(
        (first.status, &first.json()["message"]),
        (200, &json!("Account created successfully"))
    );
    let second = admin.post(path, &body).json();
    assert_eq!(second["message"], json!("Account already exists"));
    assert_eq!(second["killbill_account_id"], first.json()["killbill_account_id"]);
    assert_eq!(admin.get(&format!("{path}c-1")).status, 200);
    let account = admin.get("/1.0/kb/accounts?externalKey=c-1").json();
    let shown = admin.get(&format!("{path}c-1")).json();
    assert_eq!(shown, json!({ "success": true, "account": account }));
    assert_eq!(admin.get(&format!("{path}overview/c-1")).status, 200);
    let missing_account = admin.get(&format!("{path}c-2"));
    assert_eq!(
        (missing_account.status, missing_account.json()),
        (404, json!({ "detail": "Account not found" }))
    );
    let empty = admin.post(path, &json!({}));
    assert_eq!((empty.status, wrong_fields(&empty)), (422, "customer_id email name".to_owned()));
    let unknown = admin.get("/billing/nothing");
    assert_eq!((unknown.status, unknown.json()), (404, json!({ "detail": "Not Found" })));
    // Unauthenticated requests are refused before their body is read, in billing's format.
    let unauthenticated = Client::new(&server.url).send("POST", path, Some(&[b' '; 100_000]));
    assert_eq!(
        (unauthenticated.status, unauthenticated.json()),
        (401, json!({ "detail": "Not authenticated" }))
    );
    let large = admin.send("POST", path, Some(&[b' '; 100_000]));
    assert_eq!((large.status, large.json()["detail"].is_string()), (413, true));
    let wrong = admin.clone().header("Idempotency-Key", "").post(path, &body);
    assert_eq!((wrong.status, wrong.json()["detail"].is_string()), (400, true));
    let method = admin.delete(path);
    assert_eq!((method.status, method.json()), (405, json!({ "detail": "Method Not Allowed" })));
}

#[test]
fn an_overview_has_the_bundles_as_kill_bills_api_shows_them() {
    let server = Server::start_with(launch());
    let admin = server.tenant();
    let path = "/billing/api/billing/accounts/";
    let overview = || admin.get(&format!("{path}overview/c-1")).json();
    let body = json!({ "customer_id": "c-1", "email": "c@example.com", "name": "C" });
    let account = admin.post(path, &body).json()["killbill_account_id"].clone();
    assert_eq!(overview()["bundles"], json!([]));
    let plan = json!({
        "planId": "basic-monthly", "productName": "Basic", "productCategory": "BASE",
        "currency": "USD", "amount": 5, "billingPeriod": "MONTHLY", "trialLength": 14,
        "trialTimeUnit": "DAYS",
    });
    assert_eq!(admin.post("/1.0/kb/catalog/simplePlan", &plan).status, 201);
    let wanted = json!({ "accountId": account, "planName": "basic-monthly", "externalKey": "s-1" });
    assert_eq!(admin.post("/1.0/kb/subscriptions", &wanted).status, 201);
    let of_account = account.as_str().unwrap();
    let there = admin.get(&format!("/1.0/kb/accounts/{of_account}/bundles")).json();
    let (there, here) = (&there[0], &overview()["bundles"][0]);
    assert_eq!(
        (&there["bundleId"], &there["externalKey"]),
        (&here["bundleId"], &here["externalKey"])
    );
    let (there, here) = (&there["subscriptions"][0], &here["subscriptions"][0]);
    assert_eq!((&here["phaseType"], &here["state"]), (&json!("TRIAL"), &json!("ACTIVE")));
    for (field, value) in here.as_object().unwrap() {
        assert_eq!(value, &there[field], "{field}");
    }
}

#[test]
fn health_needs_no_credentials() {
    let server = Server::start_with(launch());
    let client = Client::new(&server.url);
    for (path, service) in
        [("/user/health", "user-service"), ("/billing/health", "billing-service")]
    {
        let answer = client.get(path);
        assert_eq!(answer.status, 200);
        let body = answer.json();
        assert_eq!((&body["status"], &body["service"]), (&json!("healthy"), &json!(service)));
    }
    assert_eq!(client.get("/user/health").json()["version"], json!("1.0.0"));
    let database = client.get("/user/health/database").json();
    assert_eq!(database["database"], json!("connected"));
    drop(server);
    let server = Server::start_with(launch().env("FAREGATE_SIGNUP_TENANT", "nobody"));
    let answer = Client::new(&server.url).get("/user/health/database");
    let health = answer.json();
    assert_eq!((answer.status, &health["status"]), (503, &json!("unhealthy")));
    assert!(health["error"].as_str().unwrap().contains("signup.tenant"), "{health}");
}

#[test]
fn request_that_would_wait_too_long_is_refused_at_once() {
    let launch = Launch::usual().env("FAREGATE_SIGNUP_QUEUE_WAIT_MAX", "1ms");
    let server = Server::start_with(launch);
    let client = Client::new(&server.url);
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let ask =
            |at: usize| client.post("/user/auth/register", &entered(&format!("{at}@example.com")));
        let asking: Vec<_> = (0..32).map(|at| scope.spawn(move || ask(at))).collect();
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let refused: Vec<&Answer> = answers.iter().filter(|it| it.status == 503).collect();
    assert!(!refused.is_empty());
    assert!(answers.iter().all(|it| [201, 503].contains(&it.status)));
    for answer in refused {
        assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        message(answer);
    }
    assert_eq!(client.get("/user/health").status, 200);
}

/// A body that does not arrive is refused in the format of each API.
#[test]
fn large_or_unadmitted_body_is_refused_per_api() {
    let paths = ["/user/auth/register", "/billing/api/billing/accounts/", "/v1/registrations"];
    let launch = launch()
        .env("FAREGATE_HTTP_BODY_BYTES_MAX", "1024")
        .env("FAREGATE_ADMISSION_BODIES_BYTES_MAX", "1024");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let large = vec![b' '; 2048];
    for path in paths {
        assert_eq!(client.send("POST", path, Some(&large)).status, 413, "{path}");
    }
    let body = format!("{:<1024}", "{}");
    let request = client.request("POST", paths[0], Some(body.as_bytes()), "keep-alive");
    let mut slow = client.connect();
    slow.write_all(&request[..request.len() - 1]).unwrap();
    server.metrics_with("faregate_request_bodies_bytes 1024");
    for path in paths {
        let refused = client.send("POST", path, Some(b"{}"));
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{path}");
    }
    slow.write_all(&request[request.len() - 1..]).unwrap();
    assert_eq!(Answer::read(&mut slow).status, 422);
}

#[test]
fn late_body_is_answered_408() {
    let server = Server::start_with(launch().env("FAREGATE_HTTP_BODY_TIMEOUT", "100ms"));
    let client = server.tenant();
    for path in ["/user/auth/register", "/billing/api/billing/accounts/", "/v1/registrations"] {
        let request = client.request("POST", path, Some(b"{}"), "keep-alive");
        let mut stream = client.connect();
        stream.write_all(&request[..request.len() - 1]).unwrap();
        assert_eq!(Answer::read(&mut stream).status, 408, "{path}");
    }
}

#[test]
fn this_machine_is_exempt_from_limits_only_where_no_other_reaches_the_server() {
    let limited = || launch().env("FAREGATE_SIGNUP_LIMITS_LOGINS_PER_MINUTE", "2");
    let statuses = |client: &Client| {
        let guess = |_| log_in(client, "nobody@example.com", "Wrong-9384!").status;
        (0..4).map(guess).collect::<Vec<u16>>()
    };
    let server = Server::start_with(limited());
    let here = Client::new(&server.url);
    assert_eq!(statuses(&here), [401; 4]);
    assert_eq!(statuses(&here.header("Via", "1.1 proxy")), [401, 401, 429, 429]);
    let (_, log) = server.stop();
    assert!(log.contains("exempt from the limits of sign-up"), "{log}");
    // A proxy of TCP, or a sidecar, says nothing of its clients.
    let proxied = limited().env("FAREGATE_ACCESS_TRUSTED_PROXIES", "192.0.2.1");
    let everywhere = limited().env("FAREGATE_GRPC_LISTEN", "0.0.0.0:0");
    let everywhere = everywhere.env("FAREGATE_TEST_CLOCK_OFF_LOOPBACK", "true");
    for launch in [proxied, everywhere.env("FAREGATE_ADMIN_PASSWORD", "long-enough-9384")] {
        let server = Server::start_with(launch);
        assert_eq!(statuses(&Client::new(&server.url)), [401, 401, 429, 429]);
        let (_, log) = server.stop();
        assert!(log.contains("the limits of sign-up count for this machine too"), "{log}");
    }
}

#[test]
fn rate_limit_sends_retry_after_and_counts_a_peer_that_names_no_client() {
    let launch = launch()
        .env("FAREGATE_ACCESS_TRUSTED_PROXIES", "127.0.0.1")
        .env("FAREGATE_SIGNUP_LIMITS_REGISTRATIONS_PER_MINUTE", "2")
        .env("FAREGATE_SIGNUP_LIMITS_LOGINS_PER_MINUTE", "2");
    let server = Server::start_with(launch);
    let here = Client::new(&server.url);
    for n in 0..2 {
        register(&here, &format!("here-{n}@example.com"));
        assert_eq!(log_in(&here, "here-0@example.com", "Wrong-9384!").status, 401);
    }
    let via = |from: &str| Client::new(&server.url).header("X-Forwarded-For", from);
    for n in 0..2 {
        register(&via("192.0.2.1"), &format!("there-{n}@example.com"));
        assert_eq!(log_in(&via("192.0.2.1"), "here-0@example.com", "Wrong-9384!").status, 401);
    }
    let refused = [
        here.post("/user/auth/register", &entered("here-3@example.com")),
        log_in(&here, "here-0@example.com", PASSWORD),
        via("192.0.2.1").post("/user/auth/register", &entered("there-3@example.com")),
        log_in(&via("192.0.2.1"), "here-0@example.com", PASSWORD),
    ];
    for refused in refused {
        assert_eq!(refused.status, 429, "{}", refused.text());
        let retry_after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&retry_after), "{retry_after}");
        assert_eq!(message(&refused), "Too many requests, try again later");
    }
    register(&via("192.0.2.2"), "there-3@example.com");
    let metrics = server.metrics();
    for line in [
        "faregate_signup_limited_total{action=\"register\"} 2",
        "faregate_signup_limited_total{action=\"login\"} 2",
        "faregate_signup_limited_total{action=\"mail\"} 0",
        "user_service_registration_total{status=\"success\"} 5",
        "user_service_registration_total{status=\"rejected\"} 2",
        "user_service_billing_client_requests_total 5",
        "billing_service_killbill_latency_seconds_count 5",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in {metrics}");
    }
}

#[test]
fn a_synthetic_registration_says_whether_sign_up_works() {
    let launch = launch().env("FAREGATE_SIGNUP_PROBE_INTERVAL", "100ms");
    let server = Server::start_with(launch);
    let client = Client::new(&server.url);
    let healthy = eventually("it has succeeded", || {
        let answer = client.get("/health/synthetic");
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(healthy["status"], "healthy");
    let metrics = server.metrics_with("faregate_synthetic_probe_success 1");
    assert!(metrics.contains("\nfaregate_synthetic_probe_age_seconds "), "{metrics}");
    for status in ["success", "failure", "rejected"] {
        let none = format!("\nuser_service_registration_total{{status=\"{status}\"}} 0\n");
        assert!(metrics.contains(&none), "{status}: {metrics}");
    }
}

#[test]
fn without_an_interval_there_is_no_synthetic_registration() {
    let server = Server::start_with(launch().env("FAREGATE_SIGNUP_PROBE_INTERVAL", "0s"));
    assert_eq!(Client::new(&server.url).get("/health/synthetic").status, 404);
}
