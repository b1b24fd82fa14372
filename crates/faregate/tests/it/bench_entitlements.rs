//! The load generators of what accounts buy, use and lose, against the real server.

use serde_json::{Value, json};

use crate::process::{Launch, Server, TempDir, run};

/// The report of a benchmark, which succeeded.
fn report(arguments: &[&str]) -> Value {
    let done = run(&[&["bench"], arguments, &["--json"]].concat());
    let [said, wrong] = [&done.stdout, &done.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(done.status.success(), "{arguments:?}: {said}{wrong}");
    serde_json::from_str(&said).expect("a report is JSON")
}

fn above_zero(value: &Value) -> bool {
    value.as_f64().is_some_and(|value| value > 0.0)
}

#[test]
fn checks_usage_and_purchases_are_measured() {
    let server = Server::start();
    let pid = server.pid().to_string();
    let few = ["--accounts", "10", "--concurrency", "4", "--duration", "0.5", "--warm-up", "0.1"];
    for what in [
        &["check"][..],
        &["usage"],
        &["usage", "--batch", "1"],
        &["usage", "--reserve"],
        &["buy"],
        &["buy", "--plain"],
    ] {
        let options = ["--url", &server.url, "--pid", &pid, "--strict"];
        let it = report(&[&["entitlements"], what, &few, &options].concat());
        assert!(above_zero(&it["per_s"]) && above_zero(&it["ok"]), "{what:?}: {it}");
        assert_eq!(it["errors"], 0, "{what:?}: {it}");
    }
}

#[test]
fn grants_that_end_at_once_are_measured() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let token = server.data_dir.join("metrics.token");
    let it = report(&[
        "entitlements",
        "expire",
        "--url",
        &server.url,
        "--create-tenant",
        "--grants",
        "200",
        "--rate",
        "40",
        "--before",
        "1",
        "--warm-up",
        "0.1",
        "--within",
        "1m",
        "--metrics-token-file",
        token.to_str().unwrap(),
        "--strict",
    ]);
    assert_eq!((&it["timers"], &it["others_errors"]), (&json!(200), &json!(0)), "{it}");
    assert!(above_zero(&it["seconds"]), "{it}");
}

#[test]
fn evaluations_of_users_with_accounts_are_measured() {
    let server = Server::start();
    for more in [&[][..], &["--plain"], &["--flag", "paid"]] {
        let options = ["--url", &server.url, "--accounts", "5", "--concurrency", "2"];
        let times = ["--duration", "0.5", "--warm-up", "0.1"];
        let it = report(&[&["flags", "ofrep"][..], &options, &times, more].concat());
        assert!(above_zero(&it["requests_per_s"]) && above_zero(&it["first_ms"]["p50"]), "{it}");
        assert_eq!(it["errors"], 0, "{it}");
    }
}
