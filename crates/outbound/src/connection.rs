//! HTTP/1.1 client connections to an address that the caller has validated. Idle connections are
//! reused. Errors say whether a request may have been sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use engine::{Clock, Deadline};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::fence::{Fence, Fenced};

/// How long an idle connection is reusable: shorter than the keep-alive timeout of most servers.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// The age up to which a connection is reused, so that the client follows DNS changes.
const AGE_MAX: Duration = Duration::from_secs(60);

/// A request's body.
pub type Body = Full<Bytes>;

/// Why a request has no response.
#[derive(Debug)]
pub enum SendError {
    /// The request was not sent.
    NotSent(String),
    /// The request may have been sent.
    Unknown(String),
}

/// An idle connection.
pub struct Connection {
    sender: SendRequest<Body>,
    opened: Instant,
    used: Instant,
    /// Where nothing of a request leaves after its deadline.
    fence: Option<Arc<Fence>>,
}

/// The inputs of the fence, which keeps a request with a deadline from leaving after it.
pub(crate) struct Fencing {
    pub(crate) clock: Clock,
    /// How long the kernel offers bytes that the host does not acknowledge.
    pub(crate) unacknowledged_max: Duration,
}

/// The TLS configuration, and the name that the server's certificate must have.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// For a server of this name.
    ///
    /// # Errors
    /// No certificate can have the name.
    pub fn of(config: &Arc<ClientConfig>, host: &str) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| format!("{host} is no name that a certificate can have"))?;
        Ok(Self { config: Arc::clone(config), name })
    }
}

/// TLS to servers with certificates of the public web.
pub fn public_web_tls() -> Arc<ClientConfig> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// Connects to exactly this address.
pub(crate) async fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    // Otherwise Nagle's algorithm delays small requests. An error costs only latency.
    drop(stream.set_nodelay(true));
    Ok(stream)
}

/// Ends a connection whose host has not acknowledged bytes for so long: the kernel goes on sending what a network
/// has lost, also where this process stands still.
pub(crate) fn end_unacknowledged(stream: &TcpStream, after: Duration) -> Result<(), String> {
    let after_ms = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(stream, after_ms)
        .map_err(|error| format!("TCP_USER_TIMEOUT: {error}"))
}

impl Connection {
    /// Connects to exactly this address.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn open(address: SocketAddr, tls: Option<Tls>) -> Result<Self, String> {
        Self::secure(connect(address).await?, tls, None).await
    }

    /// Connects to exactly this address. Nothing of a request with a deadline leaves after it.
    pub(crate) async fn open_fenced(
        address: SocketAddr,
        tls: Option<Tls>,
        fencing: Fencing,
    ) -> Result<Self, String> {
        let stream = connect(address).await?;
        end_unacknowledged(&stream, fencing.unacknowledged_max)?;
        let fence = Fence::new(fencing.clock);
        Self::secure(Fenced::new(stream, Arc::clone(&fence)), tls, Some(fence)).await
    }

    async fn secure<S>(
        stream: S,
        tls: Option<Tls>,
        fence: Option<Arc<Fence>>,
    ) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connection = match tls {
            None => Self::start(stream).await?,
            Some(Tls { config, name }) => {
                let secured = TlsConnector::from(config).connect(name, stream).await;
                Self::start(secured.map_err(|error| format!("TLS: {error}"))?).await?
            }
        };
        Ok(Self { fence, ..connection })
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
        // The open request receives the error of the connection.
        tokio::spawn(async move { drop(connection.await) });
        let now = Instant::now();
        Ok(Self { sender, opened: now, used: now, fence: None })
    }

    /// Sends a request. On an error the request is returned if it was certainly not sent.
    async fn send(
        &mut self,
        request: Request<Body>,
        deadline: Option<&Deadline>,
    ) -> Result<Response<Incoming>, (SendError, Option<Request<Body>>)> {
        self.used = Instant::now();
        // Until the response begins, or the request is given up.
        let _open = self.fence.as_ref().zip(deadline).map(|(fence, deadline)| fence.open(deadline));
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
            && self.fence.as_ref().is_none_or(|fence| !fence.is_closed())
            && self.opened.elapsed() < AGE_MAX
            && self.used.elapsed() < IDLE_MAX
    }
}

/// Idle connections to one host, most recently used last.
#[derive(Default)]
pub struct Idle(Mutex<Vec<Connection>>);

impl Idle {
    fn take(&self) -> Option<Connection> {
        let mut idle = self.lock();
        while let Some(connection) = idle.pop() {
            if connection.is_fresh() {
                return Some(connection);
            }
        }
        None
    }

    /// Adds a connection, and drops the oldest one if it is stale.
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

/// Sends a request over an idle connection, or over one that `open` opens. A deadline counts on connections that have a
/// fence. If the idle connection had ended, the request is sent once more over a new one. The response's body is
/// unread: see [`finish_shown`].
///
/// # Errors
/// [`SendError`].
pub async fn send<O, F>(
    idle: &Idle,
    request: Request<Body>,
    deadline: Option<&Deadline>,
    open: O,
) -> Result<(Response<Incoming>, Connection), SendError>
where
    O: FnOnce() -> F,
    F: Future<Output = Result<Connection, String>>,
{
    let mut request = request;
    if let Some(mut connection) = idle.take() {
        match connection.send(request, deadline).await {
            Ok(response) => return Ok((response, connection)),
            Err((_, Some(unsent))) => request = unsent,
            Err((error, None)) => return Err(error),
        }
    }
    // Opening is rare and its future large: beside the request, it would be moved with each.
    let mut connection = Box::pin(open()).await.map_err(SendError::NotSent)?;
    match connection.send(request, deadline).await {
        Ok(response) => Ok((response, connection)),
        Err((error, _)) => Err(error),
    }
}

/// Reads a response's body of at most `bytes_max`, and makes the connection reusable. The body's beginning is put into
/// `shown`, which takes `shown_max` bytes: also where the caller gives up before the end.
///
/// # Errors
/// Why the body was not read.
pub async fn finish_shown(
    idle: &Idle,
    connection: Connection,
    mut body: Incoming,
    (shown, shown_max): (&mut Vec<u8>, usize),
    bytes_max: usize,
) -> Result<(), String> {
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the answer's body: {error}"))?;
        let Some(data) = frame.data_ref() else { continue };
        let room = shown_max.saturating_sub(shown.len()).min(data.len());
        shown.extend_from_slice(&data[..room]);
        read += data.len();
        if read > bytes_max {
            return Err("the answer's body is too long".to_owned());
        }
    }
    idle.put(connection);
    Ok(())
}

/// Reads a response's body of at most `bytes_max`, and makes the connection reusable.
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

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    /// The behaviour of a host at a request.
    #[derive(Clone, Copy)]
    enum Act {
        Answer,
        AnswerAndClose,
        CloseWithoutAnswer,
    }

    /// A host that does so with the requests that arrive, on however many connections; with what arrives.
    async fn host(acts: &'static [Act]) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut acts = acts.iter();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut chunk = [0; 1_024];
                while let Ok(length @ 1..) = stream.read(&mut chunk).await {
                    let request = String::from_utf8_lossy(&chunk[..length]).into_owned();
                    let line = request.lines().next().unwrap_or_default();
                    seen.send(line.replace(" HTTP/1.1", "")).unwrap();
                    let act = acts.next().expect("no more requests arrive");
                    if matches!(act, Act::Answer | Act::AnswerAndClose) {
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                        stream.write_all(answer).await.unwrap();
                    }
                    if matches!(act, Act::AnswerAndClose | Act::CloseWithoutAnswer) {
                        break;
                    }
                }
            }
        });
        (address, arrived)
    }

    async fn post(idle: &Idle, address: SocketAddr, path: &str) -> Result<StatusCode, SendError> {
        let request = Request::post(path).body(Body::new(Bytes::new())).unwrap();
        let (response, connection) =
            send(idle, request, None, || Connection::open(address, None)).await?;
        let (head, body) = response.into_parts();
        finish(idle, connection, body, 1_024).await.unwrap();
        Ok(head.status)
    }

    fn all(mut arrived: mpsc::UnboundedReceiver<String>) -> Vec<String> {
        std::iter::from_fn(|| arrived.try_recv().ok()).collect()
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_while_idle_is_opened_again() {
        let (address, arrived) = host(&[Act::AnswerAndClose, Act::Answer]).await;
        let idle = Idle::default();
        post(&idle, address, "/1").await.unwrap();
        while !idle.lock()[0].sender.is_closed() {
            tokio::task::yield_now().await;
        }
        post(&idle, address, "/2").await.unwrap();
        assert_eq!(all(arrived), ["POST /1", "POST /2"]);
    }

    #[tokio::test]
    async fn what_may_have_been_received_is_not_sent_again() {
        let acts = &[Act::Answer, Act::CloseWithoutAnswer, Act::Answer];
        let (address, arrived) = host(acts).await;
        let idle = Idle::default();
        post(&idle, address, "/1").await.unwrap();
        let lost = post(&idle, address, "/2").await.unwrap_err();
        assert!(matches!(lost, SendError::Unknown(_)), "{lost:?}");
        post(&idle, address, "/3").await.unwrap();
        assert_eq!(all(arrived), ["POST /1", "POST /2", "POST /3"]);
    }
}
