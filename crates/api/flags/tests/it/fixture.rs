//! A cache behind a listening socket, and clients of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::TenantNo;
use evaluation::{Flag, MissingAttribute, Segment, Snapshot};
use feature_flags::{Environment, FlagCache, Secret, SecretKind};
use flags::{Settings, Token};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use uuid::Uuid;

/// The timeout after which a test fails.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub const ENVIRONMENT: Uuid = Uuid::from_u128(0x6a3d_7c0e_54b1_4f0e_9f1c_2b8d_90e1_a701);
pub const SERVER_SECRET: &str = "Xq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
pub const CLIENT_SECRET: &str = "Jt7zLr2wSa9KcUe5oBv4MwDjchZ8arFUDk-fHCuNkOGn";
pub const RELAY_SECRET: &str = "rp-Wm4Hn8yFd2ZkPq6sXc0TjRvB";

/// The flags that change in tests.
pub const CHECKOUT: &str = "new-checkout";
pub const LAYOUT: &str = "layout";
/// The segment that only `LAYOUT` uses.
pub const MEMBERS: &str = "5e900000-aaaa-4d00-8000-000000000001";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    feature_flags: Vec<Flag>,
    segments: Vec<Segment>,
}

/// An environment with the sample's flags and segments.
pub fn sample() -> Environment {
    let sample: Sample = serde_json::from_str(include_str!("../../sample.json")).unwrap();
    let secret = |kind, value: &str| Secret { kind, value: value.to_owned(), expires_at_ms: None };
    Environment {
        id: ENVIRONMENT,
        tenant: TenantNo(1),
        key: "dev".to_owned(),
        project_key: "default".to_owned(),
        secrets: vec![
            secret(SecretKind::Server, SERVER_SECRET),
            secret(SecretKind::Client, CLIENT_SECRET),
            secret(SecretKind::RelayProxy, RELAY_SECRET),
        ],
        snapshot: Snapshot::new(MissingAttribute::Empty)
            .with(sample.feature_flags, sample.segments),
    }
}

pub struct Fixture {
    pub cache: Arc<FlagCache>,
    pub address: std::net::SocketAddr,
    serving: JoinHandle<()>,
}

impl Fixture {
    /// Serves the sample.
    pub async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    pub async fn start_with(settings: Settings) -> Self {
        let cache = Arc::new(FlagCache::new());
        cache.upsert([sample()]);
        cache.set_available(true);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = flags::router(Arc::clone(&cache), settings);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { cache, address, serving }
    }

    pub async fn server(&self) -> Client {
        self.client(&stream("server", &token(SERVER_SECRET))).await
    }

    pub async fn browser(&self) -> Client {
        self.client(&stream("client", &token(CLIENT_SECRET))).await
    }

    /// A WebSocket at this path.
    pub async fn client(&self, path: &str) -> Client {
        self.client_of(TcpSocket::new_v4().unwrap(), path).await
    }

    pub async fn client_of(&self, socket: TcpSocket, path: &str) -> Client {
        let stream = socket.connect(self.address).await.unwrap();
        let url = format!("ws://{}{path}", self.address);
        let (socket, response) = tokio_tungstenite::client_async(url, stream).await.unwrap();
        assert_eq!(response.status(), 101);
        Client { socket }
    }

    /// The cached flag.
    pub fn flag(&self, key: &str) -> Flag {
        let environment = self.cache.environment(ENVIRONMENT).unwrap();
        environment.snapshot().flag(key).unwrap().flag().clone()
    }

    pub fn segment(&self, id: &str) -> Segment {
        let environment = self.cache.environment(ENVIRONMENT).unwrap();
        environment.snapshot().segment(id).unwrap().segment().clone()
    }

    /// Changes a flag, so many seconds after the sample.
    pub fn change_flag(&self, key: &str, second: u32, change: impl FnOnce(&mut Flag)) {
        let mut flag = self.flag(key);
        change(&mut flag);
        flag.updated_at = time(second);
        assert!(self.cache.apply(ENVIRONMENT, vec![flag], vec![]));
    }

    pub fn change_segment(&self, id: &str, second: u32, change: impl FnOnce(&mut Segment)) {
        let mut segment = self.segment(id);
        change(&mut segment);
        segment.updated_at = time(second);
        assert!(self.cache.apply(ENVIRONMENT, vec![], vec![segment]));
    }

    /// Waits until this number of sockets is open.
    pub async fn until_open(&self, sockets: usize) {
        let wait = async {
            while self.cache.open_sockets() != sockets {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.expect("the number of sockets does not change");
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A time after the sample, as RFC 3339.
pub fn time(second: u32) -> String {
    assert!(second < 3_600);
    format!("2026-06-01T00:{:02}:{:02}.000Z", second / 60, second % 60)
}

/// The same in milliseconds since 1970.
pub fn time_ms(second: u32) -> i64 {
    1_780_272_000_000 + i64::from(second) * 1_000
}

pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

pub fn token(secret: &str) -> String {
    Token::encode(secret, now_ms(), 17)
}

pub fn stream(kind: &str, token: &str) -> String {
    format!("/streaming?type={kind}&token={token}")
}

pub struct Client {
    socket: WebSocketStream<TcpStream>,
}

impl Client {
    pub async fn send(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    pub async fn say(&mut self, message: &Value) {
        self.send(Message::text(message.to_string())).await;
    }

    /// The next message; none where the connection ends.
    pub async fn next(&mut self) -> Option<Message> {
        let next = tokio::time::timeout(TIMEOUT, self.socket.next()).await;
        match next.expect("no message") {
            Some(Ok(message)) => Some(message),
            Some(Err(Error::ConnectionClosed)) | None => None,
            Some(Err(error)) => panic!("{error}"),
        }
    }

    pub async fn text(&mut self) -> String {
        match self.next().await {
            Some(Message::Text(text)) => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    pub async fn json(&mut self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// The answer to a data-sync.
    pub async fn sync(&mut self, data: &Value) -> Value {
        self.say(&json!({"messageType": "data-sync", "data": data})).await;
        self.data().await
    }

    /// The next data-sync message.
    pub async fn data(&mut self) -> Value {
        let mut message = self.json().await;
        assert_eq!(message["messageType"], "data-sync");
        message["data"].take()
    }

    /// Checks that no message is pending: the next one answers a ping.
    pub async fn receives_nothing(&mut self) {
        self.say(&json!({"messageType": "ping", "data": {}})).await;
        assert_eq!(self.text().await, r#"{"messageType":"pong","data":{}}"#);
    }

    /// How the server closes.
    pub async fn ended(&mut self) -> (u16, String) {
        let Some(Message::Close(Some(CloseFrame { code, reason }))) = self.next().await else {
            panic!("it was not closed")
        };
        assert!(self.next().await.is_none(), "a message follows the close frame");
        (code.into(), reason.to_string())
    }

    /// The WebSocket itself.
    pub const fn socket(&mut self) -> &mut WebSocketStream<TcpStream> {
        &mut self.socket
    }
}

/// The keys of the flags in a message.
pub fn keys<'v>(data: &'v Value, field: &str) -> Vec<&'v str> {
    let flags = data["featureFlags"].as_array().unwrap();
    flags.iter().map(|it| it[field].as_str().unwrap()).collect()
}

/// A flag of a message.
pub fn item<'v>(data: &'v Value, key: &str) -> &'v Value {
    let flags = data["featureFlags"].as_array().unwrap();
    flags.iter().find(|it| it["id"] == key || it["key"] == key).unwrap()
}
