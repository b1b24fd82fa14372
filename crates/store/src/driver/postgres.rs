//! The PostgreSQL driver: a server.
//!
//! One connection is used by one thread at a time, which waits for each answer; the bytes are moved
//! by a runtime of the connection's own. Rows for a table are gathered and sent as one array per
//! column (`unnest`), one statement per table and commit.

mod address;
mod arrays;
mod server_error;
mod session;
mod tls;

use std::cell::{Cell, RefCell, RefMut};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::{ReadLimits, StoreError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use self::address::{Address, TlsMode};
use self::arrays::{Array, kind_of, of_keys};
pub(crate) use self::arrays::{Row, field, insert_all, upsert_all};
pub use self::server_error::ServerError;
use self::session::{Session, Use, Waiting};
use crate::Error;
use crate::driver::{self, Value};
use crate::table::{Dialect, Table};

/// How PostgreSQL spells the catalogue. Texts are compared by their bytes, as SQLite does.
pub(crate) const DIALECT: Dialect = Dialect {
    int: "BIGINT",
    text: "TEXT COLLATE \"C\"",
    id: "UUID",
    id_literal: ("'", "'::uuid"),
    real: "DOUBLE PRECISION",
    clustered: "",
    unclustered: "",
    parameter: '$',
};

/// How long the server may take to accept a connection, unless somebody says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a statement may take, unless somebody says otherwise.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// A peer that is silent for this long is asked whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// How long until it is asked again.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// After how many questions it is gone.
const KEEPALIVE_RETRIES: u32 = 3;
/// How many rows of a large result are asked for at a time.
const PORTION_ROWS: usize = 1_000;
/// How a query for few rows finds them: by an index, with a plan that is made once. A plan
/// made while a table was nearly empty would read all of it, and go on doing so as it grows. (With
/// the costs that this leads to, the server would compile each statement.) A reader that scans
/// everything is planned for by what the tables hold.
const FOR_FEW_ROWS: &str = "; SET enable_seqscan = off; SET enable_hashjoin = off; \
     SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan; SET jit = off";
/// Begins reads of one state of the database.
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// The same for reads with limits: they are cancelled after two seconds, and where that does not reach
/// the server, it ends them itself.
const SNAPSHOT_WITHIN_LIMITS: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL statement_timeout = 2500";
/// Who changes the schema holds this lock meanwhile: `FRGS`.
const SCHEMA_LOCK: i64 = 0x4652_4753;

/// Where a server is, and what a connection to it may do.
#[derive(Clone)]
pub struct Server {
    address: Arc<Address>,
    tls: Option<MakeRustlsConnect>,
    connect_timeout: Duration,
    statement_timeout: Option<Duration>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address.shown())
    }
}

impl Server {
    /// The server that a URL (`postgres://user:password@host:port/database?options`) names.
    ///
    /// # Errors
    /// [`Error::Address`], which names what is wrong and never repeats the password.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let address = Address::parse(url)?;
        let tls = tls::client(&address)?.map(MakeRustlsConnect::new);
        Ok(Self {
            address: Arc::new(address),
            tls,
            connect_timeout: CONNECT_TIMEOUT,
            statement_timeout: Some(STATEMENT_TIMEOUT),
        })
    }

    /// The same, with other limits. A statement without a limit may take as long as it takes.
    #[must_use]
    pub fn with_timeouts(self, connect: Duration, statement: Option<Duration>) -> Self {
        Self { connect_timeout: connect, statement_timeout: statement, ..self }
    }

    /// The same, for a reader that scans everything: its statements take as long as they take.
    #[must_use]
    pub fn patient(&self) -> Self {
        Self { statement_timeout: None, ..self.clone() }
    }

    /// The URL without its password.
    #[must_use]
    pub fn shown(&self) -> String {
        self.address.shown()
    }

    /// Its host and port, for messages.
    pub(crate) fn place(&self) -> String {
        let Address { host, port, .. } = &*self.address;
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }

    /// The database's name, for messages.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.address.database
    }

    /// Opens a connection to read with.
    pub(crate) fn connect(&self) -> Result<Connection, StoreError> {
        Connection::open(self.clone(), Use::Read)
    }

    /// Opens a connection to write with: the only one, or one of those that own a partition each.
    pub(crate) fn connect_to_write(&self, is_alone: bool) -> Result<Connection, StoreError> {
        let purpose = if is_alone { Use::WriteAlone } else { Use::WritePartition };
        Connection::open(self.clone(), purpose)
    }

    /// Opens a connection to write what no partition owns, beside those who do.
    pub(crate) fn connect_beside(&self) -> Result<Connection, StoreError> {
        Connection::open(self.clone(), Use::WriteBeside)
    }

    const fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    const fn statement_timeout(&self) -> Option<Duration> {
        self.statement_timeout
    }

    /// The settings that a session begins with: how long a statement may take; to look whether we are there, so
    /// that the locks of a process that vanished do not outlive it for hours; and that a commit is
    /// durable when it returns.
    fn session_settings(&self) -> String {
        let statement_ms = self.statement_timeout.map_or(0, |it| it.as_millis());
        let (idle, interval) = (KEEPALIVE_IDLE.as_secs(), KEEPALIVE_INTERVAL.as_secs());
        format!(
            "SET statement_timeout = {statement_ms}; SET tcp_keepalives_idle = {idle}; \
             SET tcp_keepalives_interval = {interval}; \
             SET tcp_keepalives_count = {KEEPALIVE_RETRIES}; SET client_min_messages = warning; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') = 'off'{}",
            if self.statement_timeout.is_some() { FOR_FEW_ROWS } else { "" }
        )
    }

    async fn connect_now(&self) -> Result<(Client, AbortHandle), tokio_postgres::Error> {
        let address = &*self.address;
        let mut config = Config::new();
        config
            .host(&address.host)
            .port(address.port)
            .user(&address.user)
            .dbname(&address.database)
            .application_name("faregate")
            .connect_timeout(self.connect_timeout)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES)
            .tcp_user_timeout(KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_RETRIES)
            .ssl_mode(match address.tls {
                TlsMode::Disable => SslMode::Disable,
                TlsMode::Prefer => SslMode::Prefer,
                TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
            });
        if let Some(password) = &address.password {
            config.password(password);
        }
        match &self.tls {
            Some(tls) => connect(&config, tls.clone()).await,
            None => connect(&config, NoTls).await,
        }
    }
}

/// Connects, and moves the connection's bytes until either side ends it.
async fn connect<T>(config: &Config, tls: T) -> Result<(Client, AbortHandle), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    let moving = tokio::spawn(async move {
        // The user of the client gets the error.
        drop(connection.await);
    });
    Ok((client, moving.abort_handle()))
}

pub(crate) struct Connection {
    server: Server,
    purpose: Use,
    waiting: Waiting,
    session: RefCell<Session>,
    cursors: Cell<u64>,
}

impl Connection {
    fn open(server: Server, purpose: Use) -> Result<Self, StoreError> {
        let waiting = Waiting::new()?;
        let session = RefCell::new(Session::open(&waiting, &server, purpose)?);
        Ok(Self { server, purpose, waiting, session, cursors: Cell::new(0) })
    }

    fn session(&self) -> RefMut<'_, Session> {
        self.session.borrow_mut()
    }

    /// Whether it can be used, as far as one can tell without asking the server.
    pub(crate) fn is_usable(&self) -> bool {
        !self.session().is_lost(&self.waiting)
    }

    /// Gives up what was begun; connects anew where the connection was lost. What a writer knew of
    /// the database holds no more then: it must read it again.
    pub(crate) fn renew(&self) -> Result<(), StoreError> {
        let mut session = self.session();
        session.rollback(&self.waiting)?;
        if session.is_lost(&self.waiting) {
            *session = Session::open(&self.waiting, &self.server, self.purpose)?;
        }
        Ok(())
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement<'_>, StoreError> {
        let statement = self.session().statement(&self.waiting, sql, numbered)?;
        Ok(Statement { connection: self, statement })
    }

    /// Gathers rows for a statement of [`insert_all`] or [`upsert_all`].
    pub(crate) const fn gather<'c>(&'c self, table: &'static Table, sql: &'c str) -> Gathering<'c> {
        Gathering { connection: self, table, sql }
    }

    /// A statement that is run, once for each row of parameters, together with the next that is
    /// waited for.
    pub(crate) fn later(&self, sql: &str) -> Later<'_> {
        Later { connection: self, sql: sql.to_owned() }
    }

    /// Runs a statement together with the next that is waited for. Where it changes nothing, that
    /// fails with `otherwise`.
    pub(crate) fn require(&self, sql: &str, parameters: &[Value<'_>], otherwise: StoreError) {
        self.session().enqueue(sql, parameters, Some(otherwise));
    }

    /// Runs a query for all keys at once. `each` gets the place of a row's key, and the row.
    pub(crate) fn for_keys<'v>(
        &self,
        sql: &str,
        keys: &[impl AsRef<[Value<'v>]>],
        each: &mut dyn FnMut(usize, driver::Row<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let [first, ..] = keys else { return Ok(()) };
        let kinds: Vec<_> = first.as_ref().iter().map(|it| kind_of(*it)).collect();
        let mut columns: Vec<Array> = kinds.iter().map(|it| Array::of_kind(*it)).collect();
        for key in keys {
            for (column, value) in columns.iter_mut().zip(key.as_ref()) {
                column.push(*value);
            }
        }
        let name = format!("keys: {sql}");
        let mut session = self.session();
        let statement = session.statement(&self.waiting, &name, |_| of_keys(sql, &kinds))?;
        let arrays: Vec<_> = columns.iter().map(Array::parameter).collect();
        let rows = session.query_arrays(&self.waiting, &statement, &arrays)?;
        drop(session);
        for row in &rows {
            // The number of the key is the last column, and counts from 1.
            let number: i64 = row.get(row.len() - 1);
            let at = usize::try_from(number - 1).expect("WITH ORDINALITY counts from 1");
            each(at, driver::Row::Postgres(row))?;
        }
        Ok(())
    }

    /// Gives each row to `each`, which may ask something else meanwhile: [`PORTION_ROWS`] of them
    /// are in memory at a time. Within the open transaction.
    pub(crate) fn walk(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(driver::Row<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let cursor = self.cursors.get();
        self.cursors.set(cursor + 1);
        let waiting = &self.waiting;
        let declare = format!("DECLARE c{cursor} NO SCROLL CURSOR FOR {}", numbered(sql));
        let declare = self.session().prepare(waiting, &declare)?;
        self.session().execute(waiting, &declare, parameters)?;
        let fetch = format!("FETCH {PORTION_ROWS} FROM c{cursor}");
        let fetch = self.session().prepare(waiting, &fetch)?;
        loop {
            let rows = self.session().query(waiting, &fetch, &[])?;
            for row in &rows {
                each(driver::Row::Postgres(row))?;
            }
            if rows.len() < PORTION_ROWS {
                return self.run(&format!("CLOSE c{cursor}"));
            }
        }
    }

    /// Ends reads once limits are passed.
    pub(crate) fn limit(&mut self, limits: Option<&ReadLimits>) {
        self.session.get_mut().limit(limits.cloned());
    }

    /// Runs statements without parameters.
    pub(crate) fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.session().run(&self.waiting, sql).map(drop)
    }

    pub(crate) fn begin(&self) {
        self.session().begin("BEGIN");
    }

    pub(crate) fn begin_to_read(&self) {
        let text = if self.session().is_limited() { SNAPSHOT_WITHIN_LIMITS } else { SNAPSHOT };
        self.session().begin(text);
    }

    /// Whether a transaction was begun.
    pub(crate) fn is_begun(&self) -> bool {
        self.session().is_begun()
    }

    /// Keeps others from changing the schema until what was begun ends.
    pub(crate) fn lock_schema(&self) -> Result<(), StoreError> {
        self.run(&format!("SELECT pg_advisory_xact_lock({SCHEMA_LOCK})"))
    }

    pub(crate) fn commit(&self) -> Result<(), StoreError> {
        self.session().commit(&self.waiting)
    }

    pub(crate) fn rollback(&self) -> Result<(), StoreError> {
        self.session().rollback(&self.waiting)
    }

    /// Whether our tables are there.
    pub(crate) fn is_ours(&self) -> Result<bool, StoreError> {
        let sql = "SELECT to_regclass('migration') WHERE to_regclass('migration') IS NOT NULL";
        self.session().run(&self.waiting, sql)
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() LIMIT 1";
        Ok(!self.session().run(&self.waiting, sql)?)
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
        let waiting = &self.connection.waiting;
        // All of them before the first is shown: `each` may ask something else meanwhile.
        let rows = self.connection.session().query(waiting, &self.statement, parameters)?;
        for row in &rows {
            if !each(driver::Row::Postgres(row))? {
                break;
            }
        }
        Ok(())
    }

    /// Runs it, and tells how many rows it changed.
    pub(crate) fn execute(&self, parameters: &[Value<'_>]) -> Result<u64, StoreError> {
        let waiting = &self.connection.waiting;
        self.connection.session().execute(waiting, &self.statement, parameters)
    }
}

/// Takes rows for a table, which are sent together with the next statement that is waited for.
pub struct Gathering<'c> {
    connection: &'c Connection,
    table: &'static Table,
    sql: &'c str,
}

impl Gathering<'_> {
    pub(crate) fn add(&self, row: &[Value<'_>]) {
        let mut session = self.connection.session();
        let columns = session.gather(self.table, self.sql);
        assert_eq!(row.len(), columns.len(), "a row has as many columns as its table");
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(*value);
        }
    }
}

/// A statement that is run together with the next that is waited for.
pub struct Later<'c> {
    connection: &'c Connection,
    sql: String,
}

impl Later<'_> {
    pub(crate) fn add(&self, parameters: &[Value<'_>]) {
        self.connection.session().enqueue(&self.sql, parameters, None);
    }
}

/// Our text with PostgreSQL's parameters: `$1` for `?1`.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}
