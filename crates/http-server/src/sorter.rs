//! Decides which connections a worker keeps: it peeks at the first request without reading it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// A connection that was accepted elsewhere.
pub type AcceptedConnection = (TcpStream, IpAddr);

/// How much of a request is peeked at, in bytes: enough for method and path of any flags route.
const PEEKED_BYTES: usize = 1_024;

/// How long to wait for more of a request line of which a part has come.
const PEEK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// The longest pause; it doubles each time, so that many waiting connections cost little.
const PEEK_AGAIN_AFTER_MAX: Duration = Duration::from_millis(500);

/// Keeps connections for feature flags, and passes the others on.
pub struct Sorter {
    prefix: String,
    others: mpsc::Sender<TcpStream>,
}

impl Sorter {
    /// A sorter for the flags routes behind this prefix.
    pub const fn new(prefix: String, others: mpsc::Sender<TcpStream>) -> Self {
        Self { prefix, others }
    }

    /// The connection, if it is kept. One without a request in time is closed.
    pub async fn sort(&self, connection: TcpStream, within: Duration) -> Option<TcpStream> {
        let keeps = tokio::time::timeout(within, self.keeps(&connection)).await.ok()?;
        if keeps? {
            return Some(connection);
        }
        // Where the server takes no more, neither does its worker.
        drop(self.others.send(connection).await);
        None
    }

    async fn keeps(&self, connection: &TcpStream) -> Option<bool> {
        let mut space = [0; PEEKED_BYTES];
        let mut again_after = PEEK_AGAIN_AFTER;
        loop {
            let length = connection.peek(&mut space).await.ok().filter(|it| *it > 0)?;
            match path(&space[..length]) {
                Some(path) => return Some(is_flag_path(&self.prefix, path)),
                None if length == PEEKED_BYTES => return Some(false),
                None => {}
            }
            // Peeking returns the same bytes at once: readiness reports the end, but not more bytes.
            tokio::time::sleep(again_after).await;
            again_after = (again_after * 2).min(PEEK_AGAIN_AFTER_MAX);
            if connection.ready(Interest::READABLE).await.ok()?.is_read_closed() {
                return None;
            }
        }
    }
}

/// The path of a request, once all of it is there.
fn path(request: &[u8]) -> Option<&[u8]> {
    let from = request.iter().position(|it| *it == b' ')? + 1;
    let length = request[from..].iter().position(|it| matches!(it, b' ' | b'?' | b'\r'))?;
    Some(&request[from..from + length])
}

/// Whether a path is a route of feature flags, or below one.
pub fn is_flag_path(prefix: &str, path: &[u8]) -> bool {
    let Some(path) = path.strip_prefix(prefix.as_bytes()) else { return false };
    let below = |root: &str| {
        let rest = path.strip_prefix(root.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    ["/streaming", "/api/public", "/ofrep"].into_iter().any(below)
}

/// A connection that another process accepted.
pub fn accepted(connection: std::net::TcpStream) -> std::io::Result<AcceptedConnection> {
    let peer: SocketAddr = connection.peer_addr()?;
    connection.set_nonblocking(true)?;
    Ok((TcpStream::from_std(connection)?, peer.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn half_a_request_is_dropped_with_its_client() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (connection, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut client, b"GET /strea").await.unwrap();
        drop(client);
        let (others, mut handed) = mpsc::channel(1);
        let sorter = Sorter::new(String::new(), others);
        // It ends because the client has, not because the time has passed.
        assert!(sorter.sort(connection, Duration::MAX).await.is_none());
        drop(sorter);
        assert!(handed.recv().await.is_none());
    }

    #[test]
    fn paths() {
        let of = |request: &str| path(request.as_bytes()).map(|it| is_flag_path("/ff", it));
        assert_eq!(of("GET /ff/streaming?type=server"), Some(true));
        assert_eq!(of("GET /ff/streaming HTTP/1.1\r\n"), Some(true));
        assert_eq!(of("POST /ff/ofrep/v1/evaluate/flags HTTP/1.1"), Some(true));
        assert_eq!(of("GET /ff/api/public/sdk/server/latest-all "), Some(true));
        assert_eq!(of("GET /ff/streamings HTTP/1.1"), Some(false));
        assert_eq!(of("GET /streaming HTTP/1.1"), Some(false));
        assert_eq!(of("GET /1.0/kb/accounts HTTP/1.1"), Some(false));
        assert_eq!(of("GET /ff/strea"), None);
        assert_eq!(of("GE"), None);
        assert_eq!(of("\r\n\r\nGET"), None);
    }
}
