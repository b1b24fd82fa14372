//! Recomputes from the founding row on what the database says, and lists where it says otherwise.
//! Streams: memory does not grow with the data.

mod chains;
mod claims;
mod flags;
mod payments;
mod sums;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use domain::{PartitionNo, Seq};
use engine::ports::StoreError;
use serde::de::IgnoredAny;

use crate::Error;
use crate::directory;
use crate::driver::Reader;
use crate::pool::Source;
use crate::sqlite::Options;
use crate::tables::{JOURNAL, PARTITION};

/// How many problems are listed; the rest is counted.
pub const PROBLEMS_MAX: usize = 100;

/// What was verified, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub journal_rows: u64,
    /// After-images in the journal that were followed from their entities.
    pub images: u64,
    /// After-images in the journal.
    pub images_written: u64,
    pub accounts: u64,
    pub payments: u64,
    pub transactions: u64,
    pub postings: u64,
    pub claims: u64,
    /// What is wrong: the first [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// The number of all problems.
    pub problems_found: u64,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub table: &'static str,
    pub row: String,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.table, self.row, self.what)
    }
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.problems_found == 0
    }

    fn problem(&mut self, table: &'static str, row: impl fmt::Display, what: impl Into<String>) {
        self.problems_found += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { table, row: row.to_string(), what: what.into() });
        }
    }
}

/// Verifies the database of a data directory, which may be in use.
///
/// # Errors
/// [`Error`] where it cannot be opened or read.
pub fn verify_dir(dir: &Path) -> Result<Report, Error> {
    verify_file(&directory::database_path(dir))
}

/// Verifies a database file, such as a backup.
///
/// # Errors
/// [`Error`] where it cannot be opened or read.
pub fn verify_file(path: &Path) -> Result<Report, Error> {
    let options = Options { reader_cache_kib: 64 * 1024, ..Options::default() };
    verify_source(&Source::File(path.to_owned(), options))
}

/// Verifies a database, which may be in use.
///
/// # Errors
/// [`Error`] where it cannot be opened or read.
pub fn verify_source(source: &Source) -> Result<Report, Error> {
    verify(&source.read()?).map_err(source.failed())
}

/// Verifies what a connection reads.
///
/// # Errors
/// [`StoreError`] where it cannot be read. A row that cannot be what it is ends the verification:
/// that is [`StoreError::Corrupt`].
pub fn verify(reader: &Reader) -> Result<Report, StoreError> {
    reader.snapshot(|reader| {
        let mut report = Report::default();
        let sqlite = reader.sqlite();
        for line in sqlite.map_or(Ok(vec![]), |it| it.integrity(PROBLEMS_MAX))? {
            report.problem("database", "file", line);
        }
        journal(reader, &mut report)?;
        payments::verify(reader, &mut report)?;
        sums::verify(reader, &mut report)?;
        claims::verify(reader, &mut report)?;
        flags::verify(reader, &mut report)?;
        chains::verify(reader, &mut report)?;
        Ok(report)
    })
}

/// The journal has no gap, and ends where the partition says.
fn journal(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut next: BTreeMap<PartitionNo, i64> = BTreeMap::new();
    reader.walk("SELECT seq, changes FROM journal ORDER BY seq", &[], |cells| {
        cells.of(&JOURNAL);
        let seq = cells.int()?;
        // Counted, not kept: an ignored value takes no room.
        let images: Vec<IgnoredAny> = cells.opt_json()?.unwrap_or_default();
        report.images_written += images.len() as u64;
        let partition = Seq(seq).partition();
        let expected = next.insert(partition, seq + 1).unwrap_or(partition.start().0 + 1);
        if seq != expected {
            report.problem("journal", seq, format!("follows on {}", expected - 1));
        }
        report.journal_rows += 1;
        Ok(())
    })?;
    partitions(reader, &mut next, report)
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

/// Lists the rows that a query finds: each one is wrong in the same way. The query yields their
/// ids.
fn list(
    reader: &Reader,
    report: &mut Report,
    (table, what): (&'static str, &str),
    sql: &str,
) -> Result<(), StoreError> {
    reader.walk(sql, &[], |cells| {
        report.problem(table, cells.id()?, what);
        Ok(())
    })
}

/// The number that a query yields.
fn count(reader: &Reader, sql: &str) -> Result<u64, StoreError> {
    let counted = reader.query_one(sql, &[], |cells| cells.int())?.unwrap_or_default();
    Ok(u64::try_from(counted).unwrap_or_default())
}
