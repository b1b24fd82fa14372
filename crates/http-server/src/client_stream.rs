//! A client's socket, read and written by its connection, and watched for the client's end by the
//! requests that nobody needs without a client.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use engine::client::GONE_AFTER;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A socket. Clones share it; all of them belong to one task.
#[derive(Clone)]
pub struct ClientStream(Arc<Mutex<TcpStream>>);

impl ClientStream {
    /// Shares a socket.
    #[must_use]
    pub fn new(socket: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(socket)))
    }

    /// Ready once the client has closed its side of the connection, a moment later. Never where another
    /// request of it is on its way, which is read before the end.
    pub async fn gone(self) {
        let is_closed = poll_fn(move |cx| {
            let mut byte = [0];
            let peeked = self.socket().poll_peek(cx, &mut ReadBuf::new(&mut byte));
            peeked.map(|peeked| !matches!(peeked, Ok(1..)))
        });
        if !is_closed.await {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(GONE_AFTER).await;
    }

    /// Whether the client has closed its side of the connection by now. Takes nothing from the socket.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&*self.socket(), &mut [0; 1], flags) {
            Ok((_, received)) => received == 0,
            Err(error) => error != Errno::WOULDBLOCK && error != Errno::INTR,
        }
    }

    fn socket(&self) -> MutexGuard<'_, TcpStream> {
        // A task does one thing at a time: nobody waits here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.socket()).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.socket()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.socket()).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.socket()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.socket()).poll_shutdown(cx)
    }
}
