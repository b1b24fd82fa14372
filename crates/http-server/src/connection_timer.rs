//! A connection's timer: its phase (idle, reading headers, reading a body, busy) and since when, so that
//! a client which sends half a request and stops is dropped, and an idle one is kept for a while.
//!
//! hyper has one timeout for both, and clients that pool connections would find theirs closed after
//! the seconds that headers may take.
//!
//! It also measures how fast a client reads: an answer that the client takes too slowly keeps memory from
//! others.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The origin of the milliseconds below.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How long a client may read too slowly, all together in one answer: the rate counts from then on.
const SLOW_WITHIN: Duration = Duration::from_secs(10);

/// How long a connection may be in each phase.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Between two requests.
    pub idle: Duration,
    /// From a request's first byte to the end of its headers.
    pub headers: Duration,
    /// From the first read of a body to its end.
    pub body: Duration,
    /// How many bytes of an answer a client has to read in a second while the server waits for it; 0: any
    /// number.
    pub answer_bytes_per_second_min: u64,
}

/// A connection's phase, and since when.
#[derive(Debug)]
pub struct ConnectionTimer {
    /// Milliseconds since [`START`], and the phase in the two lowest bits.
    phase_since: AtomicU64,
    /// The answer that is being written: its bytes so far.
    written_bytes: AtomicU64,
    /// For how many milliseconds it has waited for its client all together, until it was taken from last.
    waited_ms: AtomicU64,
    /// Since when it waits now, in milliseconds since [`START`]; 0: it does not.
    waits_since_ms: AtomicU64,
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
        let timer = Self {
            phase_since: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            waited_ms: AtomicU64::new(0),
            waits_since_ms: AtomicU64::new(0),
        };
        // A client that connects is about to send a request: silence counts as an unfinished one.
        timer.set(Phase::Headers);
        Arc::new(timer)
    }

    /// A request's headers are complete.
    pub fn request_began(&self) {
        self.set(Phase::Busy);
        self.written_bytes.store(0, Ordering::Relaxed);
        self.waited_ms.store(0, Ordering::Relaxed);
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
        match polled {
            Poll::Ready(Ok(written @ 1..)) => {
                let written = u64::try_from(*written).unwrap_or(u64::MAX);
                self.written_bytes.fetch_add(written, Ordering::Relaxed);
                if self.waits_since_ms.load(Ordering::Relaxed) > 0 {
                    self.waited_ms.store(self.waited_ms(now_ms()), Ordering::Relaxed);
                    self.waits_since_ms.store(0, Ordering::Relaxed);
                }
                if self.phase() == Phase::Idle {
                    self.set(Phase::Idle);
                }
            }
            Poll::Pending => {
                if self.waits_since_ms.load(Ordering::Relaxed) == 0 {
                    self.waits_since_ms.store(now_ms().max(1), Ordering::Relaxed);
                }
            }
            Poll::Ready(Ok(0) | Err(_)) => {}
        }
    }

    /// For how many milliseconds the answer has waited for its client by now.
    fn waited_ms(&self, now_ms: u64) -> u64 {
        let waits = match self.waits_since_ms.load(Ordering::Relaxed) {
            0 => 0,
            since_ms => now_ms.saturating_sub(since_ms),
        };
        self.waited_ms.load(Ordering::Relaxed) + waits
    }

    /// Whether the client has read fewer bytes a second than it has to, for longer than it may. Only the time
    /// counts in which the server had more for it.
    #[must_use]
    pub fn is_read_too_slowly(&self, bytes_per_second_min: u64) -> bool {
        self.is_too_slow(bytes_per_second_min, now_ms())
    }

    fn is_too_slow(&self, bytes_per_second_min: u64, now_ms: u64) -> bool {
        let (waited_ms, within_ms) = (self.waited_ms(now_ms), SLOW_WITHIN.as_millis());
        let written_bytes = self.written_bytes.load(Ordering::Relaxed);
        u128::from(waited_ms) >= within_ms
            && written_bytes.saturating_mul(1_000) < waited_ms.saturating_mul(bytes_per_second_min)
    }

    /// When to check the connection again; `None`: a timeout has passed.
    #[must_use]
    pub fn next_check(&self, timeouts: Timeouts) -> Option<Duration> {
        if self.is_read_too_slowly(timeouts.answer_bytes_per_second_min) {
            return None;
        }
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
        let check = |idle, headers, body| {
            timer.next_check(Timeouts { idle, headers, body, answer_bytes_per_second_min: 1 })
        };
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

    #[test]
    fn a_client_that_reads_a_little_at_a_time_is_too_slow() {
        const RATE: u64 = 1_000;
        let timer = ConnectionTimer::new();
        // Whatever the clock says, it has moved on from the start of time.
        while now_ms() == 0 {}
        let waits = |ms: u64| {
            timer.was_written(&Poll::Pending);
            timer.waits_since_ms.store(now_ms().saturating_sub(ms).max(1), Ordering::Relaxed);
        };
        let reads = |bytes| timer.was_written(&Poll::Ready(Ok(bytes)));
        timer.waited_ms.store(9_000, Ordering::Relaxed);
        assert!(!timer.is_read_too_slowly(RATE), "it has ten seconds");
        timer.waited_ms.store(20_000, Ordering::Relaxed);
        reads(19_000);
        assert!(timer.is_read_too_slowly(RATE));
        reads(1_000);
        assert!(!timer.is_too_slow(RATE, now_ms()), "20,000 bytes in 20 s");
        waits(0);
        assert!(timer.is_too_slow(RATE, now_ms() + 1_000), "it waits again");
        assert!(!timer.is_too_slow(0, now_ms() + 1_000), "any rate is allowed");
        reads(1_000_000);
        assert!(!timer.is_too_slow(RATE, now_ms() + 1_000_000), "nothing waits for it");
        timer.request_began();
        assert_eq!(timer.waited_ms(now_ms()), 0, "each answer counts by itself");
    }
}
