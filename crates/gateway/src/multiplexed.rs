//! A client that sends all concurrent requests to a host over one HTTP/2 connection without TLS. Its
//! errors say whether a request may have been sent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::outbound::{Body, SendError};

/// The timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The age from which a connection takes no new requests, so that the client follows DNS changes and
/// never exhausts the stream ids of a connection.
const AGE_MAX: Duration = Duration::from_secs(10 * 60);

/// The interval of HTTP/2 pings while requests are open.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// The timeout of a ping, after which the connection is closed.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The flow-control window of a connection, for all responses together.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// How many requests may be cancelled within a second before the connection ends. Responses to
/// cancelled requests are discarded.
const CANCELLED_MAX: usize = 65_536;

type Opened = Result<SendRequest<Body>, Arc<str>>;

/// A client of one host.
pub(crate) struct Multiplexed {
    authority: String,
    current: Mutex<Option<Current>>,
}

/// A connection that is being opened, is open, or could not be opened.
struct Current {
    opened: Shared<BoxFuture<'static, Opened>>,
    since: Instant,
}

/// Why an attempt failed, and the request if it was certainly not sent.
type Failed = (SendError, Option<Request<Body>>);

impl Multiplexed {
    /// A client of `HOST:PORT`. It connects with the first request.
    pub(crate) const fn new(authority: String) -> Self {
        Self { authority, current: Mutex::new(None) }
    }

    /// `HOST:PORT`.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends a request with an absolute URI. If the connection had ended before the request was sent,
    /// it is sent once more over a new connection. The response's body is still unread. Dropping it,
    /// or this future, cancels the request and leaves the connection open.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, SendError> {
        let result = match self.attempt(request).await {
            Err((_, Some(unsent))) => self.attempt(unsent).await,
            result => result,
        };
        result.map_err(|(error, _)| error)
    }

    async fn attempt(&self, request: Request<Body>) -> Result<Response<Incoming>, Failed> {
        let mut sender = match self.current().await {
            Ok(sender) => sender,
            Err(error) => return Err((SendError::NotSent(error.to_string()), None)),
        };
        if let Err(error) = sender.ready().await {
            return Err((SendError::NotSent(error.to_string()), Some(request)));
        }
        sender.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => (SendError::NotSent(error.into_error().to_string()), Some(request)),
            None => (SendError::Unknown(error.into_error().to_string()), None),
        })
    }

    /// The current connection. Concurrent callers share the opening of a new one.
    fn current(&self) -> Shared<BoxFuture<'static, Opened>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(current) if current.is_usable() => current.opened.clone(),
            Some(_) | None => current.insert(Current::open(self.authority.clone())).opened.clone(),
        }
    }
}

impl Current {
    /// Opens in a task of its own, so that a cancelled caller does not cancel it for the others.
    fn open(authority: String) -> Self {
        let opening = tokio::spawn(async move {
            match timeout(CONNECT_TIMEOUT, connect(&authority)).await {
                Ok(connected) => connected.map_err(Arc::from),
                Err(_) => Err(Arc::from("connecting timed out")),
            }
        });
        let opened = opening.map(|ended| ended.unwrap_or_else(|_| Err(Arc::from("not connected"))));
        Self { opened: opened.boxed().shared(), since: Instant::now() }
    }

    fn is_usable(&self) -> bool {
        let is_open = match self.opened.peek() {
            None => true,
            Some(Ok(sender)) => !sender.is_closed(),
            Some(Err(_)) => false,
        };
        is_open && self.since.elapsed() < AGE_MAX
    }
}

async fn connect(authority: &str) -> Result<SendRequest<Body>, String> {
    let mut addresses = tokio::net::lookup_host(authority)
        .await
        .map_err(|error| format!("{authority}: {error}"))?;
    let address = addresses.next().ok_or("the name has no address")?;
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    // Otherwise Nagle's algorithm delays small requests. An error costs only latency.
    drop(stream.set_nodelay(true));
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_reset_streams(CANCELLED_MAX)
        .max_local_error_reset_streams(CANCELLED_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // The open requests receive the error of the connection.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
