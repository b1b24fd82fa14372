//! Calls of gRPC without credentials that are right: the path, metadata and the message of a flag's
//! evaluation. A timeout in the metadata is taken where it is up to eight digits and a unit; no call is a
//! fault of the server, and none of a service with money is answered but with a refusal.
#![no_main]

use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use engine::access::{ClientAddress, read_basic};
use faregate_fuzz::{World, flag_cache, header_lines, run};
use feature_flags::{RateLimits, WatchLimits};
use grpc::{GrpcApi, Limits, Parts};
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use libfuzzer_sys::fuzz_target;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use web::{AnswerBudget, NetworkPermits};

const MESSAGE_BYTES_MAX: usize = 4_096;
const ANSWERS_BYTES_MAX: usize = 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(20);

struct Server {
    address: std::net::SocketAddr,
    _stopping: watch::Sender<bool>,
}

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let World { engine, access } = World::start();
    let rate_limits = RateLimits { streaming: 0, sdk: 0, insight: 0, feature_flag: 0, ofrep: 0 };
    let limits = (WatchLimits::default(), rate_limits);
    let networks = NetworkPermits::new(100, vec![]);
    let streams = Arc::clone(&networks);
    let api = GrpcApi::new(Parts {
        engine,
        access,
        flags: grpc::flags::service(
            flag_cache(),
            limits,
            (Arc::clone(&streams), AnswerBudget::new(ANSWERS_BYTES_MAX, vec![])),
            MESSAGE_BYTES_MAX,
        ),
        simulates_work: false,
        client_of: Arc::new(|peer: IpAddr, _: &HeaderMap| ClientAddress(peer)),
        watched: Arc::default(),
        networks,
        streams,
        limits: Limits {
            calls_max: 100,
            executing_calls_max: 100,
            connection_calls_max: 100,
            message_bytes_max: MESSAGE_BYTES_MAX,
            connections_max: 100,
            reflection: false,
        },
    });
    let (stopping, stopped) = watch::channel(false);
    let listener = run(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    run(async move { drop(tokio::spawn(grpc::listener::serve(listener, api, None, stopped))) });
    Server { address, _stopping: stopping }
});

/// The connection, until a call breaks it.
static CONNECTION: Mutex<Option<SendRequest<Bytes>>> = Mutex::new(None);

async fn connect() -> SendRequest<Bytes> {
    let stream = TcpStream::connect(SERVER.address).await.expect("the server listens");
    let (send, connection) = h2::client::handshake(stream).await.expect("it is HTTP/2");
    tokio::spawn(async move { drop(connection.await) });
    send
}

/// The code of a call, or `None` where the connection is refused.
async fn code(send: SendRequest<Bytes>, request: Request<()>, message: Bytes) -> Option<String> {
    let mut send = send.ready().await.ok()?;
    let (response, mut stream) = send.send_request(request, false).ok()?;
    stream.send_data(message, true).ok()?;
    let (head, mut body) = response.await.ok()?.into_parts();
    let status = |headers: &HeaderMap| headers.get("grpc-status").cloned();
    let mut found = status(&head.headers);
    if found.is_none() {
        while let Some(piece) = body.data().await {
            let length = piece.ok()?.len();
            drop(body.flow_control().release_capacity(length));
        }
        found = body.trailers().await.ok()?.as_ref().and_then(status);
    }
    found.and_then(|it| it.to_str().ok().map(str::to_owned))
}

fn is_timeout(text: &str) -> bool {
    let Some(digits) = text.strip_suffix(['H', 'M', 'S', 'm', 'u', 'n']) else {
        return false;
    };
    (1..=8).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit())
}

const PATHS: [&str; 8] = [
    "/faregate.v1.PaymentService/Authorize",
    "/faregate.v1.FlagService/x",
    "/faregate.v1.BalanceService/GetBalance",
    "/faregate.v1.AccountService/Create",
    "/faregate.v1.FlagService/Evaluate",
    "/faregate.v1.PaymentService/Pay",
    "/faregate.v1/x",
    "/",
];

fn is_of_connection(name: &str) -> bool {
    ["connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection", "te", "host"]
        .contains(&name)
}

fuzz_target!(|data: &[u8]| {
    let Some((which, rest)) = data.split_first() else {
        return;
    };
    let end = rest.windows(2).position(|it| it == b"\n\n").unwrap_or(rest.len());
    let mut metadata = header_lines(&rest[..end]);
    let names: Vec<_> =
        metadata.keys().filter(|it| is_of_connection(it.as_str())).cloned().collect();
    names.iter().for_each(|name| drop(metadata.remove(name)));
    let basic = metadata.get("authorization").map(http::HeaderValue::as_bytes);
    // A password is hashed, which takes long and parses nothing.
    if basic.is_some_and(|it| read_basic(it).is_some()) || metadata.contains_key("content-length") {
        return;
    }
    let timeout = metadata.get("grpc-timeout").map(|it| it.to_str().is_ok_and(is_timeout));
    let is_short = metadata.get("grpc-timeout").is_some();
    metadata.insert("content-type", http::HeaderValue::from_static("application/grpc"));
    let path = PATHS[usize::from(*which) % PATHS.len()];
    let uri = format!("http://localhost{path}");
    let mut request =
        Request::post(uri).version(http::Version::HTTP_2).body(()).expect("a request");
    *request.headers_mut() = metadata;
    let message = rest.get(end + 2..).unwrap_or_default();
    let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
    let message = Bytes::from([&[0], &length[..], message].concat());
    let address = SERVER.address;
    assert!(address.port() > 0);
    let code = run(async {
        let known = CONNECTION.lock().expect("no call has panicked").take();
        let send = match known {
            Some(send) => send,
            None => connect().await,
        };
        let code = tokio::time::timeout(TIMEOUT, code(send.clone(), request, message)).await;
        let code = code.expect("a call ends");
        *CONNECTION.lock().expect("no call has panicked") = code.as_ref().map(|_| send);
        code
    });
    let Some(code) = code else {
        return;
    };
    // Unknown and Internal are faults of the server, and data loss too.
    assert!(!["2", "13", "15"].contains(&code.as_str()) || path.contains("Flag"), "{path}: {code}");
    if path.contains("Payment") || path.contains("Balance") || path.contains("Account") {
        let expected = if timeout == Some(false) { "3" } else { "16" };
        // The time may be over before the call begins.
        assert!(code == expected || is_short && code == "4", "{path}: {code}");
    }
});
