//! The SQLite driver: a database file.

mod checkpoint;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use engine::ports::{Cause, ReadLimits, StoreError};
pub(crate) use rusqlite::Row;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, ErrorCode, OpenFlags, OptionalExtension as _, ToSql, ffi};

use self::checkpoint::Checkpoints;
use crate::driver::{self, Field, Value};
use crate::table::{Dialect, Layout, Table};

/// How SQLite spells the catalogue. `STRICT`, so that a column holds what it says it holds.
pub const DIALECT: Dialect = Dialect {
    int: "INTEGER",
    text: "TEXT",
    id: "BLOB",
    id_literal: ("x'", "'"),
    real: "REAL",
    clustered: " STRICT, WITHOUT ROWID",
    unclustered: " STRICT",
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
/// After how many instructions of its virtual machine a statement looks at its limits: a fraction of a
/// millisecond. A look-up by a key takes fewer, and never fails for a lack of CPU.
const INSTRUCTIONS_BETWEEN_LOOKS: i32 = 10_000;
/// Up to this size the write-ahead log's file is kept and reused.
const WAL_KEPT_BYTES: i64 = 256 << 20;

/// The settings of a database: sizes, memory and durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a page, for a database that is made anew.
    pub page_bytes: u32,
    /// How much of the database the writer keeps in memory. More of it makes commits slower while the database is smaller
    /// than 1 GiB: see `findings/sqlite-commit-walks-its-cache.sh`.
    pub cache_kib: u32,
    /// How much of the database each reader keeps in memory.
    pub reader_cache_kib: u32,
    /// How many accounts, payment methods and payments each the writer holds as entities, once it
    /// has loaded or written as many; at most twice that.
    pub entities_held: usize,
    /// How many claims fill the memtable: as many as memory holds before they are compacted,
    /// and twice that while they are. 0: there is no memtable, and each commit puts its claims into
    /// their table; for a new database.
    pub claims_held: usize,
    /// After how many pages the write-ahead log is copied into the database.
    pub checkpoint_pages: u32,
    /// Whether a commit is on the disk when it returns. One that is not may be lost when the
    /// machine fails, but never half: good enough for what can be rebuilt.
    pub is_durable: bool,
}

impl Options {
    /// The settings for a server.
    pub const DEFAULT: Self = Self {
        page_bytes: 4096,
        cache_kib: 8 * 1024,
        reader_cache_kib: 2 * 1024,
        entities_held: 4_096,
        claims_held: 65_536,
        checkpoint_pages: 8_000,
        is_durable: true,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Id(value) => ValueRef::Blob(value),
            Self::Real(value) => ValueRef::Real(*value),
        }))
    }
}

/// Whether a file could be a database: it is empty, or begins as one.
pub(crate) fn could_be_database(path: &Path) -> io::Result<bool> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let mut begins = Vec::with_capacity(MAGIC.len());
    File::open(path)?.take(16).read_to_end(&mut begins)?;
    Ok(begins.is_empty() || begins == MAGIC)
}

pub(crate) struct Connection {
    connection: rusqlite::Connection,
    /// Of one that writes.
    checkpoints: Option<Checkpoints>,
}

impl Connection {
    /// Opens a database that is there; it cannot be written through this connection.
    pub(crate) fn to_read(path: &Path, options: &Options) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(path, flags).map_err(failed)?;
        let opened = Self::new(connection, options.reader_cache_kib)?;
        // Opening touches nothing: this reads the first page.
        opened.pragma("application_id")?;
        Ok(opened)
    }

    /// Opens a database, or makes an empty one.
    pub(crate) fn to_write(path: &Path, options: &Options) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(path, flags).map_err(failed)?;
        let mut opened = Self::new(connection, options.cache_kib)?;
        let page_bytes = options.page_bytes;
        let synchronous = if options.is_durable { "FULL" } else { "NORMAL" };
        opened.run(&format!(
            "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = WAL; PRAGMA secure_delete = FAST; \
             PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = OFF; \
             PRAGMA journal_size_limit = {WAL_KEPT_BYTES};"
        ))?;
        opened.checkpoint_after(path, options.checkpoint_pages)?;
        Ok(opened)
    }

    /// Copies the write-ahead log into the database after so many pages.
    fn checkpoint_after(&mut self, path: &Path, pages: u32) -> Result<(), StoreError> {
        let checkpoints = Checkpoints::new(path.to_owned(), pages);
        self.checkpoints = Some(checkpoints.clone());
        let committed = move |wal: &mut Wal, pages| {
            checkpoints.committed(wal, pages);
            Ok(())
        };
        self.connection.wal_hook(Some(committed)).map_err(failed)
    }

    fn new(connection: rusqlite::Connection, cache_kib: u32) -> Result<Self, StoreError> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        // A statement is planned once, whatever is bound to it: else one with a range or a LIMIT is
        // parsed and planned anew whenever another value is.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed)?;
        let pragmas = format!(
            "PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = MEMORY; \
             PRAGMA trusted_schema = OFF;"
        );
        connection.execute_batch(&pragmas).map_err(failed)?;
        Ok(Self { connection, checkpoints: None })
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement<'_>, StoreError> {
        Ok(Statement { statement: self.connection.prepare_cached(sql).map_err(failed)? })
    }

    /// Ends statements once limits are passed.
    pub(crate) fn limit(&mut self, limits: Option<&ReadLimits>) -> Result<(), StoreError> {
        let looks = limits.cloned().map(|limits| move || limits.are_passed());
        self.connection.progress_handler(INSTRUCTIONS_BETWEEN_LOOKS, looks).map_err(failed)
    }

    /// Runs statements without parameters.
    pub(crate) fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(failed)
    }

    /// Moves what the write-ahead log has into the database, and empties it. What readers still need
    /// stays.
    pub(crate) fn checkpoint(&self) -> Result<(), StoreError> {
        self.empty_log().map(drop)
    }

    /// Empties the write-ahead log; whether others prevented it.
    fn empty_log(&self) -> Result<bool, StoreError> {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.wait();
        }
        let is_busy = self.one("PRAGMA wal_checkpoint(TRUNCATE)", |row| row.get::<_, bool>(0))?;
        Ok(is_busy == Some(true))
    }

    /// Whether pages that become free are overwritten too. Deleted cells of pages that stay always are;
    /// this one costs writes.
    pub(crate) fn overwrite_free_pages(&self, is_wanted: bool) -> Result<(), StoreError> {
        let mode = if is_wanted { "ON" } else { "FAST" };
        self.run(&format!("PRAGMA secure_delete = {mode}"))
    }

    pub(crate) fn begin(&self) -> Result<(), StoreError> {
        self.prepare("BEGIN IMMEDIATE")?.execute(&[]).map(drop)
    }

    pub(crate) fn commit(&self) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached("COMMIT").map_err(failed)?;
        let Err(error) = statement.raw_execute() else { return Ok(()) };
        drop(statement);
        if was_cut_off(&error) && self.rollback().is_ok() {
            return Err(failed(error));
        }
        Err(StoreError::OutcomeUnknown(Cause::new(error)))
    }

    pub(crate) fn rollback(&self) -> Result<(), StoreError> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.run("ROLLBACK")
    }

    fn one<T>(
        &self,
        sql: &str,
        each: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        statement.query_row([], each).optional().map_err(failed)
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

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.one("SELECT 1 FROM sqlite_schema LIMIT 1", |_| Ok(()))?.is_none())
    }

    /// The problems that SQLite itself finds in the file, at most `problems_max`; empty where it finds none.
    pub(crate) fn integrity(&self, problems_max: usize) -> Result<Vec<String>, StoreError> {
        let sql = format!("PRAGMA quick_check({problems_max})");
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let lines = statement.query_map([], |row| row.get(0)).map_err(failed)?;
        let mut lines: Vec<String> = lines.collect::<Result<_, _>>().map_err(failed)?;
        lines.retain(|line| line != "ok");
        Ok(lines)
    }

    /// Writes the rows, as they are now, into a new database. A copy of the pages would have what erasures
    /// leave in their unused parts: rows that moved to another page before they were deleted.
    pub(crate) fn vacuum_into(&self, to: &Path) -> Result<(), StoreError> {
        let to =
            to.to_str().ok_or_else(|| StoreError::Database(Cause::new("its name is not UTF-8")))?;
        self.connection.execute("VACUUM INTO ?1", [to]).map(drop).map_err(failed)
    }

    /// Writes the database anew in its place, by way of a temporary file and the write-ahead log. While
    /// another process reads it, the old bytes stay: that is an error.
    pub(crate) fn vacuum(&self) -> Result<(), StoreError> {
        self.run("PRAGMA temp_store = FILE; VACUUM")?;
        if !self.empty_log()? {
            return Ok(());
        }
        let busy = "another process reads it: run this again once that has ended";
        Err(StoreError::Database(Cause::new(busy)))
    }

    /// Makes the tables, and marks the file as ours. Within the open transaction.
    pub(crate) fn create(
        &self,
        ddl: &str,
        tables: &mut dyn Iterator<Item = &'static Table>,
    ) -> Result<(), StoreError> {
        self.run(ddl)?;
        self.run(&format!("PRAGMA application_id = {APPLICATION_ID}"))?;
        self.plant_statistics(tables)
    }

    /// Tells the planner what the tables are like, in place of measuring it: a query then has the
    /// same plan in every installation and at every size. Knowing nothing, SQLite takes a tenant
    /// for a good key, and reads all of its rows where an index names the few that are wanted.
    fn plant_statistics(
        &self,
        tables: &mut dyn Iterator<Item = &'static Table>,
    ) -> Result<(), StoreError> {
        let tables: Vec<&Table> = tables.collect();
        let Some(first) = tables.first() else { return Ok(()) };
        // One table is enough to have a place for them: others may be large by now.
        self.run(&format!("ANALYZE {}; DELETE FROM sqlite_stat1", first.name))?;
        let mut put =
            self.prepare("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?1, ?2, ?3)")?;
        for table in tables {
            let name = Value::Text(table.name);
            let key: Vec<&str> =
                table.columns[..table.key_columns].iter().map(|column| column.name).collect();
            match table.layout {
                // The table's own name stands for its primary key.
                Layout::Clustered | Layout::Indexed => {
                    put.execute(&[name, name, (&statistics(&key, true)).into()])?;
                }
                Layout::Appended => {
                    put.execute(&[name, Value::Null, (&ROWS_ASSUMED.to_string()).into()])?;
                }
            }
            for index in table.indexes {
                let columns: Vec<&str> = index.columns.split(", ").collect();
                let statistics = statistics(&columns, index.unique);
                put.execute(&[name, index.name.into(), (&statistics).into()])?;
            }
        }
        self.run("ANALYZE sqlite_schema")
    }
}

/// A prepared statement.
pub struct Statement<'c> {
    statement: CachedStatement<'c>,
}

impl Statement<'_> {
    /// Gives rows to `each` for as long as it says so.
    pub(crate) fn rows(
        &mut self,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(driver::Row<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        bind(&mut self.statement, parameters)?;
        let mut rows = self.statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            if !each(driver::Row::Sqlite(row))? {
                break;
            }
        }
        Ok(())
    }

    /// Runs it, and tells how many rows it changed.
    pub(crate) fn execute(&mut self, parameters: &[Value<'_>]) -> Result<u64, StoreError> {
        assert_eq!(
            parameters.len(),
            self.statement.parameter_count(),
            "there are as many parameters as the statement takes"
        );
        bind(&mut self.statement, parameters)?;
        self.statement.raw_execute().map(|rows| rows as u64).map_err(failed)
    }
}

/// A column of a row.
pub(crate) fn field<'a>(row: &'a Row<'a>, at: usize) -> Option<Field<'a>> {
    Some(match row.get_ref(at).ok()? {
        ValueRef::Null => Field::Null,
        ValueRef::Integer(value) => Field::Int(value),
        ValueRef::Text(value) => Field::Text(value),
        ValueRef::Blob(value) => Field::Id(value),
        ValueRef::Real(value) => Field::Real(value),
    })
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

/// The [`StoreError`] for an error of SQLite. A quota and a limit on a file's size are a full disk
/// too.
fn failed(error: rusqlite::Error) -> StoreError {
    if let rusqlite::Error::SqliteFailure(cause, _) = &error {
        let full = cause.code == ErrorCode::DiskFull
            || cause.extended_code == ffi::SQLITE_IOERR_WRITE
            || cause.extended_code == ffi::SQLITE_IOERR_SHMSIZE;
        if full {
            return StoreError::DiskFull;
        }
        let is_there = cause.extended_code == ffi::SQLITE_CONSTRAINT_PRIMARYKEY;
        // The key of what has its id from the request that makes it ends with that id.
        let said = error.to_string();
        if is_there && said.contains(".tenant, ") && said.ends_with(".id") {
            return StoreError::Repeated(Cause::new(error));
        }
        if cause.code == ErrorCode::OperationInterrupted {
            return StoreError::ReadTooLong;
        }
        if matches!(
            cause.code,
            ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch
        ) {
            return StoreError::Refused(Cause::new(error));
        }
    }
    StoreError::Database(Cause::new(error))
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once_whatever_is_bound() {
        let db = Connection::to_write(Path::new(":memory:"), &Options::default()).unwrap();
        db.run("CREATE TABLE mail (id INTEGER PRIMARY KEY, due INTEGER)").unwrap();
        db.run("CREATE INDEX mail_due ON mail (due) WHERE due IS NOT NULL").unwrap();
        let sql = "SELECT id FROM mail WHERE due IS NOT NULL AND due <= ?1 ORDER BY due LIMIT ?2";
        let mut statement = db.prepare(sql).unwrap();
        for limit in [64_i64, 7, 4096] {
            statement.rows(&[(limit * 1000).into(), limit.into()], &mut |_| Ok(true)).unwrap();
        }
        assert_eq!(statement.statement.get_status(StatementStatus::RePrepare), 0);
    }

    #[test]
    fn source_of_a_refusal_is_the_error_of_the_driver() {
        let db = Connection::to_write(Path::new(":memory:"), &Options::default()).unwrap();
        db.run("CREATE TABLE mail (name TEXT UNIQUE)").unwrap();
        let insert = || db.prepare("INSERT INTO mail VALUES ('ann')").unwrap().execute(&[]);
        insert().unwrap();
        let refused = insert().unwrap_err();
        assert!(matches!(refused, StoreError::Refused(_)), "{refused:?}");
        let source = std::error::Error::source(&refused).unwrap();
        let code = source.downcast_ref::<rusqlite::Error>().unwrap().sqlite_error().unwrap();
        assert_eq!(code.extended_code, ffi::SQLITE_CONSTRAINT_UNIQUE);
        let texts = format!("{refused} {refused:?} {source}");
        assert!(texts.contains("UNIQUE constraint failed: mail.name"), "{texts}");
        assert!(!texts.contains("ann"), "{texts}");
    }
}
