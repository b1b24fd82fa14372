//! A connection that gives its reader no more than the line that was asked for.
//!
//! What a server sends behind its answer to STARTTLS came in the clear, perhaps from somebody in
//! between. The SMTP client reads through a buffer of its own and would take what is left there as
//! the answer to its first encrypted command. Behind this connection nothing is left there: the
//! rest goes to TLS, which refuses it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

/// What a server may say on one connection, in bytes.
const REPLIES_BYTES_MAX: usize = 1024 * 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Lines {
    stream: BufReader<TcpStream>,
    read: usize,
}

impl Lines {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream: BufReader::new(stream), read: 0 }
    }
}

impl AsyncTokioStream for Lines {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().peer_addr()
    }
}

impl AsyncRead for Lines {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, read } = &mut *self;
        let mut stream = Pin::new(stream);
        let waiting = ready!(stream.as_mut().poll_fill_buf(cx))?;
        let line =
            waiting.iter().position(|byte| *byte == b'\n').map_or(waiting.len(), |at| at + 1);
        let given = line.min(buf.remaining());
        if *read + given > REPLIES_BYTES_MAX {
            return Poll::Ready(Err(io::Error::other("the server says more than is listened to")));
        }
        buf.put_slice(&waiting[..given]);
        *read += given;
        stream.consume(given);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Lines {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.stream.get_mut()).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(cx)
    }
}
