//! The listening socket, TLS, and the connections: accepted, watched over, drained.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::Gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use super::front::{Connection, Front};
use super::pulse::{Felt, Patience, Pulse};
use crate::workers::{Arrival, Sorter};

/// Connections that may wait to be accepted: with the usual 128 (or even 1,024), thousands of
/// clients that connect at once see their SYN dropped and retry after a second.
pub const BACKLOG: i32 = 4_096;

/// Connections above the limit on which health and metrics are still served.
const OPERATIONS_CONNECTIONS_MAX: usize = 256;

/// How long to wait after the system gave no connection (usually: no file descriptors are left).
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);

/// How connections are treated.
pub struct Manners {
    /// TLS, where there is any.
    pub tls: Option<TlsAcceptor>,
    /// How long a client may be silent.
    pub patience: Patience,
    /// Request line and headers together, in bytes.
    pub headers_bytes_max: usize,
    /// Open connections; above it only health and metrics are served.
    pub connections_max: usize,
    /// Whose connections are kept; all of them where there is nothing.
    pub sorter: Option<Sorter>,
}

/// Where connections come from.
pub enum Arrivals {
    /// A socket of ours.
    Listening(TcpListener),
    /// Processes that listen in our place.
    HandedOver(mpsc::Receiver<Arrival>),
}

impl Arrivals {
    async fn next(&mut self) -> io::Result<Arrival> {
        match self {
            Self::Listening(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((stream, peer.ip()))
            }
            Self::HandedOver(arrivals) => match arrivals.recv().await {
                Some(arrival) => Ok(arrival),
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
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Takes connections until `stopping` turns true; then closes the socket, lets every connection
/// finish the request it is at, and returns once all are closed.
pub async fn serve(
    mut arrivals: Arrivals,
    front: Arc<Front>,
    manners: Manners,
    mut stopping: watch::Receiver<bool>,
) {
    let manners = Arc::new(manners);
    let open = Arc::new(AtomicUsize::new(0));
    let connections = metrics::gauge!("faregate_connections");
    let (alive, mut all_closed) = mpsc::channel::<()>(1);
    loop {
        let accepted = tokio::select! {
            accepted = arrivals.next() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        let (stream, peer) = match accepted {
            Ok(arrival) => arrival,
            Err(error) => {
                tracing::warn!(error = %error, "cannot accept a connection");
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                continue;
            }
        };
        let place = Place::take(&open, connections.clone());
        connections.set(gauge(place.number));
        if place.number > manners.connections_max + OPERATIONS_CONNECTIONS_MAX {
            continue;
        }
        let watched = Watched {
            front: Arc::clone(&front),
            manners: Arc::clone(&manners),
            peer,
            stopping: stopping.clone(),
            place,
            _alive: alive.clone(),
        };
        tokio::spawn(watched.run(stream));
    }
    drop(arrivals);
    drop(alive);
    // Nobody sends: this ends when the last connection has dropped its end.
    all_closed.recv().await;
}

#[expect(clippy::cast_precision_loss, reason = "a metric")]
const fn gauge(value: usize) -> f64 {
    value as f64
}

/// A connection's place among the open ones.
struct Place {
    open: Arc<AtomicUsize>,
    number: usize,
    gauge: Gauge,
}

impl Place {
    fn take(open: &Arc<AtomicUsize>, gauge: Gauge) -> Self {
        let number = open.fetch_add(1, Ordering::Relaxed) + 1;
        Self { open: Arc::clone(open), number, gauge }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let before = self.open.fetch_sub(1, Ordering::Relaxed);
        self.gauge.set(gauge(before.saturating_sub(1)));
    }
}

struct Watched {
    front: Arc<Front>,
    manners: Arc<Manners>,
    peer: IpAddr,
    stopping: watch::Receiver<bool>,
    place: Place,
    _alive: mpsc::Sender<()>,
}

impl Watched {
    async fn run(self, stream: TcpStream) {
        // Answers are written whole: waiting for more to send only delays them. A socket that
        // refuses the option is about to fail anyway.
        drop(stream.set_nodelay(true));
        let stream = match &self.manners.sorter {
            None => stream,
            Some(sorter) => match sorter.sort(stream, self.manners.patience.headers).await {
                Some(stream) => stream,
                None => return,
            },
        };
        match self.manners.tls.clone() {
            None => self.serve(stream).await,
            // What TLS keeps is large, and part of every connection's future if it is not boxed.
            Some(tls) => Box::pin(self.serve_tls(tls, stream)).await,
        }
    }

    async fn serve_tls(self, tls: TlsAcceptor, stream: TcpStream) {
        let handshake = tokio::time::timeout(self.manners.patience.headers, tls.accept(stream));
        match handshake.await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::debug!(error = %error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        }
    }

    async fn serve<S>(mut self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (patience, pulse) = (self.manners.patience, Pulse::new());
        let operations_only = self.place.number > self.manners.connections_max;
        let front = Arc::clone(&self.front);
        let service = Connection::new(front, self.peer, Arc::clone(&pulse), operations_only);
        let stream = TokioIo::new(Felt::new(stream, Arc::clone(&pulse)));
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_header_size(self.manners.headers_bytes_max)
            // Bodies are read in pieces, and the buffer stays as large as the largest of them.
            .max_buf_size(self.manners.headers_bytes_max)
            // Otherwise a second buffer is kept for each request in progress, only to notice a client
            // that hangs up meanwhile; what it asked for is done anyway.
            .half_close(true)
            .keep_alive(!operations_only);
        // Streams of feature flags become WebSockets; those are not this connection any more.
        let connection = builder.serve_connection(stream, service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let mut draining = false;
        while let Some(look_again_in) = pulse.look_again_in(patience) {
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(error = %error, "a connection broke");
                    }
                    return;
                }
                _ = self.stopping.wait_for(|stopping| *stopping), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = tokio::time::sleep(look_again_in) => {}
            }
        }
        tracing::debug!("a connection was silent for too long");
    }
}
