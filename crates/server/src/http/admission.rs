//! Admission: so many requests in progress and no more. A counter, not a queue: what does not fit is
//! told so at once, because a client that waits in a queue for longer than its patience is work done
//! for nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts requests in progress. Clones share the count.
#[derive(Clone, Debug)]
pub struct Admission {
    in_progress: Arc<AtomicUsize>,
    requests_max: usize,
}

/// The right to be worked on, as long as it lives.
#[derive(Debug)]
pub struct Permit {
    in_progress: Arc<AtomicUsize>,
}

impl Admission {
    /// Lets in `requests_max` requests at a time.
    #[must_use]
    pub fn new(requests_max: usize) -> Self {
        Self { in_progress: Arc::default(), requests_max }
    }

    /// Lets a request in, if there is room.
    #[must_use]
    pub fn enter(&self) -> Option<Permit> {
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
    fn a_request_too_many_is_refused_and_leaves_no_trace() {
        let admission = Admission::new(2);
        let first = admission.enter().unwrap();
        let second = admission.enter().unwrap();
        assert!(admission.enter().is_none());
        assert_eq!(admission.in_progress(), 2);
        drop(first);
        assert!(admission.enter().is_some());
        drop(second);
        assert_eq!(admission.in_progress(), 0);
    }
}
