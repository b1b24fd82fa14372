//! Finds a partition's thread that does not finish its batch: its partition answers no request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a batch may take before the thread counts as stuck. A batch is bounded, and takes milliseconds.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The threads of all partitions of a process.
#[derive(Debug)]
pub struct Progress {
    since: Instant,
    threads: Mutex<Vec<Weak<ThreadProgress>>>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { since: Instant::now(), threads: Mutex::default() }
    }
}

/// The progress of a partition's thread: when its batch began.
#[derive(Debug)]
pub(super) struct ThreadProgress {
    since: Instant,
    /// Microseconds since then; 0 between two batches.
    began_us: AtomicU64,
}

impl ThreadProgress {
    /// A batch begins.
    pub(super) fn begin(&self, now: Instant) {
        let us = now.saturating_duration_since(self.since).as_micros();
        self.began_us.store(u64::try_from(us).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
    }

    /// It has ended.
    pub(super) fn end(&self) {
        self.began_us.store(0, Ordering::Relaxed);
    }
}

impl Progress {
    /// Watches one more thread, until it drops what it gets.
    pub(super) fn join(&self) -> Arc<ThreadProgress> {
        let thread = Arc::new(ThreadProgress { since: self.since, began_us: AtomicU64::new(0) });
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|it| it.strong_count() > 0);
        threads.push(Arc::downgrade(&thread));
        thread
    }

    /// Whether a thread has been writing a batch for too long.
    #[must_use]
    pub fn is_stuck(&self, now: Instant) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().filter_map(Weak::upgrade).any(|thread| {
            let began_us = thread.began_us.load(Ordering::Relaxed);
            let began = self.since + Duration::from_micros(began_us);
            began_us > 0 && now.saturating_duration_since(began) > STUCK_AFTER
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_stuck_while_its_batch_takes_too_long() {
        let progress = Progress::default();
        let (quick, slow) = (progress.join(), progress.join());
        let began = progress.since + Duration::from_secs(5);
        let later = began + STUCK_AFTER + Duration::from_millis(1);
        assert!(!progress.is_stuck(later), "it has nothing to do");
        slow.begin(began);
        quick.begin(later);
        assert!(!progress.is_stuck(began + STUCK_AFTER));
        assert!(progress.is_stuck(later));
        slow.end();
        assert!(!progress.is_stuck(later));
        slow.begin(began);
        drop(slow);
        assert!(!progress.is_stuck(later), "the partition was given away");
    }
}
