//! The SQLite driver: the only file that knows which database runs.
//!
//! Above it there are tables, rows of [`Value`]s, and SQL texts in the subset that PostgreSQL
//! understands too (parameters are written `?n`).

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use engine::ports::StoreError;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, ErrorCode, OpenFlags, ToSql, ffi};
use uuid::Uuid;

use crate::tables::{Dialect, Layout, Table};

/// How SQLite spells the catalogue. `STRICT`, so that a column holds what it says it holds.
pub const DIALECT: Dialect = Dialect {
    int: "INTEGER",
    text: "TEXT",
    id: "BLOB",
    clustered: " STRICT, WITHOUT ROWID",
    appended: " STRICT",
    appended_key_alone: true,
    parameter: '?',
};

/// Marks a file as ours: `FRGT`.
const APPLICATION_ID: i64 = 0x4652_4754;
/// How many prepared statements a connection keeps.
const STATEMENTS_MAX: usize = 256;
/// How long a statement waits for another process that writes (a backup that ends, a repair by
/// hand). Within a process there is one writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How many rows the planner is to believe that each table has.
const ROWS_ASSUMED: u32 = 1_000_000;
/// How many rows it is to believe that agree in a key of more than a tenant.
const FEW_ASSUMED: u32 = 10;
/// Up to this size the write-ahead log's file is kept and reused.
const WAL_KEPT_BYTES: i64 = 256 << 20;

/// What the database may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a page, for a database that is made anew.
    pub page_bytes: u32,
    /// How much of the database the writer keeps in memory.
    pub cache_kib: u32,
    /// How much of the database each reader keeps in memory.
    pub reader_cache_kib: u32,
    /// How many accounts, payment methods and payments each the writer holds as entities, once it
    /// has loaded or written as many; at most twice that.
    pub entities_held: usize,
    /// How many claims make a run: as many as memory holds before they are merged into their table,
    /// and twice that while they are.
    pub claims_held: usize,
    /// After how many pages the write-ahead log is copied into the database.
    pub checkpoint_pages: u32,
    /// Whether a commit is on the disk when it returns. One that is not may be lost when the
    /// machine fails, but never half: good enough for what can be rebuilt.
    pub is_durable: bool,
}

impl Options {
    /// What suits a server.
    pub const DEFAULT: Self = Self {
        page_bytes: 4096,
        cache_kib: 8 * 1024,
        reader_cache_kib: 2 * 1024,
        entities_held: 4_096,
        claims_held: 65_536,
        checkpoint_pages: 4_000,
        is_durable: true,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// See [`crate::tables::Kind::Int`].
    Int(i64),
    /// See [`crate::tables::Kind::Text`].
    Text(&'a str),
    /// See [`crate::tables::Kind::Id`].
    Id([u8; 16]),
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}
impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value)
    }
}
impl From<Uuid> for Value<'_> {
    fn from(value: Uuid) -> Self {
        Self::Id(value.into_bytes())
    }
}
impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Id(value) => ValueRef::Blob(value),
        }))
    }
}

/// The columns of a row that was read, taken from the left.
pub struct Cells<'a> {
    row: &'a rusqlite::Row<'a>,
    table: &'static str,
    at: usize,
}

impl<'a> Cells<'a> {
    /// Says which table the columns that follow are of, for the messages.
    pub fn of(&mut self, table: &Table) {
        self.table = table.name;
    }

    /// Leaves columns out.
    pub fn skip(&mut self, columns: usize) {
        self.at += columns;
    }

    /// Whether the next column is NULL; it is not taken.
    ///
    /// # Errors
    /// Where there is no next column.
    pub fn next_is_null(&self) -> Result<bool, StoreError> {
        let value = self.row.get_ref(self.at).map_err(|_| self.corrupt("too few columns"))?;
        Ok(value == ValueRef::Null)
    }

    /// The UUID in the next column; it is not taken.
    ///
    /// # Errors
    /// See [`Cells::int`].
    pub fn peek_id(&mut self) -> Result<Uuid, StoreError> {
        let id = self.id()?;
        self.at -= 1;
        Ok(id)
    }

    /// The error that the row cannot hold what it holds.
    #[must_use]
    pub fn corrupt(&self, reason: &str) -> StoreError {
        let reason = format!("column {}: {reason}", self.at);
        StoreError::Corrupt { table: self.table, reason }
    }

    fn take(&mut self) -> Result<ValueRef<'a>, StoreError> {
        let value = self.row.get_ref(self.at).map_err(|_| self.corrupt("too few columns"))?;
        self.at += 1;
        Ok(value)
    }

    /// An integer.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] where it is something else; here and below.
    pub fn int(&mut self) -> Result<i64, StoreError> {
        self.opt_int()?.ok_or_else(|| self.corrupt("is NULL"))
    }

    /// An integer or NULL.
    ///
    /// # Errors
    /// See [`Cells::int`].
    pub fn opt_int(&mut self) -> Result<Option<i64>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => Ok(Some(value)),
            ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => {
                Err(self.corrupt("is no integer"))
            }
        }
    }

    /// A text.
    ///
    /// # Errors
    /// See [`Cells::int`].
    pub fn text(&mut self) -> Result<&'a str, StoreError> {
        self.opt_text()?.ok_or_else(|| self.corrupt("is NULL"))
    }

    /// A text or NULL.
    ///
    /// # Errors
    /// See [`Cells::int`].
    pub fn opt_text(&mut self) -> Result<Option<&'a str>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(value) => match std::str::from_utf8(value) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(self.corrupt("is no UTF-8")),
            },
            ValueRef::Real(_) | ValueRef::Integer(_) | ValueRef::Blob(_) => {
                Err(self.corrupt("is no text"))
            }
        }
    }

    /// A UUID.
    ///
    /// # Errors
    /// See [`Cells::int`].
    pub fn id(&mut self) -> Result<Uuid, StoreError> {
        self.opt_id()?.ok_or_else(|| self.corrupt("is NULL"))
    }

    /// A UUID or NULL.
    ///
    /// # Errors
    /// See [`Cells::int`].
    pub fn opt_id(&mut self) -> Result<Option<Uuid>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(value) => match <[u8; 16]>::try_from(value) {
                Ok(bytes) => Ok(Some(Uuid::from_bytes(bytes))),
                Err(_) => Err(self.corrupt("has not 16 bytes")),
            },
            ValueRef::Real(_) | ValueRef::Integer(_) | ValueRef::Text(_) => {
                Err(self.corrupt("is no id"))
            }
        }
    }
}

/// Whether a file could be a database: it is empty, or begins as one.
pub(crate) fn could_be_database(path: &Path) -> io::Result<bool> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let mut begins = Vec::with_capacity(MAGIC.len());
    File::open(path)?.take(16).read_to_end(&mut begins)?;
    Ok(begins.is_empty() || begins == MAGIC)
}

/// A connection to read with.
pub struct Reader {
    connection: rusqlite::Connection,
}

impl Reader {
    /// Opens a database that is there; it cannot be written through this connection.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn open(path: &Path, options: &Options) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(path, flags).map_err(failed)?;
        let reader = Self::new(connection, options.reader_cache_kib)?;
        // Opening touches nothing: this reads the first page.
        reader.pragma("application_id")?;
        Ok(reader)
    }

    fn new(connection: rusqlite::Connection, cache_kib: u32) -> Result<Self, StoreError> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        let pragmas = format!(
            "PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = MEMORY; \
             PRAGMA trusted_schema = OFF;"
        );
        connection.execute_batch(&pragmas).map_err(failed)?;
        Ok(Self { connection })
    }

    /// Gives each row to `each`. Columns are taken in the order of the SELECT list.
    ///
    /// # Errors
    /// [`StoreError`], of the database or of `each`, which ends it.
    pub fn for_each(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        mut each: impl FnMut(&mut Cells<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.load(sql)?.rows(parameters, &mut each)
    }

    /// All rows.
    ///
    /// # Errors
    /// See [`Reader::for_each`].
    pub fn query<T>(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        mut each: impl FnMut(&mut Cells<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::new();
        self.for_each(sql, parameters, |cells| {
            all.push(each(cells)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// The first row, if there is one.
    ///
    /// # Errors
    /// See [`Reader::for_each`].
    pub fn query_one<T>(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        each: impl FnOnce(&mut Cells<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.load(sql)?.first(parameters, each)
    }

    /// A query that is asked for one key after another.
    ///
    /// # Errors
    /// [`StoreError`] where the text is not understood.
    pub fn load(&self, sql: &str) -> Result<Load<'_>, StoreError> {
        Ok(Load { statement: self.connection.prepare_cached(sql).map_err(failed)? })
    }

    /// Does several reads on one state of the database, whatever is committed meanwhile.
    ///
    /// # Errors
    /// [`StoreError`], of the database or of `read`.
    pub fn snapshot<T>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.execute_batch("BEGIN DEFERRED")?;
        let result = read(self);
        self.rollback()?;
        result
    }

    /// A setting of the database.
    pub(crate) fn pragma(&self, name: &str) -> Result<i64, StoreError> {
        let value = self.connection.pragma_query_value(None, name, |row| row.get(0));
        value.map_err(failed)
    }

    /// Whether the file is one of ours.
    pub(crate) fn is_ours(&self) -> Result<bool, StoreError> {
        Ok(self.pragma("application_id")? == APPLICATION_ID)
    }

    /// What SQLite itself finds wrong with the file; empty for nothing.
    pub(crate) fn integrity(&self, problems_max: usize) -> Result<Vec<String>, StoreError> {
        let sql = format!("PRAGMA quick_check({problems_max})");
        let mut lines = self.query(&sql, &[], |cells| Ok(cells.text()?.to_owned()))?;
        lines.retain(|line| line != "ok");
        Ok(lines)
    }

    /// Copies the database, as it is now, into a new file: `pages` at a time, after each of which
    /// `paused` is called with how many are left and how many there are.
    pub(crate) fn copy_to(
        &self,
        to: &Path,
        pages: i32,
        mut paused: impl FnMut(i32, i32),
    ) -> Result<(), StoreError> {
        let mut target = rusqlite::Connection::open(to).map_err(failed)?;
        // Without a transaction around it, a copy starts again whenever somebody commits.
        self.snapshot(|reader| {
            reader.pragma("schema_version")?;
            let copy = Backup::new(&reader.connection, &mut target).map_err(failed)?;
            loop {
                match copy.step(pages).map_err(failed)? {
                    StepResult::Done => return Ok(()),
                    StepResult::More | StepResult::Busy | StepResult::Locked => {
                        let progress = copy.progress();
                        paused(progress.remaining, progress.pagecount);
                    }
                    _ => return Err(StoreError::Database("the copy did not go on".to_owned())),
                }
            }
        })?;
        // The copy says that it uses a write-ahead log; on its own it is better off as one file.
        target.pragma_update(None, "journal_mode", "DELETE").map_err(failed)?;
        target.close().map_err(|(_, error)| failed(error))
    }

    fn execute_batch(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(failed)
    }

    fn rollback(&self) -> Result<(), StoreError> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.execute_batch("ROLLBACK")
    }
}

/// A prepared query.
pub struct Load<'c> {
    statement: CachedStatement<'c>,
}

impl Load<'_> {
    /// Gives each row for these parameters to `each`.
    ///
    /// # Errors
    /// See [`Reader::for_each`].
    pub fn rows(
        &mut self,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(&mut Cells<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        bind(&mut self.statement, parameters)?;
        let mut rows = self.statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            each(&mut Cells { row, table: "query", at: 0 })?;
        }
        Ok(())
    }

    /// Gives the first row for these parameters to `each`.
    ///
    /// # Errors
    /// See [`Reader::for_each`].
    pub fn first<T>(
        &mut self,
        parameters: &[Value<'_>],
        each: impl FnOnce(&mut Cells<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        bind(&mut self.statement, parameters)?;
        let mut rows = self.statement.raw_query();
        match rows.next().map_err(failed)? {
            Some(row) => each(&mut Cells { row, table: "query", at: 0 }).map(Some),
            None => Ok(None),
        }
    }
}

/// A prepared statement that writes a row: an insert, an upsert, or one of one's own.
pub struct Put<'c> {
    statement: CachedStatement<'c>,
    columns: usize,
}

impl Put<'_> {
    /// Writes one row.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be written.
    pub fn row(&mut self, row: &[Value<'_>]) -> Result<(), StoreError> {
        assert_eq!(row.len(), self.columns, "a row has as many columns as the statement takes");
        bind(&mut self.statement, row)?;
        self.statement.raw_execute().map_err(failed).map(drop)
    }
}

/// The connection to write with.
pub struct Database {
    reader: Reader,
    tables: Vec<&'static Table>,
    texts: Vec<Texts>,
}

struct Texts {
    table: &'static str,
    insert: String,
    upsert: String,
}

impl Database {
    /// Opens a database, or makes an empty one, to write into `tables`.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn open(
        path: &Path,
        options: &Options,
        tables: &[&'static Table],
    ) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(path, flags).map_err(failed)?;
        let reader = Reader::new(connection, options.cache_kib)?;
        let (page_bytes, checkpoint_pages) = (options.page_bytes, options.checkpoint_pages);
        let synchronous = if options.is_durable { "FULL" } else { "NORMAL" };
        reader.execute_batch(&format!(
            "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = WAL; \
             PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = OFF; \
             PRAGMA wal_autocheckpoint = {checkpoint_pages}; \
             PRAGMA journal_size_limit = {WAL_KEPT_BYTES};"
        ))?;
        let texts = tables.iter().map(|table| Texts::of(table)).collect();
        Ok(Self { reader, tables: tables.to_vec(), texts })
    }

    /// The same connection, to read with.
    #[must_use]
    pub const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Begins a commit.
    ///
    /// # Errors
    /// [`StoreError`] where somebody else writes.
    pub fn begin(&self) -> Result<(), StoreError> {
        self.exec("BEGIN IMMEDIATE", &[]).map(drop)
    }

    /// Ends a commit; once it returns, it is durable.
    ///
    /// # Errors
    /// [`StoreError`]: nothing was written; [`StoreError::OutcomeUnknown`]: only opening the
    /// database again will tell.
    pub fn commit(&self) -> Result<(), StoreError> {
        let mut statement = self.reader.connection.prepare_cached("COMMIT").map_err(failed)?;
        let Err(error) = statement.raw_execute() else { return Ok(()) };
        drop(statement);
        if was_cut_off(&error) && self.rollback().is_ok() {
            return Err(failed(error));
        }
        Err(StoreError::OutcomeUnknown(error.to_string()))
    }

    /// Gives up what was begun, if anything was.
    ///
    /// # Errors
    /// [`StoreError`] where the connection is beyond use.
    pub fn rollback(&self) -> Result<(), StoreError> {
        self.reader.rollback()
    }

    /// Runs a statement and tells how many rows it changed.
    ///
    /// # Errors
    /// [`StoreError`] where it failed.
    pub fn exec(&self, sql: &str, parameters: &[Value<'_>]) -> Result<usize, StoreError> {
        let mut statement = self.reader.connection.prepare_cached(sql).map_err(failed)?;
        bind(&mut statement, parameters)?;
        statement.raw_execute().map_err(failed)
    }

    /// A prepared statement, to be run with one row of parameters after another.
    ///
    /// # Errors
    /// [`StoreError`] where the text is not understood.
    pub fn prepare(&self, sql: &str) -> Result<Put<'_>, StoreError> {
        let statement = self.reader.connection.prepare_cached(sql).map_err(failed)?;
        Ok(Put { columns: statement.parameter_count(), statement })
    }

    /// Inserts rows into a table; one with a key that is there already is an error.
    ///
    /// # Errors
    /// [`StoreError`] where the table is not there.
    pub fn insert(&self, table: &'static Table) -> Result<Put<'_>, StoreError> {
        self.prepare(&self.texts(table).insert)
    }

    /// Inserts rows into a table, or changes those that are there.
    ///
    /// # Errors
    /// [`StoreError`] where the table is not there.
    pub fn upsert(&self, table: &'static Table) -> Result<Put<'_>, StoreError> {
        self.prepare(&self.texts(table).upsert)
    }

    /// Makes the tables, and marks the file as ours. Part of what was begun.
    pub(crate) fn create(&self, ddl: &str) -> Result<(), StoreError> {
        self.reader.execute_batch(ddl)?;
        self.reader.execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}"))?;
        self.plant_statistics()
    }

    /// Tells the planner what the tables are like, in place of measuring it: a query then has the
    /// same plan in every installation and at every size. Knowing nothing, SQLite takes a tenant
    /// for a good key, and reads all of its rows where an index names the few that are wanted.
    fn plant_statistics(&self) -> Result<(), StoreError> {
        self.reader.execute_batch("ANALYZE; DELETE FROM sqlite_stat1")?;
        let mut put =
            self.prepare("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?1, ?2, ?3)")?;
        for table in &self.tables {
            let name = Value::Text(table.name);
            let key: Vec<&str> =
                table.columns[..table.key_columns].iter().map(|column| column.name).collect();
            match table.layout {
                Layout::Clustered => put.row(&[name, name, (&statistics(&key, true)).into()])?,
                Layout::Appended { .. } => {
                    put.row(&[name, Value::Null, (&ROWS_ASSUMED.to_string()).into()])?;
                }
            }
            for index in table.indexes {
                let columns: Vec<&str> = index.columns.split(", ").collect();
                let statistics = statistics(&columns, index.unique);
                put.row(&[name, index.name.into(), (&statistics).into()])?;
            }
        }
        self.reader.execute_batch("ANALYZE sqlite_schema")
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> Result<bool, StoreError> {
        let table =
            self.reader.query_one("SELECT 1 FROM sqlite_schema LIMIT 1", &[], |_| Ok(()))?;
        Ok(table.is_none())
    }

    fn texts(&self, table: &'static Table) -> &Texts {
        let found = self.texts.iter().find(|texts| texts.table == table.name);
        found.expect("the connection was opened for these tables")
    }
}

impl Texts {
    fn of(table: &'static Table) -> Self {
        let (insert, upsert) = (table.insert(&DIALECT), table.upsert(&DIALECT));
        Self { table: table.name, insert, upsert }
    }
}

/// How many rows an index has, and how many of them agree in its first column, its first two, and
/// so on: all of them in a tenant or partition, few in anything more, one in a whole unique key.
fn statistics(columns: &[&str], unique: bool) -> String {
    let mut text = ROWS_ASSUMED.to_string();
    for (at, column) in columns.iter().enumerate() {
        let agreeing = match (at, *column) {
            (0, "tenant" | "partition") => ROWS_ASSUMED,
            _ if unique && at + 1 == columns.len() => 1,
            _ => FEW_ASSUMED,
        };
        text.push(' ');
        text.push_str(&agreeing.to_string());
    }
    text
}

fn bind(statement: &mut CachedStatement<'_>, parameters: &[Value<'_>]) -> Result<(), StoreError> {
    for (at, value) in parameters.iter().enumerate() {
        statement.raw_bind_parameter(at + 1, value).map_err(failed)?;
    }
    Ok(())
}

/// Whether a commit failed while its log was written: the end mark comes last, so that recovery
/// will not see the commit either. After other failures the mark may be there, unsynced.
fn was_cut_off(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(cause, _)
        if cause.code == ErrorCode::DiskFull || cause.extended_code == ffi::SQLITE_IOERR_WRITE)
}

/// What an error of SQLite means for us. A quota and a limit on a file's size are a full disk too.
fn failed(error: rusqlite::Error) -> StoreError {
    if let rusqlite::Error::SqliteFailure(cause, _) = &error {
        let full = cause.code == ErrorCode::DiskFull
            || cause.extended_code == ffi::SQLITE_IOERR_WRITE
            || cause.extended_code == ffi::SQLITE_IOERR_SHMSIZE;
        if full {
            return StoreError::DiskFull;
        }
    }
    StoreError::Database(error.to_string())
}
