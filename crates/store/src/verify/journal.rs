//! The journal by itself: it has no gap, every row agrees with its link and follows on the one before,
//! and it ends where its partition says.

use std::collections::BTreeMap;

use domain::{PartitionNo, Seq};
use engine::ports::StoreError;
use serde::de::IgnoredAny;

use super::{Anchor, Report};
use crate::chain::Link;
use crate::driver::{Cells, Field, Reader};
use crate::tables::{JOURNAL, PARTITION};

/// The end of a partition's journal.
struct End {
    /// The number of the next row.
    next: i64,
    /// The link of the last row; `None` where it cannot be known.
    link: Option<Link>,
}

impl End {
    fn start(partition: PartitionNo) -> Self {
        Self { next: partition.start().0 + 1, link: Some(Link::Start) }
    }
}

pub(super) fn verify(
    reader: &Reader,
    anchors: &[Anchor],
    report: &mut Report,
) -> Result<(), StoreError> {
    let mut links = Links::default();
    let mut awaited: BTreeMap<i64, &Anchor> = anchors.iter().map(|it| (it.seq.0, it)).collect();
    reader.walk(&JOURNAL.select("ORDER BY seq"), &[], |cells| {
        let Some((seq, link)) = links.follow(cells, report)? else { return Ok(()) };
        if let Some(anchor) = awaited.remove(&seq)
            && link.map(Link::text).as_ref() != Some(&anchor.chain)
        {
            report.problem(JOURNAL.name, seq, "is not the row of the anchor");
        }
        Ok(())
    })?;
    for anchor in awaited.values() {
        report.problem(JOURNAL.name, anchor.seq.0, "is not there, but an anchor has it");
    }
    let mut next = links.0.into_iter().map(|(partition, end)| (partition, end.next)).collect();
    partitions(reader, &mut next, report)
}

/// The ends of the partitions' journals, as far as they were read.
#[derive(Default)]
pub(super) struct Links(BTreeMap<PartitionNo, End>);

impl Links {
    /// Reads the next row in the order of their numbers, and verifies its link. Returns the number and the
    /// link; `None` for a row that has no number.
    pub(super) fn follow(
        &mut self,
        cells: &mut Cells<'_>,
        report: &mut Report,
    ) -> Result<Option<(i64, Option<Link>)>, StoreError> {
        cells.of(&JOURNAL);
        let row = match Row::read(cells) {
            Ok(row) => row,
            Err(StoreError::Corrupt { reason, .. }) => {
                report.problem(JOURNAL.name, "without a number", reason);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        report.journal_rows += 1;
        report.images_written += row.images;
        if let Some(what) = &row.unreadable {
            report.problem(JOURNAL.name, row.seq, *what);
        }
        let partition = Seq(row.seq).partition();
        let before = self.0.get(&partition).map_or(End::start(partition), |it| End { ..*it });
        let is_next = row.seq == before.next;
        if !is_next {
            report.problem(JOURNAL.name, row.seq, format!("follows on {}", before.next - 1));
        } else if before.link.is_some_and(|it| row.link_after(it) != row.link) {
            report.problem(JOURNAL.name, row.seq, "is not what was written: its link differs");
        }
        self.0.insert(partition, End { next: row.seq + 1, link: row.link });
        Ok(Some((row.seq, row.link)))
    }
}

/// A row as the database holds it, whatever that is.
struct Row<'a> {
    seq: i64,
    /// Its columns but `chain`.
    columns: Vec<Field<'a>>,
    /// Its link, if `chain` is one.
    link: Option<Link>,
    /// The number of its after-images.
    images: u64,
    /// The column that cannot be read, in words for the report; `None` where all can.
    unreadable: Option<&'static str>,
}

impl<'a> Row<'a> {
    fn read(cells: &mut Cells<'a>) -> Result<Self, StoreError> {
        let seq = cells.peek_int()?;
        let (chain, rest) = JOURNAL.columns.split_last().expect("the journal has columns");
        let mut row = Row { seq, columns: Vec::new(), link: None, images: 0, unreadable: None };
        for column in rest {
            let field = cells.take()?;
            match (column.name, is_list(&field)) {
                ("changes", Ok(images)) => row.images = images,
                ("changes", Err(_)) => row.unreadable = Some("has changes that are no JSON list"),
                ("events", Err(_)) => row.unreadable = Some("has events that are no JSON list"),
                _ => {}
            }
            row.columns.push(field);
        }
        debug_assert_eq!(chain.name, "chain");
        if let Field::Text(text) = cells.take()? {
            row.link = std::str::from_utf8(text).ok().and_then(Link::parse);
        }
        Ok(row)
    }

    /// The link that its columns have after the row of another link.
    fn link_after(&self, previous: Link) -> Option<Link> {
        let mut next = previous.next();
        for field in &self.columns {
            match field {
                Field::Null => next.null(),
                Field::Int(value) => next.int(*value),
                Field::Text(value) | Field::Id(value) => next.bytes(value),
                Field::Real(_) | Field::Other => return None,
            }
        }
        Some(next.finish())
    }
}

/// The number of values in a JSON list; none where the field is NULL.
fn is_list(field: &Field<'_>) -> Result<u64, ()> {
    match field {
        Field::Null => Ok(0),
        // Counted, not kept: an ignored value takes no room.
        Field::Text(text) => match serde_json::from_slice::<Vec<IgnoredAny>>(text) {
            Ok(values) => Ok(values.len() as u64),
            Err(_) => Err(()),
        },
        Field::Int(_) | Field::Id(_) | Field::Real(_) | Field::Other => Err(()),
    }
}

/// Each partition hands out what was not handed out before. `next` are the journal rows to come, as
/// the journal has them.
fn partitions(
    reader: &Reader,
    next: &mut BTreeMap<PartitionNo, i64>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let mut is_first_there = false;
    let sql = "SELECT p.id, p.next_seq, p.payment_number, p.tenant_no, \
               (SELECT coalesce(max(no), 0) FROM tenant) FROM partition p ORDER BY p.id";
    let mut highest =
        reader.load("SELECT max(number) FROM payment WHERE number > ?1 AND number < ?2")?;
    reader.for_each(sql, &[], |cells| {
        cells.of(&PARTITION);
        let partition = PartitionNo::new(cells.int()?);
        let partition = partition.ok_or_else(|| cells.corrupt("is no partition"))?;
        let (next_seq, payment_number) = (cells.int()?, cells.int()?);
        let (tenant_no, tenants) = (cells.int()?, cells.int()?);
        let (number, start) = (partition.number(), partition.start());
        let expected = next.remove(&partition).unwrap_or(start.0 + 1);
        if next_seq != expected {
            report.problem("partition", number, format!("next_seq is {next_seq}, not {expected}"));
        }
        let bounds = [start.into(), partition.end().into()];
        let payments = highest.first(&bounds, |cells| cells.opt_int())?.flatten();
        if payment_number <= payments.unwrap_or(start.0) {
            report.problem("partition", number, "hands out a payment number again");
        }
        if partition == PartitionNo::FIRST {
            is_first_there = true;
            if tenant_no <= tenants {
                report.problem("partition", number, "hands out a tenant's number again");
            }
        }
        Ok(())
    })?;
    if !is_first_there {
        report.problem("partition", 0, "is not there");
    }
    for partition in next.keys() {
        report.problem("partition", partition.number(), "is not there, but has journal rows");
    }
    Ok(())
}
