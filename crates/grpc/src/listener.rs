//! The connections: accepted, TLS, HTTP/2, watched over, drained.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::Door;
use crate::gate::Gate;

/// How long to wait after the system gave no connection (usually: no file descriptors are left).
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);

/// How long a client may take for its TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// How long a client may take to begin with HTTP/2, whose preface has so many bytes (RFC 9113, 3.4).
const PREFACE_WITHIN: Duration = Duration::from_secs(10);
const PREFACE_BYTES: usize = 24;

/// How long a connection may be silent before the client is asked whether it is still there, and how
/// long it may take to say so.
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// Bytes that a client may send before they are read: of one call, and of all calls of a connection.
const CALL_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// Bytes of answers that wait to be sent, for one call.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// A call's metadata, in bytes.
const METADATA_BYTES_MAX: u32 = 16 * 1024;

/// Accepts connections until `stopping` turns true; then closes the socket, lets every connection
/// finish the calls it is at, and returns once all are closed.
pub async fn serve(
    listener: TcpListener,
    door: Door,
    tls: Option<TlsAcceptor>,
    mut stopping: watch::Receiver<bool>,
) {
    let limits = door.limits();
    let places = Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS)));
    let (alive, mut all_closed) = mpsc::channel::<()>(1);
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(limits.connection_calls_max)
        .initial_stream_window_size(CALL_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(METADATA_BYTES_MAX)
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(error = %error, "cannot accept a gRPC connection");
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::debug!("a gRPC connection is closed: there are too many");
            continue;
        };
        let connection = Connection {
            http: http.clone(),
            gate: Gate::new(door.clone(), peer.ip()),
            stopping: stopping.clone(),
            _place: place,
            _alive: alive.clone(),
        };
        tokio::spawn(connection.run(stream, tls.clone(), peer));
    }
    drop(listener);
    door.close_health().await;
    drop(alive);
    // Nobody sends: this ends when the last connection has dropped its end.
    all_closed.recv().await;
}

struct Connection {
    http: http2::Builder<TokioExecutor>,
    gate: Gate,
    stopping: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
    _alive: mpsc::Sender<()>,
}

impl Connection {
    async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>, peer: SocketAddr) {
        // Answers are small: waiting for more to send only delays them. A socket that refuses the
        // option is about to fail anyway.
        drop(stream.set_nodelay(true));
        let Some(tls) = tls else { return self.serve(stream).await };
        match tokio::time::timeout(HANDSHAKE_WITHIN, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::debug!(%peer, error = %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
    }

    async fn serve<S>(mut self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let read_bytes = Arc::new(AtomicUsize::new(0));
        let stream = Counted { stream, read_bytes: Arc::clone(&read_bytes) };
        let serving = self.http.serve_connection(TokioIo::new(stream), self.gate);
        let mut serving = std::pin::pin!(serving);
        let mut hurry = std::pin::pin!(tokio::time::sleep(PREFACE_WITHIN));
        let mut has_begun = false;
        let ended = loop {
            tokio::select! {
                ended = serving.as_mut() => break Some(ended),
                _ = self.stopping.wait_for(|stopping| *stopping) => break None,
                () = hurry.as_mut(), if !has_begun => {
                    if read_bytes.load(Ordering::Relaxed) < PREFACE_BYTES {
                        tracing::debug!("a gRPC connection was silent for too long");
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
            tracing::debug!(error = %error, "a gRPC connection broke");
        }
    }
}

/// A stream that counts what is read from it.
struct Counted<S> {
    stream: S,
    read_bytes: Arc<AtomicUsize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.read_bytes.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
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
