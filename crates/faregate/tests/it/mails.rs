//! Mails that wait, through the real binary: shown, counted, kept over a restart, sent again.

use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::Client;
use crate::process::{Launch, Server, TempDir, eventually};

/// A server that signs people up for the tenant `bob`, and whose hashes cost nearly nothing.
fn launch() -> Launch {
    Launch::usual()
        .env("FAREGATE_SIGNUP_TENANT", "bob")
        .env("FAREGATE_SIGNUP_ARGON2_MEMORY_KIB", "64")
        .env("FAREGATE_SIGNUP_ARGON2_PASSES", "1")
}

/// The same where mail goes to a server at a port of this machine.
fn by_smtp(port: u16) -> Launch {
    launch()
        .env("FAREGATE_MAIL_TRANSPORT", "smtp")
        .env("FAREGATE_MAIL_FROM", "billing@example.org")
        .env("FAREGATE_MAIL_SMTP_HOST", "127.0.0.1")
        .env("FAREGATE_MAIL_SMTP_PORT", &port.to_string())
        .env("FAREGATE_MAIL_SMTP_SECURITY", "none")
}

fn register(client: &Client, email: &str) {
    let entered = json!({
        "email": email,
        "password": "LoadTest123@",
        "first_name": "John",
        "last_name": "Smith",
        "accept_terms": true,
    });
    let answer = client.post("/user/auth/register", &entered);
    assert_eq!(answer.status, 201, "{}", answer.text());
}

fn mails(client: &Client, status: &str) -> Vec<Value> {
    let answer = client.get(&format!("/v1/mails?status={status}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["mails"].as_array().unwrap().clone()
}

/// The files of a directory of mails, as people read them.
pub fn files(data_dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(data_dir.join("mail")) else { return vec![] };
    let paths = entries.map(|entry| entry.unwrap().path());
    let whole = paths.filter(|path| path.extension().is_some_and(|it| it == "eml"));
    let texts = whole.map(|path| std::fs::read_to_string(path).unwrap());
    texts.map(|text| text.replace("=\r\n", "").replace("=3D", "=")).collect()
}

#[test]
fn mails_wait_for_a_server_and_outlive_ours() {
    let dir = TempDir::new();
    // A port without a listener.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::start_in(dir.path(), by_smtp(port));
    let client = server.tenant();
    register(&client, "john@example.com");
    let waiting = eventually("both were tried", || {
        let waiting = mails(&client, "queued");
        (waiting.len() == 2 && waiting.iter().all(|mail| mail["attempts"] == 1)).then_some(waiting)
    });
    let mut kinds: Vec<&str> = waiting.iter().map(|mail| mail["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["verification", "welcome"]);
    assert_eq!(mails(&client, "queued&limit=0").len(), 0);
    assert_eq!(mails(&client, "queued&offset=1").len(), 1);
    server.metrics_with("faregate_mail_queue_depth 2");
    server.metrics_with("faregate_mail_sent_total{template=\"welcome\"} 0");
    server.metrics_with("faregate_mail_dead_total 0");
    let (_, log) = server.stop();
    assert!(log.contains("a mail is tried again"), "{log}");
    assert!(!log.contains("example.com"), "{log}");

    let server = Server::start_in(dir.path(), launch());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(mails(&client, "queued").len(), 2, "they wait for their time");
    for mail in &waiting {
        let path = format!("/v1/mails/{}/resend", mail["id"].as_str().unwrap());
        assert_eq!(client.send("POST", &path, None).status, 202);
    }
    server.metrics_with("faregate_mail_sent_total{template=\"welcome\"} 1");
    server.metrics_with("faregate_mail_sent_total{template=\"verification\"} 1");
    server.metrics_with("faregate_mail_queue_depth 0");
    assert_eq!(mails(&client, "queued"), [Value::Null; 0]);
    let files = files(dir.path());
    assert_eq!(files.len(), 2, "{files:?}");
    let token = files.iter().find_map(|mail| mail.split_once("/verify-email?token=")).unwrap().1;
    let token: String =
        token.chars().take_while(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
    let verified = client.post("/user/auth/verify-email", &json!({ "token": token }));
    assert_eq!(verified.status, 200, "{}", verified.text());
}
