//! One stream, as a FeatBit SDK opens it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::flags::Token;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use command_line::Target;

/// Small, since one process holds many streams.
const READ_BYTES: usize = 4_096;

/// The position of the timestamp in the secret; SDKs choose it at random.
const TOKEN_POSITION: usize = 14;

/// SDKs send this so that the stream is not closed as idle.
const PING: &str = r#"{"messageType":"ping","data":{}}"#;

/// The kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// All flags and segments of the environment.
    Server,
    /// The flags evaluated for one user.
    Client,
}

/// The settings of streams.
#[derive(Clone, Debug)]
pub struct Opener {
    pub target: Target,
    pub secret: String,
    pub kind: Kind,
    /// The prefix of the users' keys; their numbers follow.
    pub users: String,
    pub timeout: Duration,
}

/// An open stream.
pub struct Socket {
    stream: WebSocketStream<TcpStream>,
    user: String,
}

/// Why a stream failed, as reports name it.
pub type Failure = &'static str;

impl Opener {
    /// Opens the stream of the n-th user.
    pub async fn open(&self, n: usize, source: Ipv4Addr) -> Result<Socket, Failure> {
        let opened = tokio::time::timeout(self.timeout, self.open_in_time(n, source)).await;
        opened.unwrap_or(Err("no connection in time"))
    }

    async fn open_in_time(&self, n: usize, source: Ipv4Addr) -> Result<Socket, Failure> {
        let tcp = TcpSocket::new_v4().map_err(|_| "no socket")?;
        if self.target.address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
            let _ = tcp.set_reuseaddr(true);
            tcp.bind((source, 0).into()).map_err(|_| "no port")?;
        }
        let tcp = tcp.connect(self.target.address).await.map_err(|_| "not connected")?;
        tcp.set_nodelay(true).map_err(|_| "not connected")?;
        let kind = match self.kind {
            Kind::Server => "server",
            Kind::Client => "client",
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let token = Token::encode(&self.secret, now_ms, TOKEN_POSITION);
        let authority = &self.target.authority;
        let url = format!("ws://{authority}/streaming?type={kind}&token={token}");
        let config = WebSocketConfig::default().read_buffer_size(READ_BYTES).write_buffer_size(0);
        let upgraded = client_async_with_config(url, tcp, Some(config)).await;
        let (stream, _) = upgraded.map_err(|_| "not upgraded")?;
        Ok(Socket { stream, user: format!("{}{n}", self.users) })
    }

    /// Requests all flags and waits for them.
    pub async fn sync(&self, socket: &mut Socket) -> Result<(), Failure> {
        let synced = tokio::time::timeout(self.timeout, socket.sync(self.kind)).await;
        synced.unwrap_or(Err("no answer in time"))
    }
}

impl Socket {
    async fn sync(&mut self, kind: Kind) -> Result<(), Failure> {
        let user = &self.user;
        let (request, answered) = match kind {
            Kind::Server => (
                r#"{"messageType":"data-sync","data":{"timestamp":0}}"#.to_owned(),
                r#""featureFlags":"#.to_owned(),
            ),
            Kind::Client => (
                format!(
                    r#"{{"messageType":"data-sync","data":{{"timestamp":0,"user":{{"keyId":"{user}","name":"{user}","customizedProperties":[{{"name":"country","value":"uy"}}]}}}}}}"#
                ),
                format!(r#""userKeyId":"{user}""#),
            ),
        };
        self.send(request).await?;
        let answer = self.next().await?;
        let is_right = answer.contains(r#""eventType":"full""#) && answer.contains(&answered);
        if is_right { Ok(()) } else { Err("another answer") }
    }

    async fn send(&mut self, text: String) -> Result<(), Failure> {
        self.stream.send(Message::text(text)).await.map_err(|_| "closed")
    }

    /// Sends a ping.
    pub async fn ping(&mut self) -> Result<(), Failure> {
        self.send(PING.to_owned()).await
    }

    /// The next text message.
    pub async fn next(&mut self) -> Result<String, Failure> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Binary(_) | Message::Close(_) | Message::Frame(_)) | Err(_))
                | None => return Err("closed"),
            }
        }
    }
}
