//! Health, metrics, pages, and the native API without a payment.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Answer, Client};
use crate::native::account;
use crate::process::{Launch, Server, TempDir, eventually, faregate};

#[test]
fn health_needs_no_credentials_and_metrics_need_their_token() {
    let server = Server::start();
    let unauthenticated = Client::new(&server.url);
    assert_eq!(unauthenticated.get("/health/live").status, 200);
    assert_eq!(unauthenticated.get("/health/ready").status, 200);
    let guesses = [unauthenticated.clone(), unauthenticated.header("Authorization", "Bearer no")];
    for refused in guesses.iter().chain([&server.client()]).map(|it| it.get("/metrics")) {
        assert_eq!(refused.status, 401, "{}", refused.text());
        assert_eq!(refused.json()["type"], "urn:faregate:problem:metrics-token-invalid");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"faregate\""));
    }
    let metrics = server.scraper().get("/metrics");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = metrics.text();
    // Only requested routes are there: a series for each route and bucket would be most of it.
    assert!(!text.contains("route=\"/1.0/kb/"), "{text}");
    for name in [
        "faregate_requests_total{api=\"operations\",route=\"/health/ready\",status=\"200\"}",
        "faregate_corrected_payments_total 0",
        "faregate_refused_total{reason=\"disk_full\"} 0",
        "faregate_commit_seconds_count",
        "faregate_batch_commands_bucket",
        "faregate_queue_commands",
        "faregate_outstanding_transactions",
        "faregate_unresolved_oldest_seconds",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
    ] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} is not in {text}");
    }
}

#[test]
fn metrics_are_made_at_most_once_a_second() {
    let server = Server::start();
    let scraper = server.scraper();
    let began = Instant::now();
    let texts: Vec<String> = (0..20).map(|_| scraper.get("/metrics").text()).collect();
    let seconds = began.elapsed().as_secs();
    // Each answer counts the scrapes before it, so that two that were made are different.
    let made = texts.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
    assert!(made <= seconds + 2, "{made} answers were made in {seconds} s");
    assert!(!server.metrics().is_empty(), "another one is made after a second");
}

#[test]
fn a_listener_of_their_own_serves_metrics_without_a_token_and_nothing_else() {
    let dir = TempDir::new();
    let token = dir.path().join("token");
    std::fs::write(&token, "a token that an operator chose\n").unwrap();
    let private = Permissions::from_mode(0o600);
    std::fs::set_permissions(&token, private).unwrap();
    let launch = || {
        let launch = Launch::usual().env("FAREGATE_OPERATIONS_LISTEN", "127.0.0.1:0");
        launch.env("FAREGATE_OPERATIONS_METRICS_TOKEN_FILE", token.to_str().unwrap())
    };
    let refused = run_with(&launch(), &dir.path().join("data"));
    assert!(refused.contains("visible ASCII characters was expected"), "{refused}");
    std::fs::write(&token, "a-token-that-an-operator-chose\n").unwrap();
    let server = Server::start_in(&dir.path().join("data"), launch());
    let operations = Client::new(server.operations_url.as_deref().unwrap());
    let metrics = operations.get("/metrics");
    assert_eq!(metrics.status, 200);
    assert!(metrics.text().contains("\nfaregate_connections "), "{}", metrics.text());
    for path in ["/health/live", "/health/ready"] {
        assert_eq!(operations.get(path).status, 200, "{path}");
    }
    for path in ["/1.0/kb/accounts/pagination", "/v1/ledger/accounts", "/"] {
        assert_eq!(operations.get(path).status, 404, "{path}");
    }
    let main = Client::new(&server.url);
    assert_eq!(main.get("/metrics").status, 401);
    let token = "Bearer a-token-that-an-operator-chose";
    assert_eq!(main.header("Authorization", token).get("/metrics").status, 200);
    assert!(!server.data_dir.join("metrics.token").exists());
    let (status, _) = server.stop();
    assert_eq!(status.code(), Some(0));
}

/// The standard error of a server that does not start.
fn run_with(launch: &Launch, data_dir: &std::path::Path) -> String {
    let mut command = faregate(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
    let ended = command.arg(data_dir).envs(launch.environment.clone()).output().unwrap();
    assert!(!ended.status.success());
    String::from_utf8(ended.stderr).unwrap()
}

#[test]
fn health_causes_no_work() {
    let server = Server::start();
    let unauthenticated = Client::new(&server.url);
    let batches = |server: &Server| {
        let metrics = server.metrics();
        let line = metrics.lines().find_map(|it| it.strip_prefix("faregate_batch_commands_count "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let (began, before) = (Instant::now(), batches(&server));
    for path in ["/1.0/healthcheck", "/billing/health", "/user/health/database", "/health/ready"] {
        for _ in 0..100 {
            assert_eq!(unauthenticated.get(path).status, 200, "{path}");
        }
    }
    let done = batches(&server) - before;
    // The server's own check, once a second, and what its background tasks write.
    let own = 10 * (began.elapsed().as_secs() + 1);
    assert!(done <= own, "{done} batches, of which {own} are the server's own");
}

#[test]
fn a_server_that_leaves_serves_on_for_the_drain_delay() {
    let launch = Launch::usual().grpc().env("FAREGATE_DRAIN_DELAY", "3s");
    let server = Server::start_with(launch);
    let client = server.client();
    let began = Instant::now();
    server.signal("-TERM");
    let ready = || Client::new(&server.url).get("/health/ready");
    eventually("it is not ready", || (ready().status == 503).then_some(()));
    let reason = "the server is shutting down";
    assert_eq!(ready().json(), json!({ "status": "not ready", "reason": reason }));
    let tenant = json!({ "apiKey": "late", "apiSecret": "late" });
    assert_eq!(client.post("/1.0/kb/tenants", &tenant).status, 201);
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn a_server_that_drains_is_not_ready_but_finishes_what_it_began() {
    let server = Server::start();
    let client = server.client();
    let mut stream = client.connect();
    let body = br#"{"apiKey": "late", "apiSecret": "late"}"#;
    let request = client.request("POST", "/1.0/kb/tenants", Some(body), "keep-alive");
    let (most, rest) = request.split_at(request.len() - 5);
    stream.write_all(most).unwrap();
    server.metrics_with("faregate_requests_in_progress 1");
    server.signal("-TERM");
    let address = server.url.strip_prefix("http://").unwrap();
    eventually("no new connection is accepted", || std::net::TcpStream::connect(address).err());
    stream.write_all(rest).unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 201, "{}", answer.text());
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(0));
}

/// Begins a purchase that the simulator takes this long for, and waits until it is under way.
pub fn begin_slow_purchase(client: &Client, delay_ms: u32) -> std::net::TcpStream {
    let account = account(client, "faregate-simulator");
    let property = format!("pluginProperty=delayMs%3D{delay_ms}");
    let path = format!("/1.0/kb/accounts/{account}/payments?{property}");
    let body = br#"{"transactionType": "PURCHASE", "amount": 1}"#;
    let mut stream = client.connect();
    stream.write_all(&client.request("POST", &path, Some(body), "keep-alive")).unwrap();
    // It is committed before the gateway is called.
    let payments = format!("/1.0/kb/accounts/{account}/payments");
    eventually("the payment is committed", || {
        let payments = client.get(&payments).json();
        payments.as_array().is_some_and(|it| !it.is_empty()).then_some(())
    });
    stream
}

#[test]
fn stop_waits_for_gateway_calls_in_flight_only() {
    let server = Server::start();
    let client = server.tenant();
    let mut idle = client.connect();
    idle.write_all(&client.request("GET", "/health/ready", None, "keep-alive")).unwrap();
    assert_eq!(Answer::read(&mut idle).status, 200);
    let ask = client.request("GET", "/health/ready", None, "keep-alive");
    let (begun, rest) = ask.split_at(ask.len() - 5);
    let mut asking = client.connect();
    asking.write_all(begun).unwrap();
    let mut paying = begin_slow_purchase(&client, 3_000);
    server.signal("-TERM");
    let address = server.url.strip_prefix("http://").unwrap();
    eventually("no new connection is accepted", || std::net::TcpStream::connect(address).err());
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "an idle connection is closed");
    asking.write_all(rest).unwrap();
    let ready = Answer::read(&mut asking);
    assert_eq!(
        (ready.status, &ready.json()["reason"]),
        (503, &"the server is shutting down".into())
    );
    assert_eq!(asking.read(&mut [0]).unwrap(), 0, "one more request is not taken");
    let answer = Answer::read(&mut paying);
    assert_eq!(answer.status, 201, "{}", answer.text());
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_gateway_call_beyond_the_drain_deadline_is_resolved_after_the_next_start() {
    let dir = TempDir::new();
    let launch = || {
        let launch = Launch::usual().env("FAREGATE_DRAIN_DEADLINE", "200ms");
        launch.env("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "12s")
    };
    let server = Server::start_in(dir.path(), launch());
    let mut stream = begin_slow_purchase(&server.tenant(), 8_000);
    let stopping = Instant::now();
    server.signal("-TERM");
    // The waiting client is sent the true state and the payment's location.
    let answer = Answer::read(&mut stream);
    let seen = (answer.status, answer.header("retry-after"), answer.header("location").is_some());
    assert_eq!(seen, (503, None, true), "{}", answer.text());
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(0));
    let took = stopping.elapsed();
    assert!(took < Duration::from_secs(7), "the call was waited for: {took:?}");
    let server = Server::start_in(dir.path(), launch());
    let client = server.client().tenant("bob", "lazar");
    let payments = eventually("the outcome is known", || {
        let payments = client.get("/1.0/kb/payments/pagination").json();
        let status = payments[0]["transactions"][0]["status"].clone();
        (status != "UNKNOWN").then_some(payments)
    });
    // The simulator charges before its delay, and reports the charge when queried.
    let payments = payments.as_array().unwrap();
    assert_eq!(payments.len(), 1);
    assert_eq!(payments[0]["transactions"][0]["status"], "SUCCESS");
    assert_eq!(payments[0]["purchasedAmount"], 1.0);
}

#[test]
fn the_api_is_described_and_can_be_browsed() {
    let server = Server::start();
    let unauthenticated = Client::new(&server.url);
    let document = unauthenticated.get("/openapi.json").json();
    assert!(document["paths"]["/v1/ledger/entries"]["get"].is_object());
    assert!(document["paths"]["/1.0/kb/accounts"]["post"].is_object());
    for path in ["/", "/docs"] {
        let page = unauthenticated.get(path);
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").unwrap().starts_with("text/html"));
        assert!(page.text().contains("openapi.json"));
    }
}

#[test]
fn unknown_path_is_a_problem() {
    let server = Server::start();
    let nothing = server.client().get("/v1/nothing");
    assert_eq!(
        (nothing.status, nothing.header("content-type")),
        (404, Some("application/problem+json"))
    );
    let wrong = server.client().delete("/v1/ledger/accounts");
    assert_eq!(
        (wrong.status, wrong.header("content-type")),
        (405, Some("application/problem+json"))
    );
}

#[test]
fn a_server_is_taken_out_of_rotation_and_put_back_while_it_serves() {
    let server = Server::start();
    let client = server.client();
    let rotation = "/1.0/kb/admin/healthcheck";
    let health = || {
        let status = |path: &str| client.get(path).status;
        [status("/health/live"), status("/health/ready"), status("/1.0/healthcheck")]
    };
    assert_eq!(health(), [200, 200, 200]);
    assert_eq!(client.delete(rotation).status, 204);
    assert_eq!(health(), [200, 503, 500]);
    let reason = client.get("/health/ready").json()["reason"].clone();
    assert_eq!(reason, "an operator has taken the server out of rotation");
    server.tenant().create("/1.0/kb/accounts", &serde_json::json!({}));
    assert_eq!(client.send("PUT", rotation, None).status, 204);
    assert_eq!(health(), [200, 200, 200]);
    let clerk = serde_json::json!({ "role": "clerks", "permissions": ["admin:update"] });
    assert_eq!(client.post("/1.0/kb/security/roles", &clerk).status, 201);
    let user = serde_json::json!({ "username": "joe", "password": "joes", "roles": ["clerks"] });
    assert_eq!(client.post("/1.0/kb/security/users", &user).status, 201);
    assert_eq!(client.clone().user("joe", "joes").delete(rotation).status, 401);
    assert_eq!(health(), [200, 200, 200]);
}
