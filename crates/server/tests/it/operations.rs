//! Health, metrics, pages, and the native API without a payment.

use std::io::Write;

use crate::client::{Answer, Client};
use crate::process::{Server, eventually};

#[test]
fn health_and_metrics_need_no_credentials() {
    let server = Server::start();
    let anybody = Client::new(&server.url);
    assert_eq!(anybody.get("/health/live").status, 200);
    assert_eq!(anybody.get("/health/ready").status, 200);
    let metrics = anybody.get("/metrics");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = metrics.text();
    for name in [
        "faregate_requests_total{door=\"operations\",route=\"/health/ready\",status=\"200\"}",
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
fn a_server_that_drains_is_not_ready_but_finishes_what_it_began() {
    let server = Server::start();
    let client = server.client();
    let mut stream = client.connect();
    let body = br#"{"apiKey": "late", "apiSecret": "late"}"#;
    let request = client.request("POST", "/1.0/kb/tenants", Some(body), "keep-alive");
    let (most, rest) = request.split_at(request.len() - 5);
    stream.write_all(most).unwrap();
    eventually("the request is in progress", || {
        let metrics = client.get("/metrics").text();
        metrics.contains("faregate_requests_in_progress 1\n").then_some(())
    });
    server.signal("-TERM");
    let address = server.url.strip_prefix("http://").unwrap();
    eventually("nobody else is let in", || std::net::TcpStream::connect(address).err());
    stream.write_all(rest).unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 201, "{}", answer.text());
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_api_is_described_and_can_be_browsed() {
    let server = Server::start();
    let anybody = Client::new(&server.url);
    let document = anybody.get("/openapi.json").json();
    assert!(document["paths"]["/v1/ledger/entries"]["get"].is_object());
    assert!(document["paths"]["/1.0/kb/accounts"]["post"].is_object());
    for path in ["/", "/docs"] {
        let page = anybody.get(path);
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").unwrap().starts_with("text/html"));
        assert!(page.text().contains("openapi.json"));
    }
}

#[test]
fn what_is_not_there_is_a_problem() {
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
