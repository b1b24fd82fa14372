//! Sends the request of a row over the protocol of its route: HTTP, FeatBit's stream or gRPC. A code
//! of either is shown as the status of HTTP that means the same.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::runtime::Runtime;
use tonic::Code;

use super::declared::Declared;
use super::row::Row;
use super::world::World;
use crate::client::{Answer, Client};
use crate::flags_streams::Stream;
use crate::process::TIMEOUT;

/// Sends requests from addresses of this machine, each of them few times: one that sends many wrong
/// credentials is locked out.
pub struct Sender {
    runtime: Runtime,
    sent: u32,
    declared: Declared,
    /// Answers that break the OpenAPI document: see [`Declared::breach`].
    pub undeclared: BTreeSet<String>,
}

impl Sender {
    pub fn new(declared: Declared) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, sent: 0, declared, undeclared: BTreeSet::new() }
    }

    /// Sends the request of the row with the headers of the client.
    pub fn send(&mut self, world: &World, row: &Row, client: &Client) -> Answer {
        let target = row.target(&world.objects);
        self.send_to(world, row, (client, &target))
    }

    /// The same to another target.
    pub fn send_to(&mut self, world: &World, row: &Row, request: (&Client, &str)) -> Answer {
        let answer = self.exchange(world, row, request);
        self.undeclared.extend(self.declared.breach(row, &answer));
        answer
    }

    fn exchange(&mut self, world: &World, row: &Row, (client, target): (&Client, &str)) -> Answer {
        self.sent += 1;
        let [_, a, b, c] = (self.sent + 1).to_be_bytes();
        let client = client.clone().from(&format!("127.{a}.{b}.{c}"));
        let client = match row.method() {
            "RPC" => client,
            _ => client.header("Content-Type", row.media_type).header("Accept", row.accept),
        };
        let content = row.content(&world.objects);
        match row.method() {
            "RPC" => {
                let url = world.server.grpc_url.as_deref().unwrap();
                let call = call(url, (target, row.is_stream), &client, content.unwrap_or_default());
                let bounded = async { tokio::time::timeout(TIMEOUT, call).await };
                self.runtime
                    .block_on(bounded)
                    .unwrap_or_else(|_| panic!("{}: no response", row.route))
            }
            "GET" if target.starts_with("/streaming") => stream(world, target, &client),
            method if row.is_stream => head(&client, method, target),
            method => client.send(method, target, content.as_deref()),
        }
    }
}

/// Opens a stream with the secret in `Authorization`, as the type that the secret has in the header
/// `X-Type`, and reads the first sync.
fn stream(world: &World, target: &str, client: &Client) -> Answer {
    let header = |wanted: &str| {
        let found = client.headers().iter().find(|(name, _)| name == wanted);
        found.map_or("", |(_, value)| value.as_str())
    };
    let kind = if header("X-Type").is_empty() { "server" } else { header("X-Type") };
    let secret = header("Authorization").split(' ').next_back().unwrap_or_default();
    let mut stream = Stream::open_at(&world.server, target, kind, secret);
    let user = json!({ "keyId": "ada", "name": "Ada", "customizedProperties": [] });
    let status_and_body = match stream.try_ask_for(&json!({ "timestamp": 0, "user": user })) {
        Some(data) => (200, data.to_string().into_bytes()),
        None => (401, vec![]),
    };
    Answer { status: status_and_body.0, headers: vec![], body: status_and_body.1 }
}

/// The status of a response that does not end, or the whole response where it is a refusal.
fn head(client: &Client, method: &str, target: &str) -> Answer {
    let mut connection = client.connect();
    std::io::Write::write_all(&mut connection, &client.request(method, target, None, "close"))
        .unwrap();
    let mut bytes = vec![];
    while !bytes.windows(4).any(|it| it == b"\r\n\r\n") {
        let mut chunk = [0; 1024];
        let read = connection.read(&mut chunk).unwrap();
        assert_ne!(read, 0, "the connection ended");
        bytes.extend_from_slice(&chunk[..read]);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let headers = text.lines().filter_map(|it| it.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    Answer { status, headers: headers.collect(), body: bytes }
}

/// One call on a connection of its own.
async fn call(
    url: &str,
    (path, is_stream): (&str, bool),
    client: &Client,
    message: Vec<u8>,
) -> Answer {
    let address: SocketAddr = url.strip_prefix("http://").unwrap().parse().unwrap();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    let source: IpAddr = client.source().unwrap();
    socket.bind((source, 0).into()).unwrap();
    let stream = socket.connect(address).await.unwrap();
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let length = u32::try_from(message.len()).unwrap();
    let body = [&[0], &length.to_be_bytes()[..], &message].concat();
    let mut request = http::Request::post(format!("{url}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in client.headers() {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let code = |headers: &http::HeaderMap| {
        headers.get("grpc-status").map(|it| Code::from_bytes(it.as_bytes()))
    };
    let (head, body) = response.into_parts();
    let mut found = code(&head.headers);
    let mut text = format!("{:?}", head.headers.get("grpc-message")).into_bytes();
    if found.is_none() && !is_stream {
        let body = body.collect().await.unwrap();
        found = body.trailers().and_then(code);
        text.extend_from_slice(&body.to_bytes());
    }
    Answer { status: status(found.unwrap_or(Code::Ok)), headers: vec![], body: text }
}

/// The status of HTTP that means the same.
fn status(code: Code) -> u16 {
    match code {
        Code::Ok => 200,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::DeadlineExceeded => 504,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => 409,
        Code::Cancelled | Code::InvalidArgument | Code::OutOfRange => 400,
    }
}
