//! Streams of feature flags on the whole server: committed changes are published, also after
//! the server was killed.

use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use flags::Token;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::client::Client;
use crate::process::{Launch, Server, TIMEOUT, TempDir, eventually};

pub const FLAG: &str = "new-checkout";

/// A flag that is on for everybody.
pub fn sample() -> Value {
    let everybody = |id: &str| json!([{ "id": id, "rollout": [0, 1], "exptRollout": 1 }]);
    json!({ "featureFlags": [{
        "id": "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f1001",
        "key": FLAG,
        "name": "New checkout",
        "variationType": "boolean",
        "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
        "isEnabled": true,
        "disabledVariationId": "off",
        "fallthrough": { "variations": everybody("on") },
    }], "segments": [] })
}

pub fn secret(client: &Client, kind: &str) -> String {
    let listed = client.get("/v1/environments").json();
    let dev = listed.as_array().unwrap().iter().find(|it| it["key"] == "dev").unwrap();
    let secrets = dev["secrets"].as_array().unwrap();
    let secret = secrets.iter().find(|it| it["type"] == kind).unwrap();
    secret["value"].as_str().unwrap().to_owned()
}

/// A stream, as an SDK opens it.
pub struct Stream(WebSocket<TcpStream>);

impl Stream {
    pub fn open(server: &Server, prefix: &str, kind: &str, secret: &str) -> Self {
        Self::open_at(server, &format!("{prefix}/streaming"), kind, secret)
    }

    /// The same at another path of the streams.
    pub fn open_at(server: &Server, path: &str, kind: &str, secret: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let token = match kind {
            // It sends its secret as it is.
            "relay-proxy" => secret.to_owned(),
            _ => Token::encode(secret, i64::try_from(now).unwrap(), 14),
        };
        let address = server.client().address().to_owned();
        let tcp = TcpStream::connect(&address).unwrap();
        tcp.set_read_timeout(Some(TIMEOUT)).unwrap();
        let url = format!("ws://{address}{path}?type={kind}&token={token}");
        let (socket, _) = client(url, tcp).unwrap();
        Self(socket)
    }

    pub fn ask(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).unwrap();
    }

    pub fn sync(&mut self, timestamp: i64) -> Value {
        let user = json!({ "keyId": "ada", "name": "Ada", "customizedProperties": [] });
        self.ask_for(&json!({ "timestamp": timestamp, "user": user }))
    }

    /// Sends a data-sync request; returns the data of the next message.
    pub fn ask_for(&mut self, data: &Value) -> Value {
        self.try_ask_for(data).expect("the stream is open")
    }

    /// As [`Self::ask_for`]; `None` where the server closes the stream.
    pub fn try_ask_for(&mut self, data: &Value) -> Option<Value> {
        self.ask(&json!({ "messageType": "data-sync", "data": data }));
        self.try_next()
    }

    /// The next message's data.
    pub fn next(&mut self) -> Value {
        self.try_next().expect("the stream is open")
    }

    fn try_next(&mut self) -> Option<Value> {
        self.try_next_of("data-sync")
    }

    /// The next message's data, which is of this type.
    pub fn next_of(&mut self, kind: &str) -> Value {
        self.try_next_of(kind).expect("the stream is open")
    }

    fn try_next_of(&mut self, kind: &str) -> Option<Value> {
        let message = self.0.read().unwrap();
        if message.is_close() {
            return None;
        }
        let text = message.into_text().unwrap();
        let mut message: Value = serde_json::from_str(text.as_str()).unwrap();
        assert_eq!(message["messageType"], kind);
        Some(message["data"].take())
    }

    /// The code that it is closed with.
    pub fn closed(&mut self) -> u16 {
        loop {
            match self.0.read().unwrap() {
                Message::Close(frame) => return frame.unwrap().code.into(),
                Message::Text(_) | Message::Ping(_) => {}
                other @ (Message::Binary(_) | Message::Pong(_) | Message::Frame(_)) => {
                    panic!("{other:?}")
                }
            }
        }
    }
}

/// The event, the flag's variation and its timestamp in a message to a client.
pub fn seen(data: &Value) -> (&str, &str, i64) {
    let flags = data["featureFlags"].as_array().unwrap();
    assert_eq!(flags.len(), 1, "{data}");
    assert_eq!(flags[0]["id"], FLAG);
    let text = |name: &str| flags[0][name].as_str().unwrap();
    (
        data["eventType"].as_str().unwrap(),
        text("variation"),
        flags[0]["timestamp"].as_i64().unwrap(),
    )
}

pub fn switch(client: &Client, is_enabled: bool) {
    let path = format!("/v1/flags/{FLAG}?environment=dev");
    let body = json!({ "isEnabled": is_enabled }).to_string();
    let answer = client.send("PATCH", &path, Some(body.as_bytes()));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn committed_change_is_pushed_and_survives_a_kill() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let imported = client.post("/v1/environments/dev/import", &sample());
    assert_eq!(imported.status, 200, "{}", imported.text());
    let browser = secret(&client, "client");
    // An import is published a moment after its response.
    eventually("the import is published", || {
        let full = Stream::open(&server, "", "client", &browser).sync(0);
        (full["featureFlags"] != json!([])).then_some(())
    });
    let mut page = Stream::open(&server, "", "client", &browser);
    let mut backend = Stream::open(&server, "", "server", &secret(&client, "server"));
    let full = page.sync(0);
    let (kind, value, first) = seen(&full);
    assert_eq!((kind, value, &full["userKeyId"]), ("full", "true", &json!("ada")));
    assert_eq!(backend.sync(0)["featureFlags"][0]["key"], FLAG);

    switch(&client, false);
    let patch = page.next();
    let (kind, value, second) = seen(&patch);
    assert_eq!((kind, value), ("patch", "false"));
    assert!(second > first);
    assert_eq!(backend.next()["featureFlags"][0]["isEnabled"], false);

    // Another environment's secret opens another environment.
    let listed = client.get("/v1/environments").json();
    let prod = listed[1]["secrets"][1]["value"].as_str().unwrap();
    let other = Stream::open(&server, "", "client", prod).sync(0);
    assert_eq!(other["featureFlags"], json!([]));

    switch(&client, true);
    server.kill();
    let server = Server::start_in(dir.path(), Launch::usual());
    let mut page = Stream::open(&server, "", "client", &browser);
    // What was missed, and nothing else.
    let patch = page.sync(second);
    assert_eq!(seen(&patch).1, "true");
    assert_eq!(page.sync(seen(&patch).2)["featureFlags"], json!([]));

    let (status, _) = server.stop();
    assert!(status.success());
    assert_eq!(page.closed(), 1001);
}

#[test]
fn streams_without_valid_secret_are_closed() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_FLAGS_PATH_PREFIX", "/featbit"));
    let client = server.tenant();
    let browser = secret(&client, "client");
    let wrong = "x".repeat(44);
    assert_eq!(Stream::open(&server, "/featbit", "client", &wrong).closed(), 4003);
    assert_eq!(Stream::open(&server, "/featbit", "server", &browser).closed(), 4003);
    let mut page = Stream::open(&server, "/featbit", "client", &browser);
    assert_eq!(page.sync(0)["featureFlags"], json!([]));
    let dev = &client.get("/v1/environments").json()[0];
    let secrets = dev["secrets"].as_array().unwrap();
    let id = secrets.iter().find(|it| it["type"] == "client").unwrap()["id"].as_str().unwrap();
    let ended = client.delete(&format!("/v1/environments/dev/secrets/{id}"));
    assert!((200..300).contains(&ended.status), "{}", ended.text());
    assert_eq!(page.closed(), 4003);
    assert_eq!(Stream::open(&server, "/featbit", "client", &browser).closed(), 4003);
}

/// As often as is configured for each sort of request, and no sort counts for another.
#[test]
fn requests_above_the_rate_limit_are_refused() {
    const TRIES: usize = 50;
    let limits = [("SDK", "1"), ("STREAMING", "1")];
    let launch = limits.iter().fold(Launch::usual(), |launch, (sort, limit)| {
        launch.env(&format!("FAREGATE_FLAGS_RATE_LIMITS_{sort}"), limit)
    });
    let server = Server::start_with(launch);
    let client = server.tenant();
    let backend = secret(&client, "server");
    Stream::open(&server, "", "server", &backend).sync(0);
    let streams = (0..TRIES).map(|_| Stream::open(&server, "", "server", &backend));
    // An admitted stream sends nothing by itself, so each is asked; a refused one has sent its close.
    let mut later = streams.filter_map(|mut it| {
        it.ask(&json!({ "messageType": "data-sync", "data": { "timestamp": 0 } }));
        let message = it.0.read().unwrap();
        if let Message::Close(frame) = message { frame.map(|it| u16::from(it.code)) } else { None }
    });
    assert_eq!(later.next(), Some(1013));
    let sdk = server.client().header("Authorization", &backend);
    let ask = |path: &str| sdk.get(path).status;
    assert!((0..TRIES).any(|_| ask("/api/public/sdk/server/latest-all") == 429));
    let track = || sdk.post("/api/public/insight/track", &json!([])).status;
    assert!((0..TRIES).all(|_| track() == 200));
}

#[test]
fn a_network_opens_so_many_streams_and_others_do_too() {
    let launch = Launch::usual()
        .env("FAREGATE_ACCESS_TRUSTED_PROXIES", "192.0.2.1")
        .env("FAREGATE_ADMISSION_NETWORK_CONNECTIONS_MAX", "10")
        .env("FAREGATE_FLAGS_NETWORK_STREAMS_MAX", "20");
    let server = Server::start_with(launch);
    let backend = secret(&server.tenant(), "server");
    // More than connections: a stream is none any more.
    let mut streams: Vec<Stream> = Vec::new();
    for _ in 0..20 {
        let mut stream = Stream::open(&server, "", "server", &backend);
        stream.sync(0);
        streams.push(stream);
    }
    assert_eq!(Stream::open(&server, "", "server", &backend).closed(), 1013);
    let elsewhere = server.client().from("127.0.0.2").header("Authorization", &backend);
    assert_eq!(elsewhere.get("/api/public/sdk/server/latest-all").status, 200);
    drop(streams.pop());
    eventually("there is room again", || {
        let mut stream = Stream::open(&server, "", "server", &backend);
        stream.try_ask_for(&json!({ "timestamp": 0 })).map(drop)
    });
}
