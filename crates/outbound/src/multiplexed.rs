//! A client that sends all concurrent requests to a host over one HTTP/2 connection without TLS. Its
//! errors say whether a request may have been sent, and nothing of a request leaves after its deadline.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Clock, Deadline};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::{Instant, timeout};

use crate::connection::{self, Body, SendError};
use crate::fence::{Fence, Fenced};

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
pub struct Multiplexed {
    authority: String,
    clock: Clock,
    /// How long the kernel offers bytes that the host does not acknowledge.
    unacknowledged_max: Duration,
    current: Mutex<Option<Current>>,
}

/// A connection that is being opened, is open, or could not be opened.
struct Current {
    opened: Shared<BoxFuture<'static, Opened>>,
    fence: Arc<Fence>,
    since: Instant,
}

/// Why an attempt failed, and the request if it was certainly not sent.
type Failed = (SendError, Option<Request<Body>>);

impl Multiplexed {
    /// A client of `HOST:PORT`, for which the kernel offers bytes for so long that the host does not
    /// acknowledge. It connects with the first request.
    #[must_use]
    pub const fn new(authority: String, clock: Clock, unacknowledged_max: Duration) -> Self {
        Self { authority, clock, unacknowledged_max, current: Mutex::new(None) }
    }

    /// `HOST:PORT`.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends a request with an absolute URI. If the connection had ended before the request was sent,
    /// it is sent once more over a new connection. The response's body is still unread. Dropping it,
    /// or this future, cancels the request and leaves the connection open. Nothing of a request with a
    /// deadline leaves after it; the caller ends the waiting.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send(
        &self,
        request: Request<Body>,
        deadline: Option<&Deadline>,
    ) -> Result<Response<Incoming>, SendError> {
        let result = match self.attempt(request, deadline).await {
            Err((_, Some(unsent))) => self.attempt(unsent, deadline).await,
            result => result,
        };
        result.map_err(|(error, _)| error)
    }

    async fn attempt(
        &self,
        request: Request<Body>,
        deadline: Option<&Deadline>,
    ) -> Result<Response<Incoming>, Failed> {
        let (opened, fence) = self.current();
        let mut sender = match opened.await {
            Ok(sender) => sender,
            Err(error) => return Err((SendError::NotSent(error.to_string()), None)),
        };
        // Until the response begins, or the request is given up.
        let _open = deadline.map(|deadline| fence.open(deadline));
        if let Err(error) = sender.ready().await {
            return Err((SendError::NotSent(error.to_string()), Some(request)));
        }
        if fence.is_closed() {
            let error = "the connection stood still".to_owned();
            return Err((SendError::NotSent(error), Some(request)));
        }
        sender.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => (SendError::NotSent(error.into_error().to_string()), Some(request)),
            None => (SendError::Unknown(error.into_error().to_string()), None),
        })
    }

    /// The current connection. Concurrent callers share the opening of a new one.
    fn current(&self) -> (Shared<BoxFuture<'static, Opened>>, Arc<Fence>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = match current.take().filter(Current::is_usable) {
            Some(usable) => usable,
            None => self.open(),
        };
        let usable = current.insert(usable);
        (usable.opened.clone(), Arc::clone(&usable.fence))
    }

    /// Opens in a task of its own, so that a cancelled caller does not cancel it for the others.
    fn open(&self) -> Current {
        let (authority, unacknowledged_max) = (self.authority.clone(), self.unacknowledged_max);
        let fence = Fence::new(self.clock.clone());
        let fenced = Arc::clone(&fence);
        let opening = tokio::spawn(async move {
            let connecting = connect(&authority, unacknowledged_max, fenced);
            match timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(connected) => connected.map_err(Arc::from),
                Err(_) => Err(Arc::from("connecting timed out")),
            }
        });
        let opened = opening.map(|ended| ended.unwrap_or_else(|_| Err(Arc::from("not connected"))));
        Current { opened: opened.boxed().shared(), fence, since: Instant::now() }
    }
}

impl Current {
    fn is_usable(&self) -> bool {
        let is_open = match self.opened.peek() {
            None => true,
            Some(Ok(sender)) => !sender.is_closed(),
            Some(Err(_)) => false,
        };
        is_open && !self.fence.is_closed() && self.since.elapsed() < AGE_MAX
    }
}

async fn connect(
    authority: &str,
    unacknowledged_max: Duration,
    fence: Arc<Fence>,
) -> Result<SendRequest<Body>, String> {
    let mut addresses = tokio::net::lookup_host(authority)
        .await
        .map_err(|error| format!("{authority}: {error}"))?;
    let address = addresses.next().ok_or("the name has no address")?;
    let stream = connection::connect(address).await?;
    connection::end_unacknowledged(&stream, unacknowledged_max)?;
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_reset_streams(CANCELLED_MAX)
        .max_local_error_reset_streams(CANCELLED_MAX)
        .handshake(TokioIo::new(Fenced::new(stream, fence)))
        .await
        .map_err(|error| error.to_string())?;
    // The open requests receive the error of the connection.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each request of each connection with an empty response, and says its path.
    async fn serve(listener: TcpListener, seen: tokio::sync::mpsc::UnboundedSender<String>) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let seen = seen.clone();
            tokio::spawn(async move {
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    seen.send(request.uri().path().to_owned()).unwrap();
                    drop(respond.send_response(Response::new(()), true));
                }
            });
        }
    }

    #[tokio::test]
    async fn a_request_that_is_handed_over_too_late_is_not_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let (seen, mut arrived) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(serve(listener, seen));
        let clock = Clock::new(false);
        let client = Multiplexed::new(authority.clone(), clock.clone(), Duration::from_secs(30));
        let request = |path: &str| {
            let uri = format!("http://{authority}{path}");
            Request::builder().uri(uri).body(Body::new(Bytes::new())).unwrap()
        };
        let in_time = Deadline::within(&clock, Duration::from_secs(60));
        client.send(request("/first"), Some(&in_time)).await.unwrap();
        // As for a process that was stopped since it looked at the deadline.
        let an_hour_ago = clock.real_now().plus_us(-3_600_000_000);
        let over = Deadline::after(&clock, an_hour_ago, Duration::from_secs(30));
        client.send(request("/late"), Some(&over)).await.unwrap_err();
        client.send(request("/next"), Some(&in_time)).await.unwrap();
        drop(client);
        let mut paths = Vec::new();
        while let Ok(path) = arrived.try_recv() {
            paths.push(path);
        }
        assert_eq!(paths, ["/first", "/next"]);
    }

    #[tokio::test]
    async fn a_connection_that_the_host_closed_is_opened_again_and_nothing_is_sent_twice() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let (seen, mut arrived) = tokio::sync::mpsc::unbounded_channel();
        // Each connection takes one request, and ends after it, or instead of an answer to it.
        tokio::spawn(async move {
            for answers in [true, false, true] {
                let (stream, _) = listener.accept().await.unwrap();
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let (request, mut respond) = connection.accept().await.unwrap().unwrap();
                seen.send(request.uri().path().to_owned()).unwrap();
                if answers {
                    respond.send_response(Response::new(()), true).unwrap();
                    connection.graceful_shutdown();
                    while connection.accept().await.is_some() {}
                }
            }
        });
        let clock = Clock::new(false);
        let client = Multiplexed::new(authority.clone(), clock, Duration::from_secs(30));
        let request = |path: &str| {
            let uri = format!("http://{authority}{path}");
            Request::post(uri).body(Body::new(Bytes::new())).unwrap()
        };
        client.send(request("/1"), None).await.unwrap();
        let is_usable = || client.current.lock().unwrap().as_ref().is_some_and(Current::is_usable);
        while is_usable() {
            tokio::task::yield_now().await;
        }
        let lost = client.send(request("/2"), None).await.unwrap_err();
        assert!(matches!(lost, SendError::Unknown(_)), "{lost:?}");
        while is_usable() {
            tokio::task::yield_now().await;
        }
        client.send(request("/3"), None).await.unwrap();
        let paths: Vec<_> = std::iter::from_fn(|| arrived.try_recv().ok()).collect();
        assert_eq!(paths, ["/1", "/2", "/3"]);
    }
}
