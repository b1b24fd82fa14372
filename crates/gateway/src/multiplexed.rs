//! One HTTP/2 connection to a place, without TLS, for all requests there at the same time; honest
//! about whether a request may have left.

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

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How old a connection may get before new requests go to another one, so that a name that moved
/// is followed, and long before the numbers of a connection's requests run out.
const AGE_MAX: Duration = Duration::from_secs(10 * 60);

/// How often the other side is asked whether it is there, while requests wait for it.
const PING_EVERY: Duration = Duration::from_secs(10);

/// How long it may take to say so; then the connection is given up.
const PING_ANSWER_MAX: Duration = Duration::from_secs(10);

/// How much of all answers together may be under way.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// How many requests whose callers gave up a connection survives, if they all do so within a
/// second. Late answers to them are thrown away; above it they end the connection.
const GIVEN_UP_MAX: usize = 65_536;

type Opened = Result<SendRequest<Body>, Arc<str>>;

/// A place, and the connection to it.
pub(crate) struct Multiplexed {
    authority: String,
    current: Mutex<Option<Current>>,
}

/// A connection that is there, that is being opened, or that could not be.
struct Current {
    opened: Shared<BoxFuture<'static, Opened>>,
    since: Instant,
}

/// Why an attempt failed, and the request if it is still here.
type Failed = (SendError, Option<Request<Body>>);

impl Multiplexed {
    /// A place by host and port. Does not connect yet.
    pub(crate) const fn new(authority: String) -> Self {
        Self { authority, current: Mutex::new(None) }
    }

    /// Host and port, as a request's URI has them.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends a request with an absolute URI. A connection that had ended before the request was on
    /// it is replaced by a new one, once. The answer's body is unread; whoever drops it, or this
    /// future, ends the request and not the connection.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, SendError> {
        let answered = match self.attempt(request).await {
            Err((_, Some(unsent))) => self.attempt(unsent).await,
            answered => answered,
        };
        answered.map_err(|(error, _)| error)
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

    /// The connection to use, which all who need it at the same time wait for together.
    fn current(&self) -> Shared<BoxFuture<'static, Opened>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(current) if current.is_usable() => current.opened.clone(),
            Some(_) | None => current.insert(Current::open(self.authority.clone())).opened.clone(),
        }
    }
}

impl Current {
    /// Opening goes on for the others where the one who needed it first gives up.
    fn open(authority: String) -> Self {
        let opening = tokio::spawn(async move {
            match timeout(CONNECT_MAX, connect(&authority)).await {
                Ok(connected) => connected.map_err(Arc::from),
                Err(_) => Err(Arc::from("connecting took too long")),
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
    // Without it small requests wait for acknowledgements; where it fails they only wait.
    drop(stream.set_nodelay(true));
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER_MAX)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_reset_streams(GIVEN_UP_MAX)
        .max_local_error_reset_streams(GIVEN_UP_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // How a connection ends is told to whoever waits for an answer on it.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
