//! A key of sign-up that was lost, or is another one than the database is written with.

use serde_json::json;

use crate::client::Client;
use crate::process::{Launch, Server, TempDir, run};

const PASSWORD: &str = "LoadTest123@";

fn launch() -> Launch {
    Launch::usual()
        .env("FAREGATE_SIGNUP_ARGON2_MEMORY_KIB", "64")
        .env("FAREGATE_SIGNUP_ARGON2_PASSES", "1")
}

fn register(server: &Server, email: &str) -> u16 {
    let body = json!({
        "email": email, "password": PASSWORD, "first_name": "John", "last_name": "Smith",
        "accept_terms": true,
    });
    Client::new(&server.url).post("/user/auth/register", &body).status
}

/// The standard error of a start that is refused with exit code 2.
fn refusal(dir: &TempDir) -> String {
    let path = dir.path().to_str().unwrap();
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", path]);
    assert_eq!(refused.status.code(), Some(2));
    String::from_utf8(refused.stderr).unwrap()
}

#[test]
fn a_key_that_is_not_the_databases_is_refused() {
    let dir = TempDir::new();
    let key = dir.path().join("signup.key");
    let server = Server::start_in(dir.path(), launch());
    assert_eq!(register(&server, "ana@example.com"), 201);
    assert!(server.stop().0.success());
    let original = std::fs::read(&key).unwrap();

    let mode = std::fs::metadata(&key).unwrap().permissions();
    std::fs::remove_file(&key).unwrap();
    let said = refusal(&dir);
    let file = key.to_str().unwrap();
    assert!(said.contains(&format!("{file} is missing")), "{said}");
    assert!(said.contains("signup.key_replaced"), "{said}");
    assert!(!key.exists(), "none was made in its place");

    std::fs::write(&key, [7; 32]).unwrap();
    std::fs::set_permissions(&key, mode).unwrap();
    let said = refusal(&dir);
    assert!(said.contains(&format!("another key than {file}")), "{said}");

    std::fs::write(&key, original).unwrap();
    let server = Server::start_in(dir.path(), launch());
    assert_eq!(register(&server, "ana@example.com"), 409);
    assert!(server.stop().0.success());
    let path = dir.path().to_str().unwrap();
    assert_eq!(run(&["verify", "--data-dir", path]).status.code(), Some(0));
}

#[test]
fn other_key_is_accepted_before_the_first_sign_up() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), launch());
    assert_eq!(server.client().get("/health/ready").status, 200);
    assert!(server.stop().0.success());
    std::fs::remove_file(dir.path().join("signup.key")).unwrap();
    let server = Server::start_in(dir.path(), launch());
    assert_eq!(register(&server, "ana@example.com"), 201);
    assert!(server.stop().0.success());
    std::fs::remove_file(dir.path().join("signup.key")).unwrap();
    let said = refusal(&dir);
    assert!(said.contains("is missing"), "{said}");
}

#[test]
fn a_key_that_is_lost_for_good_is_replaced_knowingly() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), launch());
    assert_eq!(register(&server, "ana@example.com"), 201);
    assert!(server.stop().0.success());
    std::fs::remove_file(dir.path().join("signup.key")).unwrap();
    let replaced = launch().env("FAREGATE_SIGNUP_KEY_REPLACED", "true");
    let server = Server::start_in(dir.path(), replaced);
    assert_eq!(register(&server, "bob@example.com"), 201);
    assert!(server.stop().0.success());
    let server = Server::start_in(dir.path(), launch());
    assert_eq!(register(&server, "cleo@example.com"), 201);
    assert!(server.stop().0.success());
}
