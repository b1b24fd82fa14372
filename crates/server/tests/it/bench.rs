//! The load client and the demonstration, against the real server.

use std::net::TcpListener;
use std::process::Output;

use serde_json::Value;

use crate::process::{Launch, Server, TempDir, run};

/// Runs `faregate bench payments` for a moment.
fn payments(server: &Server, more: &[&str]) -> Output {
    let url = server.url.as_str();
    let mut arguments = vec!["bench", "payments", "--url", url, "--warm-up", "0.1", "--json"];
    arguments.extend(more);
    run(&arguments)
}

fn json(output: &Output) -> Value {
    let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown}");
    serde_json::from_slice(&output.stdout).expect(&shown)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn above_zero(value: &Value) -> bool {
    value.as_f64().is_some_and(|value| value > 0.0)
}

#[test]
fn a_closed_loop_is_measured() {
    let server = Server::start();
    let pid = server.pid().to_string();
    let arguments =
        ["--create-tenant", "--concurrency", "8", "--duration", "1", "--strict", "--pid", &pid];
    let report = json(&payments(&server, &arguments));
    for key in ["flows_per_s", "ok", "cpu_us_per_flow", "rss_mib"] {
        assert!(above_zero(&report[key]), "{key}: {report}");
    }
    assert_eq!(report["errors"], 0);
    assert_eq!(report["error_kinds"], serde_json::json!({}));
    for step in ["account", "payment_method", "payment", "flow"] {
        for quantile in ["p50", "p95", "p99", "max"] {
            assert!(above_zero(&report["latency_ms"][step][quantile]), "{step} {quantile}");
        }
    }
}

/// Every scheduled flow is accounted for.
#[test]
fn an_open_loop_is_measured() {
    let server = Server::start();
    let arguments = ["--create-tenant", "--rate", "40", "--duration", "1", "--strict"];
    let report = json(&payments(&server, &arguments));
    assert_eq!(report["ok"], 40, "{report}");
    assert_eq!(report["backlog"]["dropped"], 0);
}

/// The simulator's delay is in the payment's latency, and in no other's.
#[test]
fn the_simulator_takes_its_time() {
    let server = Server::start();
    let arguments = ["--create-tenant", "--gateway", "simulator", "--gateway-delay", "200ms"];
    let report = json(&payments(&server, &[&arguments[..], &["--duration", "1"]].concat()));
    let p50 = |step: &str| report["latency_ms"][step]["p50"].as_f64().unwrap();
    assert!(p50("payment") >= 200.0 && p50("flow") >= 200.0, "{report}");
    assert!(p50("account") < 200.0, "{report}");
}

#[test]
fn what_is_wrong_is_said_before_the_load() {
    let server = Server::start();
    let refused = payments(&server, &["--api-key", "nobody", "--duration", "1"]);
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    assert!(said.contains("account 401") && said.contains("--create-tenant"), "{said}");
    let tls = run(&["bench", "payments", "--url", "https://127.0.0.1:1"]);
    assert!(!tls.status.success());
    assert!(text(&tls.stderr).contains("only http is spoken"), "{}", text(&tls.stderr));
}

#[test]
fn what_was_made_can_be_read_back() {
    let server = Server::start();
    let dir = TempDir::new();
    let sample = dir.path().join("sample");
    let sample = sample.to_str().unwrap();
    json(&payments(&server, &["--create-tenant", "--duration", "0.5", "--sample", sample]));
    let url = server.url.as_str();
    let arguments = ["bench", "reads", "--url", url, "--sample", sample, "--duration", "0.5"];
    let report = json(&run(&[&arguments[..], &["--warm-up", "0", "--json", "--strict"]].concat()));
    for kind in ["account_by_id", "account_by_key", "payment_by_id", "payment_by_key"] {
        assert!(above_zero(&report["latency_ms"][kind]["p50"]), "{kind}: {report}");
    }
}

#[test]
fn the_demonstration_plays_once() {
    let output = run(&["demo", "--once", "--listen", "127.0.0.1:0"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    for part in ["create the tenant", "PURCHASE 100.00 USD SUCCESS", "REFUND 25.00 USD SUCCESS"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    for part in ["audit rows (", "postings (2)", "ACCOUNT_CREATION", "PAYMENT_SUCCESS"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    let dir = shown.split("data in ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(!std::path::Path::new(dir).exists(), "{dir} remains");
}

/// A second time on the same directory the tenant is there already.
#[test]
fn the_demonstration_can_be_played_again() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    for again in [false, true] {
        let output = run(&["demo", "--once", "--listen", "127.0.0.1:0", "--data-dir", data]);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{shown}{}", text(&output.stderr));
        assert_eq!(shown.contains("used again"), again, "{shown}");
    }
}

#[test]
fn the_demonstration_says_why_it_cannot() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = run(&["demo", "--once", "--listen", &address]);
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    assert!(said.contains("is taken") && said.contains("--listen"), "{said}");
    let public = run(&["demo", "--once", "--listen", "0.0.0.0:0"]);
    assert!(!public.status.success());
    assert!(text(&public.stderr).contains("loopback only"), "{}", text(&public.stderr));
}

/// A payment that fails ends the demonstration with its reason: here, somebody else's password.
#[test]
fn a_failing_step_fails_the_demonstration() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let password = ("FAREGATE_ADMIN_PASSWORD".to_owned(), "another".to_owned());
    let launch = Launch { arguments: vec![], environment: vec![password] };
    let (ended, said) = Server::start_in(&data, launch).stop();
    assert!(ended.success(), "{said}");
    let data = data.to_str().unwrap();
    let output = run(&["demo", "--once", "--listen", "127.0.0.1:0", "--data-dir", data]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("create the tenant") && said.contains("401"), "{said}");
}
