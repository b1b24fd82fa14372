//! Reads for those who go on with what was committed: followers of the journal, push deliveries,
//! and whoever asks gateways about outcomes.

use std::sync::LazyLock;

use domain::payment::Outstanding;
use domain::{PartitionNo, PaymentId, Seq, TenantNo, Timestamp};
use engine::ports::{Delivery, JournalRow, StoreError};

use super::window::{self, count};
use crate::driver::{Cells, Reader, Value};
use crate::{rows, tables};

fn limit(rows: usize) -> Value<'static> {
    window::limit(rows as u64)
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

pub(super) fn journal_after(
    reader: &Reader,
    after: Seq,
    rows_max: usize,
) -> Result<(Vec<JournalRow>, Seq), StoreError> {
    let partition = after.partition();
    let head = journal_head(reader, partition)?;
    if head <= after {
        return Ok((vec![], after));
    }
    let sql = "SELECT seq, at_us, committed_at_us, tenant, events FROM journal \
         WHERE seq > ?1 AND seq < ?2 AND events IS NOT NULL ORDER BY seq LIMIT ?3";
    let parameters = [after.into(), partition.end().into(), limit(rows_max)];
    let rows = reader.query(sql, &parameters, journal)?;
    let upto = match rows.last() {
        Some(last) if rows.len() == window::bounded(rows_max) => last.seq,
        Some(_) | None => head,
    };
    Ok((rows, upto))
}

pub(super) fn journal_row(reader: &Reader, seq: Seq) -> Result<Option<JournalRow>, StoreError> {
    let sql = "SELECT seq, at_us, committed_at_us, tenant, events FROM journal WHERE seq = ?1";
    reader.query_one(sql, &[seq.into()], journal)
}

pub(crate) fn journal_head(reader: &Reader, partition: PartitionNo) -> Result<Seq, StoreError> {
    let sql = "SELECT seq FROM journal WHERE seq > ?1 AND seq < ?2 ORDER BY seq DESC LIMIT 1";
    let parameters = [partition.start().into(), partition.end().into()];
    let head = reader.query_one(sql, &parameters, |cells| cells.seq())?;
    Ok(head.unwrap_or(partition.start()))
}

pub(super) fn followed(
    reader: &Reader,
    partition: PartitionNo,
    follower: &str,
) -> Result<Seq, StoreError> {
    let sql = "SELECT upto FROM follower WHERE name = ?1 AND partition = ?2";
    let parameters = [follower.into(), partition.number().into()];
    let followed = reader.query_one(sql, &parameters, |cells| cells.seq())?;
    Ok(followed.unwrap_or(partition.start()))
}

pub(super) fn deliveries_due(
    reader: &Reader,
    partition: PartitionNo,
    now: Timestamp,
    rows_max: usize,
) -> Result<Vec<Delivery>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        tables::DELIVERY.select(
            "WHERE due_at_us <= ?1 AND seq > ?3 AND seq < ?4 \
             ORDER BY due_at_us, seq, ordinal LIMIT ?2",
        )
    });
    let (start, end) = (partition.start(), partition.end());
    reader.query(&SQL, &[now.into(), limit(rows_max), start.into(), end.into()], rows::delivery)
}

pub(super) fn deliveries_waiting(reader: &Reader) -> Result<i64, StoreError> {
    count(reader, "SELECT count(*) FROM delivery", &[])
}

pub(super) fn outstanding_due(
    reader: &Reader,
    partition: PartitionNo,
    now: Timestamp,
    rows_max: usize,
) -> Result<Vec<Outstanding>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let rest = "WHERE partition = ?1 AND ask_at_us IS NOT NULL AND ask_at_us <= ?2 \
                    ORDER BY ask_at_us, tenant, transaction_id LIMIT ?3";
        tables::OUTSTANDING.select(rest)
    });
    let parameters = [partition.number().into(), now.into(), limit(rows_max)];
    reader.query(&SQL, &parameters, rows::outstanding)
}

pub(super) fn outstanding_after(
    reader: &Reader,
    partition: PartitionNo,
    at: Timestamp,
    rows_max: usize,
) -> Result<Vec<Outstanding>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let rest = "WHERE partition = ?1 AND ask_at_us > ?2 \
                    ORDER BY ask_at_us DESC, tenant DESC, transaction_id DESC LIMIT ?3";
        tables::OUTSTANDING.select(rest)
    });
    let parameters = [partition.number().into(), at.into(), limit(rows_max)];
    reader.query(&SQL, &parameters, rows::outstanding)
}

pub(super) fn outstanding_orphans(
    reader: &Reader,
    partition: PartitionNo,
) -> Result<Vec<Outstanding>, StoreError> {
    let sql = tables::OUTSTANDING.select(
        "WHERE partition = ?1 AND ask_at_us IS NULL AND asked = 0 ORDER BY tenant, transaction_id",
    );
    reader.query(&sql, &[partition.number().into()], rows::outstanding)
}

pub(super) fn outstanding_of(
    reader: &Reader,
    no: TenantNo,
    payment: PaymentId,
) -> Result<Vec<Outstanding>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        tables::OUTSTANDING
            .select("WHERE payment_id = ?2 AND tenant + 0 = ?1 ORDER BY transaction_id")
    });
    reader.query(&SQL, &[no.into(), payment.into()], rows::outstanding)
}

pub(super) fn outstanding(
    reader: &Reader,
    rows_max: usize,
) -> Result<Vec<Outstanding>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        tables::OUTSTANDING.select("ORDER BY deadline_us, tenant, transaction_id LIMIT ?1")
    });
    reader.query(&SQL, &[limit(rows_max)], rows::outstanding)
}

pub(super) fn outstanding_count(reader: &Reader) -> Result<i64, StoreError> {
    count(reader, "SELECT count(*) FROM outstanding", &[])
}
