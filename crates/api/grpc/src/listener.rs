//! Connections: accept, TLS, HTTP/2, timeouts, drain.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use engine::access::ClientAddress;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;
use web::NetworkPermit;

use crate::GrpcApi;
use crate::call_window::Backlog;
use crate::server::ConnectionService;

/// The pause after a failed accept, usually for lack of file descriptors.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);

/// The timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of the HTTP/2 preface, and its length (RFC 9113, section 3.4).
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
const PREFACE_BYTES: usize = 24;

/// The idle time before a ping, and the timeout of its acknowledgement.
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_TIMEOUT: Duration = Duration::from_secs(20);

/// HTTP/2 flow-control windows of one call and of a connection, in bytes.
const CALL_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// The send buffer of one call, in bytes.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// How long a connection is left unread at most while its calls wait.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The most metadata of a call, in bytes.
const METADATA_BYTES_MAX: u32 = 16 * 1024;

/// Accepts connections until `stopping` is true. Then closes the socket, drains the calls in progress,
/// and returns once all connections are closed.
pub async fn serve(
    listener: TcpListener,
    api: GrpcApi,
    tls: Option<TlsAcceptor>,
    mut stopping: watch::Receiver<bool>,
) {
    let limits = api.limits();
    let permits = Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS)));
    let of_network = metrics::counter!("faregate_refused_total", "reason" => "network_connections");
    let (alive, mut all_closed) = mpsc::channel::<()>(1);
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(limits.connection_calls_max)
        .initial_stream_window_size(CALL_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(METADATA_BYTES_MAX)
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_TIMEOUT);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(error = %error, "failed to accept a gRPC connection; accepting continues after a pause");
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                continue;
            }
        };
        let Some(network) = api.networks().acquire(ClientAddress(peer.ip())) else {
            of_network.increment(1);
            continue;
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            tracing::debug!("gRPC connection closed: too many connections");
            continue;
        };
        let connection = Connection {
            http: http.clone(),
            service: ConnectionService::new(api.clone(), peer.ip()),
            stopping: stopping.clone(),
            _permits: (permit, network),
            _alive: alive.clone(),
        };
        tokio::spawn(connection.run(stream, tls.clone(), peer));
    }
    drop(listener);
    api.end_watches().await;
    drop(alive);
    // Nothing is sent: `recv` returns when the last connection has dropped its sender.
    all_closed.recv().await;
}

struct Connection {
    http: http2::Builder<TokioExecutor>,
    service: ConnectionService,
    stopping: watch::Receiver<bool>,
    _permits: (OwnedSemaphorePermit, NetworkPermit),
    _alive: mpsc::Sender<()>,
}

impl Connection {
    async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>, peer: SocketAddr) {
        // Responses are small, so Nagle's algorithm only delays them. A socket that refuses the option
        // fails on its next use.
        drop(stream.set_nodelay(true));
        let Some(tls) = tls else { return self.serve(stream).await };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::debug!(%peer, error = %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
        }
    }

    async fn serve<S>(mut self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let read_bytes = Arc::new(AtomicUsize::new(0));
        let backlog = self.service.backlog();
        let stream = Paced { stream, read_bytes: Arc::clone(&read_bytes), backlog, pause: None };
        let serving = self.http.serve_connection(TokioIo::new(stream), self.service);
        let mut serving = std::pin::pin!(serving);
        let mut preface_timeout = std::pin::pin!(tokio::time::sleep(PREFACE_TIMEOUT));
        let mut has_begun = false;
        let ended = loop {
            tokio::select! {
                ended = serving.as_mut() => break Some(ended),
                _ = self.stopping.wait_for(|stopping| *stopping) => break None,
                () = preface_timeout.as_mut(), if !has_begun => {
                    if read_bytes.load(Ordering::Relaxed) < PREFACE_BYTES {
                        tracing::debug!("gRPC connection closed: no HTTP/2 preface in time");
                        return;
                    }
                    has_begun = true;
                }
            }
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = %error, "gRPC connection failed");
        }
    }
}

/// A stream that counts the bytes read from it, and is not read from while too many of its calls wait.
struct Paced<S> {
    stream: S,
    read_bytes: Arc<AtomicUsize>,
    backlog: Arc<Backlog>,
    /// The end of the pause, while there is one.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    /// Ready once the stream may be read from: cancellations and pings are read in time, however long calls
    /// wait.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.backlog.poll_room(cx).is_pending() {
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(PAUSE_MAX)));
            ready!(pause.as_mut().poll(cx));
        }
        self.pause = None;
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_room(cx));
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.read_bytes.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::call_window::CallWindow;

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_calls_wait_is_read_from_once_a_second() {
        let (window, backlog) = (Arc::new(CallWindow::new(1)), Arc::<Backlog>::default());
        for _ in 0..1_000 {
            let (window, backlog) = (Arc::clone(&window), Arc::clone(&backlog));
            tokio::spawn(async move { window.run(&backlog, pending::<()>()).await });
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let (mut client, stream) = tokio::io::duplex(8);
        let mut paced = Paced { stream, read_bytes: Arc::default(), backlog, pause: None };
        client.write_all(b"ping").await.expect("it is connected");
        let sent = tokio::time::Instant::now();
        assert_eq!(paced.read_u8().await.expect("it is connected"), b'p');
        assert_eq!(sent.elapsed().as_secs(), 1);
    }
}
