//! Admission: at most so many requests in progress, some of them reserved for payments. A counter, not a
//! queue: a request above the limit is refused at once, because a client that waits in a queue until it
//! times out is work for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One in so many permits is reserved for payments.
const RESERVED_FOR_PAYMENTS: usize = 8;

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

    /// Admits a request, if there is room; a payment also where there is room for payments alone.
    #[must_use]
    pub fn admit(&self, is_payment: bool) -> Option<Permit> {
        let reserved = if is_payment { 0 } else { self.requests_max / RESERVED_FOR_PAYMENTS };
        let permit = Permit { in_progress: Arc::clone(&self.in_progress) };
        let before = self.in_progress.fetch_add(1, Ordering::Relaxed);
        (before < self.requests_max - reserved).then_some(permit)
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
        let first = admission.admit(false).unwrap();
        let second = admission.admit(false).unwrap();
        assert!(admission.admit(true).is_none());
        assert_eq!(admission.in_progress(), 2);
        drop(first);
        assert!(admission.admit(false).is_some());
        drop(second);
        assert_eq!(admission.in_progress(), 0);
    }

    #[test]
    fn one_permit_in_eight_is_for_payments_alone() {
        let admission = Admission::new(16);
        let others: Vec<Permit> = (0..14).map(|_| admission.admit(false).unwrap()).collect();
        assert!(admission.admit(false).is_none());
        let payments = [admission.admit(true).unwrap(), admission.admit(true).unwrap()];
        assert!(admission.admit(true).is_none());
        drop(payments);
        assert!(admission.admit(false).is_none(), "what a payment leaves is for payments");
        drop(others);
        let payments: Vec<Permit> = (0..16).map(|_| admission.admit(true).unwrap()).collect();
        assert!(admission.admit(false).is_none());
        drop(payments);
        assert_eq!(admission.in_progress(), 0);
    }
}
