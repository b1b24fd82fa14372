//! One HTTP/2 connection that carries many gRPC calls at a time.
//!
//! A generated client builds the metadata of each call and passes it through layers. Here the
//! metadata is built once, and a call costs only HTTP/2.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version};
use percent_encoding::percent_decode_str;
use prost::Message;
use tokio::net::TcpStream;

use command_line::Target;

/// The largest response that is read, with its prefix.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The flow-control window: fits all responses of a round, so that window updates cost nothing.
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
/// A message's prefix: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// The largest message of a stream that is read.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The metadata with the code of a call.
const STATUS: &str = "grpc-status";

/// The codes of gRPC by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The TCP connection failed.
    #[error("connect: {}", .0.kind())]
    Connect(std::io::Error),
    /// The connection broke, or the server reset the call.
    #[error("{0}")]
    Http2(#[from] h2::Error),
    /// The peer does not speak gRPC.
    #[error("HTTP {0}")]
    Http(StatusCode),
    /// The server refused the call.
    #[error("{code}")]
    Status {
        /// The name of its code.
        code: &'static str,
        /// The server's message.
        message: String,
    },
    /// The received bytes are not a response.
    #[error("{0}")]
    Malformed(&'static str),
    /// No answer in time.
    #[error("timeout")]
    Timeout,
}

impl Failure {
    /// The server's message, if it sent one.
    pub fn details(&self) -> &str {
        match self {
            Self::Status { message, .. } => message,
            Self::Connect(_)
            | Self::Http2(_)
            | Self::Http(_)
            | Self::Malformed(_)
            | Self::Timeout => "",
        }
    }
}

/// The head of all calls of a method.
#[derive(Clone, Debug)]
pub struct Head(Request<()>);

impl Head {
    /// The head for a method on a target, such as `/faregate.v1.PaymentService/Pay`.
    pub fn new(target: &Target, method: &'static str, metadata: &HeaderMap) -> Self {
        let uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(target.authority.as_str())
            .path_and_query(PathAndQuery::from_static(method))
            .build()
            .expect("a target's authority was resolved, and the path is a constant");
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = metadata.clone();
        Self(request)
    }

    /// With more metadata.
    pub fn with(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(HeaderName::from_static(name), value);
        self
    }
}

/// A message with its prefix.
pub fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).expect("a request is far below 4 GiB"));
    message.encode(&mut framed).expect("the buffer grows");
    framed.freeze()
}

/// The connection. Its clones share it.
#[derive(Clone)]
pub struct Channel(SendRequest<Bytes>);

impl Channel {
    /// Connects, and goes on driving the connection on the current runtime until all clones are
    /// dropped.
    pub async fn open(target: &Target, timeout: Duration) -> Result<Self, Failure> {
        let connecting = TcpStream::connect(target.address);
        let stream = match tokio::time::timeout(timeout, connecting).await {
            Ok(connected) => connected.map_err(Failure::Connect)?,
            Err(_) => return Err(Failure::Timeout),
        };
        stream.set_nodelay(true).map_err(Failure::Connect)?;
        let (sender, connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .handshake(stream)
            .await?;
        // Each call reports the error of a broken connection.
        tokio::spawn(async move { connection.await.ok() });
        Ok(Self(sender))
    }

    /// Ready when a call can begin: the server bounds the calls at a time.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.0.poll_ready(context).map_err(Failure::from)
    }

    /// Calls in progress that the server allows on this connection.
    pub fn calls_max(&self) -> usize {
        self.0.current_max_send_streams()
    }

    /// Begins a call, after [`Self::poll_ready`]; the connection's task sends it.
    pub fn begin(&mut self, head: &Head, body: Bytes) -> Result<ResponseFuture, Failure> {
        let (response, mut stream) = self.0.send_request(head.0.clone(), false)?;
        stream.send_data(body, true)?;
        Ok(response)
    }

    /// Makes a call and returns the response's message.
    pub async fn exchange(
        &mut self,
        head: &Head,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, Failure> {
        let exchange = async {
            poll_fn(|context| self.poll_ready(context)).await?;
            answer(self.begin(head, body)?).await
        };
        tokio::time::timeout(timeout, exchange).await.map_err(|_| Failure::Timeout)?
    }

    /// Makes a call and decodes the response's message.
    pub async fn call<A: Message + Default>(
        &mut self,
        head: &Head,
        body: Bytes,
        timeout: Duration,
    ) -> Result<A, Failure> {
        decode(&self.exchange(head, body, timeout).await?)
    }
}

/// The messages of a call that answers with a stream.
pub struct Messages {
    body: RecvStream,
    received: BytesMut,
}

impl Messages {
    /// Waits for the head of the response.
    pub async fn of(response: ResponseFuture) -> Result<Self, Failure> {
        let response = response.await?;
        if response.status() != StatusCode::OK {
            return Err(Failure::Http(response.status()));
        }
        // A call that is refused has its status in the head.
        if response.headers().contains_key(STATUS) {
            check_status(response.headers())?;
        }
        Ok(Self { body: response.into_body(), received: BytesMut::new() })
    }

    /// The next message; `None` where the stream ended.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let [0, a, b, c, d, ..] = *self.received {
                let length =
                    usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
                if length > MESSAGE_BYTES_MAX {
                    return Err(Failure::Malformed("a message above 1 MiB"));
                }
                if self.received.len() >= PREFIX_BYTES + length {
                    let framed = self.received.split_to(PREFIX_BYTES + length);
                    return Ok(Some(framed.freeze().slice(PREFIX_BYTES..)));
                }
            }
            let Some(part) = self.body.data().await else {
                let trailers = self.body.trailers().await?;
                return check_status(&trailers.unwrap_or_default()).map(|()| None);
            };
            let part = part?;
            self.body.flow_control().release_capacity(part.len())?;
            self.received.extend_from_slice(&part);
        }
    }
}

/// Reads the response of a call.
pub async fn answer(response: ResponseFuture) -> Result<Bytes, Failure> {
    let response = response.await?;
    if response.status() != StatusCode::OK {
        return Err(Failure::Http(response.status()));
    }
    let (head, mut body) = response.into_parts();
    let mut received = Bytes::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        if received.len() + part.len() > ANSWER_BYTES_MAX {
            return Err(Failure::Malformed("an answer above 64 KiB"));
        }
        received = if received.is_empty() { part } else { [received, part].concat().into() };
    }
    // A response without a message has its status in the head.
    let trailers = body.trailers().await?;
    check_status(trailers.as_ref().unwrap_or(&head.headers))?;
    message(received)
}

fn check_status(metadata: &HeaderMap) -> Result<(), Failure> {
    let status = metadata.get(STATUS).ok_or(Failure::Malformed("no grpc-status"))?;
    if status == "0" {
        return Ok(());
    }
    let number = status.to_str().ok().and_then(|text| text.parse::<usize>().ok());
    let code = number.and_then(|number| CODES.get(number)).copied().unwrap_or("UNKNOWN");
    let message = metadata.get("grpc-message").and_then(|message| message.to_str().ok());
    let message = percent_decode_str(message.unwrap_or_default()).decode_utf8_lossy().into_owned();
    Err(Failure::Status { code, message })
}

/// The message behind its prefix.
fn message(received: Bytes) -> Result<Bytes, Failure> {
    let length = match *received {
        [0, a, b, c, d, ..] => usize::try_from(u32::from_be_bytes([a, b, c, d])).ok(),
        _ => None,
    };
    if length == received.len().checked_sub(PREFIX_BYTES) && length.is_some() {
        Ok(received.slice(PREFIX_BYTES..))
    } else {
        Err(Failure::Malformed("not one whole message"))
    }
}

/// Reads a message.
pub fn decode<A: Message + Default>(message: &Bytes) -> Result<A, Failure> {
    A::decode(message.as_ref()).map_err(|_| Failure::Malformed("not the message expected"))
}

#[cfg(test)]
mod tests {
    use http::Response;
    use tokio::net::TcpListener;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// The response of a server to a call.
    struct Reply {
        http: u16,
        head: &'static [(&'static str, &'static str)],
        body: &'static [&'static [u8]],
        /// `None`: the response is its head only.
        trailers: Option<&'static [(&'static str, &'static str)]>,
    }

    const OK: Reply =
        Reply { http: 200, head: &[], body: &[], trailers: Some(&[("grpc-status", "0")]) };

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = list
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    /// Makes one call. Returns the response's message or the failure.
    async fn check(reply: Reply, timeout: Duration) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = Target { authority: address.to_string(), address };
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (request, mut respond) = connection.accept().await.unwrap().unwrap();
            let (parts, mut body) = request.into_parts();
            let received = async {
                let received = body.data().await.unwrap().unwrap();
                assert!(body.data().await.is_none());
                received
            };
            let received = tokio::select! {
                received = received => received,
                _ = connection.accept() => panic!("one call only"),
            };
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(reply.http).unwrap();
            *response.headers_mut() = headers(reply.head);
            let is_head_only = reply.trailers.is_none() && reply.body.is_empty();
            let mut stream = respond.send_response(response, is_head_only).unwrap();
            for part in reply.body {
                stream.send_data(Bytes::from_static(part), false).unwrap();
            }
            if let Some(trailers) = reply.trailers {
                stream.send_trailers(headers(trailers)).unwrap();
            }
            // Until the client closes the connection.
            while connection.accept().await.is_some_and(|accepted| accepted.is_ok()) {}
            (parts, received)
        });
        let mut channel = Channel::open(&target, TIMEOUT).await.unwrap();
        let metadata = headers(&[("te", "trailers"), ("authorization", "Basic eA==")]);
        let head = Head::new(&target, "/a.B/C", &metadata).with("more", HeaderValue::from(7));
        let answered = channel.exchange(&head, Bytes::from_static(b"\0\0\0\0\x01x"), timeout).await;
        drop(channel);
        let (parts, received) = server.await.unwrap();
        assert_eq!((parts.method, parts.uri.path()), (Method::POST, "/a.B/C"));
        assert_eq!(parts.headers["authorization"], "Basic eA==");
        assert_eq!(
            (&parts.headers["te"], &parts.headers["more"]),
            (&"trailers".parse().unwrap(), &7.into())
        );
        assert_eq!(received, b"\0\0\0\0\x01x"[..]);
        let text = |message: Bytes| String::from_utf8(message.to_vec()).unwrap();
        answered.map(text).map_err(|failure| format!("{failure}: {}", failure.details()))
    }

    #[tokio::test]
    async fn response_is_joined_and_unframed() {
        let reply = Reply { body: &[b"\0\0\0\0\x02hi"], ..OK };
        assert_eq!(check(reply, TIMEOUT).await.unwrap(), "hi");
        let in_pieces = Reply { body: &[b"\0\0\0", b"\0\x02h", b"i"], ..OK };
        assert_eq!(check(in_pieces, TIMEOUT).await.unwrap(), "hi");
        let empty = Reply { body: &[b"\0\0\0\0\0"], ..OK };
        assert_eq!(check(empty, TIMEOUT).await.unwrap(), "");
    }

    #[tokio::test]
    async fn status_and_message_are_read() {
        let refused: &[_] = &[("grpc-status", "14"), ("grpc-message", "no%20room")];
        let trailers = Reply { trailers: Some(refused), ..OK };
        assert_eq!(check(trailers, TIMEOUT).await.unwrap_err(), "UNAVAILABLE: no room");
        let head_only = Reply { head: refused, trailers: None, ..OK };
        assert_eq!(check(head_only, TIMEOUT).await.unwrap_err(), "UNAVAILABLE: no room");
        let unknown_code = Reply { trailers: Some(&[("grpc-status", "99")]), ..OK };
        assert_eq!(check(unknown_code, TIMEOUT).await.unwrap_err(), "UNKNOWN: ");
    }

    #[tokio::test]
    async fn malformed_responses_are_failures() {
        let http = Reply { http: 503, trailers: None, ..OK };
        let failure = check(http, TIMEOUT).await.unwrap_err();
        assert_eq!(failure, "HTTP 503 Service Unavailable: ");
        let no_status = Reply { trailers: Some(&[]), ..OK };
        assert_eq!(check(no_status, TIMEOUT).await.unwrap_err(), "no grpc-status: ");
        for body in [&b"\0\0\0\0\x02h"[..], b"\0\0\0\0\x01hi", b"\x01\0\0\0\x02hi", b"\0\0"] {
            let reply = Reply { body: Box::leak(Box::new([body])), ..OK };
            assert_eq!(check(reply, TIMEOUT).await.unwrap_err(), "not one whole message: ");
        }
        let large = Reply { body: &[&[0; 40_000], &[0; 40_000]], ..OK };
        assert_eq!(check(large, TIMEOUT).await.unwrap_err(), "an answer above 64 KiB: ");
    }

    #[tokio::test]
    async fn missing_response_times_out() {
        let reply = Reply { body: &[b"\0"], trailers: None, ..OK };
        assert_eq!(check(reply, Duration::from_millis(30)).await.unwrap_err(), "timeout: ");
    }
}
