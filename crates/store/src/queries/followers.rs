//! Reads for those who go on with what was committed: followers of the journal, push deliveries,
//! and for the job that asks gateways about outcomes.

use std::sync::{Arc, LazyLock};

use domain::{AccountId, Event, PartitionNo, Seq, TenantNo, Timestamp};
use engine::ports::{
    CALLBACK, Delivery, DeliveryId, FollowerQueries, JournalRow, QueueWindow, StoreError,
    WaitingDelivery,
};

use super::window::count;
use super::{SqlQueries, window};
use crate::chain::Link;
use crate::driver::{Cells, Reader, Value};
use crate::tables;

impl FollowerQueries for SqlQueries {
    fn journal_after(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<(Vec<Arc<JournalRow>>, Seq), StoreError> {
        if let Some(known) = self.journal.rows_after(after, window::bounded(limit)) {
            return Ok(known);
        }
        self.snapshot(|reader| {
            let partition = after.partition();
            let (head, _) = journal_end(reader, partition)?;
            if head <= after {
                return Ok((vec![], after));
            }
            let sql = "SELECT seq, at_us, committed_at_us, tenant, events FROM journal \
                 WHERE seq > ?1 AND seq < ?2 AND events IS NOT NULL ORDER BY seq LIMIT ?3";
            let parameters = [after.into(), partition.end().into(), window::limit(limit as u64)];
            let rows = reader.query(sql, &parameters, |cells| journal(cells).map(Arc::new))?;
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

    fn journal_heads(&self) -> Result<Vec<Seq>, StoreError> {
        self.read(|reader| {
            let partitions = partitions(reader)?.into_iter();
            partitions.map(|it| Ok(journal_end(reader, it)?.0)).collect()
        })
    }

    fn journal_heads_at(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(|reader| {
            // The first processor of a cluster makes the tables.
            if !reader.is_ours()? {
                return Ok(None);
            }
            let sql =
                "SELECT at_us FROM journal WHERE seq > ?1 AND seq < ?2 ORDER BY seq DESC LIMIT 1";
            let mut latest = None;
            for it in partitions(reader)? {
                let bounds = [it.start().into(), it.end().into()];
                latest = latest.max(reader.query_one(sql, &bounds, |cells| cells.time())?);
            }
            Ok(latest)
        })
    }

    fn followed(&self, follower: &str) -> Result<Seq, StoreError> {
        self.read(|reader| {
            let sql = "SELECT upto FROM follower WHERE name = ?1 AND partition = ?2";
            let parameters = [follower.into(), self.partition.number().into()];
            let followed = reader.query_one(sql, &parameters, |cells| cells.seq())?;
            Ok(followed.unwrap_or(self.partition.start()))
        })
    }

    fn deliveries_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, DeliveryId)>,
        limit: usize,
    ) -> Result<Vec<Delivery>, StoreError> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            tables::DELIVERY.select(
                "WHERE due_at_us <= ?1 AND seq > ?3 AND seq < ?4 \
                 AND (due_at_us, seq, ordinal, endpoint_id) > (?5, ?6, ?7, ?8) \
                 ORDER BY due_at_us, seq, ordinal, endpoint_id LIMIT ?2",
            )
        });
        let (start, end) = (self.partition.start(), self.partition.end());
        let first = DeliveryId { seq: Seq(i64::MIN), ordinal: 0, endpoint: CALLBACK };
        let (at, id) = after.unwrap_or((Timestamp(i64::MIN), first));
        let parameters = [
            now.into(),
            window::limit(limit as u64),
            start.into(),
            end.into(),
            at.into(),
            id.seq.into(),
            i64::from(id.ordinal).into(),
            id.endpoint.into(),
        ];
        self.read(|reader| reader.query(&SQL, &parameters, |cells| tables::DELIVERY.row(cells)))
    }

    fn deliveries_waiting(&self) -> Result<i64, StoreError> {
        self.read(|reader| count(reader, "SELECT count(*) FROM webhook_delivery", &[]))
    }

    fn deliveries_of(
        &self,
        no: TenantNo,
        account: Option<AccountId>,
        window: QueueWindow<DeliveryId>,
    ) -> Result<Vec<WaitingDelivery>, StoreError> {
        let of_account = account.map_or("", |_| "AND j.account_id = ?8");
        let sql = format!(
            "SELECT {}, j.at_us, j.token, j.events FROM webhook_delivery d JOIN journal j ON j.seq = d.seq \
             WHERE d.tenant = ?1 AND d.endpoint_id = ?7 AND (d.seq, d.ordinal) > (?2, ?3) \
             AND j.at_us >= ?4 AND j.at_us <= ?5 {of_account} ORDER BY d.seq, d.ordinal LIMIT ?6",
            tables::DELIVERY.select_list("d.")
        );
        let after = window.after.map_or((Value::Int(-1), 0), |it| (it.seq.into(), it.ordinal));
        let (from, to) = window.times;
        let mut parameters = vec![
            no.into(),
            after.0,
            i64::from(after.1).into(),
            from.into(),
            to.into(),
            window::limit(window.limit),
            CALLBACK.into(),
        ];
        parameters.extend(account.map(Value::from));
        self.read(|reader| reader.query(&sql, &parameters, waiting_delivery))
    }
}

fn waiting_delivery(cells: &mut Cells<'_>) -> Result<WaitingDelivery, StoreError> {
    let delivery = tables::DELIVERY.row(cells)?;
    cells.of(&tables::JOURNAL);
    let (at, token) = (cells.time()?, cells.id()?);
    let events: Vec<Event> = cells.opt_json()?.unwrap_or_default();
    let event = events.into_iter().nth(usize::from(delivery.id.ordinal));
    let event = event.ok_or_else(|| cells.corrupt("has no event of a delivery"))?;
    Ok(WaitingDelivery { delivery, at, token, event })
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

/// All partitions, in order.
fn partitions(reader: &Reader) -> Result<Vec<PartitionNo>, StoreError> {
    let numbers = reader.query("SELECT id FROM partition ORDER BY id", &[], |cells| cells.int())?;
    Ok(numbers.into_iter().filter_map(PartitionNo::new).collect())
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
