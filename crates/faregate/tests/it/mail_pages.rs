//! The pages that links in mails lead to.

use serde_json::json;

use crate::client::Client;
use crate::process::{Server, TempDir};
use crate::signup::{PASSWORD, launch, mailed_token};

const EMAIL: &str = "ada@example.com";

fn start(dir: &TempDir) -> (Server, Client) {
    let server = Server::start_in(dir.path(), launch());
    let client = Client::new(&server.url);
    (server, client)
}

fn register(client: &Client) {
    let new = json!({ "email": EMAIL, "password": PASSWORD, "firstName": "Ada",
        "lastName": "Lovelace", "acceptTerms": true });
    assert_eq!(client.post("/v1/registrations", &new).status, 202);
}

fn log_in(client: &Client, password: &str) -> u16 {
    client.post("/v1/sessions", &json!({ "email": EMAIL, "password": password })).status
}

#[test]
fn the_button_verifies_the_address_and_opening_the_page_does_not() {
    let dir = TempDir::new();
    let (_server, client) = start(&dir);
    register(&client);
    let token = mailed_token(dir.path(), EMAIL, "verify-email");
    let page = client.get(&format!("/verify-email?token={token}"));
    assert_eq!(page.status, 200);
    assert!(page.text().contains(&format!("value=\"{token}\"")), "{}", page.text());
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none';"));
    assert_eq!(log_in(&client, PASSWORD), 401, "opening the page changes nothing");
    let form = format!("token={token}");
    let done = client.send("POST", "/verify-email", Some(form.as_bytes()));
    assert!(done.status == 200 && done.text().contains("confirmed"), "{}", done.text());
    assert_eq!(log_in(&client, PASSWORD), 201);
    let again = client.send("POST", "/verify-email", Some(form.as_bytes()));
    assert!(again.status == 400 && again.text().contains("used already"), "{}", again.text());
}

#[test]
fn a_password_is_set_by_the_form() {
    let dir = TempDir::new();
    let (_server, client) = start(&dir);
    register(&client);
    let token = mailed_token(dir.path(), EMAIL, "verify-email");
    client.send("POST", "/verify-email", Some(format!("token={token}").as_bytes()));
    assert_eq!(client.post("/v1/password-resets", &json!({ "email": EMAIL })).status, 202);
    let token = mailed_token(dir.path(), EMAIL, "reset-password");
    let set = |password: &str| {
        let form = format!("token={token}&password={password}");
        client.send("POST", "/reset-password", Some(form.as_bytes()))
    };
    let weak = set("short");
    assert!(weak.status == 422 && weak.text().contains("at least 8"), "{}", weak.text());
    assert!(weak.text().contains("<form"), "the form comes again: {}", weak.text());
    assert_eq!(set("Another-Horse-8").status, 200);
    assert_eq!((log_in(&client, PASSWORD), log_in(&client, "Another-Horse-8")), (401, 201));
}

/// A link carries no credentials: its token names the tenant.
#[test]
fn the_pages_serve_customers_of_every_tenant() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), launch());
    let client = server.tenant();
    register(&client);
    let token = mailed_token(dir.path(), EMAIL, "verify-email");
    assert_eq!(log_in(&client, PASSWORD), 401);
    let form = format!("token={token}");
    let click = || Client::new(&server.url).send("POST", "/verify-email", Some(form.as_bytes()));
    let operator = server.client();
    let tenants = operator.get("/v1/tenants").json();
    let ours = tenants["tenants"].as_array().unwrap().iter().find(|it| it["apiKey"] == "bob");
    let path = format!("/v1/tenants/{}", ours.unwrap()["tenantId"].as_str().unwrap());
    let serve = |active: bool| {
        let changed =
            operator.send("PATCH", &path, Some(json!({ "active": active }).to_string().as_bytes()));
        assert_eq!(changed.status, 200, "{}", changed.text());
    };
    serve(false);
    assert_eq!(click().status, 400, "a tenant that is not served has no pages either");
    serve(true);
    let done = click();
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(log_in(&client, PASSWORD), 201);
    let elsewhere = Client::new(&server.url);
    assert_eq!(log_in(&elsewhere, PASSWORD), 401, "another tenant has no such customer");
    let wrong = json!({ "token": token });
    assert_eq!(elsewhere.post("/v1/registrations/verify", &wrong).status, 400);
}

#[test]
fn what_is_no_token_is_not_repeated() {
    let dir = TempDir::new();
    let (_server, client) = start(&dir);
    for path in ["/verify-email", "/verify-email?token=", "/verify-email?token=%3Cscript%3E"] {
        let page = client.get(path);
        assert!(page.status == 400 && !page.text().contains("script"), "{path}: {}", page.text());
    }
}
