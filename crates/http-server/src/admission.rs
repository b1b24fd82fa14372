//! Admission: at most so many requests in progress. A counter, not a queue: a request above the limit
//! is refused at once, because a client that waits in a queue until it times out is work for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts requests in progress. Clones share the count.
#[derive(Clone, Debug)]
pub struct Admission {
    in_progress: Arc<AtomicUsize>,
    requests_max: usize,
}

/// The right to be handled, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    in_progress: Arc<AtomicUsize>,
}

impl Admission {
    /// Admits `requests_max` requests at a time.
    #[must_use]
    pub fn new(requests_max: usize) -> Self {
        Self { in_progress: Arc::default(), requests_max }
    }

    /// Admits a request, if there is room.
    #[must_use]
    pub fn admit(&self) -> Option<Permit> {
        let permit = Permit { in_progress: Arc::clone(&self.in_progress) };
        let before = self.in_progress.fetch_add(1, Ordering::Relaxed);
        (before < self.requests_max).then_some(permit)
    }

    /// Requests in progress.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.in_progress.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_above_the_limit_is_refused_and_not_counted() {
        let admission = Admission::new(2);
        let first = admission.admit().unwrap();
        let second = admission.admit().unwrap();
        assert!(admission.admit().is_none());
        assert_eq!(admission.in_progress(), 2);
        drop(first);
        assert!(admission.admit().is_some());
        drop(second);
        assert_eq!(admission.in_progress(), 0);
    }
}
