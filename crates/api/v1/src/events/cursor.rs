//! How far a reader is in the tenant's events: the last journal row of each partition that it has seen.

use std::sync::Arc;

use ::webhooks::event::events_of;
use domain::partition::PARTITIONS_MAX;
use domain::{PartitionNo, Seq, TenantNo, Timestamp};
use engine::ports::{JournalRow, Queries, StoreError};

/// Journal rows that one request looks at, of all tenants.
const ROWS_MAX: usize = 1_000;

/// The longest text of one: the digits of a row of each partition that there can be.
const TEXT_BYTES_MAX: usize = 20 * PARTITIONS_MAX as usize;

/// The text of the beginning.
const FIRST: &str = "first";

/// The separator between the rows of partitions.
const SEPARATOR: char = '-';

/// The last row that was seen of each partition. Of partitions that are absent none was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor(Vec<Seq>);

/// Journal rows with events of a tenant, in the order that was asked for.
pub(super) struct Page {
    pub(super) rows: Vec<Arc<JournalRow>>,
    /// Where the next page begins: behind them, and behind rows without events of the tenant.
    pub(super) next: Cursor,
    /// Whether there are further rows already.
    pub(super) more: bool,
}

impl Cursor {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let mut cursor = Self::default();
        if text == FIRST {
            return Some(cursor);
        }
        for row in text.split(SEPARATOR) {
            let digits = row.bytes().all(|it| it.is_ascii_digit()).then_some(row)?;
            cursor.pass(Seq(digits.parse().ok()?));
        }
        Some(cursor)
    }

    pub(super) fn text(&self) -> String {
        if self.0.is_empty() {
            return FIRST.to_owned();
        }
        let rows = self.0.iter().map(|row| row.0.to_string());
        rows.collect::<Vec<_>>().join(&SEPARATOR.to_string())
    }

    /// Behind all rows that there are.
    pub(super) fn last(queries: &dyn Queries) -> Result<Self, StoreError> {
        queries.journal_heads().map(Self)
    }

    /// Moves behind a row.
    pub(super) fn pass(&mut self, row: Seq) {
        match self.0.binary_search_by_key(&row.partition(), |it| it.partition()) {
            Ok(at) => self.0[at] = row.max(self.0[at]),
            Err(at) => self.0.insert(at, row),
        }
    }

    /// The newest rows of a tenant that are not behind it, the newest first: those with `limit` events, or a few more in
    /// the last one. What it returns for `next` is behind the rows before them, and `more` says whether there can be any.
    pub(super) fn page_before(
        &self,
        queries: &dyn Queries,
        tenant: TenantNo,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let share = (ROWS_MAX / self.0.len().max(1)).max(1);
        let (mut found, mut next) = (vec![], Self::default());
        for upto in &self.0 {
            let start = upto.partition().start();
            let after = Seq(upto.0.saturating_sub(share as i64)).max(start);
            next.0.push(after);
            if after < *upto {
                let (rows, _) = queries.journal_after(after, share)?;
                let own = rows.into_iter().filter(|row| row.tenant == tenant && row.seq <= *upto);
                found.extend(in_order(own));
            }
        }
        found.sort_by_key(|(committed_at, row)| std::cmp::Reverse((*committed_at, row.seq)));
        for (_, row) in split_off_above(&mut found, limit) {
            next.pass(row.seq);
        }
        let more = next.0.iter().any(|row| *row > row.partition().start());
        let rows = found.into_iter().map(|(_, row)| row).collect();
        Ok(Page { rows, next, more })
    }

    fn of(&self, partition: PartitionNo) -> Seq {
        let found = self.0.iter().find(|it| it.partition() == partition);
        found.copied().unwrap_or_else(|| partition.start())
    }

    /// The next rows of a tenant: those with `limit` events, or a few more in the last one. Every partition has a
    /// share of what is looked at, so that none waits for another.
    pub(super) fn page(
        &self,
        queries: &dyn Queries,
        tenant: TenantNo,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let heads = queries.journal_heads()?;
        let share = (ROWS_MAX / heads.len().max(1)).max(1);
        let (mut found, mut read_upto) = (vec![], vec![]);
        for head in &heads {
            let after = self.of(head.partition());
            if after < *head {
                let (rows, upto) = queries.journal_after(after, share)?;
                found.extend(in_order(rows.into_iter().filter(|row| row.tenant == tenant)));
                read_upto.push(upto);
            }
        }
        found.sort_by_key(|(committed_at, row)| (*committed_at, row.seq));
        let rest = split_off_above(&mut found, limit);
        let mut next = self.clone();
        found.iter().for_each(|(_, row)| next.pass(row.seq));
        let is_read =
            |upto: &Seq| rest.iter().all(|(_, it)| it.seq.partition() != upto.partition());
        read_upto.into_iter().filter(is_read).for_each(|upto| next.pass(upto));
        let more = heads.iter().any(|head| next.of(head.partition()) < *head);
        let rows = found.into_iter().map(|(_, row)| row).collect();
        Ok(Page { rows, next, more })
    }
}

/// Rows of a partition with the times of their commits, which never go back here: rows stay in order where the clock
/// was set.
fn in_order(
    rows: impl Iterator<Item = Arc<JournalRow>>,
) -> impl Iterator<Item = (Timestamp, Arc<JournalRow>)> {
    rows.scan(Timestamp(i64::MIN), |latest, row| {
        *latest = row.committed_at.max(*latest);
        Some((*latest, row))
    })
}

/// Splits off the rows behind those that have `limit` events.
fn split_off_above(
    found: &mut Vec<(Timestamp, Arc<JournalRow>)>,
    limit: usize,
) -> Vec<(Timestamp, Arc<JournalRow>)> {
    let mut events = 0;
    let is_full = |(_, row): &(Timestamp, Arc<JournalRow>)| {
        let before = events;
        events += events_of(row).count();
        before >= limit
    };
    let end = found.iter().position(is_full).unwrap_or(found.len());
    found.split_off(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_has_a_row_of_each_partition() {
        let second = PartitionNo::new(1).unwrap();
        let row = Seq(second.start().0 + 7);
        let text = format!("5-{}", row.0);
        let mut cursor = Cursor::parse(&text).unwrap();
        assert_eq!((cursor.of(PartitionNo::FIRST), cursor.of(second)), (Seq(5), row));
        assert_eq!(cursor.text(), text);
        cursor.pass(Seq(4));
        assert_eq!(cursor.text(), text, "it never goes back");
        cursor.pass(Seq(6));
        assert_eq!(cursor.text(), format!("6-{}", row.0));
        let third = PartitionNo::new(2).unwrap();
        assert_eq!(cursor.of(third), third.start());
        assert_eq!(Cursor::parse("first"), Some(Cursor::default()));
        assert_eq!(Cursor::default().text(), "first");
        for wrong in ["", "-", "5-", "-5", "+5", "5,6", "x", "99999999999999999999"] {
            assert_eq!(Cursor::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Cursor::parse(&("1-".repeat(8_192) + "1")), None);
    }
}
