//! The connections on which a value is awaited.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::grpc_watches::Watches;
use super::shop::FLAG;
use crate::connection::Connection;
use crate::flags::socket::{Failure, Opener, Socket};

/// The interval of a stream's pings.
const PING_EVERY: Duration = Duration::from_secs(18);

/// The kind of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Streams of FeatBit's clients.
    Client,
    /// OFREP's event streams, each of which has the flag evaluated again.
    Ofrep,
    /// gRPC watches, a hundred on a connection.
    Grpc,
}

/// Opens the connections.
pub struct Streams {
    pub opener: Opener,
    /// There where the server's gRPC listener is known.
    pub watches: Option<Watches>,
}

/// The user of a connection.
#[derive(Clone, Copy)]
pub struct StreamUser<'a> {
    pub number: u32,
    pub key: &'a str,
    /// The address that the user connects from.
    pub source: Ipv4Addr,
}

/// Drops `ready` once the user's first values are there, and then reports each change of the flag.
pub async fn follow(
    kind: Kind,
    streams: &Streams,
    user: StreamUser<'_>,
    ready: mpsc::UnboundedSender<()>,
    changed: impl Fn(bool, Instant),
) -> Result<(), Failure> {
    let opener = &streams.opener;
    match kind {
        Kind::Client => client(opener, user, ready, changed).await,
        Kind::Ofrep => ofrep(opener, user, ready, changed).await,
        Kind::Grpc => {
            let watches = streams.watches.as_ref().ok_or("no gRPC listener")?;
            watches.follow((user.number, user.key), ready, changed).await
        }
    }
}

#[derive(Deserialize)]
struct Message {
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    #[serde(default)]
    feature_flags: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    id: String,
    variation: Option<String>,
}

async fn client(
    opener: &Opener,
    StreamUser { number, source, .. }: StreamUser<'_>,
    ready: mpsc::UnboundedSender<()>,
    changed: impl Fn(bool, Instant),
) -> Result<(), Failure> {
    let mut socket: Socket = opener.open(number as usize, source).await?;
    opener.sync(&mut socket).await?;
    drop(ready);
    let mut ping = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    loop {
        tokio::select! {
            _ = ping.tick() => socket.ping().await?,
            message = socket.next() => {
                let (text, at) = (message?, Instant::now());
                if !text.contains(r#""eventType":"patch""#) {
                    continue;
                }
                let message: Message = serde_json::from_str(&text).map_err(|_| "no such message")?;
                let flag = message.data.feature_flags.into_iter().find(|it| it.id == FLAG);
                if let Some(flag) = flag {
                    changed(flag.variation.as_deref() == Some("true"), at);
                }
            }
        }
    }
}

/// Listens to the event stream of the user, and evaluates the flag again with each event.
async fn ofrep(
    opener: &Opener,
    StreamUser { key: user, source, .. }: StreamUser<'_>,
    ready: mpsc::UnboundedSender<()>,
    changed: impl Fn(bool, Instant),
) -> Result<(), Failure> {
    let ask = |path: &str| {
        let body = json!({ "context": { "targetingKey": user, "country": "uy" } }).to_string();
        format!(
            "POST /ofrep/v1/evaluate/flags{path} HTTP/1.1\r\nHost: {}\r\nX-API-Key: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            opener.target.authority,
            opener.secret,
            body.len()
        )
    };
    let all = exchange(opener, &ask("")).await?;
    let uri = all["eventStreams"][0]["endpoint"]["requestUri"].as_str().ok_or("no stream")?;
    let socket = TcpSocket::new_v4().map_err(|_| "no socket")?;
    if opener.target.address.ip().is_loopback() {
        let _ = socket.set_reuseaddr(true);
        socket.bind((source, 0).into()).map_err(|_| "no port")?;
    }
    let mut events = socket.connect(opener.target.address).await.map_err(|_| "not connected")?;
    let request = format!("GET {uri} HTTP/1.1\r\nHost: {}\r\n\r\n", opener.target.authority);
    events.write_all(request.as_bytes()).await.map_err(|_| "closed")?;
    let one = ask(&format!("/{FLAG}"));
    let (mut ready, mut is_on) = (Some(ready), false);
    let mut received = vec![0; 4_096];
    loop {
        let count = events.read(&mut received).await.map_err(|_| "closed")?;
        if count == 0 {
            return Err("closed");
        }
        if !String::from_utf8_lossy(&received[..count]).contains("refetchEvaluation") {
            continue;
        }
        let value = exchange(opener, &one).await?["value"] == true;
        let at = Instant::now();
        // The first event comes with the connection.
        if ready.take().is_none() && value != is_on {
            changed(value, at);
        }
        is_on = value;
    }
}

async fn exchange(opener: &Opener, request: &str) -> Result<serde_json::Value, Failure> {
    let opened = Connection::open(opener.target.address, opener.timeout).await;
    let mut connection = opened.map_err(|_| "not connected")?;
    let deadline = std::time::Instant::now() + opener.timeout;
    let response = connection.exchange(request.as_bytes(), deadline).await;
    let response = response.map_err(|_| "no answer in time")?;
    serde_json::from_slice(&response.body(connection.received())).map_err(|_| "another answer")
}
