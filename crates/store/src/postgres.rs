//! The PostgreSQL driver: a server.
//!
//! One connection is used by one thread at a time, which waits for each answer; the bytes are moved
//! by a runtime of the connection's own. Rows for a table are gathered and sent as one array per
//! column (`unnest`), one statement per table and commit.

use std::cell::{RefCell, RefMut};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::StoreError;
use futures_util::{TryStreamExt as _, future};
use tokio::runtime::{Builder, Runtime};
pub(crate) use tokio_postgres::Row;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls};
use uuid::Uuid;

use crate::driver::{self, Field, Value};
use crate::tables::{CLAIM, Column, Dialect, Kind, REPLY, Table};

/// How PostgreSQL spells the catalogue. Texts are compared by their bytes, as SQLite does.
pub(crate) const DIALECT: Dialect = Dialect {
    int: "BIGINT",
    text: "TEXT COLLATE \"C\"",
    id: "UUID",
    clustered: "",
    appended: "",
    parameter: '$',
};

/// How long the server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Who writes holds this lock of the database, for as long as its connection lives: `FRGT`.
const WRITER_LOCK: i64 = 0x4652_4754;

/// Where a server is, and what a connection to it may do.
#[derive(Clone, Debug)]
pub struct Server {
    config: Arc<Config>,
}

impl Server {
    /// The server that a URL (`postgres://user:password@host:port/database?options`) names.
    ///
    /// # Errors
    /// [`StoreError::Database`] where it is none. It does not repeat the URL, which has a password.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let mut config: Config = url
            .parse()
            .map_err(|_| StoreError::Database("is no URL of a PostgreSQL database".to_owned()))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        config.application_name("faregate");
        Ok(Self { config: Arc::new(config) })
    }

    /// The database's name, for messages.
    #[must_use]
    pub fn database(&self) -> &str {
        self.config.get_dbname().or_else(|| self.config.get_user()).unwrap_or_default()
    }

    /// Opens a connection to read with.
    pub(crate) fn connect(&self) -> Result<Connection, StoreError> {
        Connection::open(self.clone(), false)
    }

    /// Opens the one connection to write with.
    pub(crate) fn connect_to_write(&self) -> Result<Connection, StoreError> {
        Connection::open(self.clone(), true)
    }
}

/// A connection.
pub(crate) struct Connection {
    server: Server,
    is_writer: bool,
    runtime: Waiting,
    session: RefCell<Session>,
}

/// Waits for what is asynchronous.
struct Waiting(Option<Runtime>);

impl Waiting {
    fn new() -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.map(|it| Self(Some(it))).map_err(|error| StoreError::Database(error.to_string()))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime().block_on(future)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Waiting for it to end is forbidden where others' futures run.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// What lasts as long as the connection to the server.
struct Session {
    client: Client,
    /// By our text.
    statements: HashMap<String, tokio_postgres::Statement>,
    gathered: Vec<Gathered>,
    /// Whether a transaction was begun.
    is_begun: bool,
}

/// Rows that wait to be sent to a table, a column each.
struct Gathered {
    sql: String,
    columns: Vec<Array>,
}

enum Array {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
    Id(Vec<Option<Uuid>>),
}

impl Connection {
    fn open(server: Server, is_writer: bool) -> Result<Self, StoreError> {
        let runtime = Waiting::new()?;
        let session = RefCell::new(Session::open(&runtime, &server, is_writer)?);
        Ok(Self { server, is_writer, runtime, session })
    }

    /// The session; a new one where the last one was lost.
    fn session(&self) -> Result<RefMut<'_, Session>, StoreError> {
        let mut session = self.session.borrow_mut();
        if session.client.is_closed() && !session.is_begun {
            *session = Session::open(&self.runtime, &self.server, self.is_writer)?;
        }
        Ok(session)
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement<'_>, StoreError> {
        let mut session = self.session()?;
        session.flush(&self.runtime)?;
        let statement = session.statement(&self.runtime, sql)?;
        Ok(Statement { connection: self, statement })
    }

    /// Gathers rows for a statement of [`insert_all`] or [`upsert_all`].
    pub(crate) fn gather(
        &self,
        table: &'static Table,
        sql: &str,
    ) -> Result<Gathering<'_>, StoreError> {
        let mut session = self.session()?;
        let known = session.gathered.iter().position(|it| it.sql == sql);
        let at = known.unwrap_or_else(|| {
            let columns = table.columns.iter().map(Array::of).collect();
            session.gathered.push(Gathered { sql: sql.to_owned(), columns });
            session.gathered.len() - 1
        });
        drop(session);
        Ok(Gathering { connection: self, at })
    }

    /// Runs a query for all keys at once. `each` gets the place of a row's key, and the row.
    pub(crate) fn for_keys<const N: usize>(
        &self,
        sql: &str,
        keys: &[[Value<'_>; N]],
        each: &mut dyn FnMut(usize, driver::Row<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let [first, ..] = keys else { return Ok(()) };
        let kinds = first.map(kind_of);
        let mut columns = kinds.map(Array::of_kind);
        for key in keys {
            for (column, value) in columns.iter_mut().zip(key) {
                column.push(*value);
            }
        }
        let statement = self.prepare(&of_keys(sql, &kinds))?.statement;
        let rows = {
            let session = self.session()?;
            let arrays = columns.each_ref().map(Array::parameter);
            self.runtime.block_on(session.client.query(&statement, &arrays)).map_err(failed)?
        };
        for row in &rows {
            // The number of the key is the last column, and counts from 1.
            let number: i64 = row.get(row.len() - 1);
            let at = usize::try_from(number - 1).expect("WITH ORDINALITY counts from 1");
            each(at, driver::Row::Postgres(row))?;
        }
        Ok(())
    }

    /// Runs statements without parameters.
    pub(crate) fn run(&self, sql: &str) -> Result<(), StoreError> {
        let mut session = self.session()?;
        session.flush(&self.runtime)?;
        self.runtime.block_on(session.client.batch_execute(sql)).map_err(failed)?;
        session.is_begun |= sql.starts_with("BEGIN");
        Ok(())
    }

    pub(crate) fn begin(&self) -> Result<(), StoreError> {
        self.run("BEGIN")
    }

    pub(crate) fn commit(&self) -> Result<(), StoreError> {
        let mut session = self.session.borrow_mut();
        if let Err(error) = session.flush(&self.runtime) {
            drop(session);
            self.rollback()?;
            return Err(error);
        }
        let committed = self.runtime.block_on(session.client.batch_execute("COMMIT"));
        session.is_begun = false;
        // An error of the statement's own undoes it. Whatever ends the connection, such as a server
        // that is shut down, may come after the commit took place.
        committed.map_err(|error| match error.as_db_error().and_then(DbError::parsed_severity) {
            Some(Severity::Error) => failed(error),
            _ => StoreError::OutcomeUnknown(error.to_string()),
        })
    }

    pub(crate) fn rollback(&self) -> Result<(), StoreError> {
        let mut session = self.session.borrow_mut();
        session.gathered.clear();
        if !std::mem::take(&mut session.is_begun) || session.client.is_closed() {
            return Ok(());
        }
        self.runtime.block_on(session.client.batch_execute("ROLLBACK")).map_err(failed)
    }

    /// Whether our tables are there.
    pub(crate) fn is_ours(&self) -> Result<bool, StoreError> {
        self.has("SELECT to_regclass('migration') WHERE to_regclass('migration') IS NOT NULL")
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() LIMIT 1";
        Ok(!self.has(sql)?)
    }

    fn has(&self, sql: &str) -> Result<bool, StoreError> {
        let session = self.session()?;
        let rows = self.runtime.block_on(session.client.simple_query(sql)).map_err(failed)?;
        Ok(rows.iter().any(|it| matches!(it, tokio_postgres::SimpleQueryMessage::Row(_))))
    }
}

impl Session {
    fn open(runtime: &Waiting, server: &Server, is_writer: bool) -> Result<Self, StoreError> {
        let connected = runtime.block_on(server.config.connect(NoTls));
        let (client, connection) = connected.map_err(failed)?;
        runtime.runtime().spawn(async move {
            // Whoever uses the client is told.
            drop(connection.await);
        });
        if is_writer {
            let locks = client.query_one("SELECT pg_try_advisory_lock($1)", &[&WRITER_LOCK]);
            let row = runtime.block_on(locks).map_err(failed)?;
            if !row.get::<_, bool>(0) {
                return Err(StoreError::Database("another process writes it".to_owned()));
            }
        }
        Ok(Self { client, statements: HashMap::new(), gathered: Vec::new(), is_begun: false })
    }

    fn statement(
        &mut self,
        runtime: &Waiting,
        sql: &str,
    ) -> Result<tokio_postgres::Statement, StoreError> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let prepared = runtime.block_on(self.client.prepare(&numbered(sql))).map_err(failed)?;
        self.statements.insert(sql.to_owned(), prepared.clone());
        Ok(prepared)
    }

    /// Sends what was gathered: one statement after the other, without waiting in between.
    fn flush(&mut self, runtime: &Waiting) -> Result<(), StoreError> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.retain(|it| it.columns.first().is_some_and(|column| column.rows() > 0));
        let mut statements = Vec::with_capacity(gathered.len());
        for it in &gathered {
            statements.push(self.statement(runtime, &it.sql)?);
        }
        let client = &self.client;
        let sent = gathered.iter().zip(&statements).map(|(it, statement)| async move {
            let arrays: Vec<&(dyn ToSql + Sync)> =
                it.columns.iter().map(Array::parameter).collect();
            client.execute(statement, &arrays).await
        });
        // The futures are polled in order, so that the statements are sent in order.
        runtime.block_on(future::try_join_all(sent)).map(drop).map_err(failed)
    }
}

/// A prepared statement.
pub struct Statement<'c> {
    connection: &'c Connection,
    statement: tokio_postgres::Statement,
}

impl Statement<'_> {
    /// Gives rows to `each` for as long as it says so.
    pub(crate) fn rows(
        &self,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(driver::Row<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let runtime = &self.connection.runtime;
        // All of them before the first is shown: `each` may ask something else meanwhile.
        let rows: Vec<Row> = {
            let session = self.connection.session()?;
            let read = async {
                session.client.query_raw(&self.statement, parameters).await?.try_collect().await
            };
            runtime.block_on(read).map_err(failed)?
        };
        for row in &rows {
            if !each(driver::Row::Postgres(row))? {
                break;
            }
        }
        Ok(())
    }

    /// Runs it, and tells how many rows it changed.
    pub(crate) fn execute(&self, parameters: &[Value<'_>]) -> Result<u64, StoreError> {
        let mut session = self.connection.session()?;
        session.flush(&self.connection.runtime)?;
        let executed = session.client.execute_raw(&self.statement, parameters);
        self.connection.runtime.block_on(executed).map_err(failed)
    }
}

/// Takes rows for a table, until another statement is run.
pub struct Gathering<'c> {
    connection: &'c Connection,
    at: usize,
}

impl Gathering<'_> {
    pub(crate) fn add(&self, row: &[Value<'_>]) {
        let mut session = self.connection.session.borrow_mut();
        let gathered = session.gathered.get_mut(self.at).expect("no other statement was run");
        assert_eq!(row.len(), gathered.columns.len(), "a row has as many columns as its table");
        for (column, value) in gathered.columns.iter_mut().zip(row) {
            column.push(*value);
        }
    }
}

impl Array {
    const fn of(column: &Column) -> Self {
        Self::of_kind(column.kind)
    }

    const fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Int => Self::Int(Vec::new()),
            Kind::Text => Self::Text(Vec::new()),
            Kind::Id => Self::Id(Vec::new()),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Int(all) => all.len(),
            Self::Text(all) => all.len(),
            Self::Id(all) => all.len(),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Int(all), Value::Int(value)) => all.push(Some(value)),
            (Self::Text(all), Value::Text(value)) => all.push(Some(value.to_owned())),
            (Self::Id(all), Value::Id(value)) => all.push(Some(Uuid::from_bytes(value))),
            (Self::Int(all), Value::Null) => all.push(None),
            (Self::Text(all), Value::Null) => all.push(None),
            (Self::Id(all), Value::Null) => all.push(None),
            (Self::Int(_) | Self::Text(_) | Self::Id(_), value) => {
                panic!("a row has values of its table's kinds, not {value:?}")
            }
        }
    }

    fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(all) => all,
            Self::Text(all) => all,
            Self::Id(all) => all,
        }
    }
}

/// What a column with such a value holds.
fn kind_of(value: Value<'_>) -> Kind {
    match value {
        Value::Int(_) => Kind::Int,
        Value::Text(_) => Kind::Text,
        Value::Id(_) => Kind::Id,
        Value::Null => panic!("nothing has the key NULL"),
    }
}

/// The parameters of an array of each kind: `$1::bigint[], $2::uuid[]`.
fn arrays(kinds: impl Iterator<Item = Kind>) -> String {
    let mut text = String::new();
    for (at, kind) in kinds.enumerate() {
        let kind = match kind {
            Kind::Int => "bigint",
            Kind::Text => "text",
            Kind::Id => "uuid",
        };
        let comma = if at == 0 { "" } else { ", " };
        write!(text, "{comma}${}::{kind}[]", at + 1).expect("a String takes everything");
    }
    text
}

/// A query for one key, as a query for all keys in arrays.
fn of_keys(sql: &str, kinds: &[Kind]) -> String {
    let mut of_one = sql.to_owned();
    let mut names = String::new();
    for at in 1..=kinds.len() {
        of_one = of_one.replace(&format!("?{at}"), &format!("k.p{at}"));
        write!(names, "p{at}, ").expect("a String takes everything");
    }
    let arrays = arrays(kinds.iter().copied());
    format!(
        "SELECT t.*, k.n FROM unnest({arrays}) WITH ORDINALITY AS k({names}n) \
         CROSS JOIN LATERAL ({of_one}) t"
    )
}

/// `INSERT` of many rows: one array per column.
pub(crate) fn insert_all(table: &Table) -> String {
    let arrays = arrays(table.columns.iter().map(|column| column.kind));
    let (name, columns) = (table.name, table.select_list(""));
    format!("INSERT INTO {name} ({columns}) SELECT * FROM unnest({arrays})")
}

/// [`insert_all`], or the change of what is not fixed where there is a row with the key.
pub(crate) fn upsert_all(table: &Table) -> String {
    format!("{} {}", insert_all(table), table.on_conflict())
}

/// Our text with PostgreSQL's parameters: `$1` for `?1`.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match *self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) if *kind == Type::INT4 => i32::try_from(value)?.to_sql(kind, out),
            Self::Int(value) => value.to_sql(kind, out),
            Self::Text(value) => value.to_sql(kind, out),
            Self::Id(value) => Uuid::from_bytes(value).to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Field<'a> {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => Self::Int(i64::from_sql(kind, raw)?),
            Type::INT4 => Self::Int(i64::from(i32::from_sql(kind, raw)?)),
            Type::TEXT => Self::Text(raw),
            Type::UUID => Self::Id(raw),
            _ => Self::Other,
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A column of a row.
pub(crate) fn field(row: &Row, at: usize) -> Option<Field<'_>> {
    row.try_get(at).ok()
}

/// Whether a claim could not be made, or a reply stored, because another partition has by now.
fn is_key_taken(error: &DbError) -> bool {
    *error.code() == SqlState::UNIQUE_VIOLATION
        && matches!(error.table(), Some(table) if table == CLAIM.name || table == REPLY.name)
}

/// What an error of PostgreSQL means for us.
fn failed(error: tokio_postgres::Error) -> StoreError {
    match error.as_db_error() {
        Some(error) if *error.code() == SqlState::DISK_FULL => StoreError::DiskFull,
        Some(error) if is_key_taken(error) => StoreError::KeyTaken,
        Some(error) => {
            StoreError::Database(format!("{} ({})", error.message(), error.code().code()))
        }
        None => StoreError::Database(error.to_string()),
    }
}
