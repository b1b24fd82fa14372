//! The newest rows of a partition's journal, in memory: followers need not read what this process has just
//! written, nor parse it.
//!
//! It follows the database: a row is here only after the commit that wrote it. What is not here is in SQL.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Seq, Timestamp};
use engine::ports::{Entry, JournalRow};

/// How many rows with events are held: as many as followers read at a time.
const ROWS_MAX: usize = 4_096;

/// The newest rows; the writer and the readers of a partition share them.
#[derive(Default)]
pub(crate) struct JournalTail(Mutex<Tail>);

/// All rows with events that come after `after`, up to `upto`.
#[derive(Default)]
struct Tail {
    after: Seq,
    upto: Seq,
    rows: VecDeque<Arc<JournalRow>>,
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
        tail.rows.extend(rows);
        while tail.rows.len() > ROWS_MAX
            && let Some(oldest) = tail.rows.pop_front()
        {
            tail.after = oldest.seq;
        }
    }

    /// The rows with events after a row, at most `limit`, and how far the journal is read with them; `None`
    /// where some of them are not here, or none is.
    pub(crate) fn rows_after(&self, after: Seq, limit: usize) -> Option<(Vec<JournalRow>, Seq)> {
        let tail = self.lock();
        if after < tail.after || after >= tail.upto {
            return None;
        }
        let begin = tail.rows.partition_point(|row| row.seq <= after);
        let rows: Vec<Arc<JournalRow>> = tail.rows.range(begin..).take(limit).cloned().collect();
        let is_whole = begin + rows.len() == tail.rows.len();
        let upto = rows.last().filter(|_| !is_whole).map_or(tail.upto, |last| last.seq);
        // The writer does not wait for the copies.
        drop(tail);
        Some((rows.iter().map(|row| JournalRow::clone(row)).collect(), upto))
    }

    fn lock(&self) -> MutexGuard<'_, Tail> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
