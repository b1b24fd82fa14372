//! The database behind one interface: tables, rows of [`Value`]s, and SQL texts in the subset that
//! SQLite and PostgreSQL share (parameters are written `?n`). Only [`sqlite`] and [`postgres`]
//! know which of the two runs.

mod check;
mod database;
pub mod postgres;
pub mod sqlite;

use std::path::Path;

use engine::ports::{ReadLimits, StoreError};
use uuid::Uuid;

pub(crate) use self::check::{CheckKey, new_installation};
pub use self::database::{Database, Put};
use self::postgres::Server;
use self::sqlite::Options;
use crate::table::{Dialect, Kind, Table};

/// One column of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    /// Also a time in microseconds, an amount in minor units, a code, or 0 and 1.
    Int(i64),
    Text(&'a str),
    /// A UUID, or another 16 bytes.
    Id([u8; 16]),
    /// A measurement, never money.
    Real(f64),
}

/// A [`Value`] that owns its text. Their order is that of both databases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
    Id([u8; 16]),
    /// Its bits: it is never part of a key.
    Real(u64),
}

impl Cell {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Int(value) => Value::Int(*value),
            Self::Text(value) => Value::Text(value),
            Self::Id(value) => Value::Id(*value),
            Self::Real(bits) => Value::Real(f64::from_bits(*bits)),
        }
    }

    pub(crate) fn read(kind: Kind, cells: &mut Cells<'_>) -> Result<Self, StoreError> {
        Ok(match kind {
            Kind::Int => cells.opt_int()?.map_or(Self::Null, Self::Int),
            Kind::Text => cells.opt_text()?.map_or(Self::Null, |it| Self::Text(it.to_owned())),
            Kind::Id => cells.opt_id()?.map_or(Self::Null, |id| Self::Id(id.into_bytes())),
            Kind::Real => cells.opt_real()?.map_or(Self::Null, |it| Self::Real(it.to_bits())),
        })
    }

    pub(crate) fn owned(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Int(value) => Self::Int(value),
            Value::Text(value) => Self::Text(value.to_owned()),
            Value::Id(value) => Self::Id(value),
            Value::Real(value) => Self::Real(value.to_bits()),
        }
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Real(value)
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

/// A column of a row that was read, as the database holds it.
pub(crate) enum Field<'a> {
    Null,
    Int(i64),
    Text(&'a [u8]),
    Id(&'a [u8]),
    Real(f64),
    Other,
}

/// A row that was read.
#[derive(Clone, Copy)]
pub(crate) enum Row<'a> {
    Sqlite(&'a sqlite::Row<'a>),
    Postgres(&'a postgres::Row),
}

/// The columns of a row that was read, taken from the left.
#[derive(Clone)]
pub struct Cells<'a> {
    row: Row<'a>,
    table: &'static str,
    at: usize,
}

impl<'a> Cells<'a> {
    /// Says which table the columns that follow are of, for the messages.
    pub fn of(&mut self, table: &Table) {
        self.table = table.name;
    }

    /// Reads a row of all columns of a table: the next cell is the one behind it, however many of them `read` takes.
    pub(crate) fn row_of<T>(
        &mut self,
        table: &Table,
        read: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let end = self.at + table.columns.len();
        self.of(table);
        let row = read(self)?;
        self.at = end;
        Ok(row)
    }

    /// The next columns, for messages: they are taken whatever they are.
    pub(crate) fn describe(&mut self, columns: usize) -> String {
        let texts = (0..columns).map(|_| match self.take() {
            Ok(Field::Null) => "NULL".to_owned(),
            Ok(Field::Int(value)) => value.to_string(),
            Ok(Field::Text(value)) => String::from_utf8_lossy(value).into_owned(),
            Ok(Field::Id(value)) => match Uuid::from_slice(value) {
                Ok(id) => id.to_string(),
                Err(_) => format!("{} bytes", value.len()),
            },
            Ok(Field::Real(value)) => value.to_string(),
            Ok(Field::Other) | Err(_) => "?".to_owned(),
        });
        texts.collect::<Vec<_>>().join("/")
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
        Ok(matches!(self.field()?, Field::Null))
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

    /// The integer in the next column; it is not taken.
    ///
    /// # Errors
    /// See [`Cells::int`].
    pub fn peek_int(&mut self) -> Result<i64, StoreError> {
        let value = self.int()?;
        self.at -= 1;
        Ok(value)
    }

    /// The error that the row cannot hold what it holds.
    #[must_use]
    pub fn corrupt(&self, reason: &str) -> StoreError {
        let reason = format!("column {}: {reason}", self.at);
        StoreError::Corrupt { table: self.table, reason }
    }

    fn field(&self) -> Result<Field<'a>, StoreError> {
        let field = match self.row {
            Row::Sqlite(row) => sqlite::field(row, self.at),
            Row::Postgres(row) => postgres::field(row, self.at),
        };
        field.ok_or_else(|| self.corrupt("too few columns"))
    }

    /// The next column as the database holds it.
    pub(crate) fn take(&mut self) -> Result<Field<'a>, StoreError> {
        let field = self.field()?;
        self.at += 1;
        Ok(field)
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
            Field::Null => Ok(None),
            Field::Int(value) => Ok(Some(value)),
            Field::Text(_) | Field::Id(_) | Field::Real(_) | Field::Other => {
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
            Field::Null => Ok(None),
            Field::Text(value) => match std::str::from_utf8(value) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(self.corrupt("is no UTF-8")),
            },
            Field::Int(_) | Field::Id(_) | Field::Real(_) | Field::Other => {
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
            Field::Null => Ok(None),
            Field::Id(value) => match <[u8; 16]>::try_from(value) {
                Ok(bytes) => Ok(Some(Uuid::from_bytes(bytes))),
                Err(_) => Err(self.corrupt("has not 16 bytes")),
            },
            Field::Int(_) | Field::Text(_) | Field::Real(_) | Field::Other => {
                Err(self.corrupt("is no id"))
            }
        }
    }

    /// A floating-point number.
    ///
    /// # Errors
    /// See [`Cells::int`].
    pub fn real(&mut self) -> Result<f64, StoreError> {
        self.opt_real()?.ok_or_else(|| self.corrupt("is NULL"))
    }

    /// A floating-point number or NULL.
    ///
    /// # Errors
    /// See [`Cells::int`].
    pub fn opt_real(&mut self) -> Result<Option<f64>, StoreError> {
        match self.take()? {
            Field::Null => Ok(None),
            Field::Real(value) => Ok(Some(value)),
            Field::Int(_) | Field::Text(_) | Field::Id(_) | Field::Other => {
                Err(self.corrupt("is no floating-point number"))
            }
        }
    }
}

/// A connection, to one database or the other.
pub(crate) enum Connection {
    Sqlite(sqlite::Connection),
    Postgres(Box<postgres::Connection>),
}

/// A connection to read with.
pub struct Reader {
    pub(crate) connection: Connection,
}

impl Reader {
    /// Opens a database file that is there; it cannot be written through this connection.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn open(path: &Path, options: &Options) -> Result<Self, StoreError> {
        let connection = sqlite::Connection::to_read(path, options)?;
        Ok(Self { connection: Connection::Sqlite(connection) })
    }

    /// Opens a connection to a server.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn connect(server: &Server) -> Result<Self, StoreError> {
        let connection = server.connect()?;
        Ok(Self { connection: Connection::Postgres(Box::new(connection)) })
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
        Ok(match &self.connection {
            Connection::Sqlite(it) => Load::Sqlite(it.prepare(sql)?),
            Connection::Postgres(it) => Load::Postgres(it.prepare(sql)?),
        })
    }

    /// Runs a query for each of many keys, and gives each row to `each` with the place of its key.
    /// A server is asked once for all of them.
    ///
    /// # Errors
    /// See [`Reader::for_each`].
    pub fn for_keys<'v>(
        &self,
        sql: &str,
        keys: &[impl AsRef<[Value<'v>]>],
        mut each: impl FnMut(usize, &mut Cells<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut each =
            |key: usize, row: Row<'_>| each(key, &mut Cells { row, table: "query", at: 0 });
        match &self.connection {
            Connection::Sqlite(it) => {
                let mut statement = it.prepare(sql)?;
                for (at, key) in keys.iter().enumerate() {
                    statement.rows(key.as_ref(), &mut |row| each(at, row).map(|()| true))?;
                }
                Ok(())
            }
            Connection::Postgres(it) => it.for_keys(sql, keys, &mut each),
        }
    }

    /// Gives each row of a result that may be large to `each`, which may ask something else
    /// meanwhile: memory does not grow with the result.
    ///
    /// # Errors
    /// See [`Reader::for_each`].
    pub fn walk(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        mut each: impl FnMut(&mut Cells<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match &self.connection {
            Connection::Sqlite(_) => self.for_each(sql, parameters, each),
            Connection::Postgres(it) if it.is_begun() => {
                it.walk(sql, parameters, &mut |row| each(&mut Cells { row, table: "query", at: 0 }))
            }
            Connection::Postgres(_) => self.snapshot(|reader| reader.walk(sql, parameters, each)),
        }
    }

    /// Does several reads on one state of the database, whatever is committed meanwhile.
    ///
    /// # Errors
    /// [`StoreError`], of the database or of `read`.
    pub fn snapshot<T>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &self.connection {
            Connection::Sqlite(it) => it.run("BEGIN DEFERRED")?,
            Connection::Postgres(it) => it.begin_to_read(),
        }
        let result = read(self);
        self.rollback()?;
        result
    }

    /// Ends what is read from now on once these limits are passed; `None`: whatever it takes.
    pub(crate) fn limit(&mut self, limits: Option<&ReadLimits>) -> Result<(), StoreError> {
        match &mut self.connection {
            Connection::Sqlite(it) => it.limit(limits)?,
            Connection::Postgres(it) => it.limit(limits),
        }
        Ok(())
    }

    /// How the database spells the catalogue.
    pub(crate) const fn dialect(&self) -> &'static Dialect {
        match &self.connection {
            Connection::Sqlite(_) => &sqlite::DIALECT,
            Connection::Postgres(_) => &postgres::DIALECT,
        }
    }

    /// Whether it can be used, as far as one can tell without asking the database.
    pub(crate) fn is_usable(&self) -> bool {
        match &self.connection {
            Connection::Sqlite(_) => true,
            Connection::Postgres(it) => it.is_usable(),
        }
    }

    /// Whether the database is one of ours.
    pub(crate) fn is_ours(&self) -> Result<bool, StoreError> {
        match &self.connection {
            Connection::Sqlite(it) => it.is_ours(),
            Connection::Postgres(it) => it.is_ours(),
        }
    }

    /// The connection to a database file, for what only those can do.
    pub(crate) const fn sqlite(&self) -> Option<&sqlite::Connection> {
        match &self.connection {
            Connection::Sqlite(it) => Some(it),
            Connection::Postgres(_) => None,
        }
    }

    fn rollback(&self) -> Result<(), StoreError> {
        match &self.connection {
            Connection::Sqlite(it) => it.rollback(),
            Connection::Postgres(it) => it.rollback(),
        }
    }
}

/// A prepared query.
pub enum Load<'c> {
    /// On a database file.
    Sqlite(sqlite::Statement<'c>),
    /// On a server.
    Postgres(postgres::Statement<'c>),
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
        self.until(parameters, &mut |cells| each(cells).map(|()| true))
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
        let (mut each, mut found) = (Some(each), None);
        self.until(parameters, &mut |cells| {
            if let Some(each) = each.take() {
                found = Some(each(cells)?);
            }
            Ok(false)
        })?;
        Ok(found)
    }

    /// Gives rows to `each` for as long as it says so.
    fn until(
        &mut self,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(&mut Cells<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut each = |row: Row<'_>| each(&mut Cells { row, table: "query", at: 0 });
        match self {
            Self::Sqlite(it) => it.rows(parameters, &mut each),
            Self::Postgres(it) => it.rows(parameters, &mut each),
        }
    }
}
