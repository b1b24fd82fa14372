//! A connection whose reads never go beyond the end of a line.
//!
//! It prevents STARTTLS injection. An attacker can append unencrypted text to the server's response to
//! STARTTLS. The SMTP client has a read buffer of its own, and would take text that is left there for
//! the response to its first encrypted command. With this connection, the appended text stays out of
//! that buffer and goes to TLS, which refuses it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

/// The maximum length of all responses on a connection.
const RESPONSES_BYTES_MAX: usize = 1024 * 1024;

/// A TCP connection that is read line by line.
#[derive(Debug)]
pub(crate) struct LineStream {
    stream: BufReader<TcpStream>,
    read: usize,
}

impl LineStream {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream: BufReader::new(stream), read: 0 }
    }
}

impl AsyncTokioStream for LineStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().peer_addr()
    }
}

impl AsyncRead for LineStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, read } = &mut *self;
        let mut stream = Pin::new(stream);
        let available = ready!(stream.as_mut().poll_fill_buf(cx))?;
        let line =
            available.iter().position(|byte| *byte == b'\n').map_or(available.len(), |at| at + 1);
        let length = line.min(buf.remaining());
        if *read + length > RESPONSES_BYTES_MAX {
            return Poll::Ready(Err(io::Error::other("the responses of the server are too long")));
        }
        buf.put_slice(&available[..length]);
        *read += length;
        stream.consume(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LineStream {
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
