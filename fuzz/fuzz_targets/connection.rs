//! A whole connection of the HTTP listener: what reaches a handler has one well-formed `Host`, a body in
//! plain UTF-8's charset within its limit, and a client's address that no header has changed. The requests
//! are the same however their bytes are split, and nothing is held after the connection's end.
#![no_main]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use engine::access::ClientAddress;
use faregate_fuzz::{run, write_in_pieces};
use http::{HeaderMap, Method, StatusCode, Version};
use http_server::listener::{self, ConnectionOptions, Incoming};
use http_server::{Admission, Bodies, Front, Requests, Timeouts};
use libfuzzer_sys::fuzz_target;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use web::{AnswerBudget, BodyError, NetworkPermits};

const BODY_BYTES_MAX: usize = 1_024;
const HEADERS_BYTES_MAX: usize = 8_192;
const TIMEOUT: Duration = Duration::from_secs(20);
const PEER: &str = "192.0.2.1";

/// A request as its handler has seen it.
#[derive(Debug, PartialEq)]
struct Seen {
    method: Method,
    target: String,
    body: Result<Vec<u8>, BodyError>,
}

static SEEN: Mutex<Vec<Seen>> = Mutex::new(vec![]);

struct Server {
    connections: mpsc::Sender<(TcpStream, std::net::IpAddr)>,
    admission: Admission,
    bodies: Arc<Bodies>,
    _stopping: watch::Sender<bool>,
}

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let admission = Admission::new(10);
    let bodies = Bodies::new(BODY_BYTES_MAX, TIMEOUT, 4 * BODY_BYTES_MAX);
    let front = Front {
        router: Router::new().fallback(handle),
        admission: admission.clone(),
        requests: Requests::new(),
        bodies: Arc::clone(&bodies),
        answers: AnswerBudget::new(4 * BODY_BYTES_MAX, vec![]),
        trusted_proxies: vec![],
        exempts_local: false,
    };
    let options = ConnectionOptions {
        tls: None,
        timeouts: Timeouts {
            idle: TIMEOUT,
            headers: TIMEOUT,
            body: TIMEOUT,
            answer_bytes_per_second_min: 0,
        },
        headers_bytes_max: HEADERS_BYTES_MAX,
        connections_max: 10,
        networks: NetworkPermits::new(10, vec![]),
        sorter: None,
    };
    let (connections, incoming) = mpsc::channel(1);
    let (stopping, stopped) = watch::channel(false);
    let incoming = Incoming::HandedOver(incoming);
    run(
        async move { drop(tokio::spawn(listener::serve(incoming, Arc::new(front), options, stopped))) },
    );
    Server { connections, admission, bodies, _stopping: stopping }
});

/// Some handlers do not read the body.
async fn handle(request: Request) -> StatusCode {
    let (head, body) = request.into_parts();
    check_head(head.version, &head.method, &head.headers);
    let expected = ClientAddress(PEER.parse().expect("an address"));
    assert_eq!(head.extensions.get(), Some(&expected));
    let reads = head.method != Method::DELETE;
    let body = web::body::read(if reads { body } else { Body::empty() }).await;
    let body = body.map(|it| it.to_vec());
    assert!(body.as_ref().is_ok_and(|it| it.len() <= BODY_BYTES_MAX) || body.is_err());
    let status = if body.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let seen = Seen { method: head.method, target: head.uri.to_string(), body };
    SEEN.lock().expect("no handler has panicked").push(seen);
    status
}

fn is_host(text: &str) -> bool {
    let (is_name, port) = match text.rsplit_once(']') {
        Some((address, port)) => {
            let address = address.strip_prefix('[').map(str::parse::<std::net::Ipv6Addr>);
            (address.is_some_and(|it| it.is_ok()), port)
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            let is_fit = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
            (name.chars().all(is_fit), port)
        }
    };
    let digits = port.strip_prefix(':').unwrap_or_default();
    let is_port = digits.bytes().all(|it| it.is_ascii_digit())
        && digits.len() <= 5
        && (digits.is_empty() || digits.parse::<u16>().is_ok());
    is_name && is_port && (port.is_empty() || port.starts_with(':'))
}

fn check_head(version: Version, method: &Method, headers: &HeaderMap) {
    let hosts: Vec<_> = headers.get_all("host").iter().collect();
    assert!(hosts.len() == 1 || hosts.is_empty() && version == Version::HTTP_10, "{hosts:?}");
    assert!(hosts.iter().all(|it| it.to_str().is_ok_and(is_host)), "{hosts:?}");
    if *method == Method::GET || *method == Method::HEAD {
        return;
    }
    for coding in headers.get_all("content-encoding") {
        let text = coding.to_str().expect("a coding is ASCII").to_ascii_lowercase();
        assert!(text.split(',').all(|it| it.trim() == "identity"), "{text}");
    }
}

/// The answers to these bytes, written in pieces, and what the handlers have seen.
async fn converse(bytes: &[u8], step: usize) -> (Vec<u8>, Vec<Seen>) {
    let (client, server) = UnixStream::pair().expect("sockets");
    // They look like TCP, and leave no port behind.
    let [client, server] = [client, server].map(|it| {
        it.set_nonblocking(true).expect("a socket");
        TcpStream::from_std(OwnedFd::from(it).into()).expect("a socket")
    });
    let peer = PEER.parse().expect("an address");
    SERVER.connections.send((server, peer)).await.expect("the server runs");
    let (mut reading, mut writing) = client.into_split();
    let write = write_in_pieces(&mut writing, bytes, step);
    let mut answers = vec![];
    let read = async { drop(reading.read_to_end(&mut answers).await) };
    let both = tokio::time::timeout(TIMEOUT, async { tokio::join!(write, read) });
    both.await.expect("a connection ends after its client");
    let mut turns = 0;
    while SERVER.admission.in_progress() > 0 || SERVER.bodies.held_bytes() > 0 {
        turns += 1;
        assert!(turns < 1_000, "something is held after the connection");
        tokio::task::yield_now().await;
    }
    (answers, std::mem::take(&mut *SEEN.lock().expect("no handler has panicked")))
}

fuzz_target!(|data: &[u8]| {
    let Some((step, bytes)) = data.split_first() else {
        return;
    };
    // It is started outside of what it runs.
    LazyLock::force(&SERVER);
    let (answers, whole) = run(converse(bytes, bytes.len().max(1)));
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1."), "{answers:?}");
    let (_, pieces) = run(converse(bytes, usize::from(*step).max(1)));
    assert_eq!(whole, pieces);
});
