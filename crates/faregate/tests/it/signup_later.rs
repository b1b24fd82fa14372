//! Sign-up under `/v1`, and registrations that a running server makes later.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir, eventually};

const PASSWORD: &str = "LoadTest123@";

fn start(dir: &TempDir) -> (Server, Client) {
    let launch = Launch::usual()
        .env("FAREGATE_SIGNUP_ARGON2_MEMORY_KIB", "64")
        .env("FAREGATE_SIGNUP_ARGON2_PASSES", "1");
    let server = Server::start_in(dir.path(), launch);
    let client = Client::new(&server.url);
    (server, client)
}

fn register(client: &Client, email: &str) -> Answer {
    let body = json!({
        "email": email, "password": PASSWORD, "first_name": "John", "last_name": "Smith",
        "accept_terms": true,
    });
    client.post("/user/auth/register", &body)
}

/// The operation of a queued registration, once it has ended.
fn ended(client: &Client, queued: &Answer) -> Value {
    assert_eq!(queued.status, 202, "{}", queued.text());
    assert_eq!(queued.header("preference-applied"), Some("respond-async"));
    let location = queued.header("location").unwrap();
    eventually("the end of the operation", || {
        let shown = client.get(location).json();
        (shown["status"] != "waiting").then_some(shown)
    })
}

#[test]
fn asynchronous_registration_reports_its_result_later() {
    let dir = TempDir::new();
    let (server, client) = start(&dir);
    let hasty = client.clone().header("Prefer", "respond-async");
    let done = ended(&client, &register(&hasty, "hasty@example.com"));
    assert_eq!(done["status"], "succeeded");
    assert!(done["customerId"].is_string(), "{done}");
    let taken = ended(&client, &register(&hasty, "hasty@example.com"));
    assert_eq!(taken["problem"]["type"], "urn:faregate:problem:email-taken");
    // The one that waits is not kept.
    assert_eq!(register(&client, "patient@example.com").status, 201);
    let internal = hasty
        .header("X-Faregate-Callback", "https://169.254.169.254/")
        .header("X-Faregate-Callback-Secret", "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJ");
    assert_eq!(register(&internal, "third@example.com").status, 400);
    drop(server);
}

#[test]
fn the_native_routes_are_served_and_documented() {
    let dir = TempDir::new();
    let (server, client) = start(&dir);
    let body = json!({
        "email": "ada@example.com", "password": PASSWORD, "firstName": "Ada",
        "lastName": "Lovelace", "acceptTerms": true,
    });
    for _ in 0..2 {
        let answer = client.post("/v1/registrations", &body);
        assert_eq!((answer.status, answer.json()), (202, json!({"status": "verification-sent"})));
    }
    let large = client.post("/v1/registrations", &json!({ "email": "x".repeat(70_000) }));
    assert_eq!(large.json()["type"], "urn:faregate:problem:body-too-large");
    assert_eq!(client.get("/v1/me").status, 401);
    let document = client.get("/openapi.json").json();
    assert!(document["paths"]["/v1/registrations"]["post"].is_object());
    assert!(document["paths"]["/v1/operations/{id}/events"]["get"].is_object());
    drop(server);
}
