//! A connection's pulse: whether it waits, sends headers or is worked on, and since when; so that a
//! client which sends half a request and falls silent is dropped, and an idle one is kept for a while.
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

/// What times are counted from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How long a connection may be in each phase.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Between two requests.
    pub idle: Duration,
    /// From a request's first byte to the end of its headers.
    pub headers: Duration,
    /// From when somebody asks for a body to its end.
    pub body: Duration,
}

/// A connection's phase, and since when.
#[derive(Debug)]
pub struct Pulse {
    /// Milliseconds since [`START`], and the phase in the two lowest bits.
    beat: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle = 0,
    Headers = 1,
    Busy = 2,
    Body = 3,
}

impl Pulse {
    /// The pulse of a connection that has just been opened.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let pulse = Self { beat: AtomicU64::new(0) };
        // Who connects has something to say: silence counts as half a request.
        pulse.set(Phase::Headers);
        Arc::new(pulse)
    }

    /// A request's headers are complete.
    pub fn request_began(&self) {
        self.set(Phase::Busy);
    }

    /// Somebody waits for a body; only the first time counts.
    pub fn body_began(&self) {
        if self.phase() != Phase::Body {
            self.set(Phase::Body);
        }
    }

    /// The body is there, or not wanted any more.
    pub fn body_ended(&self) {
        self.set(Phase::Busy);
    }

    /// Whether a body has been waited for so long. Whoever waits in the connection's own task is
    /// polled when that comes to be.
    #[must_use]
    pub fn body_is_late(&self, timeout: Duration) -> bool {
        let beat = self.beat.load(Ordering::Relaxed);
        phase(beat) == Phase::Body && age(beat) >= timeout
    }

    /// The answer is being written.
    pub fn request_ended(&self) {
        self.set(Phase::Idle);
    }

    fn was_read(&self) {
        if self.phase() == Phase::Idle {
            self.set(Phase::Headers);
        }
    }

    /// An answer is on its way: its client is not idle, as long as it takes some of it.
    fn was_written(&self, polled: &Poll<io::Result<usize>>) {
        if matches!(polled, Poll::Ready(Ok(1..))) && self.phase() == Phase::Idle {
            self.set(Phase::Idle);
        }
    }

    /// How long until the connection should be looked at again; `None`: it has used up its patience.
    #[must_use]
    pub fn look_again_in(&self, patience: Patience) -> Option<Duration> {
        let beat = self.beat.load(Ordering::Relaxed);
        let left =
            |allowed: Duration| allowed.checked_sub(age(beat)).filter(|left| !left.is_zero());
        // The next phase can begin at any time, and these are the ones that end.
        let soon = patience.headers.min(patience.body);
        match phase(beat) {
            Phase::Busy => Some(soon),
            Phase::Body => Some(left(patience.body).map_or(soon, |left| left.min(soon))),
            Phase::Headers => left(patience.headers).map(|left| left.min(soon)),
            Phase::Idle => left(patience.idle).map(|left| left.min(soon)),
        }
    }

    fn phase(&self) -> Phase {
        phase(self.beat.load(Ordering::Relaxed))
    }

    fn set(&self, phase: Phase) {
        self.beat.store(now_ms() << 2 | phase as u64, Ordering::Relaxed);
    }
}

const fn phase(beat: u64) -> Phase {
    match beat & 3 {
        0 => Phase::Idle,
        1 => Phase::Headers,
        2 => Phase::Busy,
        _ => Phase::Body,
    }
}

/// How long the phase has lasted.
fn age(beat: u64) -> Duration {
    Duration::from_millis(now_ms().saturating_sub(beat >> 2))
}

fn now_ms() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX >> 2)
}

/// A connection whose reads and writes are felt.
pub struct Felt<S> {
    stream: S,
    pulse: Arc<Pulse>,
}

impl<S> Felt<S> {
    /// Feels the pulse of this stream.
    pub const fn new(stream: S, pulse: Arc<Pulse>) -> Self {
        Self { stream, pulse }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Felt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.pulse.was_read();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Felt<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.pulse.was_written(&polled);
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
        self.pulse.was_written(&polled);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_patience_for_its_phase() {
        let long = Duration::from_secs(1_000);
        let none = Duration::ZERO;
        let pulse = Pulse::new();
        let look = |idle, headers, body| pulse.look_again_in(Patience { idle, headers, body });
        assert!(look(long, none, long).is_none());
        pulse.request_began();
        assert!(look(none, none, none).is_some());
        pulse.was_read();
        assert_eq!(pulse.phase(), Phase::Busy, "a body is read while the request is worked on");
        assert!(!pulse.body_is_late(none), "nobody waits for it");
        pulse.body_began();
        assert!(pulse.body_is_late(none) && !pulse.body_is_late(long));
        assert!(look(none, none, none).is_some(), "a late body ends with an answer");
        pulse.body_ended();
        assert!(!pulse.body_is_late(none));
        assert_eq!(look(long, long, none), Some(none), "a body may begin at any time");
        pulse.request_ended();
        assert!(look(none, long, long).is_none());
        assert!(look(long, none, long).is_some());
        pulse.was_read();
        assert_eq!(pulse.phase(), Phase::Headers);
        pulse.was_read();
        assert_eq!(pulse.phase(), Phase::Headers);
    }

    #[test]
    fn a_client_that_takes_nothing_of_its_answer_is_idle() {
        let pulse = Pulse::new();
        let later = |polled: Poll<io::Result<usize>>| {
            pulse.beat.store(Phase::Idle as u64, Ordering::Relaxed);
            pulse.was_written(&polled);
            pulse.beat.load(Ordering::Relaxed) >> 2
        };
        // Whatever the clock says, it has moved on from the start of time.
        while now_ms() == 0 {}
        assert_eq!(later(Poll::Pending), 0);
        assert_eq!(later(Poll::Ready(Ok(0))), 0);
        assert!(later(Poll::Ready(Ok(1))) > 0);
    }
}
