//! The newest rows of a partition's journal, in memory: followers need not read what this process has just
//! written, nor parse it.
//!
//! It follows the database: a row is here only after the commit that wrote it. What is not here is in SQL.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Seq, Timestamp};
use engine::ports::{Entry, JournalRow};

/// How many events are held, of a few hundred bytes each: as many as a follower reads rows at a time.
const EVENTS_MAX: usize = 4_096;

/// The newest rows; the writer and the readers of a partition share them.
#[derive(Default)]
pub(crate) struct JournalTail(Mutex<Tail>);

/// All rows with events that come after `after`, up to `upto`.
#[derive(Default)]
struct Tail {
    after: Seq,
    upto: Seq,
    rows: VecDeque<Arc<JournalRow>>,
    /// How many events `rows` have.
    events: usize,
}

impl JournalTail {
    /// Forgets all rows.
    pub(crate) fn clear(&self) {
        *self.lock() = Tail::default();
    }

    /// Adds the rows of a commit.
    pub(crate) fn append(&self, entries: &[Entry], committed_at: Timestamp) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let with_events = entries.iter().filter(|entry| !entry.events.is_empty());
        let rows: Vec<_> =
            with_events.map(|entry| Arc::new(JournalRow::of(entry, committed_at))).collect();
        let mut tail = self.lock();
        if first.seq.0 != tail.upto.0 + 1 {
            *tail = Tail { after: Seq(first.seq.0 - 1), ..Tail::default() };
        }
        tail.upto = last.seq;
        tail.events += rows.iter().map(|row| row.events.len()).sum::<usize>();
        tail.rows.extend(rows);
        while tail.events > EVENTS_MAX
            && let Some(oldest) = tail.rows.pop_front()
        {
            tail.after = oldest.seq;
            tail.events -= oldest.events.len();
        }
    }

    /// The rows with events after a row, at most `limit`, and how far the journal is read with them; `None`
    /// where some of them are not here, or none is.
    pub(crate) fn rows_after(
        &self,
        after: Seq,
        limit: usize,
    ) -> Option<(Vec<Arc<JournalRow>>, Seq)> {
        let tail = self.lock();
        if after < tail.after || after >= tail.upto {
            return None;
        }
        let begin = tail.rows.partition_point(|row| row.seq <= after);
        let rows: Vec<Arc<JournalRow>> = tail.rows.range(begin..).take(limit).cloned().collect();
        let is_whole = begin + rows.len() == tail.rows.len();
        let upto = rows.last().filter(|_| !is_whole).map_or(tail.upto, |last| last.seq);
        Some((rows, upto))
    }

    fn lock(&self) -> MutexGuard<'_, Tail> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use domain::payment::Actor;
    use domain::{AccountId, Event, RequestId, TenantNo};
    use uuid::Uuid;

    use super::*;

    fn entry(seq: i64, events: usize) -> Entry {
        let account = AccountId::new(Uuid::nil());
        Entry {
            seq: Seq(seq),
            at: Timestamp(seq),
            tenant: TenantNo(1),
            request: RequestId(Uuid::nil()),
            command: "test",
            actor: Actor::new("test", "test", Uuid::nil()),
            changes: vec![],
            events: vec![Event::AccountChanged { account }; events],
        }
    }

    /// The numbers of the rows after a row, and how far the journal is read with them.
    fn after(tail: &JournalTail, seq: i64, limit: usize) -> Option<(Vec<i64>, i64)> {
        let (rows, upto) = tail.rows_after(Seq(seq), limit)?;
        Some((rows.iter().map(|row| row.seq.0).collect(), upto.0))
    }

    #[test]
    fn rows_are_here_from_the_first_that_was_appended_on() {
        let tail = JournalTail::default();
        assert_eq!(after(&tail, 0, 9), None, "nothing was written");
        tail.append(&[entry(7, 1), entry(8, 0)], Timestamp(0));
        tail.append(&[entry(9, 2)], Timestamp(0));
        assert_eq!(after(&tail, 5, 9), None, "the row 6 is in SQL");
        assert_eq!(after(&tail, 6, 9), Some((vec![7, 9], 9)));
        assert_eq!(after(&tail, 6, 1), Some((vec![7], 7)), "the rest is still to come");
        assert_eq!(after(&tail, 7, 9), Some((vec![9], 9)));
        assert_eq!(after(&tail, 9, 9), None, "another process may have gone on");
        tail.append(&[entry(10, 0)], Timestamp(0));
        assert_eq!(after(&tail, 9, 9), Some((vec![], 10)), "a row without events is passed");
    }

    #[test]
    fn rows_before_a_gap_and_before_a_new_turn_are_forgotten() {
        let tail = JournalTail::default();
        tail.append(&[entry(1, 1)], Timestamp(0));
        tail.append(&[entry(3, 1)], Timestamp(0));
        assert_eq!(after(&tail, 0, 9), None, "the row 2 is another process's");
        assert_eq!(after(&tail, 2, 9), Some((vec![3], 3)));
        tail.clear();
        assert_eq!(after(&tail, 2, 9), None);
    }

    #[test]
    fn so_many_events_are_held_and_no_more() {
        let tail = JournalTail::default();
        tail.append(&[entry(1, 1), entry(2, EVENTS_MAX - 1)], Timestamp(0));
        assert_eq!(after(&tail, 0, 9), Some((vec![1, 2], 2)));
        tail.append(&[entry(3, 1)], Timestamp(0));
        assert_eq!(after(&tail, 0, 9), None, "the oldest row went");
        assert_eq!(after(&tail, 1, 9), Some((vec![2, 3], 3)));
        tail.append(&[entry(4, EVENTS_MAX + 1)], Timestamp(0));
        assert_eq!(after(&tail, 3, 9), None, "more than is held");
        assert_eq!(tail.lock().events, 0);
    }
}
