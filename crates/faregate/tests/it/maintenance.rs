//! Commands on a data directory, and what survives a crash.

use std::io::Write;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::native::{account, purchase};
use crate::process::{Launch, Server, TempDir, eventually, run};
use crate::signup;

/// Runs a command with `--json` and gives its exit code and report.
fn report(arguments: &[&str]) -> (Option<i32>, Value) {
    let Output { status, stdout, stderr } = run(&[arguments, &["--json"]].concat());
    let report = serde_json::from_slice(&stdout)
        .unwrap_or_else(|_| panic!("no report: {}", String::from_utf8_lossy(&stderr)));
    (status.code(), report)
}

#[test]
fn a_backup_is_verified_restored_and_served() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    let payment = purchase(&client, &account, "10", "");
    let data = server.data_dir.to_str().unwrap();
    let dir = TempDir::new();
    let file = dir.path().join("backup.db");
    let file = file.to_str().unwrap();
    let (code, made) = report(&["backup", file, "--data-dir", data]);
    assert_eq!((code, &made["file"]), (Some(0), &json!(file)));
    assert!(made["bytes"].as_u64().unwrap() > 0);
    let again = run(&["backup", file, "--data-dir", data]);
    assert_eq!(again.status.code(), Some(2), "a backup overwrites nothing");
    // What comes after the backup is not in it.
    purchase(&client, &account, "20", "");

    let restored = dir.path().join("restored");
    let (code, _) = report(&["restore", file, "--data-dir", restored.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    let again = run(&["restore", file, "--data-dir", data]);
    assert_eq!(again.status.code(), Some(2), "a restore overwrites nothing");
    let (code, verified) = report(&["verify", "--data-dir", restored.to_str().unwrap()]);
    assert_eq!((code, &verified["payments"]), (Some(0), &json!(1)), "{verified}");

    let other = Server::start_in(&restored, Launch::usual());
    let client = other.client().tenant("bob", "lazar");
    let payments = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
    assert_eq!(payments.as_array().unwrap().len(), 1);
    assert_eq!(payments[0]["paymentId"], payment["paymentId"]);
}

#[test]
fn sessions_of_a_backup_can_be_ended_by_its_restore() {
    let dir = TempDir::new();
    let launch = || signup::launch().env("FAREGATE_SIGNUP_TENANT", "bob");
    let server = Server::start_in(dir.path(), launch());
    server.tenant();
    let client = Client::new(&server.url);
    let (mine, _) = signup::customer(&dir, &client, "ada@example.com");
    let file = dir.path().join("backup.db");
    let file = file.to_str().unwrap();
    assert_eq!(report(&["backup", file, "--data-dir", dir.path().to_str().unwrap()]).0, Some(0));
    for (option, status, ended) in
        [(None, 200, json!(null)), (Some("--end-sessions"), 401, json!(1))]
    {
        let restored = TempDir::new();
        let target = restored.path().join("data");
        let data = target.to_str().unwrap();
        let arguments = ["restore", file, "--data-dir", data];
        let (code, said) = report(&[&arguments[..], option.as_slice()].concat());
        assert_eq!((code, &said["sessionsEnded"]), (Some(0), &ended), "{option:?}");
        assert_eq!(report(&["verify", "--data-dir", data]).0, Some(0));
        for key in ["secrets.key", "signup.key"] {
            std::fs::copy(dir.path().join(key), target.join(key)).unwrap();
        }
        let other = Server::start_in(&target, launch());
        let token = mine.headers().iter().find(|(name, _)| name == "Authorization").unwrap();
        let client = Client::new(&other.url).header(&token.0, &token.1);
        assert_eq!(client.get("/user/auth/me").status, status, "{option:?}");
    }
}

#[test]
fn verify_reports_to_people_too() {
    let server = Server::start();
    let client = server.tenant();
    purchase(&client, &account(&client, "__EXTERNAL_PAYMENT__"), "10", "");
    let data = server.data_dir.to_str().unwrap();
    let verified = run(&["verify", "--data-dir", data]);
    assert_eq!(verified.status.code(), Some(0));
    let text = String::from_utf8(verified.stdout).unwrap();
    assert!(text.contains("1 payments") && text.contains("no problems"), "{text}");
    let nothing = TempDir::new();
    let refused = run(&["verify", "--data-dir", nothing.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_damaged_database_is_found_out() {
    let server = Server::start();
    let client = server.tenant();
    purchase(&client, &account(&client, "__EXTERNAL_PAYMENT__"), "10", "");
    let data = server.data_dir.clone();
    let dir = TempDir::new();
    let file = dir.path().join("backup.db");
    let args = ["backup", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    assert_eq!(run(&args).status.code(), Some(0));
    // The amount of a payment is increased in its history.
    let mut bytes = std::fs::read(&file).unwrap();
    let (was, is) = (b"\"purchased\":1000", b"\"purchased\":9000");
    let at = bytes.windows(was.len()).position(|window| window == was).expect("an image");
    bytes[at..at + is.len()].copy_from_slice(is);
    std::fs::write(&file, bytes).unwrap();
    let restored = dir.path().join("restored");
    let restored = restored.to_str().unwrap();
    let args = ["restore", file.to_str().unwrap(), "--data-dir", restored];
    assert_eq!(run(&args).status.code(), Some(0));
    let (code, found) = report(&["verify", "--data-dir", restored]);
    assert_eq!(code, Some(1), "{found}");
    assert!(found["problemsFound"].as_u64().unwrap() > 0, "{found}");
    // Nobody has to ask: a server that serves it finds it too.
    let launch = Launch::usual().env("FAREGATE_DATABASE_VERIFY_EVERY", "200ms");
    let server = Server::start_in(Path::new(restored), launch);
    let is_found = || {
        let metrics = server.metrics();
        let found = metrics.lines().find_map(|it| it.strip_prefix("faregate_integrity_problems "));
        found.is_some_and(|found| found != "0").then_some(metrics)
    };
    eventually("the damage is found while serving", is_found);
}

#[test]
fn a_sound_database_is_verified_while_it_is_served() {
    let dir = TempDir::new();
    let launch = Launch::usual().env("FAREGATE_DATABASE_VERIFY_EVERY", "200ms");
    let server = Server::start_in(dir.path(), launch);
    let client = server.tenant();
    purchase(&client, &account(&client, "__EXTERNAL_PAYMENT__"), "10", "");
    let is_verified = || {
        let metrics = server.metrics();
        metrics.contains("faregate_integrity_verified_timestamp_seconds 1").then_some(metrics)
    };
    let metrics = eventually("the database is verified", is_verified);
    assert!(metrics.contains("faregate_integrity_problems 0\n"), "{metrics}");
}

#[test]
fn analytics_are_rebuilt_to_the_same_tables() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    purchase(&client, &account, "10", "");
    let counted = |path: &str| {
        let mut answer = client.get(path).json();
        answer.as_object_mut().unwrap().remove("asOfSeq");
        answer
    };
    let paths = [
        "/v1/analytics/payments".to_owned(),
        "/v1/analytics/accounts".to_owned(),
        format!("/v1/analytics/accounts/{account}"),
    ];
    eventually("the payment is counted", || (counted(&paths[2])["payments"] == 1).then_some(()));
    let before = paths.each_ref().map(|path| counted(path));
    let data = server.data_dir.to_str().unwrap();
    let (code, rebuilt) = report(&["analytics", "rebuild", "--data-dir", data]);
    assert_eq!(code, Some(0));
    assert!(rebuilt["upto"].as_i64().unwrap() > 0);
    assert_eq!(paths.each_ref().map(|path| counted(path)), before);
    // The server goes on from what was built.
    purchase(&client, &account, "5", "");
    eventually("the next payment is counted too", || {
        (counted(&paths[2])["payments"] == 2).then_some(())
    });
}

#[test]
fn the_gateways_journal_is_reconciled() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "faregate-simulator");
    purchase(&client, &account, "10", "");
    let path = format!("/1.0/kb/accounts/{account}/payments?pluginProperty=outcome%3DERROR");
    let declined = client.post(&path, &json!({ "transactionType": "PURCHASE", "amount": "3" }));
    assert_eq!(declined.status, 402, "{}", declined.text());
    let data = server.data_dir.to_str().unwrap();
    let (code, compared) = report(&["reconcile", "--data-dir", data]);
    assert_eq!(
        (code, compared),
        (
            Some(0),
            json!({ "charged": 1, "booked": 1, "open": 0, "differencesFound": 0, "differences": [] })
        )
    );
}

#[test]
fn a_charge_that_is_not_booked_is_a_difference() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "faregate-simulator");
    purchase(&client, &account, "10", "");
    let dir = TempDir::new();
    let file = dir.path().join("backup.db");
    let file = file.to_str().unwrap();
    let data = server.data_dir.to_str().unwrap();
    assert_eq!(run(&["backup", file, "--data-dir", data]).status.code(), Some(0));
    purchase(&client, &account, "20", "");
    // The gateway has a charge that the restored store does not have.
    let restored = dir.path().join("restored");
    let path = restored.to_str().unwrap();
    assert_eq!(run(&["restore", file, "--data-dir", path]).status.code(), Some(0));
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([server.data_dir.join("simulator"), restored.clone()])
        .status();
    assert!(copied.unwrap().success());
    let (code, compared) = report(&["reconcile", "--data-dir", path]);
    assert_eq!((code, &compared["charged"], &compared["booked"]), (Some(1), &json!(2), &json!(1)));
    assert_eq!(compared["differences"].as_array().unwrap().len(), 1);
}

#[test]
fn acknowledged_commits_survive_kill_9() {
    let dir = TempDir::new();
    let mut server = Server::start_in(dir.path(), Launch::usual());
    let account = account(&server.tenant(), "__EXTERNAL_PAYMENT__");
    let mut acknowledged = 0;
    for round in 0..3 {
        let client = server.client().tenant("bob", "lazar");
        let mut streams: Vec<_> = (0..8).map(|_| begin_purchase(&client, &account)).collect();
        // Some are answered when the process dies, and some are not.
        for stream in streams.drain(..4) {
            let answer = Answer::read(&mut { stream });
            assert_eq!(answer.status, 201, "{}", answer.text());
            acknowledged += 1;
        }
        server.kill();
        server = Server::start_in(dir.path(), Launch::usual());
        let client = server.client().tenant("bob", "lazar");
        let payments = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
        let found = payments.as_array().unwrap().len();
        assert!(
            (acknowledged..=(round + 1) * 8).contains(&found),
            "{found} payments, {acknowledged} acknowledged"
        );
        acknowledged = found;
    }
    drop(server);
    let verified = run(&["verify", "--data-dir", dir.path().to_str().unwrap()]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
}

fn begin_purchase(client: &Client, account: &str) -> std::net::TcpStream {
    let mut stream = client.connect();
    let path = format!("/1.0/kb/accounts/{account}/payments");
    let body = br#"{"transactionType": "PURCHASE", "amount": 1}"#;
    stream.write_all(&client.request("POST", &path, Some(body), "close")).unwrap();
    stream
}
