//! A connection on which nothing leaves too late.
//!
//! Between the check of a call's deadline and the write of its bytes a process may stand still: it is
//! stopped, its machine is moved or suspended. When it goes on, another process may have asked about the
//! call, and the gateway had no record of it: the bytes may not leave any more. A [`Fenced`] stream looks
//! at the deadlines of the calls on it before each write.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use domain::Timestamp;
use engine::{Clock, Deadline};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much later than at its deadline a call may still be ended by its timer: by more the process
/// stood still. A gateway's `settle_after` covers it.
const LATE_MAX: Duration = Duration::from_millis(250);

/// The deadlines of the calls that are open on a connection.
#[derive(Debug)]
pub(crate) struct Fence {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many open calls have which deadline.
    open: BTreeMap<Timestamp, usize>,
    /// Whether the stream did not take what was written to it last.
    is_blocked: bool,
    /// Whether a call was given up that may be among the bytes that are not written yet.
    is_closed: bool,
}

/// A call that is open on a connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    fence: Arc<Fence>,
    deadline: Timestamp,
}

impl Fence {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default() })
    }

    /// Opens a call, before anything of it is handed over to the connection.
    pub(crate) fn open(self: &Arc<Self>, deadline: &Deadline) -> Open {
        let deadline = deadline.at();
        *self.lock().open.entry(deadline).or_default() += 1;
        Open { fence: Arc::clone(self), deadline }
    }

    /// # Errors
    /// A call on this connection should have ended before: nothing more may be written.
    fn check(&self) -> io::Result<()> {
        let mut state = self.lock();
        let earliest = state.open.first_key_value().map(|(deadline, _)| *deadline);
        state.is_closed |= earliest.is_some_and(|it| self.is_late(it));
        if state.is_closed {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the process stood still"));
        }
        Ok(())
    }

    /// Whether nothing more may be written.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Keeps whether the stream took what was written.
    fn written(&self, result: &Poll<io::Result<usize>>) {
        self.lock().is_blocked = result.is_pending();
    }

    fn is_late(&self, deadline: Timestamp) -> bool {
        Deadline::after(&self.clock, deadline, LATE_MAX).is_over()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.fence.lock();
        if let Some(count) = state.open.get_mut(&self.deadline) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.deadline);
            }
        }
        let is_over = Deadline::after(&self.fence.clock, self.deadline, Duration::ZERO).is_over();
        state.is_closed |= self.fence.is_late(self.deadline) || (is_over && state.is_blocked);
    }
}

/// A stream that writes nothing once a call on it is late.
#[derive(Debug)]
pub(crate) struct Fenced<S> {
    stream: S,
    fence: Arc<Fence>,
}

impl<S> Fenced<S> {
    pub(crate) const fn new(stream: S, fence: Arc<Fence>) -> Self {
        Self { stream, fence }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Fenced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Fenced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.fence.check()?;
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.fence.written(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.fence.check()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.fence.written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// A deadline that was over so long ago.
    fn over_since(clock: &Clock, ago: Duration) -> Deadline {
        let ago_us = i64::try_from(ago.as_micros()).unwrap();
        Deadline::after(clock, clock.real_now().plus_us(-ago_us), Duration::ZERO)
    }

    #[tokio::test]
    async fn bytes_of_a_late_call_never_leave() {
        let clock = Clock::new(false);
        let fence = Fence::new(clock.clone());
        let (near, mut far) = duplex(64);
        let mut fenced = Fenced::new(near, Arc::clone(&fence));
        let in_time = fence.open(&Deadline::within(&clock, Duration::from_secs(60)));
        // A timer is never quite on time, so a call may be a little late.
        let just_over = fence.open(&over_since(&clock, Duration::ZERO));
        fenced.write_all(b"in time").await.unwrap();
        drop((in_time, just_over));
        let late = fence.open(&over_since(&clock, LATE_MAX));
        let refused = fenced.write_all(b"late").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(late);
        fenced.write_all(b"later").await.expect_err("what was given up may be among these bytes");
        drop(fenced);
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"in time");
    }

    #[tokio::test]
    async fn a_call_that_is_given_up_while_the_stream_is_blocked_closes_it() {
        let clock = Clock::new(false);
        let fence = Fence::new(clock.clone());
        let (near, mut far) = duplex(8);
        let mut fenced = Fenced::new(near, Arc::clone(&fence));
        let open = fence.open(&over_since(&clock, Duration::ZERO));
        let blocked = fenced.write_all(b"more than it takes");
        futures_util::future::poll_immediate(blocked).await.ok_or(()).unwrap_err();
        drop(open);
        fenced.write_all(b"later").await.expect_err("the call may be among what is not written");
        drop(fenced);
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"more tha");
    }

    #[tokio::test]
    async fn a_call_that_is_given_up_late_closes_its_connection() {
        let clock = Clock::new(false);
        let fence = Fence::new(clock.clone());
        let (near, _far) = duplex(64);
        let mut fenced = Fenced::new(near, Arc::clone(&fence));
        drop(fence.open(&Deadline::within(&clock, Duration::from_secs(60))));
        fenced.write_all(b"in time").await.unwrap();
        drop(fence.open(&over_since(&clock, LATE_MAX)));
        fenced.write_all(b"late").await.unwrap_err();
    }
}
