//! A partition that is ours, from one assignment (or reopening) to the next.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::clock::BrokerClock;
use crate::envelope::ReplyTo;

/// A partition that is ours.
pub(super) struct Lane {
    pub(super) partition: i32,
    /// Used by the polling thread only.
    pub(super) clock: Mutex<BrokerClock>,
    broken: AtomicBool,
    setting_aside: AtomicBool,
    failures: Mutex<Failures>,
    progress: Mutex<Progress>,
}

/// How far a partition is, for the group.
#[derive(Default)]
struct Progress {
    begun: BTreeSet<i64>,
    /// After the last that was dealt with.
    next: Option<i64>,
}

/// The tasks that failed without being settled.
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
            setting_aside: AtomicBool::new(false),
            failures: Mutex::default(),
            progress: Mutex::default(),
        }
    }

    /// Whether nothing more is given to it: it is read again from where it stands in SQL.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(super) fn set_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// Whether a record of it is on its way to the dead letters: until it is there, the partition is not opened
    /// again.
    pub(super) fn is_setting_aside(&self) -> bool {
        self.setting_aside.load(Ordering::Acquire)
    }

    /// A record goes to the dead letters, or has got there, or was given up. Nothing that follows it is taken: it
    /// would pass its offset.
    pub(super) fn set_aside(&self, is_running: bool) {
        self.setting_aside.store(is_running, Ordering::Release);
        self.set_broken();
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
    /// before: that was carried out, and its answer is lost.
    pub(super) fn read_again_from(&self, offset: Option<i64>) -> Vec<ReplyTo> {
        let from = offset.unwrap_or(0);
        let mut failures = self.failures();
        failures.read_again_from = Some(from);
        let waiting = std::mem::take(&mut failures.waiting);
        waiting.into_iter().filter(|(offset, _)| *offset < from).map(|(_, waits)| waits).collect()
    }

    pub(super) fn begin(&self, offset: i64) {
        self.progress().begun.insert(offset);
    }

    pub(super) fn dealt_with(&self, offset: i64) {
        let mut progress = self.progress();
        progress.begun.remove(&offset);
        progress.next = progress.next.max(Some(offset + 1));
    }

    /// The offset to read on from, once something was dealt with: what was begun and has not ended
    /// is not passed over.
    pub(super) fn read_on(&self) -> Option<i64> {
        let progress = self.progress();
        let next = progress.next?;
        Some(progress.begun.first().map_or(next, |begun| next.min(*begun)))
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn the_offset_stays_before_commands_in_progress() {
        let lane = Lane::new(0);
        (5..8).for_each(|offset| lane.begin(offset));
        assert_eq!(lane.read_on(), None, "as far as the group knows");
        lane.dealt_with(6);
        assert_eq!(lane.read_on(), Some(5));
        lane.dealt_with(5);
        assert_eq!(lane.read_on(), Some(7));
        lane.dealt_with(9);
        assert_eq!(lane.read_on(), Some(7));
        lane.dealt_with(7);
        assert_eq!(lane.read_on(), Some(10));
    }

    #[test]
    fn executed_commands_differ_from_those_read_again() {
        let lane = Lane::new(0);
        assert_eq!(lane.failed(5, waits(5)), None);
        assert_eq!(lane.failed(7, waits(7)), None);
        assert!(lane.is_broken());
        assert_eq!(lane.read_again_from(Some(6)), [waits(5)]);
        assert_eq!(lane.failed(4, waits(4)), Some(waits(4)), "known by now");
        assert_eq!(lane.failed(6, waits(6)), None, "read again");
    }
}
