//! Recomputes from the founding row on what the database says, and lists where it says otherwise.
//! Streams: memory does not grow with the data.

mod actors;
mod billing;
mod chains;
mod checks;
mod claims;
mod entitlements;
mod features;
mod flags;
mod journal;
mod payments;
mod scrub;
mod sums;
mod usage;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use domain::Seq;
use engine::ports::StoreError;

pub use self::scrub::{Portion, Scrub};
use crate::Error;
use crate::chain::Link;
use crate::directory;
use crate::driver::{Cells, Reader};
use crate::follow::Followed;
use crate::pool::Source;
use crate::sqlite::Options;
use crate::tables::{JOURNAL, Table};

/// How many problems are listed; the rest is counted.
pub const PROBLEMS_MAX: usize = 100;

/// The numbers of verified rows, and the problems found in them.
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
    /// The first [`PROBLEMS_MAX`] problems.
    pub problems: Vec<Problem>,
    /// The number of all problems.
    pub problems_found: u64,
}

/// The end of a partition's journal at some time, kept elsewhere: who rewrites the whole chain afterwards
/// is found by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The number of the last row.
    pub seq: Seq,
    /// Its link, as the column `chain` has it.
    pub chain: String,
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seq.0, self.chain)
    }
}

/// A text is no [`Anchor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a row's number and its link")]
pub struct NoAnchor;

impl FromStr for Anchor {
    type Err = NoAnchor;

    fn from_str(text: &str) -> Result<Self, NoAnchor> {
        let (seq, chain) = text.trim().split_once(' ').ok_or(NoAnchor)?;
        Link::parse(chain).ok_or(NoAnchor)?;
        Ok(Self { seq: Seq(seq.parse().map_err(|_| NoAnchor)?), chain: chain.to_owned() })
    }
}

/// The ends of all partitions' journals as they are now; none of a partition without rows.
///
/// # Errors
/// [`Error`] where they cannot be read.
pub fn anchors(source: &Source) -> Result<Vec<Anchor>, Error> {
    let ends = "SELECT j.seq, j.chain FROM partition p JOIN journal j ON j.seq = p.next_seq - 1 \
                ORDER BY j.seq";
    let read = source.read()?.query(ends, &[], |cells| {
        cells.of(&JOURNAL);
        Ok(Anchor { seq: cells.seq()?, chain: cells.string()? })
    });
    read.map_err(source.failed())
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

    /// Counts the images of a row's entity, or reports what is wrong with them.
    fn followed(&mut self, table: &Table, followed: Followed) {
        match followed {
            Ok(images) => self.images += images,
            Err((name, what)) => self.problem(table.name, name, what),
        }
    }

    /// Reports the error that ended a check as a problem, where a row is corrupt or the database is a file, which may
    /// be damaged; the other checks follow. Other errors of a server are returned: they concern all checks.
    fn go_on(
        &mut self,
        reader: &Reader,
        check: &str,
        checked: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match checked {
            Err(StoreError::Corrupt { table, reason }) => {
                self.problem(table, "a row", format!("cannot be read: {reason}"));
                Ok(())
            }
            Err(error) if reader.sqlite().is_some() => {
                self.problem("database", format!("check of {check}"), error.to_string());
                Ok(())
            }
            checked => checked,
        }
    }

    fn problem(&mut self, table: &'static str, row: impl fmt::Display, what: impl Into<String>) {
        self.add(Problem { table, row: row.to_string(), what: what.into() });
    }

    /// Adds a problem: lists it, or counts it where enough are listed.
    pub fn add(&mut self, problem: Problem) {
        self.problems_found += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
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
    verify_anchored(source, &[])
}

/// [`verify_source`], and that the journal still has the rows of these anchors.
///
/// # Errors
/// [`Error`] where it cannot be opened or read.
pub fn verify_anchored(source: &Source, anchors: &[Anchor]) -> Result<Report, Error> {
    verify_with(&source.read()?, anchors).map_err(source.failed())
}

/// Verifies what a connection reads.
///
/// # Errors
/// [`StoreError`] where a server cannot be read. What cannot be read of a file is a problem.
pub fn verify(reader: &Reader) -> Result<Report, StoreError> {
    verify_with(reader, &[])
}

/// [`verify`], and that the journal still has the rows of these anchors.
fn verify_with(reader: &Reader, anchors: &[Anchor]) -> Result<Report, StoreError> {
    reader.snapshot(|reader| {
        let mut report = Report::default();
        let sqlite = reader.sqlite();
        for line in sqlite.map_or(Ok(vec![]), |it| it.integrity(PROBLEMS_MAX))? {
            report.problem("database", "file", line);
        }
        let checks: [(&'static str, Check); 11] = [
            ("payments", payments::verify),
            ("entitlements", entitlements::verify),
            ("billing", billing::verify),
            ("features", features::verify),
            ("usage", usage::verify),
            ("sums", sums::verify),
            ("claims", claims::verify),
            ("flags", flags::verify),
            ("actors", actors::verify),
            ("checks", checks::verify),
            ("chains", chains::verify),
        ];
        let checked = journal::verify(reader, anchors, &mut report);
        report.go_on(reader, "journal", checked)?;
        for (name, check) in checks {
            let checked = check(reader, &mut report);
            report.go_on(reader, name, checked)?;
        }
        Ok(report)
    })
}

/// One of the checks.
type Check = fn(&Reader, &mut Report) -> Result<(), StoreError>;

/// Gives each row of a query to `each`. A row that it cannot read is a problem, and the next one
/// follows. The query's first columns are the table's key.
fn each_row(
    reader: &Reader,
    report: &mut Report,
    (table, sql): (&Table, &str),
    mut each: impl FnMut(&mut Cells<'_>, &mut Report) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    reader.walk(sql, &[], |cells| one_row(cells, report, table, &mut each))
}

/// Gives a row to `each`; one that it cannot read is a problem.
fn one_row(
    cells: &mut Cells<'_>,
    report: &mut Report,
    table: &Table,
    each: &mut dyn FnMut(&mut Cells<'_>, &mut Report) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut row = cells.clone();
    let read = each(cells, report);
    let Err(StoreError::Corrupt { table: of, reason }) = read else { return read };
    let key = row.describe(table.key_columns);
    // A row of another table belongs to this one.
    let name = if of == table.name { key } else { format!("of {} {key}", table.name) };
    report.problem(of, name, format!("cannot be read: {reason}"));
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
