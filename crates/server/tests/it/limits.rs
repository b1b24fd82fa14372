//! What HTTP clients may not do, and what is said when there is no more room.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::client::{Answer, Client};
use crate::process::{Launch, PATIENCE, Server, eventually};

#[test]
fn half_a_request_then_silence_is_dropped() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_HTTP_HEADERS_TIMEOUT", "300ms"));
    for sent in ["", "GET /health/live HTTP/1.1\r\nHost: x\r\nX-Half"] {
        let mut stream = server.client().connect();
        stream.write_all(sent.as_bytes()).unwrap();
        let started = Instant::now();
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        assert!(answer.is_empty() && started.elapsed() < PATIENCE, "{sent:?}: {answer:?}");
    }
}

#[test]
fn an_idle_connection_outlives_the_time_that_headers_may_take() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_HTTP_HEADERS_TIMEOUT", "300ms"));
    let client = server.client();
    let mut idle = client.connect();
    idle.write_all(&client.request("GET", "/health/live", None, "keep-alive")).unwrap();
    assert_eq!(Answer::read(&mut idle).status, 200);
    // A connection that says nothing is closed after the time that headers may take; when that has
    // happened to a younger one, the older one has been idle for longer.
    let mut younger = client.connect();
    assert_eq!(younger.read(&mut [0]).unwrap_or(0), 0);
    idle.write_all(&client.request("GET", "/health/live", None, "keep-alive")).unwrap();
    assert_eq!(Answer::read(&mut idle).status, 200);
}

#[test]
fn half_a_body_then_silence_is_answered_408() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_HTTP_BODY_TIMEOUT", "300ms"));
    let client = server.client();
    for (path, class) in [("/1.0/kb/accounts", "className"), ("/v1/ledger/accounts", "type")] {
        let mut stream = client.connect();
        let request = client.request("POST", path, Some(b"{\"name\": \"x\"}"), "close");
        stream.write_all(&request[..request.len() - 3]).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!(answer.status, 408, "{path}");
        assert!(answer.json()[class].is_string(), "{path}: {}", answer.text());
    }
}

#[test]
fn headers_of_64_kib_are_answered_431() {
    let server = Server::start();
    let client = server.client().header("X-Large", &"a".repeat(64 * 1024));
    assert_eq!(client.get("/1.0/kb/accounts/pagination").status, 431);
    let almost = server.client().header("X-Large", &"a".repeat(60 * 1024));
    assert_eq!(almost.get("/health/live").status, 200);
}

#[test]
fn a_body_above_1_mib_is_answered_413_in_the_doors_words() {
    let server = Server::start();
    let body = vec![b' '; 1024 * 1024 + 1];
    let refused = server.client().send("POST", "/1.0/kb/accounts", Some(&body));
    assert_eq!(refused.status, 413);
    assert!(refused.json()["message"].as_str().unwrap().contains("larger"), "{}", refused.text());
    let refused = server.client().send("POST", "/v1/ledger/accounts", Some(&body));
    assert_eq!(refused.status, 413);
    assert_eq!(refused.json()["type"], "urn:faregate:problem:body-too-large");
    // The same without an announced length.
    let client = server.client();
    let mut stream = client.connect();
    let head = "POST /v1/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(format!("{:x}\r\n", body.len()).as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    stream.write_all(b"\r\n0\r\n\r\n").unwrap();
    assert_eq!(Answer::read(&mut stream).status, 413);
}

#[test]
fn what_is_no_http_is_answered_400() {
    let server = Server::start();
    let mut stream = server.client().connect();
    stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").unwrap();
    assert_eq!(Answer::read(&mut stream).status, 400);
}

/// A request whose body never comes, so that it stays in progress.
fn occupy(client: &Client) -> std::net::TcpStream {
    let mut stream = client.connect();
    let request = client.request("POST", "/1.0/kb/accounts", Some(b"{}"), "keep-alive");
    stream.write_all(&request[..request.len() - 1]).unwrap();
    stream
}

#[test]
fn a_request_too_many_is_refused_at_once_and_its_connection_kept() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_ADMISSION_REQUESTS_MAX", "1"));
    let client = server.client();
    let occupying = occupy(&client);
    eventually("the first request is in progress", || {
        let metrics = client.get("/metrics").text();
        metrics.contains("faregate_requests_in_progress 1\n").then_some(())
    });
    let mut stream = client.connect();
    for (path, field) in [("/1.0/kb/accounts", "className"), ("/v1/ledger/accounts", "type")] {
        let started = Instant::now();
        stream.write_all(&client.request("POST", path, Some(b"{}"), "keep-alive")).unwrap();
        let refused = Answer::read(&mut stream);
        assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
        assert!(refused.json()[field].is_string(), "{}", refused.text());
    }
    for path in ["/health/live", "/health/ready", "/metrics"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    let metrics = client.get("/metrics").text();
    assert!(metrics.contains("faregate_refused_total{reason=\"admission\"} 2"), "{metrics}");
    drop(occupying);
    eventually("there is room again", || (client.get("/v1/x").status == 404).then_some(()));
}

#[test]
fn with_too_many_connections_health_still_answers() {
    let launch = Launch::usual().env("FAREGATE_ADMISSION_CONNECTIONS_MAX", "1");
    let server = Server::start_with(launch);
    let client = server.client();
    let mut first = client.connect();
    first.write_all(&client.request("GET", "/v1/x", None, "keep-alive")).unwrap();
    assert_eq!(Answer::read(&mut first).status, 404);
    let refused = client.get("/v1/x");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(client.get("/health/ready").status, 200);
}
