//! A partition that is ours, from one assignment (or reopening) to the next.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::clock::BrokerClock;
use crate::envelope::ReplyTo;

/// A partition that is ours.
pub(super) struct Lane {
    pub(super) partition: i32,
    /// Used by the polling thread only.
    pub(super) clock: Mutex<BrokerClock>,
    broken: AtomicBool,
    failures: Mutex<Failures>,
    /// The highest offset that was dealt with, for the hint; -1 for none.
    done: AtomicI64,
}

/// What failed without being settled.
#[derive(Default)]
struct Failures {
    waiting: Vec<(i64, ReplyTo)>,
    /// Where the partition is read again from, once that is known.
    read_again_from: Option<i64>,
}

impl Lane {
    pub(super) fn new(partition: i32) -> Self {
        Self {
            partition,
            clock: Mutex::default(),
            broken: AtomicBool::new(false),
            failures: Mutex::default(),
            done: AtomicI64::new(-1),
        }
    }

    /// Whether nothing more is given to it: it is read again from where it stands in SQL.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(super) fn set_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// An unsettled failure: the command will be read again, or it was carried out all the same.
    /// Who waits for one of the latter is given back as soon as that is known.
    pub(super) fn failed(&self, offset: i64, waits: ReplyTo) -> Option<ReplyTo> {
        self.set_broken();
        let mut failures = self.failures();
        match failures.read_again_from {
            Some(from) => (offset < from).then_some(waits),
            None => {
                failures.waiting.push((offset, waits));
                None
            }
        }
    }

    /// It will be read again from here, or from its beginning. Gives back who waits for what lies
    /// before: that was carried out, and nobody knows its answer any more.
    pub(super) fn read_again_from(&self, offset: Option<i64>) -> Vec<ReplyTo> {
        let from = offset.unwrap_or(0);
        let mut failures = self.failures();
        failures.read_again_from = Some(from);
        let waiting = std::mem::take(&mut failures.waiting);
        waiting.into_iter().filter(|(offset, _)| *offset < from).map(|(_, waits)| waits).collect()
    }

    pub(super) fn dealt_with(&self, offset: i64) {
        self.done.fetch_max(offset, Ordering::Relaxed);
    }

    /// Where to read on, as far as that is known.
    pub(super) fn hint(&self) -> Option<i64> {
        let done = self.done.load(Ordering::Relaxed);
        (done >= 0).then_some(done + 1)
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(correlation: u64) -> ReplyTo {
        ReplyTo { front: 1, correlation, topic: String::new(), partition: 0 }
    }

    #[test]
    fn what_was_carried_out_is_told_from_what_is_read_again() {
        let lane = Lane::new(0);
        assert_eq!(lane.failed(5, waits(5)), None);
        assert_eq!(lane.failed(7, waits(7)), None);
        assert!(lane.is_broken());
        assert_eq!(lane.read_again_from(Some(6)), [waits(5)]);
        assert_eq!(lane.failed(4, waits(4)), Some(waits(4)), "known by now");
        assert_eq!(lane.failed(6, waits(6)), None, "read again");
    }
}
