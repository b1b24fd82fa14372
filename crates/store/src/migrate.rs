//! Copies the database of a data directory to a server, table by table in the order of the keys.
//!
//! Each pass compares portions of both sides and writes what differs, so that it can begin again
//! anywhere. The first pass may run while a server writes the source, and remembers how far it is;
//! the second holds the source's lock, so that nothing changes any more; after it, each table has
//! as many rows on both sides, and the same digest.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use engine::ports::{Cause, StoreError};
use ring::digest::{Context, SHA256};
use uuid::Uuid;

use crate::claims::{self, Memtable};
use crate::driver::{Cell, Cells, Database, Reader, Value};
use crate::postgres::Server;
use crate::sqlite::Options;
use crate::tables::{
    self, CLAIM, CLAIM_RECENT, CLUSTERED, JOURNAL, Kind, MIGRATION, PARTITION, TABLES, Table, int,
    text,
};
use crate::{Error, directory, schema};

/// How many rows are read and written at a time.
const PORTION_ROWS: usize = 2_000;

/// How far the first pass is with a table: the last key, as a JSON list of texts. The row without a
/// table's name says what is copied. There as long as the copy is not finished.
static COPYING: Table = Table { name: "copying", key_columns: 1, ..CLUSTERED }.of(&[
    text("table_name"),
    text("after"),
    int("is_done"),
]);

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The table that is being looked at.
    pub table: &'static str,
    /// Whether the source is locked: the second pass.
    pub is_locked: bool,
    /// Its rows that were looked at in this pass.
    pub rows: u64,
}

/// A commit of the copy failed.
#[derive(Debug, thiserror::Error)]
#[error("table {table}: {source}")]
struct TableFailed {
    table: &'static str,
    source: StoreError,
}

/// The result of a copy or of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Rows that were written: added, changed or removed.
    pub written: u64,
    /// Each table compared on both sides; empty where the source was in use, so that the second
    /// pass and the comparison are still to come.
    pub tables: Vec<Compared>,
}

/// One table on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    pub table: &'static str,
    /// Rows of the source.
    pub source_rows: u64,
    /// Rows of the target.
    pub target_rows: u64,
    /// Whether the digests of all rows are the same.
    pub is_equal: bool,
}

impl Copied {
    /// Whether both sides were compared, and are the same.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.tables.is_empty() && self.tables.iter().all(|it| it.is_equal)
    }
}

/// Copies the database of a data directory, which may be in use, into an empty one, or goes on with
/// a copy that was begun. Where the source is in use, it ends before the comparison.
///
/// # Errors
/// [`Error`] where either side cannot be used, or the target has other data.
pub fn sqlite_to_server(
    dir: &Path,
    server: &Server,
    progress: &mut dyn FnMut(Progress),
) -> Result<Copied, Error> {
    let (source, target) = (source(dir)?, target(server)?);
    let failed = Error::database(Path::new(server.database()));
    prepare(&source, &target, Path::new(server.database()))?;
    let mut copy = Copy { source, target, progress, is_locked: false, written: 0 };
    copy.first_pass().map_err(&failed)?;
    let lock = match directory::lock(dir) {
        Ok(lock) => lock,
        Err(Error::InUse { .. }) => return Ok(Copied { written: copy.written, tables: vec![] }),
        Err(error) => return Err(error),
    };
    copy.is_locked = true;
    let digests = copy.second_pass().map_err(&failed)?;
    let tables = compare(&digests, copy.target.reader()).map_err(&failed)?;
    let copied = Copied { written: copy.written, tables };
    if copied.is_complete() {
        copy.target.check_again(&PARTITION, "", &[]).map_err(&failed)?;
        copy.target.exec("DROP TABLE copying", &[]).map_err(&failed)?;
    }
    drop(lock);
    Ok(copied)
}

/// Compares both sides of a copy. Neither may be in use.
///
/// # Errors
/// [`Error`] where either cannot be used.
pub fn check(dir: &Path, server: &Server) -> Result<Copied, Error> {
    let lock = directory::lock(dir)?;
    let (source, target) = (source(dir)?, target(server)?);
    let name = Path::new(server.database());
    schema::check(target.reader(), name)?;
    let compared = digests_of_source(&source).and_then(|it| compare(&it, target.reader()));
    drop(lock);
    Ok(Copied { written: 0, tables: compared.map_err(Error::database(name))? })
}

fn source(dir: &Path) -> Result<Reader, Error> {
    directory::read_dir(dir, &Options { reader_cache_kib: 64 * 1024, ..Options::default() })
}

fn target(server: &Server) -> Result<Database, Error> {
    let all: Vec<&'static Table> = TABLES.iter().copied().chain([&COPYING]).collect();
    let target = Database::connect(&server.patient(), true, &all);
    target.map_err(Error::database(Path::new(server.database())))
}

/// The tables that are copied. The target has its own migrations, and puts recent claims among the
/// others.
fn copied_tables() -> impl Iterator<Item = &'static Table> {
    let own = [MIGRATION.name, CLAIM_RECENT.name];
    TABLES.iter().copied().filter(move |table| !own.contains(&table.name))
}

/// Makes the target's tables, or finds that they are those of a copy of this source.
fn prepare(source: &Reader, target: &Database, name: &Path) -> Result<(), Error> {
    let failed = Error::database(name);
    let identity = identity(source).map_err(&failed)?;
    let other = |what: &str| Error::OtherData { path: name.to_owned(), what: what.to_owned() };
    if schema::is_unfinished(target.reader()).map_err(&failed)? {
        let sql = "SELECT after FROM copying WHERE table_name = ''";
        let begun = target.reader().query_one(sql, &[], |cells| Ok(cells.text()?.to_owned()));
        return match begun.map_err(&failed)? {
            Some(begun) if begun == identity => Ok(()),
            Some(_) | None => Err(other("the copy of another data directory")),
        };
    }
    schema::migrate(target, name)?;
    let sql = "SELECT (SELECT count(*) FROM journal) + (SELECT count(*) FROM tenant) \
               + (SELECT count(*) FROM partition WHERE epoch > 0)";
    let rows = target.reader().query_one(sql, &[], |cells| cells.int());
    if rows.map_err(&failed)? != Some(0) {
        return Err(other("data already"));
    }
    let ddl = tables::ddl(&[&COPYING], target.reader().dialect());
    let begun = target.begin().and_then(|()| {
        target.create(&ddl)?;
        target.insert(&COPYING)?.row(&["".into(), (&identity).into(), 0.into()])?;
        target.commit()
    });
    begun.map_err(&failed)
}

/// The identity of a source: the request and the time of its first journal row.
fn identity(source: &Reader) -> Result<String, StoreError> {
    let sql = format!("SELECT request_id, at_us FROM {} ORDER BY seq LIMIT 1", JOURNAL.name);
    let first = source.query_one(&sql, &[], |cells| Ok((cells.id()?, cells.int()?)))?;
    Ok(first.map_or_else(|| "nothing".to_owned(), |(id, at_us)| format!("{id} {at_us}")))
}

struct Copy<'a> {
    source: Reader,
    target: Database,
    progress: &'a mut dyn FnMut(Progress),
    is_locked: bool,
    written: u64,
}

impl Copy<'_> {
    /// Copies what is there, from where it stopped.
    fn first_pass(&mut self) -> Result<(), StoreError> {
        let mut places = BTreeMap::new();
        let sql = COPYING.select("WHERE table_name <> ''");
        self.target.reader().for_each(&sql, &[], |cells| {
            let (name, after) = (cells.text()?.to_owned(), cells.text()?.to_owned());
            places.insert(name, (after, cells.int()? == 1));
            Ok(())
        })?;
        for table in copied_tables() {
            let after = match places.remove(table.name) {
                Some((_, true)) => continue,
                Some((after, false)) => key_of(table, &after)?,
                None => None,
            };
            self.pass(table, after)?;
        }
        Ok(())
    }

    /// Makes the target what the source is, which does not change any more.
    fn second_pass(&mut self) -> Result<Vec<Digest>, StoreError> {
        copied_tables().map(|table| self.pass(table, None)).collect()
    }

    fn pass(&mut self, table: &'static Table, after: Option<Row>) -> Result<Digest, StoreError> {
        let mut after = after;
        let recent = recent_of(table, &self.source)?;
        let mut digest = Digest::of(table);
        loop {
            let (rows, upto) = portion(table, &self.source, after.as_deref(), &recent)?;
            let there = range(table, self.target.reader(), after.as_deref(), upto.as_deref())?;
            rows.iter().for_each(|row| digest.add(row));
            self.write(table, &rows, &there, upto.as_deref())?;
            (self.progress)(Progress {
                table: table.name,
                is_locked: self.is_locked,
                rows: digest.rows,
            });
            if upto.is_none() {
                return Ok(digest);
            }
            after = upto;
        }
    }

    /// Writes what differs between two portions, and how far the first pass is.
    fn write(
        &mut self,
        table: &'static Table,
        rows: &[Row],
        there: &[Row],
        upto: Option<&[Cell]>,
    ) -> Result<(), StoreError> {
        let (added, removed) = differences(table, rows, there);
        if self.is_locked && added.is_empty() && removed.is_empty() {
            return Ok(());
        }
        self.target.begin()?;
        let key: Vec<String> = (0..table.key_columns)
            .map(|at| format!("{} = ?{}", table.columns[at].name, at + 1))
            .collect();
        let sql = format!("DELETE FROM {} WHERE {}", table.name, key.join(" AND "));
        let mut delete = self.target.prepare(&sql)?;
        for key in &removed {
            delete.row(&values(key))?;
        }
        let mut insert = self.target.insert(table)?;
        for row in &added {
            insert.row(&values(row))?;
        }
        if !self.is_locked {
            let after = upto.map(key_text).unwrap_or_default();
            let is_done = i64::from(upto.is_none());
            let row = [table.name.into(), (&after).into(), is_done.into()];
            self.target.upsert(&COPYING)?.row(&row)?;
        }
        drop((delete, insert));
        if let Err(error) = self.target.commit() {
            let failed = TableFailed { table: table.name, source: error };
            return Err(StoreError::Database(Cause::new(failed)));
        }
        self.written += added.len().max(removed.len()) as u64;
        Ok(())
    }
}

/// Rows to add, and keys to remove before: a row that differs is both.
fn differences<'a>(
    table: &Table,
    rows: &'a [Row],
    there: &'a [Row],
) -> (Vec<&'a Row>, Vec<&'a [Cell]>) {
    let (mut added, mut removed) = (vec![], vec![]);
    let key = |row: &'a Row| &row[..table.key_columns];
    let (mut rows, mut there) = (rows.iter().peekable(), there.iter().peekable());
    loop {
        let order = match (rows.peek(), there.peek()) {
            (Some(row), Some(it)) => key(row).cmp(key(it)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return (added, removed),
        };
        let row = if order == Ordering::Greater { None } else { rows.next() };
        let it = if order == Ordering::Less { None } else { there.next() };
        if row != it {
            added.extend(row);
            removed.extend(it.map(key));
        }
    }
}

/// A row, or the key at its beginning.
type Row = Vec<Cell>;

fn values(row: &[Cell]) -> Vec<Value<'_>> {
    row.iter().map(Cell::value).collect()
}

/// Reads a row of all columns. How far claims are merged is of no concern to the target; its check values
/// of a partition are its own, therefore.
fn read_row(table: &'static Table, cells: &mut Cells<'_>) -> Result<Row, StoreError> {
    cells.of(table);
    let mut row = Row::with_capacity(table.columns.len());
    for column in table.columns.iter() {
        let cell = Cell::read(column.kind, cells)?;
        let is_of_partition = table.name == PARTITION.name;
        row.push(match column.name {
            "claims_end" | "claims_after" if is_of_partition => Cell::Null,
            "check_now" if is_of_partition => Cell::Int(0),
            _ => cell,
        });
    }
    Ok(row)
}

/// The columns that order a table: its key.
const fn ordering(table: &Table) -> std::ops::Range<usize> {
    0..table.key_columns
}

/// `(a, b) > (?1, ?2)`, with the parameters' first number.
fn beyond(names: &[&str], comparison: &str, first: usize) -> String {
    let parameters: Vec<String> = (first..first + names.len()).map(|n| format!("?{n}")).collect();
    format!("({}) {comparison} ({})", names.join(", "), parameters.join(", "))
}

fn key_names(table: &Table, columns: std::ops::Range<usize>) -> Vec<&'static str> {
    table.columns[columns].iter().map(|column| column.name).collect()
}

/// The source's next rows, and the key of the last one; `None` where there are no more behind it.
fn portion(
    table: &'static Table,
    source: &Reader,
    after: Option<&[Cell]>,
    recent: &Memtable,
) -> Result<(Vec<Row>, Option<Row>), StoreError> {
    let parameters = after.map(|after| values(&after[ordering(table)])).unwrap_or_default();
    let rest = table.next_rows(after.is_some(), PORTION_ROWS);
    let rows = source.query(&table.select(&rest), &parameters, |it| read_row(table, it))?;
    let last = rows.last().filter(|_| rows.len() == PORTION_ROWS);
    let upto = last.map(|row| row[..table.key_columns].to_vec());
    if table.name != CLAIM.name {
        return Ok((rows, upto));
    }
    let mut merged: BTreeMap<Row, Row> =
        rows.into_iter().map(|row| (row[..table.key_columns].to_vec(), row)).collect();
    let bound = |key: Option<&[Cell]>| match key.and_then(<[Cell]>::first) {
        Some(Cell::Id(hash)) => Some(*hash),
        Some(Cell::Null | Cell::Int(_) | Cell::Text(_) | Cell::Real(_)) | None => None,
    };
    let from = bound(after).map_or(Bound::Unbounded, Bound::Excluded);
    let to = bound(upto.as_deref()).map_or(Bound::Unbounded, Bound::Included);
    for (hash, claimed) in recent.range((from, to)) {
        let row: Row = tables::claim_row(*hash, claimed).into_iter().map(Cell::owned).collect();
        let key = row[..table.key_columns].to_vec();
        match claimed.is_released() {
            true => drop(merged.remove(&key)),
            false => drop(merged.insert(key, row)),
        }
    }
    Ok((merged.into_values().collect(), upto))
}

/// The claims that are not among the others yet, where these are copied.
fn recent_of(table: &Table, source: &Reader) -> Result<Memtable, StoreError> {
    if table.name == CLAIM.name { claims::read_recent(source) } else { Ok(Memtable::new()) }
}

/// The target's rows behind a key, up to and with another.
fn range(
    table: &'static Table,
    target: &Reader,
    after: Option<&[Cell]>,
    upto: Option<&[Cell]>,
) -> Result<Vec<Row>, StoreError> {
    let names = key_names(table, 0..table.key_columns);
    let (mut conditions, mut parameters) = (vec![], vec![]);
    for (key, comparison) in [(after, ">"), (upto, "<=")] {
        if let Some(key) = key {
            conditions.push(beyond(&names, comparison, parameters.len() + 1));
            parameters.extend(values(key));
        }
    }
    let condition = match conditions.len() {
        0 => String::new(),
        _ => format!("WHERE {}", conditions.join(" AND ")),
    };
    let sql = table.select(&format!("{condition} ORDER BY {}", names.join(", ")));
    target.query(&sql, &parameters, |cells| read_row(table, cells))
}

fn digests_of_source(source: &Reader) -> Result<Vec<Digest>, StoreError> {
    let digest_of = |table| {
        let (mut digest, mut after) = (Digest::of(table), None);
        let recent = recent_of(table, source)?;
        loop {
            let (rows, upto) = portion(table, source, after.as_deref(), &recent)?;
            rows.iter().for_each(|row| digest.add(row));
            match upto {
                Some(upto) => after = Some(upto),
                None => return Ok(digest),
            }
        }
    };
    copied_tables().map(digest_of).collect()
}

fn compare(source: &[Digest], target: &Reader) -> Result<Vec<Compared>, StoreError> {
    let mut tables = Vec::with_capacity(source.len());
    for digest in source {
        let table = digest.table;
        let mut there = Digest::of(table);
        let names = key_names(table, 0..table.key_columns).join(", ");
        target.walk(&table.select(&format!("ORDER BY {names}")), &[], |cells| {
            there.add(&read_row(table, cells)?);
            Ok(())
        })?;
        tables.push(Compared {
            table: table.name,
            source_rows: digest.rows,
            target_rows: there.rows,
            is_equal: digest.rows == there.rows && digest.value() == there.value(),
        });
    }
    Ok(tables)
}

/// Rows in the order of their keys, as a hash.
#[derive(Clone)]
struct Digest {
    table: &'static Table,
    rows: u64,
    context: Context,
}

impl Digest {
    fn of(table: &'static Table) -> Self {
        Self { table, rows: 0, context: Context::new(&SHA256) }
    }

    fn add(&mut self, row: &[Cell]) {
        self.rows += 1;
        for cell in row {
            match cell {
                Cell::Null => self.context.update(b"0"),
                Cell::Int(value) => {
                    self.context.update(b"1");
                    self.context.update(&value.to_be_bytes());
                }
                Cell::Text(value) => {
                    self.context.update(b"2");
                    self.context.update(&(value.len() as u64).to_be_bytes());
                    self.context.update(value.as_bytes());
                }
                Cell::Id(value) => {
                    self.context.update(b"3");
                    self.context.update(value);
                }
                Cell::Real(bits) => {
                    self.context.update(b"4");
                    self.context.update(&bits.to_be_bytes());
                }
            }
        }
    }

    fn value(&self) -> Vec<u8> {
        self.context.clone().finish().as_ref().to_vec()
    }
}

fn key_text(key: &[Cell]) -> String {
    let texts: Vec<String> = key
        .iter()
        .map(|cell| match cell {
            Cell::Null => String::new(),
            Cell::Int(value) => value.to_string(),
            Cell::Text(value) => value.clone(),
            Cell::Id(value) => Uuid::from_bytes(*value).to_string(),
            Cell::Real(bits) => bits.to_string(),
        })
        .collect();
    crate::cells::json(&texts)
}

fn key_of(table: &Table, text: &str) -> Result<Option<Row>, StoreError> {
    let corrupt =
        || StoreError::Corrupt { table: COPYING.name, reason: format!("{} after", table.name) };
    let texts: Vec<String> = serde_json::from_str(text).map_err(|_| corrupt())?;
    if texts.len() != table.key_columns {
        return Err(corrupt());
    }
    let cells =
        texts.into_iter().zip(table.columns.iter()).map(|(text, column)| match column.kind {
            Kind::Int => text.parse().map(Cell::Int).map_err(|_| corrupt()),
            Kind::Text => Ok(Cell::Text(text)),
            Kind::Real => text.parse().map(Cell::Real).map_err(|_| corrupt()),
            Kind::Id => {
                Uuid::parse_str(&text).map(|id| Cell::Id(id.into_bytes())).map_err(|_| corrupt())
            }
        });
    cells.collect::<Result<Row, StoreError>>().map(Some)
}
