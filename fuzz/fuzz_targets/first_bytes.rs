//! The first bytes of a connection, by which a worker keeps it or passes it on: the decision is the one of
//! a slow reading of the request line, however it arrives, and not a byte is taken from the connection.
#![no_main]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::time::Duration;

use http_server::{Sorter, is_flag_path};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

/// Its time passes whenever nothing else happens.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().expect("a runtime can be built")
});

const PREFIX: &str = "/ff";
const PEEKED_BYTES: usize = 1_024;

/// A pair of connected sockets. They look like TCP, and leave no port behind.
fn pair() -> [TcpStream; 2] {
    let (one, other) = UnixStream::pair().expect("sockets");
    [one, other].map(|it| {
        it.set_nonblocking(true).expect("a socket");
        TcpStream::from_std(OwnedFd::from(it).into()).expect("a socket")
    })
}

/// Whether the connection is kept; `None`: half a request line is all that comes.
fn naive(bytes: &[u8]) -> Option<bool> {
    let peeked = &bytes[..bytes.len().min(PEEKED_BYTES)];
    let target = peeked.splitn(2, |byte| *byte == b' ').nth(1);
    let end = target.and_then(|it| it.iter().position(|byte| b" ?\r".contains(byte)));
    let (Some(target), Some(end)) = (target, end) else {
        return (peeked.len() == PEEKED_BYTES).then_some(false);
    };
    let path: Vec<&[u8]> = target[..end].split(|byte| *byte == b'/').collect();
    Some(match path[..] {
        [b"", b"ff", b"streaming" | b"ofrep", ..] => true,
        [b"", b"ff", b"api", b"public", ..] => true,
        _ => false,
    })
}

async fn check(first: &[u8], second: &[u8]) {
    let whole = [first, second].concat();
    let [mut client, server] = pair();
    let (others, mut passed_on) = mpsc::channel(1);
    let sorter = Sorter::new(PREFIX.to_owned(), others);
    let send = async {
        client.write_all(first).await.expect("there is room");
        tokio::time::sleep(Duration::from_millis(12)).await;
        // The other end may have been passed on and dropped.
        client.write_all(second).await.expect("there is room");
        tokio::time::sleep(Duration::from_secs(5)).await;
        client.shutdown().await.expect("it is open");
    };
    let (kept, ()) = tokio::join!(sorter.sort(server, Duration::from_secs(3_600)), send);
    let passed_on = passed_on.try_recv().ok();
    // What has come first may decide by itself.
    let expected = if first.is_empty() { naive(&whole) } else { naive(first).or(naive(&whole)) };
    let found = match (&kept, &passed_on) {
        (Some(_), None) => Some(true),
        (None, Some(_)) => Some(false),
        (None, None) => None,
        (Some(_), Some(_)) => panic!("one connection is two"),
    };
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(&whole));
    if let Some(mut connection) = kept.or(passed_on) {
        let mut read = vec![];
        connection.read_to_end(&mut read).await.expect("it can be read");
        assert_eq!(read, whole);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((at, bytes)) = data.split_first() else {
        return;
    };
    let _ = is_flag_path(PREFIX, bytes);
    let (first, second) = bytes.split_at(usize::from(*at).min(bytes.len()));
    RUNTIME.block_on(check(first, second));
});
