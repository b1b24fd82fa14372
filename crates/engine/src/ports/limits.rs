//! When a read ends although it has not found everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Limits of a read. The database looks at them again and again, and ends with
/// [`super::StoreError::ReadTooLong`] once they are passed. Clones share them.
#[derive(Clone, Debug)]
pub struct ReadLimits {
    until: Instant,
    within: Duration,
    is_abandoned: Arc<AtomicBool>,
}

/// Held by the caller who waits for a read: once it is dropped, the read ends.
#[derive(Debug)]
pub struct Awaited(Arc<AtomicBool>);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl ReadLimits {
    /// A read that begins now and may take so long, while its caller waits for it.
    #[must_use]
    pub fn new(within: Duration) -> (Self, Awaited) {
        let is_abandoned = Arc::<AtomicBool>::default();
        let awaited = Awaited(Arc::clone(&is_abandoned));
        (Self { until: Instant::now() + within, within, is_abandoned }, awaited)
    }

    /// The same limits for a read that begins only now.
    #[must_use]
    pub fn from_now(self) -> Self {
        Self { until: Instant::now() + self.within, ..self }
    }

    /// Whether the read has to end.
    #[must_use]
    pub fn are_passed(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}
