//! Erasure: a text that stood in every personal field, through every API, is found nowhere afterwards.

use std::path::Path;

use serde_json::json;

use crate::client::Answer;
use crate::process::{Server, TempDir, eventually, run};
use crate::signup;

pub mod people;

use people::{CANARY, People};

const NOTHING: Vec<String> = vec![];

/// Where the canary is in the files of a directory, but for mails that were sent.
pub fn found_in(dir: &Path) -> Vec<String> {
    let mut found = vec![];
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("mail") {
                found.extend(found_in(&path));
            }
        } else {
            let bytes = std::fs::read(&path).unwrap().to_ascii_lowercase();
            let at = bytes.windows(CANARY.len()).position(|it| it == CANARY.as_bytes());
            let around = at.map(|at| bytes[at.saturating_sub(80)..].chunks(200).next().unwrap());
            let shown = |it: &[u8]| format!("{}: {}", path.display(), it.escape_ascii());
            found.extend(around.map(shown));
        }
    }
    found
}

/// Erases people, and checks what is shown of them then.
pub fn erase(server: &Server, people: &People) {
    let client = server.client().tenant("bob", "lazar");
    let erase = |id: &str| client.post(&format!("/v1/accounts/{id}/erase"), &json!(null)).status;
    for id in &people.accounts {
        assert_eq!(erase(id), 204);
        assert_eq!(erase(id), 204, "once more");
    }
    for id in &people.accounts[..people.without_customer] {
        let read = client.get(&format!("/1.0/kb/accounts/{id}?audit=FULL"));
        assert_eq!(read.json()["externalKey"], *id, "the key is gone");
        assert_eq!(read.json()["auditLogs"][0]["changedBy"], "admin", "who acted stays");
        assert!(!read.text().contains(CANARY), "{}", read.text());
        for path in ["allCustomFields", "emails"] {
            let read = client.get(&format!("/1.0/kb/accounts/{id}/{path}"));
            assert_eq!(read.json(), json!([]));
        }
    }
    let fields = client.get("/1.0/kb/customFields/pagination");
    assert_eq!(fields.header("x-killbill-pagination-maxnbrecords"), Some("0"));
    let taken = json!({ "externalKey": format!("{CANARY}@example.com") });
    assert_eq!(client.post("/1.0/kb/accounts", &taken).status, 409, "nobody else gets the key");
    assert_eq!(people.customer.get("/user/auth/me").status, 401, "the customer is erased too");
    let found = client.get(&format!("/1.0/kb/accounts/search/{CANARY}")).json();
    assert_eq!(found, json!([]));
    let mapped = client.get(&format!("/v1/users/{CANARY}%202/entitlements"));
    assert_eq!(mapped.status, 404, "{}", mapped.text());
    let metrics = server.metrics();
    assert!(!metrics.to_ascii_lowercase().contains(CANARY), "{metrics}");
}

/// Waits for outcomes that were awaited while the account was erased: they are written in the name of who
/// asked for them.
pub fn settle(server: &Server, people: &mut People) {
    let client = server.client().tenant("bob", "lazar");
    let answer = Answer::read(&mut people.running);
    assert_eq!(answer.status, 201, "{}", answer.text());
    let asked = || client.get("/v1/payments/unresolved").json()["unresolved"][0]["asked"].as_i64();
    let before = asked();
    assert!(before.is_some(), "it is still awaited");
    eventually("another inquiry", || (asked() > before).then_some(()));
    let path = format!("/1.0/kb/accounts/{}/payments?audit=FULL", people.accounts[0]);
    let shown = client.get(&path).text();
    assert!(!shown.contains(CANARY), "{shown}");
}

/// Stops a server, and expects that it logged nothing of people.
pub fn stop(server: Server) {
    let (_, log) = server.stop();
    let lines = log.lines().filter(|line| line.to_ascii_lowercase().contains(CANARY));
    assert_eq!(lines.map(str::to_owned).collect::<Vec<_>>(), NOTHING);
}

#[test]
fn nothing_personal_is_left_of_erased_people() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), people::launch(signup::launch()));
    let mut people = people::enter(&server, &dir);
    assert_ne!(found_in(dir.path()), NOTHING, "they are there before");
    erase(&server, &people);
    settle(&server, &mut people);
    let backup = dir.path().join("backup.db");
    let data_dir = dir.path().to_str().unwrap();
    let made = run(&["backup", backup.to_str().unwrap(), "--data-dir", data_dir]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    stop(server);
    assert_eq!(found_in(dir.path()), NOTHING);
    let verified = run(&["verify", "--data-dir", data_dir]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn erasing_takes_a_permission_and_an_account_of_the_tenant() {
    let server = Server::start();
    let client = server.tenant();
    let id = people::killbill_account(&client);
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
