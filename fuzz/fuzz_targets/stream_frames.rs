//! The stream of feature flags from its first byte: the query with the token, and then frames and messages
//! of a client. The answers do not depend on how the bytes are split, every frame of the server is well
//! formed, at most one close frame ends them, and a message is never answered by more than it may be.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use faregate_fuzz::{CLIENT_SECRET, RELAY_SECRET, SERVER_SECRET, flag_cache, run, write_in_pieces};
use feature_flags::frame::Head;
use feature_flags::time::now_ms;
use flags::{Settings, Token};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    let streaming = 0;
    let rate_limits = feature_flags::RateLimits { streaming, ..Default::default() };
    let secret_timeout = Duration::ZERO;
    flags::router(flag_cache(), Settings { rate_limits, secret_timeout, ..Settings::default() })
});

/// What is in transit at most, in bytes.
const PIPE_BYTES: usize = 64 * 1_024;
/// Answers of a stream at most, in bytes: an echo is as long as its message, a sync as the sample.
const ANSWER_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// A client closes its side when the server has had the time to answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// All that the server answers to these bytes, written in pieces of `step` bytes.
async fn converse(head: &str, bytes: &[u8], step: usize) -> Vec<u8> {
    let (client, server) = tokio::io::duplex(PIPE_BYTES);
    let service = TowerToHyperService::new(ROUTER.clone());
    let connection =
        http1::Builder::new().half_close(true).serve_connection(TokioIo::new(server), service);
    let serving = tokio::spawn(connection.with_upgrades());
    let (mut reading, mut writing) = tokio::io::split(client);
    let write = async {
        drop(writing.write_all(head.as_bytes()).await);
        write_in_pieces(&mut writing, bytes, step).await;
    };
    let mut answers = vec![];
    let read = async {
        let mut reading = (&mut reading).take(ANSWER_BYTES_MAX as u64);
        drop(reading.read_to_end(&mut answers).await);
    };
    let both = tokio::time::timeout(TIMEOUT, async { tokio::join!(write, read) });
    both.await.expect("a stream ends after its client");
    serving.abort();
    answers
}

/// The frames of the server: the first byte and the payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = vec![];
    while let [first, length, rest @ ..] = bytes {
        let (length, rest) = match length {
            126 => {
                let (length, rest) = rest.split_first_chunk::<2>().expect("a length");
                assert!(u16::from_be_bytes(*length) > 125);
                (usize::from(u16::from_be_bytes(*length)), rest)
            }
            127 => {
                let (length, rest) = rest.split_first_chunk::<8>().expect("a length");
                (usize::try_from(u64::from_be_bytes(*length)).expect("a length"), rest)
            }
            length => (usize::from(*length), rest),
        };
        assert!([0x81, 0x88, 0x8a].contains(first), "{first:x}");
        assert!(*first == 0x81 || length <= 125);
        let (payload, rest) = rest.split_at(length);
        assert!(*first != 0x81 || serde_json::from_slice::<serde_json::Value>(payload).is_ok());
        found.push((*first, payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "half a frame");
    found
}

fn check_heads(bytes: &[u8]) {
    let Ok(Some(head)) = Head::decode(bytes) else {
        return;
    };
    assert!((6..=14).contains(&head.bytes) && head.bytes <= bytes.len());
    assert!(!head.opcode.is_control() || head.is_final && head.length <= 125);
    for less in 0..head.bytes {
        assert_eq!(Head::decode(&bytes[..less]), Ok(None));
    }
    let payload = &bytes[head.bytes..];
    let mut twice = payload.to_vec();
    head.unmask(&mut twice);
    head.unmask(&mut twice);
    assert_eq!(twice, payload);
}

/// The path of a stream with a right secret, or with whatever the client sends.
fn target(how: u8, bytes: &[u8]) -> (String, &[u8]) {
    let token = |secret| Token::encode(secret, now_ms(), 17);
    match how % 4 {
        0 => (format!("type=server&version=2&token={}", token(SERVER_SECRET)), bytes),
        1 => (format!("type=client&token={}", token(CLIENT_SECRET)), bytes),
        2 => (format!("type=relay-proxy&token={RELAY_SECRET}"), bytes),
        _ => {
            let end = bytes.iter().position(|it| *it == b'\n').unwrap_or(bytes.len());
            let is_fit = |it: &u8| it.is_ascii_graphic() && *it != b'#';
            let query = bytes[..end].iter().copied().filter(is_fit).map(char::from).collect();
            (query, bytes.get(end + 1..).unwrap_or_default())
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [how, step, bytes @ ..] = data else {
        return;
    };
    check_heads(bytes);
    let (query, bytes) = target(*how, bytes);
    let head = format!(
        "GET /streaming?{query} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let step = usize::from(*step).max(1);
    let answers = [bytes.len().max(1), step].map(|step| run(converse(&head, bytes, step)));
    // A query that is none of a URI; hyper closes without an answer where the preface of HTTP/2 follows it.
    let is_refused = |it: &Vec<u8>| it.is_empty() || it.starts_with(b"HTTP/1.1 400 ");
    if how % 4 == 3 && answers.iter().all(is_refused) {
        return;
    }
    let [whole, pieces] = answers.map(|answer| {
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a response") + 4;
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
        frames(&answer[end..])
    });
    // Those of a relay proxy hold the time.
    let is_timed = how % 4 >= 2;
    assert!(is_timed && whole.len() == pieces.len() || whole == pieces);
    let closes = whole.iter().filter(|it| it.0 == 0x88).count();
    assert!(closes <= 1 && (closes == 0 || whole.last().is_some_and(|it| it.0 == 0x88)));
    // An answer at most for a frame, each of which has six bytes or more, and one close.
    assert!(whole.len() <= bytes.len() / 6 + 1);
});
