//! Reads for those who go on with what was committed: followers of the journal, push deliveries,
//! and whoever asks gateways about outcomes.

use std::sync::LazyLock;

use domain::payment::Outstanding;
use domain::{PaymentId, Seq, TenantNo, Timestamp};
use engine::ports::{Delivery, JournalRow, StoreError};

use super::window::{self, count};
use crate::driver::{Cells, Reader, Value};
use crate::rows::PARTITION;
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
    let head = journal_head(reader)?;
    if head <= after {
        return Ok((vec![], after));
    }
    let sql = "SELECT seq, at_us, committed_at_us, tenant, events FROM journal \
         WHERE partition = ?1 AND seq > ?2 AND events IS NOT NULL ORDER BY seq LIMIT ?3";
    let parameters = [PARTITION.into(), after.into(), limit(rows_max)];
    let rows = reader.query(sql, &parameters, journal)?;
    let upto = match rows.last() {
        Some(last) if rows.len() == window::bounded(rows_max) => last.seq,
        Some(_) | None => head,
    };
    Ok((rows, upto))
}

pub(super) fn journal_row(reader: &Reader, seq: Seq) -> Result<Option<JournalRow>, StoreError> {
    let sql = "SELECT seq, at_us, committed_at_us, tenant, events FROM journal \
         WHERE partition = ?1 AND seq = ?2";
    reader.query_one(sql, &[PARTITION.into(), seq.into()], journal)
}

pub(super) fn journal_head(reader: &Reader) -> Result<Seq, StoreError> {
    let sql = "SELECT seq FROM journal WHERE partition = ?1 ORDER BY seq DESC LIMIT 1";
    count(reader, sql, &[PARTITION.into()]).map(Seq)
}

pub(super) fn followed(reader: &Reader, follower: &str) -> Result<Seq, StoreError> {
    count(reader, "SELECT upto FROM follower WHERE name = ?1", &[follower.into()]).map(Seq)
}

pub(super) fn deliveries_due(
    reader: &Reader,
    now: Timestamp,
    rows_max: usize,
) -> Result<Vec<Delivery>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        tables::DELIVERY.select("WHERE due_at_us <= ?1 ORDER BY due_at_us, seq, ordinal LIMIT ?2")
    });
    reader.query(&SQL, &[now.into(), limit(rows_max)], rows::delivery)
}

pub(super) fn deliveries_waiting(reader: &Reader) -> Result<i64, StoreError> {
    count(reader, "SELECT count(*) FROM delivery", &[])
}

pub(super) fn outstanding_due(
    reader: &Reader,
    now: Timestamp,
    rows_max: usize,
) -> Result<Vec<Outstanding>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let rest = "WHERE ask_at_us IS NOT NULL AND ask_at_us <= ?1 \
                    ORDER BY ask_at_us, tenant, transaction_id LIMIT ?2";
        tables::OUTSTANDING.select(rest)
    });
    reader.query(&SQL, &[now.into(), limit(rows_max)], rows::outstanding)
}

pub(super) fn outstanding_after(
    reader: &Reader,
    at: Timestamp,
    rows_max: usize,
) -> Result<Vec<Outstanding>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let rest = "WHERE ask_at_us > ?1 \
                    ORDER BY ask_at_us DESC, tenant DESC, transaction_id DESC LIMIT ?2";
        tables::OUTSTANDING.select(rest)
    });
    reader.query(&SQL, &[at.into(), limit(rows_max)], rows::outstanding)
}

pub(super) fn outstanding_orphans(reader: &Reader) -> Result<Vec<Outstanding>, StoreError> {
    let sql = tables::OUTSTANDING
        .select("WHERE ask_at_us IS NULL AND asked = 0 ORDER BY tenant, transaction_id");
    reader.query(&sql, &[], rows::outstanding)
}

pub(super) fn outstanding_of(
    reader: &Reader,
    no: TenantNo,
    payment: PaymentId,
) -> Result<Vec<Outstanding>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        tables::OUTSTANDING.select("WHERE tenant = ?1 AND payment_id = ?2 ORDER BY transaction_id")
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
