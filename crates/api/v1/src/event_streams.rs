//! Streams of server-sent events: their response, and permits that bound them in total, and per holder so that none
//! holds all of them.

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use engine::holdings::Holdings;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};

/// The media type of streams.
pub const EVENT_STREAM: &str = "text/event-stream";

/// The interval between two comments on a stream, so that proxies do not close it as idle.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How long a stream lasts; then its client reconnects, and is authenticated again.
pub const STREAM_MAX: Duration = Duration::from_secs(300);

/// How often a stream checks whether who asked for it may still read it: a deleted user, a rotated secret and
/// a tenant that is switched off end it within five seconds.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Prevents proxies from buffering the response.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How many streams may be open concurrently.
const PERMITS_MAX: usize = 256;

/// How many of them may be of one holder.
const PERMITS_PER_HOLDER_MAX: usize = 16;

/// The permits in use, of which each is held by a network or a tenant. Cheap to clone; clones share them.
#[derive(Clone)]
pub struct StreamPermits<H>(Arc<Mutex<InUse<H>>>);

struct InUse<H> {
    all: usize,
    /// Holders of at least one permit, so that there are never more than permits.
    by_holder: Holdings<H>,
}

/// No permit is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPermit {
    /// All permits are in use.
    Total,
    /// All permits of the holder are in use.
    Holder,
}

/// Allows one stream until it is dropped.
pub struct StreamPermit<H: Eq + Hash> {
    permits: StreamPermits<H>,
    holder: Option<H>,
}

impl<H> Default for StreamPermits<H> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(InUse { all: 0, by_holder: Holdings::default() })))
    }
}

impl<H: Copy + Eq + Hash> StreamPermits<H> {
    /// Acquires a permit; without a holder only the total is limited.
    ///
    /// # Errors
    /// [`NoPermit`].
    pub fn acquire(&self, holder: Option<H>) -> Result<StreamPermit<H>, NoPermit> {
        let mut in_use = self.lock();
        if in_use.all >= PERMITS_MAX {
            return Err(NoPermit::Total);
        }
        if let Some(holder) = holder
            && !in_use.by_holder.add_below(holder, PERMITS_PER_HOLDER_MAX)
        {
            return Err(NoPermit::Holder);
        }
        in_use.all += 1;
        Ok(StreamPermit { permits: Self(Arc::clone(&self.0)), holder })
    }
}

impl<H> StreamPermits<H> {
    fn lock(&self) -> MutexGuard<'_, InUse<H>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Eq + Hash> Drop for StreamPermit<H> {
    fn drop(&mut self) {
        let mut in_use = self.permits.lock();
        in_use.all -= 1;
        if let Some(holder) = &self.holder {
            in_use.by_holder.remove(holder, 1);
        }
    }
}

/// A response of server-sent events.
pub fn response(
    events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let headers = [(CONTENT_TYPE, EVENT_STREAM), (UNBUFFERED, "no"), (CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(events)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_bounded_per_holder_and_in_total_and_released_on_drop() {
        let permits = StreamPermits::default();
        let acquire = |holder: u8| permits.acquire(Some(holder)).map(drop);
        let mut held: Vec<StreamPermit<u8>> =
            (0..PERMITS_PER_HOLDER_MAX).map(|_| permits.acquire(Some(0)).ok().unwrap()).collect();
        assert_eq!(acquire(0), Err(NoPermit::Holder));
        assert_eq!(acquire(1), Ok(()));
        drop(held.pop());
        assert_eq!(acquire(0), Ok(()), "a permit was released");
        held.extend((held.len()..PERMITS_MAX).map(|_| permits.acquire(None).ok().unwrap()));
        assert_eq!(acquire(1), Err(NoPermit::Total));
        drop(held);
        assert!(permits.lock().by_holder.is_empty(), "no holder is left behind");
        assert_eq!(permits.lock().all, 0);
    }
}
