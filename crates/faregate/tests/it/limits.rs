//! The limits for HTTP clients, and the answers when there is no more room.

use std::io::{Read, Write};
use std::time::Instant;

use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TIMEOUT, eventually};

#[test]
fn half_a_request_then_silence_is_dropped() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_HTTP_HEADERS_TIMEOUT", "300ms"));
    for sent in ["", "GET /health/live HTTP/1.1\r\nHost: x\r\nX-Half"] {
        let mut stream = server.client().connect();
        stream.write_all(sent.as_bytes()).unwrap();
        let started = Instant::now();
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        assert!(answer.is_empty() && started.elapsed() < TIMEOUT, "{sent:?}: {answer:?}");
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
    let half = |client: &Client, path| {
        let mut stream = client.connect();
        let request = client.request("POST", path, Some(b"{\"name\": \"x\"}"), "close");
        stream.write_all(&request[..request.len() - 3]).unwrap();
        Answer::read(&mut stream)
    };
    let late = half(&server.tenant(), "/1.0/kb/accounts");
    assert_eq!(late.status, 408);
    assert!(late.json()["className"].is_string(), "{}", late.text());
    // The server does not wait for a body of an unauthenticated request or an unknown route.
    assert_eq!(half(&Client::new(&server.url), "/1.0/kb/accounts").status, 401);
    assert_eq!(half(&server.client(), "/v1/ledger/accounts").status, 405);
}

#[test]
fn headers_of_64_kib_are_answered_431() {
    let server = Server::start();
    let client = server.client().header("X-Large", &"a".repeat(64 * 1024));
    assert_eq!(client.get("/1.0/kb/accounts/pagination").status, 431);
    let almost = server.client().header("X-Large", &"a".repeat(60 * 1024));
    assert_eq!(almost.get("/health/live").status, 200);
}

/// A body without an announced length, in one chunk.
fn chunked(client: &Client, path: &str, body: &[u8]) -> Answer {
    let mut stream = client.connect();
    let head = client.request("POST", path, None, "close");
    stream.write_all(&head[..head.len() - 2]).unwrap();
    let headers = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(headers.as_bytes()).unwrap();
    stream.write_all(format!("{:x}\r\n", body.len()).as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream.write_all(b"\r\n0\r\n\r\n").unwrap();
    Answer::read(&mut stream)
}

#[test]
fn a_body_above_1_mib_is_answered_413_but_only_to_those_who_may_send_one() {
    let server = Server::start();
    let (path, body) = ("/1.0/kb/accounts", vec![b' '; 1024 * 1024 + 1]);
    let (tenant, unauthenticated) = (server.tenant(), Client::new(&server.url));
    for refused in [tenant.send("POST", path, Some(&body)), chunked(&tenant, path, &body)] {
        assert_eq!(refused.status, 413);
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("larger"), "{message}");
    }
    let almost = chunked(&tenant, path, &body[1..]);
    assert_eq!(almost.status, 400, "{}", almost.text());
    for refused in
        [unauthenticated.send("POST", path, Some(&body)), chunked(&unauthenticated, path, &body)]
    {
        assert_eq!(refused.status, 401);
    }
    assert_eq!(unauthenticated.send("POST", "/v1/x", Some(&body)).status, 404);
}

#[test]
fn unread_body_is_discarded_and_its_connection_kept() {
    let server = Server::start();
    let unauthenticated = Client::new(&server.url);
    let mut stream = unauthenticated.connect();
    for body in [&b"{}"[..], &[b' '; 64 * 1024]] {
        let request = unauthenticated.request("POST", "/1.0/kb/accounts", Some(body), "keep-alive");
        let (head, body) = request.split_at(request.len() - body.len());
        stream.write_all(head).unwrap();
        // Another server might have answered and hung up by now.
        assert_eq!(unauthenticated.get("/health/live").status, 200);
        stream.write_all(body).unwrap();
        assert_eq!(Answer::read(&mut stream).status, 401);
    }
}

/// The bytes of answers to this client in the kernel: `tx_queue` of the server's socket in `/proc/net/tcp`.
#[cfg(target_os = "linux")]
fn unread_bytes(client: &std::net::TcpStream) -> usize {
    let (client, server) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
    let ports = [server, client].map(|it| format!(":{:04X}", it.port()));
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let mut rows = sockets.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row[1].ends_with(&ports[0]) && row[2].ends_with(&ports[1])).unwrap();
    usize::from_str_radix(row[4].split_once(':').unwrap().0, 16).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn answers_that_are_not_read_take_little_memory_of_the_kernel() {
    // Clients that read nothing for ten seconds are closed, and a busy machine takes longer here.
    let launch = Launch::usual().env("FAREGATE_HTTP_ANSWER_BYTES_PER_SECOND_MIN", "0");
    let server = Server::start_with(launch);
    let client = server.client();
    let mut stream = client.connect();
    stream
        .write_all(&client.request("GET", "/openapi.json", None, "keep-alive").repeat(50))
        .unwrap();
    // The server writes whenever it may; each of these requests gives it the time for more.
    let unread = (0..300).map(|_| {
        assert_eq!(client.get("/health/live").status, 200);
        unread_bytes(&stream)
    });
    let most = unread.max().unwrap();
    assert!((1..512 * 1024).contains(&most), "{most} bytes");
}

#[test]
fn expect_continue_is_answered_at_once() {
    let server = Server::start();
    let ask = |client: Client| {
        let client = client.header("Expect", "100-continue");
        let mut stream = client.connect();
        let request = client.request("POST", "/1.0/kb/accounts", Some(b"{}"), "keep-alive");
        stream.write_all(&request[..request.len() - 2]).unwrap();
        Answer::read(&mut stream).status
    };
    assert_eq!(ask(Client::new(&server.url)), 401);
    assert_eq!(ask(server.tenant()), 100);
}

#[test]
fn bodies_share_a_memory_limit_and_need_authentication() {
    let launch = Launch::usual()
        .env("FAREGATE_HTTP_BODY_BYTES_MAX", "1024")
        .env("FAREGATE_ADMISSION_BODIES_BYTES_MAX", "1024");
    let server = Server::start_with(launch);
    let tenant = server.tenant();
    let (path, body) = ("/1.0/kb/accounts", format!("{:<1024}", r#"{"name": "x"}"#));
    let request = tenant.request("POST", path, Some(body.as_bytes()), "keep-alive");
    let mut slow = tenant.connect();
    slow.write_all(&request[..request.len() - 1]).unwrap();
    server.metrics_with("faregate_request_bodies_bytes 1024");
    let refused = tenant.send("POST", path, Some(b"{}"));
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.json()["className"].is_string(), "{}", refused.text());
    let metrics = server.metrics();
    assert!(metrics.contains("faregate_refused_total{reason=\"bodies\"} 1\n"), "{metrics}");
    let mut kept = tenant.connect();
    kept.write_all(&request).unwrap();
    assert_eq!(Answer::read(&mut kept).status, 503);
    assert_eq!(chunked(&tenant, path, b"{}").status, 503);
    let unauthenticated = Client::new(&server.url);
    assert_eq!(unauthenticated.send("POST", path, Some(body.as_bytes())).status, 401);
    assert_eq!(unauthenticated.send("POST", path, Some(&[b' '; 100_000])).status, 401);
    assert_eq!(tenant.get("/1.0/kb/accounts/pagination").status, 200, "no body needs no memory");
    slow.write_all(&request[request.len() - 1..]).unwrap();
    assert_eq!(Answer::read(&mut slow).status, 201);
    kept.write_all(&request).unwrap();
    assert_eq!(Answer::read(&mut kept).status, 201);
}

#[test]
fn malformed_http_is_answered_400() {
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
    let client = server.tenant();
    let occupying = occupy(&client);
    server.metrics_with("faregate_requests_in_progress 1");
    let mut stream = client.connect();
    // Requests refused together have different `Retry-After`s.
    let refusals = [("/1.0/kb/accounts", "className", "1"), ("/v1/ledger/accounts", "type", "2")];
    for (path, field, seconds) in refusals {
        stream.write_all(&client.request("POST", path, Some(b"{}"), "keep-alive")).unwrap();
        let refused = Answer::read(&mut stream);
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some(seconds)));
        assert!(refused.json()[field].is_string(), "{}", refused.text());
    }
    for path in ["/health/live", "/health/ready"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    let metrics = server.metrics();
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

/// Connections that are kept open, each after an answer.
fn hold(client: &Client, count: usize) -> Vec<std::net::TcpStream> {
    let open = |_| {
        let mut stream = client.connect();
        stream.write_all(&client.request("GET", "/v1/x", None, "keep-alive")).unwrap();
        assert_eq!(Answer::read(&mut stream).status, 404);
        stream
    };
    (0..count).map(open).collect()
}

/// Whether a new connection is closed without an answer.
fn is_closed_at_once(client: &Client) -> bool {
    is_unanswered(client, &client.request("GET", "/health/live", None, "keep-alive"))
}

/// The same of the gRPC port, where the client's preface is answered with settings.
fn is_grpc_closed_at_once(client: &Client) -> bool {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    is_unanswered(client, PREFACE)
}

fn is_unanswered(client: &Client, sent: &[u8]) -> bool {
    let mut stream = client.connect();
    drop(stream.write_all(sent));
    // What was written and not read turns the end into a reset.
    stream.read(&mut [0]).map_or(true, |read| read == 0)
}

#[test]
fn a_network_with_all_its_connections_gets_no_more_and_others_do() {
    let launch = Launch::usual()
        .env("FAREGATE_ACCESS_TRUSTED_PROXIES", "127.0.0.3, 192.0.2.1")
        .env("FAREGATE_ADMISSION_NETWORK_CONNECTIONS_MAX", "20");
    let server = Server::start_with(launch.grpc());
    let client = server.client();
    let greedy = client.clone().from("127.0.0.2");
    let mut held = hold(&greedy, 20);
    assert!(is_closed_at_once(&greedy));
    let grpc = Client::new(server.grpc_url.as_deref().unwrap());
    // Those of gRPC are counted apart.
    let greedy_grpc = grpc.clone().from("127.0.0.2");
    assert!(!is_grpc_closed_at_once(&greedy_grpc));
    let _held_grpc: Vec<_> = (0..20).map(|_| greedy_grpc.connect()).collect();
    eventually("nor over gRPC", || is_grpc_closed_at_once(&greedy_grpc).then_some(()));
    assert_eq!(client.get("/v1/x").status, 404, "another network");
    assert!(!is_grpc_closed_at_once(&grpc), "another network, over gRPC");
    let proxy = hold(&client.clone().from("127.0.0.3"), 40);
    drop(proxy);
    held.pop();
    eventually("there is room again", || (!is_closed_at_once(&greedy)).then_some(()));
    let metrics = server.metrics();
    let refused = "\nfaregate_refused_total{reason=\"network_connections\"} ";
    let refused = metrics.split_once(refused).unwrap().1.lines().next().unwrap();
    assert!(refused.parse::<u32>().unwrap() >= 2, "{refused}");
}

#[test]
fn this_machine_is_not_limited_while_no_other_reaches_the_server() {
    let launch = Launch::usual().env("FAREGATE_ADMISSION_NETWORK_CONNECTIONS_MAX", "1");
    let server = Server::start_with(launch);
    assert_eq!(hold(&server.client(), 10).len(), 10);
}

#[test]
fn other_requests_leave_room_for_payments() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_ADMISSION_REQUESTS_MAX", "8"));
    let client = server.tenant();
    let account = crate::native::account(&client, "__EXTERNAL_PAYMENT__");
    let occupying: Vec<_> = (0..7).map(|_| occupy(&client)).collect();
    server.metrics_with("faregate_requests_in_progress 7");
    let refused = client.get("/v1/ledger/accounts");
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
    let body = serde_json::json!({ "transactionType": "PURCHASE", "amount": "10" });
    let paid = client.post(&format!("/1.0/kb/accounts/{account}/payments"), &body);
    assert_eq!(paid.status, 201, "{}", paid.text());
    drop(occupying);
    eventually("there is room again", || (client.get("/v1/x").status == 404).then_some(()));
}
