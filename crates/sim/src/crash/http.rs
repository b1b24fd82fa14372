//! A small HTTP/1.1 client: one connection, kept alive, one request at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait for an answer: far above what any answer may take here.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// How large an answer may be.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: &'static str,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(&'static str, String)>,
    /// The body; JSON where it is not empty and no header says otherwise.
    pub body: String,
}

#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The `Location` header.
    pub location: Option<String>,
    pub body: Vec<u8>,
}

impl Response {
    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The id of what the request made: the last part of `Location`.
    #[must_use]
    pub fn made(&self) -> Option<String> {
        let path = self.location.as_deref()?;
        path.trim_end_matches('/').rsplit('/').next().map(str::to_owned)
    }
}

/// The credentials that every request of a client carries.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `Authorization`.
    pub authorization: String,
    /// The tenant's API key.
    pub api_key: String,
    /// The tenant's API secret.
    pub api_secret: String,
}

impl Identity {
    /// A request with these credentials.
    #[must_use]
    pub fn request(&self, method: &'static str, target: String, body: String) -> Request {
        let headers = vec![
            ("Authorization", self.authorization.clone()),
            ("X-Killbill-ApiKey", self.api_key.clone()),
            ("X-Killbill-ApiSecret", self.api_secret.clone()),
            ("X-Killbill-CreatedBy", "crash".to_owned()),
        ];
        Request { method, target, headers, body }
    }
}

/// A connection that is made when it is needed.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    /// A connection to an address, not yet made.
    #[must_use]
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// Where there is no answer; whether the request was taken is not known then.
    pub fn send(&mut self, request: &Request) -> io::Result<Response> {
        let answered = self.try_send(request);
        if answered.is_err() {
            self.stream = None;
        }
        answered
    }

    /// Sends a request and goes away: whether it was taken is not known.
    pub fn abandon(&mut self, request: &Request) {
        // It may as well not have been sent.
        drop(self.write(request));
    }

    fn try_send(&mut self, request: &Request) -> io::Result<Response> {
        let mut stream = self.write(request)?;
        let (response, goes_on) = read(&mut stream)?;
        self.stream = Some(stream).filter(|_| goes_on);
        Ok(response)
    }

    fn write(&mut self, request: &Request) -> io::Result<BufReader<TcpStream>> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.address)?,
        };
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nContent-Length: {}\r\n",
            request.method,
            request.target,
            self.address,
            request.body.len(),
        );
        let names_type = request.headers.iter().any(|(name, _)| *name == "Content-Type");
        if !request.body.is_empty() && !names_type {
            head.push_str("Content-Type: application/json\r\n");
        }
        for (name, value) in &request.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head.push_str(&request.body);
        stream.get_mut().write_all(head.as_bytes())?;
        Ok(stream)
    }
}

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(BufReader::new(stream))
}

/// Reads an answer, and whether the connection goes on after it.
fn read(stream: &mut BufReader<TcpStream>) -> io::Result<(Response, bool)> {
    let status = line(stream)?;
    let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut response = Response { status: code.ok_or_else(broken)?, ..Response::default() };
    let (mut length, mut chunked, mut goes_on) = (0_usize, false, true);
    loop {
        let header = line(stream)?;
        let Some((name, value)) = header.split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(|_| broken())?,
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => goes_on = !value.eq_ignore_ascii_case("close"),
            "location" => response.location = Some(value.to_owned()),
            _ => {}
        }
    }
    if chunked {
        while let size @ 1.. = usize::from_str_radix(&line(stream)?, 16).map_err(|_| broken())? {
            take(stream, size, &mut response.body)?;
            line(stream)?;
        }
        line(stream)?;
    } else {
        take(stream, length, &mut response.body)?;
    }
    Ok((response, goes_on))
}

fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    // A line that does not end was cut off.
    line.strip_suffix('\n').map(|line| line.trim_end().to_owned()).ok_or_else(broken)
}

fn take(stream: &mut BufReader<TcpStream>, size: usize, body: &mut Vec<u8>) -> io::Result<()> {
    let from = body.len();
    if size > ANSWER_BYTES_MAX - from {
        return Err(broken());
    }
    body.resize(from + size, 0);
    stream.read_exact(&mut body[from..])
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer is cut off or no HTTP")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The response that a client reads from these bytes, from a server that closes the connection after them.
    fn answer(bytes: &'static [u8]) -> io::Result<Response> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            stream.write_all(bytes).unwrap();
        });
        let request = Request { method: "GET", target: "/".to_owned(), ..Request::default() };
        let answered = Connection::new(address).send(&request);
        server.join().unwrap();
        answered
    }

    #[test]
    fn answers_are_read() {
        let plain = answer(b"HTTP/1.1 201 Created\r\nLocation: /a/b/\r\nContent-Length: 0\r\n\r\n");
        let plain = plain.unwrap();
        assert_eq!((plain.status, plain.location.as_deref()), (201, Some("/a/b/")));
        let sized = answer(b"HTTP/1.1 400 Bad\r\ncontent-length: 10\r\n\r\n{\"code\":7}").unwrap();
        assert_eq!(sized.json()["code"], 7);
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(answer(chunked).unwrap().body, b"abcde");
    }

    #[test]
    fn half_an_answer_is_none() {
        for half in [
            &b""[..],
            b"HTTP/1.1 201",
            b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        ] {
            let error = answer(half).expect_err("half an answer");
            let kind = error.kind();
            assert!(matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof));
        }
    }
}
