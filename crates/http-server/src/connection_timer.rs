//! A connection's timer: its phase (idle, reading headers, reading a body, busy) and since when, so that
//! a client which sends half a request and stops is dropped, and an idle one is kept for a while.
//!
//! hyper has one timeout for both, and clients that pool connections would find theirs closed after
//! the seconds that headers may take.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The origin of the milliseconds below.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How long a connection may be in each phase.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Between two requests.
    pub idle: Duration,
    /// From a request's first byte to the end of its headers.
    pub headers: Duration,
    /// From the first read of a body to its end.
    pub body: Duration,
}

/// A connection's phase, and since when.
#[derive(Debug)]
pub struct ConnectionTimer {
    /// Milliseconds since [`START`], and the phase in the two lowest bits.
    phase_since: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle = 0,
    Headers = 1,
    Busy = 2,
    Body = 3,
}

impl ConnectionTimer {
    /// The timer of a new connection.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let timer = Self { phase_since: AtomicU64::new(0) };
        // A client that connects is about to send a request: silence counts as an unfinished one.
        timer.set(Phase::Headers);
        Arc::new(timer)
    }

    /// A request's headers are complete.
    pub fn request_began(&self) {
        self.set(Phase::Busy);
    }

    /// The API starts to read the body; only the first call counts.
    pub fn body_began(&self) {
        if self.phase() != Phase::Body {
            self.set(Phase::Body);
        }
    }

    /// The body was read, or is not read any further.
    pub fn body_ended(&self) {
        self.set(Phase::Busy);
    }

    /// Whether reading the body has taken this long. A reader in the connection's own task is polled when
    /// that happens.
    #[must_use]
    pub fn is_body_late(&self, timeout: Duration) -> bool {
        let phase_since = self.phase_since.load(Ordering::Relaxed);
        phase(phase_since) == Phase::Body && age(phase_since) >= timeout
    }

    /// The response is being written.
    pub fn request_ended(&self) {
        self.set(Phase::Idle);
    }

    fn was_read(&self) {
        if self.phase() == Phase::Idle {
            self.set(Phase::Headers);
        }
    }

    /// A response is being written: its client is not idle as long as it reads some of it.
    fn was_written(&self, polled: &Poll<io::Result<usize>>) {
        if matches!(polled, Poll::Ready(Ok(1..))) && self.phase() == Phase::Idle {
            self.set(Phase::Idle);
        }
    }

    /// When to check the connection again; `None`: a timeout has passed.
    #[must_use]
    pub fn next_check(&self, timeouts: Timeouts) -> Option<Duration> {
        let phase_since = self.phase_since.load(Ordering::Relaxed);
        let left = |allowed: Duration| {
            allowed.checked_sub(age(phase_since)).filter(|left| !left.is_zero())
        };
        // The next phase can begin at any time, and these are the ones that end.
        let soon = timeouts.headers.min(timeouts.body);
        match phase(phase_since) {
            Phase::Busy => Some(soon),
            Phase::Body => Some(left(timeouts.body).map_or(soon, |left| left.min(soon))),
            Phase::Headers => left(timeouts.headers).map(|left| left.min(soon)),
            Phase::Idle => left(timeouts.idle).map(|left| left.min(soon)),
        }
    }

    fn phase(&self) -> Phase {
        phase(self.phase_since.load(Ordering::Relaxed))
    }

    fn set(&self, phase: Phase) {
        self.phase_since.store(now_ms() << 2 | phase as u64, Ordering::Relaxed);
    }
}

const fn phase(phase_since: u64) -> Phase {
    match phase_since & 3 {
        0 => Phase::Idle,
        1 => Phase::Headers,
        2 => Phase::Busy,
        _ => Phase::Body,
    }
}

/// How long the phase has lasted.
fn age(phase_since: u64) -> Duration {
    Duration::from_millis(now_ms().saturating_sub(phase_since >> 2))
}

fn now_ms() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX >> 2)
}

/// A stream that reports its reads and writes to a timer.
pub struct TimedStream<S> {
    stream: S,
    timer: Arc<ConnectionTimer>,
}

impl<S> TimedStream<S> {
    /// Reports to this timer.
    pub const fn new(stream: S, timer: Arc<ConnectionTimer>) -> Self {
        Self { stream, timer }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.timer.was_read();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timer.was_written(&polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.timer.was_written(&polled);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_timeout() {
        let long = Duration::from_secs(1_000);
        let none = Duration::ZERO;
        let timer = ConnectionTimer::new();
        let check = |idle, headers, body| timer.next_check(Timeouts { idle, headers, body });
        assert!(check(long, none, long).is_none());
        timer.request_began();
        assert!(check(none, none, none).is_some());
        timer.was_read();
        assert_eq!(timer.phase(), Phase::Busy, "a body is read while the request is handled");
        assert!(!timer.is_body_late(none), "the API does not read it");
        timer.body_began();
        assert!(timer.is_body_late(none) && !timer.is_body_late(long));
        assert!(check(none, none, none).is_some(), "a late body ends with an answer");
        timer.body_ended();
        assert!(!timer.is_body_late(none));
        assert_eq!(check(long, long, none), Some(none), "a body may begin at any time");
        timer.request_ended();
        assert!(check(none, long, long).is_none());
        assert!(check(long, none, long).is_some());
        timer.was_read();
        assert_eq!(timer.phase(), Phase::Headers);
        timer.was_read();
        assert_eq!(timer.phase(), Phase::Headers);
    }

    #[test]
    fn a_client_that_does_not_read_its_response_is_idle() {
        let timer = ConnectionTimer::new();
        let later = |polled: Poll<io::Result<usize>>| {
            timer.phase_since.store(Phase::Idle as u64, Ordering::Relaxed);
            timer.was_written(&polled);
            timer.phase_since.load(Ordering::Relaxed) >> 2
        };
        // Whatever the clock says, it has moved on from the start of time.
        while now_ms() == 0 {}
        assert_eq!(later(Poll::Pending), 0);
        assert_eq!(later(Poll::Ready(Ok(0))), 0);
        assert!(later(Poll::Ready(Ok(1))) > 0);
    }
}
