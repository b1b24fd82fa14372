//! The load generators and the demo, against the real server.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::client::Client;
use crate::process::{Launch, Server, TempDir, eventually, faregate, run};

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
fn simulator_delay_is_measured() {
    let server = Server::start();
    let arguments = ["--create-tenant", "--gateway", "simulator", "--gateway-delay", "200ms"];
    let report = json(&payments(&server, &[&arguments[..], &["--duration", "1"]].concat()));
    let p50 = |step: &str| report["latency_ms"][step]["p50"].as_f64().unwrap();
    assert!(p50("payment") >= 200.0 && p50("flow") >= 200.0, "{report}");
    assert!(p50("account") < 200.0, "{report}");
}

#[test]
fn invalid_settings_are_reported_before_the_load() {
    let server = Server::start();
    let refused = payments(&server, &["--api-key", "nobody", "--duration", "1"]);
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    assert!(said.contains("account 401") && said.contains("--create-tenant"), "{said}");
}

#[test]
fn sampled_rows_can_be_read() {
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

/// Every retry is made, while others go on to pay.
#[test]
fn retries_are_measured() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let token = server.data_dir.join("metrics.token");
    let (url, token, pid) = (&server.url, token.to_str().unwrap(), server.pid().to_string());
    let arguments = ["bench", "retries", "--url", url, "--create-tenant", "--retries", "300"];
    let options = ["--metrics-token-file", token, "--pid", &pid, "--rate", "40", "--before", "1"];
    let more = ["--warm-up", "0.1", "--within", "1m", "--json", "--strict"];
    let report = json(&run(&[&arguments[..], &options, &more].concat()));
    for key in ["seconds", "timers_per_s", "cpu_us_per_timer", "rss_mib", "p99_times"] {
        assert!(above_zero(&report[key]), "{key}: {report}");
    }
    for part in ["before_ms", "during_ms"] {
        assert!(above_zero(&report[part]["p99"]), "{part}: {report}");
    }
    assert_eq!((&report["timers"], &report["others_errors"]), (&300.into(), &0.into()));
    let payments =
        server.client().tenant("bob", "lazar").get("/1.0/kb/payments/pagination?limit=1");
    let payment = &payments.json()[0];
    let path =
        format!("/1.0/kb/payments/{}?withAttempts=true", payment["paymentId"].as_str().unwrap());
    let payment = server.client().tenant("bob", "lazar").get(&path).json();
    assert_eq!(payment["transactions"].as_array().unwrap().len(), 2, "{payment}");
}

/// Every subscription is invoiced and paid, while others go on to pay.
#[test]
fn a_billing_day_is_measured() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let token = server.data_dir.join("metrics.token");
    let (url, token, pid) = (&server.url, token.to_str().unwrap(), server.pid().to_string());
    let arguments = ["bench", "billing", "--url", url, "--create-tenant", "--subscriptions", "30"];
    let options = ["--metrics-token-file", token, "--pid", &pid, "--rate", "40", "--before", "1"];
    let more = ["--per-account", "3", "--gateway", "simulator", "--warm-up", "0.1"];
    let end = ["--within", "1m", "--json", "--strict"];
    let report = json(&run(&[&arguments[..], &options, &more, &end].concat()));
    for key in ["seconds", "timers_per_s", "rss_mib"] {
        assert!(above_zero(&report[key]), "{key}: {report}");
    }
    assert_eq!((&report["timers"], &report["others_errors"]), (&10.into(), &0.into()));
    let client = server.client().tenant("bob", "lazar");
    let accounts = client.get("/1.0/kb/accounts/pagination?limit=10").json();
    for account in accounts.as_array().unwrap() {
        let id = account["accountId"].as_str().unwrap();
        let path = format!("/1.0/kb/accounts/{id}/invoices?includeInvoiceComponents=true");
        let invoices = client.get(&path).json();
        let last = invoices.as_array().unwrap().last().unwrap();
        assert_eq!((&last["amount"], &last["balance"]), (&json!(60.0), &json!(0.0)), "{last}");
        assert_eq!(last["items"].as_array().unwrap().len(), 3);
    }
}

/// A server with the gRPC API and the tenant.
fn grpc_server() -> Server {
    let server = Server::start_with(Launch::usual().grpc());
    server.tenant();
    server
}

/// Runs `faregate bench grpc` on a server, named twice: two targets.
fn grpc(server: &Server, more: &[&str]) -> Output {
    let target = server.grpc_url.as_deref().unwrap();
    let targets = format!("{target},{target}");
    let warm_up: &[&str] = if more.contains(&"--warm-up") { &[] } else { &["--warm-up", "0"] };
    run(&[&["bench", "grpc", "--targets", &targets, "--json"], warm_up, more].concat())
}

/// Payments of the tenant.
fn stored(server: &Server) -> u64 {
    let page = server.client().tenant("bob", "lazar").get("/1.0/kb/payments/pagination?limit=1");
    page.header("x-killbill-pagination-maxnbrecords").unwrap().parse().unwrap()
}

/// Each request is answered, and counted but for those before the rounds; each payment is there.
#[test]
fn simultaneous_requests_are_measured() {
    let server = grpc_server();
    let arguments = ["--accounts", "20", "--requests", "50,101", "--warm-up", "7", "--strict"];
    let report = json(&grpc(&server, &arguments));
    assert_eq!(stored(&server), 3 * (7 + 50 + 101));
    let rounds = report["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    for (round, requests) in rounds.iter().zip([50, 101]) {
        assert_eq!(round["requests_per_client"], requests);
        assert_eq!((&round["clients"], &round["ok"]), (&3.into(), &(3 * requests).into()));
        assert_eq!((&round["errors"], &round["error_kinds"]), (&0.into(), &serde_json::json!({})));
        let seconds = |key: &str| round[key].as_f64().filter(|it| *it > 0.0).expect(key);
        let [min, avg, max] = ["min_s", "avg_s", "max_s"].map(seconds);
        assert!(min <= avg && avg <= max, "{round}");
        assert!(seconds("p50_s") <= seconds("p99_s"), "{round}");
        let rate = f64::from(3 * requests) / max;
        assert!((seconds("throughput") / rate - 1.0).abs() < 0.01, "{round}");
    }
    assert!(report["floor"].is_null() && report["steady"].is_null(), "{report}");
    assert!(above_zero(&report["client_rss_mib"]), "{report}");
    assert!(report["client_cpu_us_per_request"].is_number(), "{report}");
}

/// Payments take their time at the gateway. Half of an odd number is the larger half.
#[test]
fn half_of_the_requests_are_payments() {
    let server = grpc_server();
    let arguments = ["--mix", "half", "--clients", "2", "--requests", "11", "--accounts", "20"];
    let delays = ["--payment-delay", "200-300", "--balance-delay", "0-1", "--strict"];
    let report = json(&grpc(&server, &[&arguments[..], &delays].concat()));
    // Two connections of each client: one with 6 requests, one with 5.
    assert_eq!(stored(&server), 2 * (3 + 3));
    let round = &report["rounds"][0];
    assert!(round["max_s"].as_f64().is_some_and(|longest| longest >= 0.2), "{report}");
    assert_eq!((&round["ok"], &report["payment_delay_ms"]), (&22.into(), &"200-300".into()));
}

#[test]
fn balances_change_nothing() {
    let server = grpc_server();
    let report = json(&grpc(
        &server,
        &["--mix", "balance", "--requests", "20", "--accounts", "20", "--strict"],
    ));
    assert_eq!((&report["rounds"][0]["ok"], stored(&server)), (&60.into(), 0));
}

/// Every scheduled request is accounted for.
#[test]
fn single_requests_at_a_fixed_rate_are_measured() {
    let server = grpc_server();
    let report =
        json(&grpc(&server, &["--rate", "40", "--seconds", "1", "--accounts", "1", "--strict"]));
    let steady = &report["steady"];
    assert_eq!((&steady["ok"], &steady["errors"], stored(&server)), (&40.into(), &0.into(), 40));
    assert!(above_zero(&steady["p50_ms"]) && above_zero(&steady["p99_ms"]), "{report}");
    assert_eq!(report["rounds"], serde_json::json!([]));
}

/// A failure is counted as what it is, and as no response time.
#[test]
fn refused_requests_are_errors() {
    let launch = Launch::usual().grpc().env("FAREGATE_GRPC_CALLS_MAX", "5");
    let server = Server::start_with(launch);
    server.tenant();
    let arguments = ["--accounts", "2", "--clients", "2", "--requests", "40"];
    let delay = ["--payment-delay", "1500-1600", "--strict"];
    let output = grpc(&server, &[&arguments[..], &delay].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let round = &report["rounds"][0];
    assert_eq!((&round["ok"], &round["errors"]), (&5.into(), &75.into()), "{report}");
    assert_eq!(round["error_kinds"]["payment RESOURCE_EXHAUSTED"], 75, "{report}");
    assert!(round["min_s"].as_f64().is_some_and(|shortest| shortest >= 1.5), "{report}");
}

/// A request that the server does not take yet waits in the client, and is not refused. A request that
/// waits there or at the gateway when time is up is an error.
#[test]
fn requests_wait_for_room_on_their_connection() {
    let launch = Launch::usual().grpc().env("FAREGATE_GRPC_CONNECTION_CALLS_MAX", "2");
    let server = Server::start_with(launch);
    server.tenant();
    let arguments = ["--accounts", "1", "--clients", "1", "--requests", "40", "--strict"];
    assert_eq!(json(&grpc(&server, &arguments))["rounds"][0]["ok"], 40);
    let arguments = ["--accounts", "1", "--clients", "1", "--requests", "11", "--timeout", "2s"];
    let late = ["--payment-delay", "60000-60000"];
    let output = grpc(&server, &[&arguments[..], &late].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let round = &report["rounds"][0];
    let kinds = serde_json::json!({
        "timeout": 4, "not sent in time: the server takes no more at once": 7,
    });
    assert_eq!((&round["ok"], &round["error_kinds"]), (&0.into(), &kinds));
    assert!(round["avg_s"].is_null(), "{report}");
}

#[test]
fn invalid_grpc_settings_are_reported_before_the_load() {
    let server = grpc_server();
    let check = |arguments: &[&str], code: i32, part: &str| {
        let output = grpc(&server, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stdout));
        let said = text(&output.stderr);
        assert!(said.contains(part), "{arguments:?}: {said}");
    };
    check(&["--api-key", "nobody"], 2, "creating accounts: UNAUTHENTICATED");
    check(&["--targets", "127.0.0.1:1"], 2, "--targets 127.0.0.1:1: connect: connection refused");
    check(&["--targets", "https://127.0.0.1:1"], 2, "--targets https://127.0.0.1:1: only http");
    for wrong in ["0", "x", "5,", "500001"] {
        check(&["--requests", wrong], 2, "'--requests <N>'");
    }
    check(&["--requests", "500000"], 2, "--requests 500000: with 3 clients above");
    check(&["--clients", "0"], 2, "'--clients <CLIENTS>'");
    check(&["--accounts", "0"], 2, "'--accounts <N>'");
    check(&["--mix", "third"], 2, "'--mix <MIX>'");
    check(&["--payment-delay", "9-1"], 2, "'--payment-delay <MS-MS>'");
    check(&["--balance-delay", "1-2"], 2, "--balance-delay: no balances in --mix");
    check(&["--mix", "balance", "--payment-delay", "1-2"], 2, "--payment-delay: no payments");
    check(&["--rate", "0"], 2, "--rate: out of range");
    check(&["--rate", "9", "--requests", "9"], 2, "'--rate <PER_S>' cannot be used");
    check(&["--user", "a:b"], 2, "--user: only visible");
}

/// Purchases and refunds arrive on each kind of connection, and on that of their account alone.
#[test]
fn purchases_are_followed_on_streams_and_over_ofrep_and_grpc() {
    let server = grpc_server();
    let url = server.url.replace("http://", "ws://");
    let grpc = server.grpc_url.as_deref().unwrap();
    let load = ["--held", "10", "--purchases", "10", "--duration", "1s", "--revoke", "--json"];
    for kind in ["client", "ofrep", "grpc"] {
        let on = ["bench", "flags", "paid", "--url", &url, "--grpc", grpc, "--type", kind];
        let report = json(&run(&[&on[..], &load].concat()));
        assert_eq!((&report["held"], &report["purchases"]), (&10.into(), &10.into()), "{report}");
        for wrong in ["lost", "failed", "missed", "wrong"] {
            assert_eq!(report[wrong], 0, "{kind}: {report}");
        }
        for what in ["paid_to_on_ms", "refund_to_off_ms"] {
            assert!(above_zero(&report[what]["p99"]), "{kind}: {report}");
        }
    }
    let output = run(&["bench", "flags", "paid", "--url", &url, "--type", "grpc"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--grpc <HOST:PORT>"), "{}", text(&output.stderr));
}

#[test]
fn demo_runs_once() {
    let output = run(&["demo", "--once", "--listen", "127.0.0.1:0"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    for part in ["create the tenant", "PURCHASE 100.00 USD SUCCESS", "REFUND 25.00 USD SUCCESS"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    for part in ["audit rows (", "postings (2)", "ACCOUNT_CREATION", "PAYMENT_SUCCESS"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    let bill = shown.split("A first bill").nth(1).unwrap();
    let lines = |wanted: &[&str]| {
        let words =
            |line: &str| wanted.iter().all(|&word| line.split_whitespace().any(|it| it == word));
        bill.lines().filter(|&line| words(line)).count()
    };
    for part in ["invoices (2)", "payments of invoices (1)", "(all: balanced)"] {
        assert!(bill.contains(part), "{part} is not in:\n{shown}");
    }
    for wanted in [
        ["1", "team-monthly-trial", "0.00"],
        ["2", "team-monthly-evergreen", "29.00"],
        ["2", "29.00", "SUCCESS"],
        ["gateway:faregate-simulator", "29.00", "USD"],
    ] {
        assert_eq!(lines(&wanted), 1, "{wanted:?} is not in:\n{shown}");
    }
    let dir = shown.split("data in ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(!std::path::Path::new(dir).exists(), "{dir} remains");
}

/// A second time on the same directory the tenant and its catalog are there already.
#[test]
fn demo_can_run_again() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    for again in [false, true] {
        let output = run(&["demo", "--once", "--listen", "127.0.0.1:0", "--data-dir", data]);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{shown}{}", text(&output.stderr));
        for what in ["it exists already and is used again", "the tenant's catalog is used again"] {
            assert_eq!(shown.contains(what), again, "{what}:\n{shown}");
        }
        assert!(shown.contains("payments of invoices (1)"), "{shown}");
    }
}

#[test]
fn demo_reports_why_it_cannot_run() {
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

/// A payment that fails ends the demonstration with its reason: here, another password.
#[test]
fn failing_step_fails_the_demo() {
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

/// The page's button buys and gives back, and the page's flag follows.
#[test]
fn the_demo_ends_with_a_page_on_which_a_payment_turns_a_feature_on() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let arguments = ["demo", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
    let mut demo = faregate(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let page = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("Pay, and see a feature turn on: ").map(str::to_owned));
    let page = page.expect("it prints the page's address");
    let shop = Client::new(page.trim_end_matches('/'));
    let shown = shop.get("/").text();
    let settings = shown.split(r#"id="settings">"#).nth(1).unwrap().split("</script>").next();
    let settings: Value = serde_json::from_str(settings.unwrap()).unwrap();
    let setting = |name: &str| settings[name].as_str().unwrap();
    let ofrep = Client::new(setting("faregate")).header("X-API-Key", setting("secret"));
    let context = json!({ "context": { "targetingKey": setting("user") } });
    let is = |value: bool| {
        eventually("the flag follows", || {
            let found = ofrep.post("/ofrep/v1/evaluate/flags/demo-pro", &context).json();
            (found["value"] == value).then_some(())
        });
    };
    is(false);
    // Another page cannot have its visitors buy.
    assert_eq!(shop.post("/buy", &json!({})).status, 404);
    let own = shop.clone().header("X-Demo", "yes");
    for _ in 0..2 {
        assert_eq!(own.post("/buy", &json!({})).status, 200);
        is(true);
        assert_eq!(own.post("/refund", &json!({})).status, 200);
        is(false);
    }
    demo.kill().unwrap();
    demo.wait().unwrap();
}

/// `faregate bench` is another binary, which may be missing.
#[test]
fn a_bench_that_is_not_there_is_named() {
    let dir = TempDir::new();
    let alone = dir.path().join("faregate");
    std::fs::copy(env!("CARGO_BIN_EXE_faregate"), &alone).unwrap();
    let output = Command::new(&alone).args(["bench", "payments", "--help"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    let missing = dir.path().join("faregate-bench").display().to_string();
    assert!(said.contains(&missing) && said.contains("-p faregate-bench"), "{said}");
}
