//! Reads for those who go on with what was committed: followers of the journal, push deliveries,
//! and for the job that asks gateways about outcomes.

use std::sync::LazyLock;

use domain::{PartitionNo, Seq, Timestamp};
use engine::ports::{Delivery, FollowerQueries, JournalRow, StoreError};

use super::window::count;
use super::{SqlQueries, window};
use crate::chain::Link;
use crate::driver::{Cells, Reader};
use crate::{rows, tables};

impl FollowerQueries for SqlQueries {
    fn journal_after(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<(Vec<JournalRow>, Seq), StoreError> {
        self.snapshot(|reader| {
            let partition = after.partition();
            let (head, _) = journal_end(reader, partition)?;
            if head <= after {
                return Ok((vec![], after));
            }
            let sql = "SELECT seq, at_us, committed_at_us, tenant, events FROM journal \
                 WHERE seq > ?1 AND seq < ?2 AND events IS NOT NULL ORDER BY seq LIMIT ?3";
            let parameters = [after.into(), partition.end().into(), window::limit(limit as u64)];
            let rows = reader.query(sql, &parameters, journal)?;
            let upto = match rows.last() {
                Some(last) if rows.len() == window::bounded(limit) => last.seq,
                Some(_) | None => head,
            };
            Ok((rows, upto))
        })
    }

    fn journal_row(&self, seq: Seq) -> Result<Option<JournalRow>, StoreError> {
        self.read(|reader| {
            let sql =
                "SELECT seq, at_us, committed_at_us, tenant, events FROM journal WHERE seq = ?1";
            reader.query_one(sql, &[seq.into()], journal)
        })
    }

    fn journal_head(&self) -> Result<Seq, StoreError> {
        self.read(|reader| Ok(journal_end(reader, self.partition)?.0))
    }

    fn followed(&self, follower: &str) -> Result<Seq, StoreError> {
        self.read(|reader| {
            let sql = "SELECT upto FROM follower WHERE name = ?1 AND partition = ?2";
            let parameters = [follower.into(), self.partition.number().into()];
            let followed = reader.query_one(sql, &parameters, |cells| cells.seq())?;
            Ok(followed.unwrap_or(self.partition.start()))
        })
    }

    fn deliveries_due(&self, now: Timestamp, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                tables::DELIVERY.select(
                    "WHERE due_at_us <= ?1 AND seq > ?3 AND seq < ?4 \
                     ORDER BY due_at_us, seq, ordinal LIMIT ?2",
                )
            });
            let (start, end) = (self.partition.start(), self.partition.end());
            reader.query(
                &SQL,
                &[now.into(), window::limit(limit as u64), start.into(), end.into()],
                rows::delivery,
            )
        })
    }

    fn deliveries_waiting(&self) -> Result<i64, StoreError> {
        self.read(|reader| count(reader, "SELECT count(*) FROM delivery", &[]))
    }
}

fn journal(cells: &mut Cells<'_>) -> Result<JournalRow, StoreError> {
    cells.of(&tables::JOURNAL);
    Ok(JournalRow {
        seq: cells.seq()?,
        at: cells.time()?,
        committed_at: cells.time()?,
        tenant: cells.tenant()?,
        events: cells.opt_json()?.unwrap_or_default(),
    })
}

/// The number and the link of a partition's newest journal row.
pub(crate) fn journal_end(
    reader: &Reader,
    partition: PartitionNo,
) -> Result<(Seq, Link), StoreError> {
    let sql = "SELECT seq, chain FROM journal WHERE seq > ?1 AND seq < ?2 \
               ORDER BY seq DESC LIMIT 1";
    let parameters = [partition.start().into(), partition.end().into()];
    let end = reader.query_one(sql, &parameters, |cells| {
        cells.of(&tables::JOURNAL);
        let seq = cells.seq()?;
        let link = Link::parse(cells.text()?).ok_or_else(|| cells.corrupt("is no link"))?;
        Ok((seq, link))
    })?;
    Ok(end.unwrap_or((partition.start(), Link::Start)))
}
