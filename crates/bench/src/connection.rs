//! One HTTP/1.1 keep-alive connection: a request out, a response in, within a deadline.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::response::{Response, ResponseError, parse};

/// Fits the usual response in one read, without growing.
const RECEIVE_BYTES: usize = 1024;
/// A connection that was idle for longer is checked before its next use: the server may have closed
/// it.
const UNCHECKED_IDLE_MAX: Duration = Duration::from_secs(1);

/// Why an exchange got no response.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The TCP connection failed.
    #[error("connect: {}", kind(.0))]
    Connect(io::Error),
    /// The request could not be sent.
    #[error("write: {}", kind(.0))]
    Write(io::Error),
    /// The response could not be read.
    #[error("read: {}", kind(.0))]
    Read(io::Error),
    /// The server closed the connection before its response was complete.
    #[error("closed by the server")]
    Closed,
    /// No response in time.
    #[error("timeout")]
    Timeout,
    /// The received bytes are not a response.
    #[error("{0}")]
    Response(#[from] ResponseError),
}

/// The kind alone, so that reports count failures of one kind together.
fn kind(error: &io::Error) -> String {
    error.kind().to_string()
}

/// A connection, with the bytes of its last response.
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    watchdog: Watchdog,
    idle_since: Instant,
}

impl Connection {
    /// Connects, within `timeout`.
    pub async fn open(address: SocketAddr, timeout: Duration) -> Result<Self, Failure> {
        let connecting = TcpStream::connect(address);
        let stream = match tokio::time::timeout(timeout, connecting).await {
            Ok(connected) => connected.map_err(Failure::Connect)?,
            Err(_) => return Err(Failure::Timeout),
        };
        stream.set_nodelay(true).map_err(Failure::Connect)?;
        Ok(Self {
            stream,
            received: Vec::with_capacity(RECEIVE_BYTES),
            watchdog: Watchdog::new(timeout),
            idle_since: Instant::now(),
        })
    }

    /// An idle connection, or a new one where there is none or the server has closed it.
    pub async fn reuse(
        idle: Option<Self>,
        address: SocketAddr,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        match idle.filter(|it| !it.is_stale()) {
            Some(idle) => Ok(idle),
            None => Self::open(address, timeout).await,
        }
    }

    /// Sends a request and reads its response. After a failure the connection cannot be used again.
    pub async fn exchange(
        &mut self,
        request: &[u8],
        deadline: Instant,
    ) -> Result<Response, Failure> {
        self.write(request, deadline).await?;
        self.received.clear();
        loop {
            if self.read(deadline).await? == 0 {
                return Err(Failure::Closed);
            }
            if let Some(response) = parse(&self.received)? {
                self.idle_since = Instant::now();
                return Ok(response);
            }
        }
    }

    /// Whether the server closed the connection while it was idle.
    pub fn is_stale(&self) -> bool {
        if self.idle_since.elapsed() < UNCHECKED_IDLE_MAX {
            return false;
        }
        match self.stream.try_read(&mut [0; 1]) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// The bytes of the last response; its ranges refer to them.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    async fn write(&mut self, request: &[u8], deadline: Instant) -> Result<(), Failure> {
        let mut write = pin!(self.stream.write_all(request));
        let watchdog = &mut self.watchdog;
        poll_fn(|context| match write.as_mut().poll(context) {
            Poll::Ready(written) => Poll::Ready(written.map_err(Failure::Write)),
            Poll::Pending => watchdog.poll(context, deadline).map(|()| Err(Failure::Timeout)),
        })
        .await
    }

    async fn read(&mut self, deadline: Instant) -> Result<usize, Failure> {
        let mut read = pin!(self.stream.read_buf(&mut self.received));
        let watchdog = &mut self.watchdog;
        poll_fn(|context| match read.as_mut().poll(context) {
            Poll::Ready(count) => Poll::Ready(count.map_err(Failure::Read)),
            Poll::Pending => watchdog.poll(context, deadline).map(|()| Err(Failure::Timeout)),
        })
        .await
    }
}

/// One timer for all exchanges: when it fires before the current deadline, it is set to that. Setting
/// a timer for each exchange would cost more than parsing the response.
struct Watchdog {
    sleep: Pin<Box<Sleep>>,
}

impl Watchdog {
    fn new(first: Duration) -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(first)) }
    }

    fn poll(&mut self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        if self.sleep.deadline() > deadline.into() {
            self.sleep.as_mut().reset(deadline.into());
        }
        while self.sleep.as_mut().poll(context).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(deadline.into());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// A server that reads once and then writes each of `parts`; with `hold` it keeps the connection
    /// open until the client closes it.
    async fn exchange_with(
        parts: &'static [&'static str],
        hold: bool,
        timeout: Duration,
    ) -> Result<(u16, String), Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).await.unwrap();
            assert_eq!(&request[..count], b"GET / HTTP/1.1\r\n\r\n");
            for part in parts {
                stream.write_all(part.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
            if hold {
                // Readable, with nothing to read, once the client closes the connection.
                stream.readable().await.unwrap();
            }
        });
        let mut connection = Connection::open(address, TIMEOUT).await?;
        let deadline = Instant::now() + timeout;
        let answer =
            connection.exchange(b"GET / HTTP/1.1\r\n\r\n", deadline).await.map(|response| {
                let body = response.body(connection.received()).into_owned();
                (response.status, String::from_utf8(body).unwrap())
            });
        drop(connection);
        server.await.unwrap();
        answer
    }

    #[tokio::test]
    async fn response_in_pieces_is_joined() {
        let parts: &[&str] = &["HTTP/1.1 200 OK\r\nContent-Le", "ngth: 4\r\n\r\nab", "cd"];
        assert_eq!(exchange_with(parts, true, TIMEOUT).await.unwrap(), (200, "abcd".to_owned()));
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_while_idle_is_opened_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut idle = Connection::open(address, TIMEOUT).await.unwrap();
        let (first, _) = listener.accept().await.unwrap();
        idle.idle_since = Instant::now().checked_sub(UNCHECKED_IDLE_MAX).unwrap();
        let port = idle.stream.local_addr().unwrap();
        let mut idle = Connection::reuse(Some(idle), address, TIMEOUT).await.unwrap();
        assert_eq!(idle.stream.local_addr().unwrap(), port);
        drop(first);
        idle.stream.readable().await.unwrap();
        idle.idle_since = Instant::now().checked_sub(UNCHECKED_IDLE_MAX).unwrap();
        let opened = Connection::reuse(Some(idle), address, TIMEOUT).await.unwrap();
        assert_ne!(opened.stream.local_addr().unwrap(), port);
    }

    #[tokio::test]
    async fn closed_connection_is_a_failure() {
        let failure = exchange_with(&["HTTP/1.1 200 OK\r\n"], false, TIMEOUT).await.unwrap_err();
        assert_eq!(failure.to_string(), "closed by the server");
    }

    #[tokio::test]
    async fn missing_response_times_out() {
        let failure = exchange_with(&[], true, Duration::from_millis(30)).await.unwrap_err();
        assert_eq!(failure.to_string(), "timeout");
    }

    #[tokio::test]
    async fn malformed_response_is_a_failure() {
        let failure = exchange_with(&["SSH-2.0-x\r\n"], true, TIMEOUT).await.unwrap_err();
        assert_eq!(failure.to_string(), "bad status line");
    }

    #[tokio::test]
    async fn refused_connection_is_a_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let failure = Connection::open(address, TIMEOUT).await.map(drop).unwrap_err();
        assert_eq!(failure.to_string(), "connect: connection refused");
    }
}
