//! The events of a tenant as a stream: what arrives, where it is resumed, and what is refused.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::client::{Answer, Client};
use crate::native::{account, purchase};
use crate::process::{Launch, Server, TIMEOUT, eventually};

const EVENTS: &str = "/v1/events";

/// An open stream.
pub struct Stream {
    lines: std::io::Lines<BufReader<TcpStream>>,
    /// The last id that came.
    pub id: String,
}

impl Stream {
    /// Opens it, and reads up to the first id.
    pub fn open(client: &Client, path: &str) -> Self {
        let client = client.clone().header("Accept", "text/event-stream");
        let mut connection = client.connect();
        connection.write_all(&client.request("GET", path, None, "keep-alive")).unwrap();
        let mut stream = Self { lines: BufReader::new(connection).lines(), id: String::new() };
        let mut is_stream = false;
        while stream.id.is_empty() {
            let line = stream.line().expect("a stream");
            is_stream |= line == "content-type: text/event-stream";
        }
        assert!(is_stream);
        stream
    }

    /// The next line; `None` at the end.
    fn line(&mut self) -> Option<String> {
        let line = self.lines.next()?.unwrap();
        if let Some(id) = line.strip_prefix("id: ") {
            id.clone_into(&mut self.id);
        }
        Some(line)
    }

    /// Reads to the end, which comes soon, and returns what came.
    fn ends(&mut self, what: &str) -> String {
        let begun = std::time::Instant::now();
        // The last chunk: the connection is kept.
        let rest = std::iter::from_fn(|| self.line().filter(|line| line != "0"));
        let rest: Vec<String> = rest.collect();
        assert!(begun.elapsed() < ENDS_WITHIN, "{what}: {:?}", begun.elapsed());
        rest.join("\n")
    }

    /// The next event.
    fn event(&mut self) -> Value {
        loop {
            let line = self.line().expect("the stream goes on");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }

    /// The ids of the next events of a type.
    pub fn ids(&mut self, kind: &str, count: usize) -> Vec<String> {
        let of_type = std::iter::repeat_with(|| self.event()).filter(|it| it["type"] == kind);
        of_type.take(count).map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// The answer to a request for a stream that the server refuses.
fn refused(client: &Client, path: &str) -> Answer {
    client.clone().header("Accept", "text/event-stream").get(path)
}

#[test]
fn events_are_streamed_as_they_are_committed_and_resumed_where_the_client_was() {
    let server = Server::start();
    let client = server.tenant();
    let another = json!({ "apiKey": "joe", "apiSecret": "secret" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &another).status, 201);
    let of = account(&client, "__EXTERNAL_PAYMENT__");
    let mut stream = Stream::open(&client, EVENTS);
    let begun = stream.id.clone();
    account(&server.client().tenant("joe", "secret"), "__EXTERNAL_PAYMENT__");
    for _ in 0..5 {
        purchase(&client, &of, "1", "");
    }
    let mut first = vec![];
    for _ in 0..5 {
        let event = stream.event();
        assert_eq!(event["type"], "payment.succeeded", "neither earlier nor of another tenant");
        let shown = client.get(&format!("{EVENTS}/{}", event["id"].as_str().unwrap())).json();
        assert_eq!(event, shown);
        first.push(event["id"].as_str().unwrap().to_owned());
    }
    let reached = stream.id.clone();
    drop(stream);
    for _ in 0..3 {
        purchase(&client, &of, "2", "");
    }
    let resumed = client.clone().header("Last-Event-ID", &reached);
    let mut again = Stream::open(&resumed, &format!("{EVENTS}?after=first"));
    let missed = again.ids("payment.succeeded", 3);
    let from_begin = Stream::open(&client, &format!("{EVENTS}?after={begun}"));
    let all: Vec<String> = { from_begin }.ids("payment.succeeded", 8);
    assert_eq!(all, [first, missed].concat(), "nothing is missing, and nothing comes twice");
    let listed = client.get(&format!("{EVENTS}?after={reached}&limit=1000")).json();
    assert_eq!(listed["events"].as_array().unwrap().len(), 3, "an id is an `after` too");
    let oldest = Stream::open(&client, &format!("{EVENTS}?after=first")).event();
    assert_eq!(oldest["type"], "account.created");
}

#[test]
fn streams_are_bounded_for_each_tenant_and_end_with_the_server() {
    let server = Server::start();
    let client = server.tenant();
    let another = json!({ "apiKey": "joe", "apiSecret": "secret" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &another).status, 201);
    let mut streams: Vec<Stream> = (0..16).map(|_| Stream::open(&client, EVENTS)).collect();
    let full = refused(&client, EVENTS);
    assert_eq!((full.status, full.header("retry-after")), (503, Some("1")), "{}", full.text());
    Stream::open(&server.client().tenant("joe", "secret"), EVENTS);
    drop(streams.pop());
    streams.push(eventually("the permit is free", || {
        let client = client.clone().header("Accept", "text/event-stream");
        let mut connection = client.connect();
        connection.write_all(&client.request("GET", EVENTS, None, "keep-alive")).unwrap();
        let mut stream = Stream { lines: BufReader::new(connection).lines(), id: String::new() };
        let is_open = stream.line().unwrap().contains(" 200 ");
        is_open.then_some(stream)
    }));
    let wrong = refused(&client.clone().header("Last-Event-ID", "evt_1"), EVENTS);
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!("Last-Event-ID")));
    let wrong = refused(&client, &format!("{EVENTS}?limit=1"));
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!("limit")));
    let begun = std::time::Instant::now();
    server.stop();
    assert!(begun.elapsed().as_secs() < 10, "streams do not hold the end up");
    assert!(streams.iter_mut().all(|it| std::iter::from_fn(|| it.line()).count() < 30));
}

/// How long a stream goes on at most whose client may not read it any more.
const ENDS_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

#[test]
fn streams_end_with_the_user_the_secret_and_the_tenant_that_they_were_opened_with() {
    let server = Server::start();
    let admin = server.tenant();
    let user = json!({ "username": "reader", "password": "right", "roles": ["admin"] });
    assert_eq!(admin.post("/1.0/kb/security/users", &user).status, 201);
    let reader = admin.clone().user("reader", "right");
    let mut of_user = Stream::open(&reader, EVENTS);
    let mut of_admin = Stream::open(&admin, EVENTS);
    assert_eq!(admin.delete("/1.0/kb/security/users/reader").status, 204);
    of_user.ends("a deleted user");
    purchase(&admin, &account(&admin, "__EXTERNAL_PAYMENT__"), "1", "");
    assert_eq!(of_admin.ids("payment.succeeded", 1).len(), 1, "others go on");
    let tenant = tenant_path(&server);
    let rotate = json!({ "overlapSeconds": 0 });
    let rotated = server.client().post(&format!("{tenant}/secrets"), &rotate);
    assert_eq!(rotated.status, 201, "{}", rotated.text());
    of_admin.ends("a rotated secret");
    let secret = rotated.json()["apiSecret"].as_str().unwrap().to_owned();
    let admin = admin.tenant("bob", &secret);
    let mut of_tenant = Stream::open(&admin, EVENTS);
    switch_off(&server);
    of_tenant.ends("a tenant that is switched off");
}

/// A client that waits for the end of a registration waits no longer than for its tenant.
#[test]
fn a_stream_of_an_operation_ends_with_its_tenant() {
    // A hash takes about as long as the tenant needs to be switched off: many keep the last one waiting.
    let launch = Launch::usual()
        .env("FAREGATE_SIGNUP_ARGON2_MEMORY_KIB", "65536")
        .env("FAREGATE_SIGNUP_ARGON2_PASSES", "10")
        .env("FAREGATE_SIGNUP_HASHING_THREADS", "1");
    let server = Server::start_with(launch);
    server.tenant();
    let customer = Client::new(&server.url).tenant("bob", "lazar");
    let hasty = customer.clone().header("Prefer", "respond-async");
    let register = |number: u32| {
        let body = json!({
            "email": format!("ada{number}@example.com"), "password": "LoadTest123@",
            "firstName": "Ada", "lastName": "Lovelace", "acceptTerms": true,
        });
        let queued = hasty.post("/v1/registrations", &body);
        assert_eq!(queued.status, 202, "{}", queued.text());
        format!("{}/events", queued.header("location").unwrap())
    };
    (0..39).for_each(|it| drop(register(it)));
    let last = register(39);
    let mut connection = customer.connect();
    connection.write_all(&customer.request("GET", &last, None, "keep-alive")).unwrap();
    let mut stream = Stream { lines: BufReader::new(connection).lines(), id: String::new() };
    assert_eq!(stream.line().as_deref(), Some("HTTP/1.1 200 OK"));
    switch_off(&server);
    assert!(!stream.ends("a tenant that is switched off").contains("data:"), "it waits still");
}

/// The path of the tenant.
fn tenant_path(server: &Server) -> String {
    let tenant = server.client().get("/1.0/kb/tenants?apiKey=bob").json();
    format!("/v1/tenants/{}", tenant["tenantId"].as_str().unwrap())
}

fn switch_off(server: &Server) {
    let off = json!({ "active": false }).to_string();
    let path = tenant_path(server);
    assert_eq!(server.client().send("PATCH", &path, Some(off.as_bytes())).status, 200);
}

#[test]
fn a_client_that_reads_nothing_of_its_stream_is_cut() {
    let launch = Launch::usual().env("FAREGATE_HTTP_IDLE_TIMEOUT", "1s");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let of = account(&client, "__EXTERNAL_PAYMENT__");
    for _ in 0..800 {
        purchase(&client, &of, "1", "");
    }
    let asking = client.clone().header("Accept", "text/event-stream");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let address: std::net::SocketAddr = client.address().parse().unwrap();
    socket.connect(&address.into()).unwrap();
    let mut connection = TcpStream::from(socket);
    connection.set_read_timeout(Some(TIMEOUT)).unwrap();
    let path = format!("{EVENTS}?after=first");
    connection.write_all(&asking.request("GET", &path, None, "keep-alive")).unwrap();
    // The connection that asks is one.
    server.metrics_with("faregate_connections 2");
    server.metrics_with("faregate_connections 1");
    let mut read = vec![];
    drop(connection.read_to_end(&mut read));
    let all = client.get(&format!("{EVENTS}?after=first&limit=1000")).text();
    assert!(read.len() < all.len() / 2, "{} of {} bytes were sent", read.len(), all.len());
}
