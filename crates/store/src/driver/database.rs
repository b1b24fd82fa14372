//! The connection that writes: rows with their check values, statements, and the commit.

use std::cell::OnceCell;
use std::path::Path;

use engine::ports::StoreError;

use super::check::CheckKey;
use super::postgres::{self, Server};
use super::sqlite::{self, Options};
use super::{Cell, Connection, Reader, Value};
use crate::table::{CHECKS, Table};

/// Writes rows: with an insert, an upsert, an update, or a statement of one's own.
pub struct Put<'c> {
    statement: PutStatement<'c>,
    checks: Option<Checks<'c>>,
}

enum PutStatement<'c> {
    /// On a database file: at once.
    Sqlite(sqlite::Statement<'c>),
    /// On a server, with a statement of one's own: with the next that is waited for.
    Later(postgres::Later<'c>),
    /// On a server, into a table: with the next statement that is waited for.
    Gathered(postgres::Gathering<'c>),
}

/// How the rows of a checked table get their check values.
struct Checks<'c> {
    db: &'c Database,
    table: &'static Table,
    /// Whether rows have the columns of [`Table::update`] only.
    is_update: bool,
}

impl Put<'_> {
    /// Writes one row. A checked table's check values are added, unless the row has them: it is copied. A
    /// server refuses it later: with the next statement or the commit.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be written.
    pub fn row(&mut self, row: &[Value<'_>]) -> Result<(), StoreError> {
        match &self.checks {
            Some(checks) if row.len() < checks.table.columns.len() => {
                let row = checks.add_to(row)?;
                self.statement.row(&row)
            }
            Some(_) | None => self.statement.row(row),
        }
    }
}

impl PutStatement<'_> {
    fn row(&mut self, row: &[Value<'_>]) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(it) => it.execute(row).map(drop),
            Self::Later(it) => {
                it.add(row);
                Ok(())
            }
            Self::Gathered(it) => {
                it.add(row);
                Ok(())
            }
        }
    }
}

impl Checks<'_> {
    fn add_to<'v>(&self, row: &[Value<'v>]) -> Result<Vec<Value<'v>>, StoreError> {
        let key = self.db.check_key()?;
        let mut checked = Vec::with_capacity(row.len() + CHECKS);
        checked.extend_from_slice(row);
        if self.is_update {
            checked.push(key.of_changing(self.table, row).into());
        } else {
            checked.extend(key.of_row(self.table, row).map(Value::from));
        }
        Ok(checked)
    }
}

/// The connection to write with.
pub struct Database {
    reader: Reader,
    texts: Vec<Texts>,
    /// Read when it is first needed.
    check_key: OnceCell<CheckKey>,
}

struct Texts {
    table: &'static Table,
    insert: String,
    upsert: String,
    update: String,
}

impl Database {
    /// Opens a database file, or makes an empty one, to write into `tables`.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn open(
        path: &Path,
        options: &Options,
        tables: &[&'static Table],
    ) -> Result<Self, StoreError> {
        let connection = sqlite::Connection::to_write(path, options)?;
        Ok(Self::of(Connection::Sqlite(connection), tables))
    }

    /// Opens a connection that writes into `tables` of a server: the only one, or one of those that
    /// own a partition each.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened, or another process has it.
    pub fn connect(
        server: &Server,
        is_alone: bool,
        tables: &[&'static Table],
    ) -> Result<Self, StoreError> {
        let connection = server.connect_to_write(is_alone)?;
        Ok(Self::of(Connection::Postgres(Box::new(connection)), tables))
    }

    /// Opens a connection that writes what no partition owns into `tables` of a server, beside those
    /// who own one.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn connect_beside(server: &Server, tables: &[&'static Table]) -> Result<Self, StoreError> {
        let connection = server.connect_beside()?;
        Ok(Self::of(Connection::Postgres(Box::new(connection)), tables))
    }

    fn of(connection: Connection, tables: &[&'static Table]) -> Self {
        let text: fn(&'static Table) -> Texts = match &connection {
            Connection::Sqlite(_) => |table| Texts {
                table,
                insert: table.insert(&sqlite::DIALECT),
                upsert: table.upsert(&sqlite::DIALECT),
                update: table.update(&sqlite::DIALECT),
            },
            Connection::Postgres(_) => |table| Texts {
                table,
                insert: postgres::insert_all(table),
                upsert: postgres::upsert_all(table),
                update: table.update(&postgres::DIALECT),
            },
        };
        let texts = tables.iter().map(|table| text(table)).collect();
        Self { reader: Reader { connection }, texts, check_key: OnceCell::new() }
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
        match &self.reader.connection {
            Connection::Sqlite(it) => it.begin(),
            Connection::Postgres(it) => {
                it.begin();
                Ok(())
            }
        }
    }

    /// Ends a commit; once it returns, it is durable.
    ///
    /// # Errors
    /// [`StoreError`]: nothing was written; [`StoreError::OutcomeUnknown`]: only opening the
    /// database again will tell.
    pub fn commit(&self) -> Result<(), StoreError> {
        match &self.reader.connection {
            Connection::Sqlite(it) => it.commit(),
            Connection::Postgres(it) => it.commit(),
        }
    }

    /// Gives up what was begun, if anything was.
    ///
    /// # Errors
    /// [`StoreError`] where the connection is beyond use.
    pub fn rollback(&self) -> Result<(), StoreError> {
        self.reader.rollback()
    }

    /// Gives up what was begun. Where the connection was lost, a new one is made: what was known
    /// of the database must be read again.
    ///
    /// # Errors
    /// [`StoreError`] where the database cannot be reached.
    pub fn renew(&self) -> Result<(), StoreError> {
        match &self.reader.connection {
            Connection::Sqlite(it) => it.rollback(),
            Connection::Postgres(it) => it.renew(),
        }
    }

    /// Runs a statement that must change a row: `otherwise` says what it means if it does not. A
    /// server says so later: with the next statement or the commit.
    ///
    /// # Errors
    /// `otherwise`, or [`StoreError`] where it failed.
    pub fn require(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        otherwise: StoreError,
    ) -> Result<(), StoreError> {
        match &self.reader.connection {
            Connection::Sqlite(it) => match it.prepare(sql)?.execute(parameters)? {
                0 => Err(otherwise),
                _ => Ok(()),
            },
            Connection::Postgres(it) => {
                it.require(sql, parameters, otherwise);
                Ok(())
            }
        }
    }

    /// Runs a statement and tells how many rows it changed.
    ///
    /// # Errors
    /// [`StoreError`] where it failed.
    pub fn exec(&self, sql: &str, parameters: &[Value<'_>]) -> Result<u64, StoreError> {
        match &self.reader.connection {
            Connection::Sqlite(it) => it.prepare(sql)?.execute(parameters),
            Connection::Postgres(it) => it.prepare(sql)?.execute(parameters),
        }
    }

    /// A prepared statement, to be run with one row of parameters after another.
    ///
    /// # Errors
    /// [`StoreError`] where the text is not understood.
    pub fn prepare(&self, sql: &str) -> Result<Put<'_>, StoreError> {
        let statement = match &self.reader.connection {
            Connection::Sqlite(it) => PutStatement::Sqlite(it.prepare(sql)?),
            Connection::Postgres(it) => PutStatement::Later(it.later(sql)),
        };
        Ok(Put { statement, checks: None })
    }

    /// Inserts rows into a table; one with a key that is there already is an error.
    ///
    /// # Errors
    /// [`StoreError`] where the table is not there.
    pub fn insert(&self, table: &'static Table) -> Result<Put<'_>, StoreError> {
        let texts = self.texts(table);
        self.put(table, &texts.insert)
    }

    /// Inserts rows into a table, or changes those that are there.
    ///
    /// # Errors
    /// [`StoreError`] where the table is not there.
    pub fn upsert(&self, table: &'static Table) -> Result<Put<'_>, StoreError> {
        let texts = self.texts(table);
        self.put(table, &texts.upsert)
    }

    /// Changes what is not fixed in rows that are there; each is given as [`Table::update`] says, but for its
    /// check value.
    ///
    /// # Errors
    /// [`StoreError`] where the table is not there.
    pub fn update(&self, table: &'static Table) -> Result<Put<'_>, StoreError> {
        let checks = self.checks(table, true);
        Ok(Put { checks, ..self.prepare(&self.texts(table).update)? })
    }

    fn put<'c>(&'c self, table: &'static Table, sql: &'c str) -> Result<Put<'c>, StoreError> {
        let checks = self.checks(table, false);
        let statement = match &self.reader.connection {
            Connection::Sqlite(it) => PutStatement::Sqlite(it.prepare(sql)?),
            Connection::Postgres(it) => PutStatement::Gathered(it.gather(table, sql)),
        };
        Ok(Put { statement, checks })
    }

    fn checks(&self, table: &'static Table, is_update: bool) -> Option<Checks<'_>> {
        table.is_checked.then_some(Checks { db: self, table, is_update })
    }

    /// The key of check values.
    ///
    /// # Errors
    /// See [`CheckKey::read`].
    pub(crate) fn check_key(&self) -> Result<&CheckKey, StoreError> {
        if let Some(key) = self.check_key.get() {
            return Ok(key);
        }
        let key = CheckKey::read(&self.reader)?;
        Ok(self.check_key.get_or_init(|| key))
    }

    /// Writes check values again after a statement of one's own has changed rows of a checked table: those
    /// that [`Table::select`] gives with `rest`.
    ///
    /// # Errors
    /// [`StoreError`] where they cannot be read or written.
    pub(crate) fn check_again(
        &self,
        table: &'static Table,
        rest: &str,
        parameters: &[Value<'_>],
    ) -> Result<(), StoreError> {
        // Not the key that is held: after a copy into this database it is another.
        let key = CheckKey::read(&self.reader)?;
        let columns = &table.columns[..table.columns.len() - CHECKS];
        let rows: Vec<Vec<Cell>> = self.reader.query(&table.select(rest), parameters, |cells| {
            cells.of(table);
            columns.iter().map(|column| Cell::read(column.kind, cells)).collect()
        })?;
        let of_key = table.columns[..table.key_columns].iter().zip(3..);
        let of_key: Vec<String> = of_key.map(|(it, n)| format!("{} = ?{n}", it.name)).collect();
        let of_key = of_key.join(" AND ");
        let sql =
            format!("UPDATE {} SET check_made = ?1, check_now = ?2 WHERE {of_key}", table.name);
        let mut put = self.prepare(&sql)?;
        for row in &rows {
            let row: Vec<Value<'_>> = row.iter().map(Cell::value).collect();
            let mut written = key.of_row(table, &row).map(Value::from).to_vec();
            written.extend_from_slice(&row[..table.key_columns]);
            put.row(&written)?;
        }
        Ok(())
    }

    /// Makes the tables, and marks the database as ours. Within the open transaction.
    pub(crate) fn create(&self, ddl: &str) -> Result<(), StoreError> {
        match &self.reader.connection {
            Connection::Sqlite(it) => {
                it.create(ddl, &mut self.texts.iter().map(|texts| texts.table))
            }
            Connection::Postgres(it) => it.run(ddl),
        }
    }

    /// Keeps others from changing the schema. Within the open transaction.
    pub(crate) fn lock_schema(&self) -> Result<(), StoreError> {
        match &self.reader.connection {
            // A commit that was begun is the only one.
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(it) => it.lock_schema(),
        }
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> Result<bool, StoreError> {
        match &self.reader.connection {
            Connection::Sqlite(it) => it.is_empty(),
            Connection::Postgres(it) => it.is_empty(),
        }
    }

    /// Whether a row next to the last one costs less than one anywhere: see `claims.rs`.
    pub(crate) const fn writes_pages(&self) -> bool {
        matches!(self.reader.connection, Connection::Sqlite(_))
    }

    fn texts(&self, table: &'static Table) -> &Texts {
        let found = self.texts.iter().find(|texts| texts.table.name == table.name);
        found.expect("the connection was opened for these tables")
    }
}
