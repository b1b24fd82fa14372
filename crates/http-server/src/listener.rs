//! The listening socket, TLS, and connections: accepted, timed, drained.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::access::ClientAddress;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::Gauge;
use socket2::Socket;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;
use web::{NetworkPermit, NetworkPermits};

use super::client_stream::ClientStream;
use super::connection_timer::{ConnectionTimer, TimedStream, Timeouts};
use super::front::{Connection, Front};
use super::sorter::{AcceptedConnection, Sorter};

/// Connections that may wait to be accepted: with the usual 128 (or even 1,024), thousands of
/// clients that connect at once see their SYN dropped and retry after a second.
const BACKLOG: i32 = 4_096;

/// Bytes of answers that the kernel takes before it has sent them. Otherwise it takes megabytes for each
/// connection whose client does not read.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// Connections above the limit on which health and metrics are still served.
const OPERATIONS_CONNECTIONS_MAX: usize = 256;

/// How long to wait after the system gave no connection (usually: no file descriptors are left).
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Options of every connection.
pub struct ConnectionOptions {
    /// TLS, where it is configured.
    pub tls: Option<TlsAcceptor>,
    /// How long a client may be silent in each phase.
    pub timeouts: Timeouts,
    /// Request line and headers together, in bytes.
    pub headers_bytes_max: usize,
    /// Open connections; above it only health and metrics are served.
    pub connections_max: usize,
    /// Connections by network; above a network's limit they are closed.
    pub networks: Arc<NetworkPermits>,
    /// Selects the connections to keep; all where it is `None`.
    pub sorter: Option<Sorter>,
}

/// Where connections come from.
pub enum Incoming {
    /// The server's own socket.
    Listening(TcpListener),
    /// Processes that listen in our permit.
    HandedOver(mpsc::Receiver<AcceptedConnection>),
}

impl Incoming {
    async fn next(&mut self) -> io::Result<AcceptedConnection> {
        match self {
            Self::Listening(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((stream, peer.ip()))
            }
            Self::HandedOver(incoming) => match incoming.recv().await {
                Some(connection) => Ok(connection),
                None => std::future::pending().await,
            },
        }
    }
}

/// Binds the listening socket.
///
/// # Errors
/// Where the address cannot be had.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = Socket::new(domain, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    listen(socket)
}

/// Listens on a bound socket.
///
/// # Errors
/// Where the system refuses.
pub fn listen(socket: Socket) -> io::Result<TcpListener> {
    // Accepted sockets have it from this one. A system that refuses the option only takes more memory.
    #[cfg(target_os = "linux")]
    drop(socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX));
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Takes connections until `stopping` turns true; then closes the socket, lets every connection
/// finish the request it is at, and returns once all are closed.
pub async fn serve(
    mut incoming: Incoming,
    front: Arc<Front>,
    options: ConnectionOptions,
    mut stopping: watch::Receiver<bool>,
) {
    let options = Arc::new(options);
    let open = Arc::new(AtomicUsize::new(0));
    let connections = metrics::gauge!("faregate_connections");
    let of_network = metrics::counter!("faregate_refused_total", "reason" => "network_connections");
    let (alive, mut all_closed) = mpsc::channel::<()>(1);
    loop {
        let accepted = tokio::select! {
            accepted = incoming.next() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        let (stream, peer) = match accepted {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(error = %error, "failed to accept a connection; retrying");
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                continue;
            }
        };
        let Some(network) = options.networks.acquire(ClientAddress(peer)) else {
            of_network.increment(1);
            continue;
        };
        let permit = ConnectionPermit::take(&open, connections.clone());
        if permit.number > options.connections_max + OPERATIONS_CONNECTIONS_MAX {
            continue;
        }
        let accepted_stream = AcceptedStream {
            front: Arc::clone(&front),
            options: Arc::clone(&options),
            peer,
            stopping: stopping.clone(),
            permit,
            _network: network,
            _alive: alive.clone(),
        };
        tokio::spawn(accepted_stream.run(stream));
    }
    drop(incoming);
    drop(alive);
    // Nothing is ever sent: `recv` returns once the last connection has dropped its sender.
    all_closed.recv().await;
}

/// Counts a connection as open until it is dropped.
struct ConnectionPermit {
    open: Arc<AtomicUsize>,
    number: usize,
    gauge: Gauge,
}

impl ConnectionPermit {
    fn take(open: &Arc<AtomicUsize>, gauge: Gauge) -> Self {
        let number = open.fetch_add(1, Ordering::Relaxed) + 1;
        // Not set: several listeners share it.
        gauge.increment(1.0);
        Self { open: Arc::clone(open), number, gauge }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.gauge.decrement(1.0);
    }
}

struct AcceptedStream {
    front: Arc<Front>,
    options: Arc<ConnectionOptions>,
    peer: IpAddr,
    stopping: watch::Receiver<bool>,
    permit: ConnectionPermit,
    _network: NetworkPermit,
    _alive: mpsc::Sender<()>,
}

impl AcceptedStream {
    async fn run(self, stream: TcpStream) {
        // Answers are written whole: waiting for more to send only delays them. A socket that
        // refuses the option is about to fail anyway.
        drop(stream.set_nodelay(true));
        let stream = match &self.options.sorter {
            None => stream,
            Some(sorter) => match sorter.sort(stream, self.options.timeouts.headers).await {
                Some(stream) => stream,
                None => return,
            },
        };
        let client = ClientStream::new(stream);
        match self.options.tls.clone() {
            None => self.serve(client.clone(), client).await,
            // What TLS keeps is large, and part of every connection's future if it is not boxed.
            Some(tls) => Box::pin(self.serve_tls(tls, client)).await,
        }
    }

    async fn serve_tls(self, tls: TlsAcceptor, client: ClientStream) {
        let (timeout, stream) = (self.options.timeouts.headers, client.clone());
        match tokio::time::timeout(timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(client, stream).await,
            Ok(Err(error)) => tracing::debug!(error = %error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        }
    }

    /// Serves what comes by a stream, TLS or not, from a client.
    async fn serve<S>(mut self, client: ClientStream, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (timeouts, timer) = (self.options.timeouts, ConnectionTimer::new());
        let operations_only = self.permit.number > self.options.connections_max;
        let front = Arc::clone(&self.front);
        let peer = (self.peer, client);
        let service = Connection::new(front, peer, Arc::clone(&timer), operations_only);
        let stream = TokioIo::new(TimedStream::new(stream, Arc::clone(&timer)));
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_header_size(self.options.headers_bytes_max)
            // Bodies are read in pieces, and the buffer stays as large as the largest of them.
            .max_buf_size(self.options.headers_bytes_max)
            // Otherwise a second buffer is kept for each request in progress, only to notice a client
            // that hangs up meanwhile; what it asked for is done anyway.
            .half_close(true)
            .keep_alive(!operations_only);
        // Streams of feature flags become WebSockets; those are not this connection any more.
        let connection = builder.serve_connection(stream, service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let mut draining = false;
        while let Some(next_check) = timer.next_check(timeouts) {
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(error = %error, "connection failed");
                    }
                    return;
                }
                _ = self.stopping.wait_for(|stopping| *stopping), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = tokio::time::sleep(next_check) => {}
            }
        }
        if timer.is_read_too_slowly(timeouts.answer_bytes_per_second_min) {
            metrics::counter!("faregate_refused_total", "reason" => "slow_readers").increment(1);
        }
        tracing::debug!("connection timed out");
    }
}
