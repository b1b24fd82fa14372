//! The checks of [`super::verify`] on single rows, in portions, for a database that is served meanwhile: the
//! journal's links, entities and payments against their images, check values. Totals are not compared: they change
//! between two portions.

use engine::ports::StoreError;

use super::chains::{Entities, alone};
use super::journal::Links;
use super::{Problem, Report, checks, one_row, payments};
use crate::Error;
use crate::driver::{Cell, Cells, CheckKey, Reader, Value};
use crate::entities::EntityTable;
use crate::pool::Source;
use crate::tables::{JOURNAL, PAYMENT, POSTING, TABLES, Table};

/// The rows of a portion: a snapshot of the database is held for no more.
const PORTION_ROWS: usize = 256;

/// Goes through a database, from the journal's first row to the last row of the last table.
pub struct Scrub {
    source: Source,
    reader: Option<Reader>,
    stages: Vec<Stage>,
    /// The place of the stage among `stages`.
    at: usize,
    /// The key of the last row that was looked at in this stage.
    after: Option<Vec<Cell>>,
    links: Links,
}

/// A table, and what of its rows is verified.
#[derive(Clone, Copy)]
struct Stage {
    table: &'static Table,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Links,
    /// One of [`alone`].
    Entity(&'static dyn EntityTable),
    Payments,
    Postings,
    CheckValues,
}

/// The result of a portion.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Portion {
    /// How many rows were looked at.
    pub rows: usize,
    /// The first [`super::PROBLEMS_MAX`] problems.
    pub problems: Vec<Problem>,
    /// Whether it was the last one.
    pub is_last: bool,
}

impl Scrub {
    /// Begins with the first row.
    #[must_use]
    pub fn new(source: Source) -> Self {
        let links = Stage { table: &JOURNAL, what: What::Links };
        let entities = alone();
        let entities = entities.map(|it| Stage { table: it.table(), what: What::Entity(it) });
        let payments = Stage { table: &PAYMENT, what: What::Payments };
        let postings = Stage { table: &POSTING, what: What::Postings };
        let checked = TABLES.iter().filter(|table| table.is_checked);
        let checked = checked.map(|&table| Stage { table, what: What::CheckValues });
        let stages = [links]
            .into_iter()
            .chain(entities)
            .chain([payments, postings])
            .chain(checked)
            .collect();
        Self { source, reader: None, stages, at: 0, after: None, links: Links::default() }
    }

    /// Looks at the next rows.
    ///
    /// # Errors
    /// [`Error`] where the database cannot be opened or read: begin anew later. Of a file, what cannot be read
    /// is a problem, and the next table follows.
    pub fn next_portion(&mut self) -> Result<Portion, Error> {
        let Some(&stage) = self.stages.get(self.at) else {
            return Ok(Portion { is_last: true, ..Portion::default() });
        };
        let reader = match self.reader.take().filter(Reader::is_usable) {
            Some(reader) => reader,
            None => self.source.read()?,
        };
        let mut report = Report::default();
        let after = self.after.take();
        let (mut rows, mut last) = (0, None);
        let looked = reader.snapshot(|reader| {
            let mut looks = stage.looks(reader, &mut self.links)?;
            let rest = stage.table.next_rows(after.is_some(), PORTION_ROWS);
            let after: Vec<Value<'_>> = after.iter().flatten().map(Cell::value).collect();
            reader.walk(&stage.table.select(&rest), &after, |cells| {
                rows += 1;
                last = key(stage.table, &mut cells.clone());
                one_row(cells, &mut report, stage.table, &mut looks)
            })
        });
        let is_whole = looked.is_ok() && rows == PORTION_ROWS;
        report.go_on(&reader, stage.table.name, looked).map_err(self.source.failed())?;
        self.reader = Some(reader);
        // Where the last row's key cannot be read, nobody knows what is behind it.
        self.after = last.filter(|_| is_whole);
        if self.after.is_none() {
            self.at += 1;
        }
        let is_last = self.at == self.stages.len();
        Ok(Portion { rows, problems: report.problems, is_last })
    }
}

/// Looks at one row.
type Looks<'r> = Box<dyn FnMut(&mut Cells<'_>, &mut Report) -> Result<(), StoreError> + 'r>;

impl Stage {
    /// The function that verifies a row of the stage.
    fn looks<'r>(self, reader: &'r Reader, links: &'r mut Links) -> Result<Looks<'r>, StoreError> {
        let table = self.table;
        Ok(match self.what {
            What::Links => Box::new(|cells, report| links.follow(cells, report).map(drop)),
            What::Entity(entity) => {
                let mut entities = Entities::prepare(reader)?;
                Box::new(move |cells, report| entities.entity(entity, cells, report))
            }
            What::Payments => {
                let mut entities = Entities::prepare(reader)?;
                Box::new(move |cells, report| entities.payment(cells, report))
            }
            What::Postings => {
                let mut accounts = payments::Accounts::prepare(reader)?;
                Box::new(move |cells, report| accounts.posting(cells, report))
            }
            What::CheckValues => {
                let key = CheckKey::read(reader)?;
                Box::new(move |cells, report| checks::verify_row(cells, report, (table, &key)))
            }
        })
    }
}

/// The key of a row, where it can be read.
fn key(table: &Table, cells: &mut Cells<'_>) -> Option<Vec<Cell>> {
    let key = table.columns[..table.key_columns].iter();
    key.map(|column| Cell::read(column.kind, cells).ok()).collect()
}
