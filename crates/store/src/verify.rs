//! Recomputes from the founding row on what the database says, and lists where it says otherwise.
//! Streams: memory does not grow with the data.

mod chains;
mod claims;
mod payments;
mod sums;

use std::fmt;
use std::path::Path;

use engine::ports::StoreError;
use serde::de::IgnoredAny;

use crate::Error;
use crate::directory;
use crate::driver::Reader;
use crate::pool::Source;
use crate::rows::PARTITION;
use crate::sqlite::Options;
use crate::tables::JOURNAL;

/// How many problems are listed; the rest is counted.
pub const PROBLEMS_MAX: usize = 100;

/// What was looked at, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Journal rows.
    pub journal_rows: u64,
    /// After-images in the journal that were followed from their entities.
    pub images: u64,
    /// After-images in the journal.
    pub images_written: u64,
    /// Accounts.
    pub accounts: u64,
    /// Payments.
    pub payments: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Ledger postings.
    pub postings: u64,
    /// Claimed keys.
    pub claims: u64,
    /// What is wrong: the first [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// How much is wrong in all.
    pub problems_found: u64,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In which table.
    pub table: &'static str,
    /// With which row.
    pub row: String,
    /// What.
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
        chains::verify(reader, &mut report)?;
        Ok(report)
    })
}

/// The journal has no gap, and ends where the partition says.
fn journal(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut expected = 1;
    reader.walk("SELECT seq, changes FROM journal ORDER BY seq", &[], |cells| {
        cells.of(&JOURNAL);
        let seq = cells.int()?;
        // Counted, not kept: an ignored value takes no room.
        let images: Vec<IgnoredAny> = cells.opt_json()?.unwrap_or_default();
        report.images_written += images.len() as u64;
        if seq != expected {
            report.problem("journal", seq, format!("follows on {}", expected - 1));
        }
        expected = seq + 1;
        report.journal_rows += 1;
        Ok(())
    })?;
    let sql = "SELECT next_seq, payment_number, tenant_no, \
               (SELECT coalesce(max(number), 0) FROM payment), \
               (SELECT coalesce(max(no), 0) FROM tenant) FROM partition WHERE id = ?1";
    let found = reader.query_one(sql, &[PARTITION.into()], |cells| {
        Ok([cells.int()?, cells.int()?, cells.int()?, cells.int()?, cells.int()?])
    })?;
    let Some([next_seq, payment_number, tenant_no, payments, tenants]) = found else {
        report.problem("partition", PARTITION, "is not there");
        return Ok(());
    };
    if next_seq != expected {
        report.problem("partition", PARTITION, format!("next_seq is {next_seq}, not {expected}"));
    }
    if payment_number <= payments {
        report.problem("partition", PARTITION, "hands out a payment number again");
    }
    if tenant_no <= tenants {
        report.problem("partition", PARTITION, "hands out a tenant's number again");
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
