//! Journal rows whose first attempts are not all done: they hold the cursor.

use std::collections::VecDeque;

use domain::{Seq, TenantNo, Timestamp};
use engine::ports::DeliveryId;
use tokio::time::Instant;

/// A journal row with first attempts that nothing but the cursor remembers.
pub(crate) struct OpenRow {
    pub(crate) seq: Seq,
    pub(crate) tenant: TenantNo,
    pub(crate) jobs: Vec<DeliveryId>,
    pub(crate) committed_at: Timestamp,
    pub(crate) read_at: Instant,
}

/// Such rows, in the order of the journal.
#[derive(Default)]
pub(crate) struct OpenRows(VecDeque<OpenRow>);

impl OpenRows {
    pub(crate) fn push(&mut self, row: OpenRow) {
        self.0.push_back(row);
    }

    /// The row that holds the cursor.
    pub(crate) fn oldest(&self) -> Option<&OpenRow> {
        self.0.front()
    }

    /// Notes that a first attempt is done. False where it does not hold the cursor: it became a row of the store.
    pub(crate) fn done(&mut self, id: DeliveryId) -> bool {
        let Ok(at) = self.0.binary_search_by_key(&id.seq, |row| row.seq) else { return false };
        let jobs = &mut self.0[at].jobs;
        let Some(job) = jobs.iter().position(|it| *it == id) else { return false };
        jobs.swap_remove(job);
        while self.0.front().is_some_and(|row| row.jobs.is_empty()) {
            self.0.pop_front();
        }
        true
    }

    /// Removes rows that were read by `read_by`, until they have `enough` first attempts, and returns these, which
    /// hold the cursor no longer.
    pub(crate) fn take(&mut self, read_by: Instant, enough: usize) -> Vec<(DeliveryId, TenantNo)> {
        let mut taken = vec![];
        while taken.len() < enough
            && let Some(row) = self.0.pop_front_if(|row| row.read_at <= read_by)
        {
            taken.extend(row.jobs.into_iter().map(|id| (id, row.tenant)));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::WebhookEndpointId;
    use uuid::Uuid;

    use super::*;

    fn id(seq: i64, endpoint: u128) -> DeliveryId {
        let endpoint = WebhookEndpointId::new(Uuid::from_u128(endpoint));
        DeliveryId { seq: Seq(seq), ordinal: 0, endpoint }
    }

    fn rows(begun: Instant) -> OpenRows {
        let mut rows = OpenRows::default();
        for seq in 1..=3 {
            rows.push(OpenRow {
                seq: Seq(seq),
                tenant: TenantNo(1),
                jobs: vec![id(seq, 1), id(seq, 2)],
                committed_at: Timestamp(0),
                read_at: begun + Duration::from_secs(u64::try_from(seq).unwrap()),
            });
        }
        rows
    }

    #[test]
    fn a_row_holds_the_cursor_until_all_of_it_is_done() {
        let mut rows = rows(Instant::now());
        let oldest = |rows: &OpenRows| rows.oldest().map(|row| row.seq.0);
        assert!(rows.done(id(2, 1)) && rows.done(id(2, 2)) && rows.done(id(1, 2)));
        assert_eq!(oldest(&rows), Some(1));
        assert!(rows.done(id(1, 1)));
        assert_eq!(oldest(&rows), Some(3));
        assert!(!rows.done(id(1, 1)) && !rows.done(id(2, 1)), "they are done already");
        assert!(rows.done(id(3, 1)) && rows.done(id(3, 2)));
        assert_eq!(oldest(&rows), None);
    }

    #[test]
    fn what_was_read_long_ago_is_taken_and_holds_the_cursor_no_longer() {
        let begun = Instant::now();
        let mut rows = rows(begun);
        assert!(rows.done(id(1, 1)));
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(rows.take(begun, 10), []);
        assert_eq!(rows.take(at(2), 1), [(id(1, 2), TenantNo(1))]);
        assert!(!rows.done(id(1, 2)), "it became a row of the store");
        let taken = [(id(2, 1), TenantNo(1)), (id(2, 2), TenantNo(1))];
        assert_eq!(rows.take(at(2), 10), taken);
        assert_eq!(rows.oldest().map(|row| row.seq), Some(Seq(3)));
    }
}
