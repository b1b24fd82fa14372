//! A small HTTP/1.1 client: one connection per request, so that a test sees just what was sent.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::process::TIMEOUT;

/// Talks to one server with the same headers each time.
#[derive(Clone)]
pub struct Client {
    address: String,
    source: Option<IpAddr>,
    headers: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn new(url: &str) -> Self {
        let address = url.strip_prefix("http://").expect("plain HTTP").to_owned();
        Self { address, source: None, headers: vec![] }
    }

    /// Connects from this address of the machine.
    pub fn from(mut self, source: &str) -> Self {
        self.source = Some(source.parse().unwrap());
        self
    }

    /// Sends a header each time, in place of one of the same name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn user(self, name: &str, password: &str) -> Self {
        let credentials = BASE64.encode(format!("{name}:{password}"));
        self.header("Authorization", &format!("Basic {credentials}"))
            .header("X-Killbill-CreatedBy", "it")
    }

    pub fn tenant(self, key: &str, secret: &str) -> Self {
        self.header("X-Killbill-ApiKey", key).header("X-Killbill-ApiSecret", secret)
    }

    /// The server's address as `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The headers that are sent each time.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The address of the machine that it connects from, where one is set.
    pub fn source(&self) -> Option<IpAddr> {
        self.source
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some(body.to_string().as_bytes()))
    }

    pub fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, Some(body.to_string().as_bytes()))
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    /// Posts, expects 201 and reads what is at its `Location`.
    pub fn create(&self, path: &str, body: &Value) -> Value {
        let made = self.post(path, body);
        assert_eq!(made.status, 201, "POST {path}: {}", made.text());
        let location = made.header("location").expect("a Location").to_owned();
        let path = location
            .split_once("://")
            .map_or(location.as_str(), |(_, rest)| &rest[rest.find('/').expect("a path")..]);
        let read = self.get(path);
        assert_eq!(read.status, 200, "GET {path}: {}", read.text());
        read.json()
    }

    /// Sends a request and reads the answer to the connection's end.
    pub fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Answer {
        let mut stream = self.connect();
        // A server that refuses a body early may close before it is all written.
        drop(stream.write_all(&self.request(method, path, body, "close")));
        Answer::read(&mut stream)
    }

    /// A connection, for tests that write by hand.
    pub fn connect(&self) -> TcpStream {
        let address: SocketAddr = self.address.parse().unwrap();
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        if let Some(source) = self.source {
            socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
        }
        socket.connect(&address.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A request's bytes.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        connection: &str,
    ) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        let has = |wanted: &str| self.headers.iter().any(|it| it.0.eq_ignore_ascii_case(wanted));
        head += &format!("Connection: {connection}\r\n");
        if !has("accept") {
            head += "Accept: application/json\r\n";
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = body {
            if !has("content-type") {
                head += "Content-Type: application/json\r\n";
            }
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        bytes
    }
}

impl Answer {
    /// Reads one answer that ends with the connection, or with its `Content-Length`.
    pub fn read(stream: &mut impl Read) -> Self {
        let mut bytes = Vec::new();
        let mut chunk = [0_u8; 16 * 1024];
        loop {
            if let Some(answer) = Self::parse(&bytes) {
                return answer;
            }
            match stream.read(&mut chunk) {
                Ok(0) => panic!("the connection ended: {:?}", String::from_utf8_lossy(&bytes)),
                Ok(read) => bytes.extend_from_slice(&chunk[..read]),
                Err(error) => panic!("{error}: {:?}", String::from_utf8_lossy(&bytes)),
            }
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).expect("headers are text");
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().expect("a status");
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let find = |name: &str| headers.iter().find(|(known, _)| known == name);
        let rest = &bytes[end + 4..];
        let body = match find("content-length") {
            Some((_, length)) => rest.get(..length.parse().expect("a length"))?.to_vec(),
            None if find("transfer-encoding").is_some() => unchunk(rest)?,
            None => vec![],
        };
        Some(Self { status, headers, body })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }
}

/// The status of a refusal, and its code.
pub fn code(answer: &Answer) -> String {
    format!("{} {}", answer.status, answer.json()["code"])
}

/// Moves domain time ahead, and waits for what is due then.
pub fn advance(client: &Client, days: u32) {
    let answer = client.send("PUT", &format!("/1.0/kb/test/clock?days={days}&timeoutSec=20"), None);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[..end]).expect("a chunk's size");
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(end + 2..end + 2 + size)?);
        bytes = bytes.get(end + 2 + size + 2..)?;
    }
}
