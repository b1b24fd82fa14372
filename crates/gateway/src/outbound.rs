//! HTTP/1.1 connections to others: opened to an address that the caller chose, kept while they are
//! of use, and honest about whether a request may have left.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// How long an idle connection is kept: shorter than most servers keep it.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// How old a connection may get, so that a name that moved is followed.
const AGE_MAX: Duration = Duration::from_secs(60);

/// A request's body.
pub(crate) type Body = Full<Bytes>;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum SendError {
    /// Nothing was written.
    NotSent(String),
    /// The request may have left.
    Unknown(String),
}

/// A connection that no request is on.
pub(crate) struct Connection {
    sender: SendRequest<Body>,
    opened: Instant,
    used: Instant,
}

/// How a TLS server is to prove who it is.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Connection {
    /// Connects to this very address. Nothing of a request is written.
    pub(crate) async fn open(address: SocketAddr, tls: Option<Tls>) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        // Without it small requests wait for acknowledgements; where it fails they only wait.
        drop(stream.set_nodelay(true));
        match tls {
            None => Self::start(stream).await,
            Some(Tls { config, name }) => {
                let secured = TlsConnector::from(config).connect(name, stream).await;
                Self::start(secured.map_err(|error| format!("TLS: {error}"))?).await
            }
        }
    }

    async fn start<S>(stream: S) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(64 * 1024)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        // How a connection ends is told to whoever waits for an answer on it.
        tokio::spawn(async move { drop(connection.await) });
        let now = Instant::now();
        Ok(Self { sender, opened: now, used: now })
    }

    /// Sends a request. Gives it back where the connection had ended before it was taken.
    async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, (SendError, Option<Request<Body>>)> {
        self.used = Instant::now();
        if let Err(error) = self.sender.ready().await {
            return Err((SendError::NotSent(error.to_string()), Some(request)));
        }
        match self.sender.try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut error) => match error.take_message() {
                Some(request) => {
                    Err((SendError::NotSent(error.into_error().to_string()), Some(request)))
                }
                None => Err((SendError::Unknown(error.into_error().to_string()), None)),
            },
        }
    }

    fn is_fresh(&self) -> bool {
        !self.sender.is_closed()
            && self.opened.elapsed() < AGE_MAX
            && self.used.elapsed() < IDLE_MAX
    }
}

/// Idle connections to one place, most recently used last.
#[derive(Default)]
pub(crate) struct Idle(Mutex<Vec<Connection>>);

impl Idle {
    pub(crate) fn take(&self) -> Option<Connection> {
        let mut idle = self.lock();
        while let Some(connection) = idle.pop() {
            if connection.is_fresh() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection, and forgets one that has grown stale.
    fn put(&self, connection: Connection) {
        let mut idle = self.lock();
        if idle.first().is_some_and(|oldest| !oldest.is_fresh()) {
            idle.swap_remove(0);
        }
        idle.push(connection);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a request on an idle connection or one that `open` opens. A connection that had ended is
/// replaced by a new one, once. The answer's body is unread: see [`finish`].
pub(crate) async fn send<O, F>(
    idle: &Idle,
    request: Request<Body>,
    open: O,
) -> Result<(Response<Incoming>, Connection), SendError>
where
    O: FnOnce() -> F,
    F: Future<Output = Result<Connection, String>>,
{
    let mut request = request;
    if let Some(mut connection) = idle.take() {
        match connection.send(request).await {
            Ok(response) => return Ok((response, connection)),
            Err((_, Some(unsent))) => request = unsent,
            Err((error, None)) => return Err(error),
        }
    }
    let mut connection = open().await.map_err(SendError::NotSent)?;
    match connection.send(request).await {
        Ok(response) => Ok((response, connection)),
        Err((error, _)) => Err(error),
    }
}

/// Reads an answer's body of at most `bytes_max`; then the connection can be used again.
pub(crate) async fn finish(
    idle: &Idle,
    connection: Connection,
    body: Incoming,
    bytes_max: usize,
) -> Result<Bytes, String> {
    let collected = Limited::new(body, bytes_max).collect().await;
    let collected = collected.map_err(|error| format!("the answer's body: {error}"))?;
    idle.put(connection);
    Ok(collected.to_bytes())
}
