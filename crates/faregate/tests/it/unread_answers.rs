//! The memory of answers that clients do not read: its bounds, and the requests that are refused beyond them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::client::Client;
use crate::flags::{checkout, client_secret};
use crate::process::{Launch, Server, TIMEOUT};

const BULK: &str = "/ofrep/v1/evaluate/flags";
const KIB: usize = 1024;

/// Flags whose values are long texts, in the environment `dev`.
fn make_long_flags(client: &Client, count: usize, value_bytes: usize) {
    for number in 0..count {
        let mut flag = checkout();
        flag["id"] = json!(uuid::Uuid::from_u128(number as u128 + 1));
        flag["key"] = json!(format!("long-{number}"));
        flag["variationType"] = json!("string");
        let value = "x".repeat(value_bytes);
        flag["variations"] =
            json!([{ "id": "on", "value": value }, { "id": "off", "value": value }]);
        flag["rules"] = json!([]);
        let imported = json!({ "featureFlags": [flag], "segments": [] });
        let made = client.post("/v1/environments/dev/import", &imported);
        assert_eq!(made.status, 200, "{}", made.text());
    }
}

/// A client that asks and does not read.
fn unread(client: &Client, request: &[u8]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4 * KIB).unwrap();
    let address: SocketAddr = client.address().parse().unwrap();
    if let Some(source) = client.source() {
        socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
    }
    socket.connect(&address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(request).unwrap();
    stream
}

fn metric(server: &Server, name: &str) -> usize {
    let metrics = server.metrics();
    let line = metrics.lines().find_map(|it| it.strip_prefix(name)).expect("the metric");
    line.trim().parse().unwrap()
}

fn context() -> Vec<u8> {
    json!({ "context": { "targetingKey": "ada" } }).to_string().into_bytes()
}

#[test]
fn answers_that_are_not_read_take_so_many_bytes_and_leave_room_for_others() {
    const MAX: usize = 2 * 1024 * KIB;
    let launch = Launch::usual()
        // No network is exempt: each 127.0.0.N is one.
        .env("FAREGATE_ACCESS_TRUSTED_PROXIES", "192.0.2.1")
        .env("FAREGATE_ADMISSION_ANSWERS_BYTES_MAX", &MAX.to_string());
    let server = Server::start_with(launch);
    let (of_bob, of_eve) = (server.tenant(), server.another_tenant());
    for client in [&of_bob, &of_eve] {
        make_long_flags(client, 10, 100 * KIB);
    }
    let sdk = |client: &Client, from: &str| {
        Client::new(&server.url).header("X-API-Key", &client_secret(client)).from(from)
    };
    let hostile = |from: &str| {
        let client = sdk(&of_bob, from);
        let request = client.request("POST", BULK, Some(&context()), "keep-alive");
        unread(&client, &request)
    };
    let read = |client: &Client| client.send("POST", BULK, Some(&context()));
    let all: Vec<Value> =
        read(&sdk(&of_bob, "127.0.0.1")).json()["flags"].as_array().unwrap().clone();
    let keys: Vec<_> = all.iter().map(|it| it["key"].as_str().unwrap()).collect();
    let expected: Vec<_> = (0..10).map(|number| format!("long-{number}")).collect();
    assert_eq!(keys, expected, "a long answer comes in parts, and is whole");
    let mut streams: Vec<_> = (0..30).map(|_| hostile("127.0.0.2")).collect();
    let refused = "faregate_refused_total{reason=\"answers\"} ";
    crate::process::eventually("some have no room", || {
        (metric(&server, refused) > 0).then_some(())
    });
    let held = metric(&server, "faregate_answers_bytes ");
    assert!((1..=MAX / 4).contains(&held), "a quarter for one network: {held}");
    assert_eq!(read(&sdk(&of_bob, "127.0.0.3")).status, 200, "another network has its own");
    for network in 4..20 {
        streams.extend((0..3).map(|_| hostile(&format!("127.0.0.{network}"))));
    }
    crate::process::eventually("the tenant's half is used", || {
        (metric(&server, "faregate_answers_bytes ") > MAX / 4).then_some(())
    });
    let held = metric(&server, "faregate_answers_bytes ");
    assert!(held <= MAX / 2, "half for one tenant: {held}");
    let other = read(&sdk(&of_eve, "127.0.0.30"));
    assert_eq!((other.status, other.json()["flags"].as_array().unwrap().len()), (200, 10));
    drop(streams);
    server.metrics_with("faregate_answers_bytes 0");
    assert_eq!(read(&sdk(&of_bob, "127.0.0.2")).status, 200);
}

#[test]
fn a_refused_answer_says_so_and_keeps_its_connection() {
    let launch = Launch::usual()
        .env("FAREGATE_ACCESS_TRUSTED_PROXIES", "192.0.2.1")
        .env("FAREGATE_ADMISSION_ANSWERS_BYTES_MAX", "200000");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let path = "/openapi.json";
    // The first answer has room whatever its length.
    let request = client.request("GET", path, None, "keep-alive");
    let mut first = unread(&client, &request);
    server.metrics_with("faregate_refused_total{reason=\"answers\"} 0");
    crate::process::eventually("it is held", || {
        (metric(&server, "faregate_answers_bytes ") > 200_000).then_some(())
    });
    let refused = client.get(path);
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
    assert!(refused.json()["detail"].as_str().unwrap().contains("too long"), "{}", refused.text());
    assert_eq!(client.get("/health/live").status, 200, "short answers have no limit");
    drop(first.read(&mut [0; 1]));
    drop(first);
    server.metrics_with("faregate_answers_bytes 0");
    assert_eq!(client.get(path).status, 200);
}

#[test]
fn a_tenants_values_and_an_environments_flags_have_so_many_bytes() {
    let server = Server::start();
    let client = server.tenant();
    let value = vec![b'x'; 255 * KIB];
    let put = |key: usize| {
        let path = format!("/1.0/kb/tenants/userKeyValue/key-{key}");
        let client = client.clone().header("Content-Type", "text/plain");
        client.send("POST", &path, Some(&value))
    };
    for key in 0..32 {
        assert_eq!(put(key).status, 201, "{key}");
    }
    let refused = put(32);
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("8 MiB"), "{}", refused.text());
    assert_eq!(client.delete("/1.0/kb/tenants/userKeyValue/key-0").status, 204);
    assert_eq!(put(32).status, 201);
    make_long_flags(&client, 16, 240 * KIB);
    let more = |key: &str| {
        let mut flag = checkout();
        (flag["id"], flag["key"]) = (json!(uuid::Uuid::now_v7()), json!(key));
        flag["variationType"] = json!("string");
        let text = "x".repeat(400 * KIB);
        flag["variations"] = json!([{ "id": "on", "value": text }, { "id": "off", "value": "x" }]);
        flag["rules"] = json!([]);
        let imported = json!({ "featureFlags": [flag], "segments": [] });
        client.post("/v1/environments/dev/import", &imported)
    };
    assert_eq!(more("still-fits").status, 200);
    let refused = more("one-too-many");
    assert!(matches!(refused.status, 400 | 409 | 422), "{}: {}", refused.status, refused.text());
    assert!(refused.text().contains("8 MiB"), "{}", refused.text());
}
