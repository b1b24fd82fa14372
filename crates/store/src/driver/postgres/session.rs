//! One session with a server: what is sent without waiting for what was sent before it, and what
//! came of it.
//!
//! `BEGIN` is sent together with the first reads, rows to write together with `COMMIT`. The server
//! does one after the other, and nothing after one that failed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use engine::ports::{Cause, ReadLimits, StoreError};
use futures_util::{FutureExt as _, TryStreamExt as _, future};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{AbortHandle, yield_now};
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{CancelToken, Client, NoTls, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Server;
use super::arrays::{Array, Row};
use super::server_error::{ServerError, Unreachable};
use crate::driver::{Cell, Value};
use crate::table::{OF_KEYS, Table};

/// A writer holds this lock of the database, for as long as its session lives, alone or with
/// the owners of other partitions: `FRGT`.
const WRITER_LOCK: i64 = 0x4652_4754;
/// How much longer than a statement may take its answer may.
const ANSWER_SLACK: Duration = Duration::from_secs(5);

/// How long a session that has just ended may go on holding the lock: its server notices a little
/// later.
const LOCK_WAIT_MAX: Duration = Duration::from_millis(500);
const LOCK_LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often a read that is waited for looks at its limits.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A writer that says nothing for this long within a transaction has lost it, and with it the locks
/// that another owner of its partition may wait for.
const SILENT_IN_TRANSACTION_MAX: Duration = Duration::from_secs(10);

/// The purpose of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Reading, without a lock.
    Read,
    /// Writing, as the only writer.
    WriteAlone,
    /// Writing a partition, while others write theirs. Who owns it is decided by its epoch, and not
    /// by a lock that a frozen process would keep.
    WritePartition,
    /// Writing what no partition owns, beside other writers.
    WriteBeside,
}

impl Use {
    /// The statement that takes the lock that it needs; `None` where it needs none.
    const fn lock(self) -> Option<&'static str> {
        match self {
            Self::Read | Self::WriteBeside => None,
            Self::WriteAlone => Some("SELECT pg_try_advisory_lock($1)"),
            Self::WritePartition => Some("SELECT pg_try_advisory_lock_shared($1)"),
        }
    }
}

/// Waits for what is asynchronous: the bytes of one session move while somebody waits here.
pub(super) struct Waiting(Option<Runtime>);

impl Waiting {
    pub(super) fn new() -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.map(|it| Self(Some(it))).map_err(|error| StoreError::Database(Cause::new(error)))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    /// Lets what the server said unasked be heard.
    fn listen(&self) {
        self.runtime().block_on(async {
            // Once for the bytes to be seen, once for them to be read.
            yield_now().await;
            yield_now().await;
        });
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

/// A transaction of the session, from here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transaction {
    None,
    /// It begins with this statement, which is sent together with the first read.
    Deferred(&'static str),
    Begun,
    /// A statement failed: nothing of it will be committed.
    Failed,
}

/// The state of one connection to the server.
pub(super) struct Session {
    client: Client,
    moving: AbortHandle,
    /// How long to wait for an answer; `None` for as long as it takes.
    answer_timeout: Option<Duration>,
    /// By our text.
    statements: HashMap<String, Statement>,
    queue: Vec<Queued>,
    transaction: Transaction,
    /// When reads end, with what cancels them.
    limits: Option<ReadLimits>,
    canceller: Canceller,
}

/// Cancels the statement that a session runs, by another connection.
struct Canceller {
    token: CancelToken,
    tls: Option<MakeRustlsConnect>,
}

impl Canceller {
    async fn cancel(&self) {
        let cancelled = match &self.tls {
            Some(tls) => self.token.cancel_query(tls.clone()).await,
            None => self.token.cancel_query(NoTls).await,
        };
        if let Err(error) = cancelled {
            tracing::debug!(error = %ServerError(error), "a read was not cancelled; it ends by itself");
        }
    }
}

/// A statement that is sent before the next one that is waited for.
enum Queued {
    /// Rows for a table, a column each.
    Rows {
        sql: String,
        columns: Vec<Array>,
    },
    Once(Once),
}

/// A statement that is run once.
struct Once {
    sql: String,
    parameters: Vec<Cell>,
    /// The error if it changes nothing; `None` where that is no error.
    otherwise: Option<StoreError>,
}

impl Queued {
    fn sql(&self) -> &str {
        match self {
            Self::Rows { sql, .. } => sql,
            Self::Once(once) => &once.sql,
        }
    }

    /// Whether it has nothing to do.
    fn is_empty(&self) -> bool {
        match self {
            Self::Rows { columns, .. } => columns.first().is_none_or(|column| column.rows() == 0),
            Self::Once(_) => false,
        }
    }

    async fn send(&self, client: &Client, statement: &Statement) -> Result<(), Failure> {
        let sent = match self {
            Self::Rows { columns, .. } => {
                let arrays: Vec<&(dyn ToSql + Sync)> =
                    columns.iter().map(Array::parameter).collect();
                client.execute(statement, &arrays).await
            }
            Self::Once(once) => {
                client.execute_raw(statement, once.parameters.iter().map(Cell::value)).await
            }
        };
        match (sent, self) {
            (Err(error), Self::Once(Once { otherwise: Some(it), .. })) if is_nothing(&error) => {
                Err(Failure::Meant(it.clone()))
            }
            (sent, _) => Ok(sent.map(drop)?),
        }
    }
}

/// Why an exchange with the server came to nothing.
enum Failure {
    /// As the caller expects.
    Meant(StoreError),
    Server(tokio_postgres::Error),
    /// It did not answer in time.
    Silent,
    /// Its limits were passed. What cancels it may reach the server after its answer, and would then end what the
    /// session is asked next: the session ends instead.
    Cancelled,
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl Failure {
    /// Whether the session ended with it.
    fn ends_session(&self) -> bool {
        match self {
            Self::Meant(_) => false,
            Self::Silent | Self::Cancelled => true,
            Self::Server(error) => match error.as_db_error().map(DbError::parsed_severity) {
                Some(severity) => severity != Some(Severity::Error),
                // Of ours alone are those about parameters: nothing was sent.
                None => error.is_closed() || error.code().is_none(),
            },
        }
    }

    /// The cause of [`Self::Silent`].
    fn silent() -> Cause {
        Cause::new("the server did not answer in time")
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let ends_session = failure.ends_session();
        let error = match failure {
            Failure::Cancelled => return Self::ReadTooLong,
            Failure::Meant(error) => return error,
            Failure::Silent => return Self::ConnectionLost(Failure::silent()),
            Failure::Server(error) => error,
        };
        let kind: fn(Cause) -> Self = if ends_session {
            Self::ConnectionLost
        } else if error.code() == Some(&SqlState::DISK_FULL) {
            return Self::DiskFull;
        } else if is_key_taken(&error) {
            return Self::KeyTaken;
        } else if is_repeated(&error) {
            Self::Repeated
        } else if is_row_refused(&error) {
            Self::Refused
        } else {
            Self::Database
        };
        kind(Cause::new(ServerError(error)))
    }
}

/// Whether a claim could not be made, or a reply stored, because another partition has by now, or
/// stood in the way of one that stood in ours.
fn is_key_taken(error: &tokio_postgres::Error) -> bool {
    let Some(error) = error.as_db_error() else { return false };
    let is_key = |table| OF_KEYS.contains(&table);
    match error.code() {
        &SqlState::UNIQUE_VIOLATION => error.table().is_some_and(is_key),
        code => *code == SqlState::T_R_DEADLOCK_DETECTED,
    }
}

/// Whether something is there already that has its id from the request that makes it.
fn is_repeated(error: &tokio_postgres::Error) -> bool {
    let Some(error) = error.as_db_error() else { return false };
    *error.code() == SqlState::UNIQUE_VIOLATION
        // Its key ends with that id. What follows the columns may be a client's text.
        && error.detail().and_then(|it| it.split_once(")=(")).is_some_and(|(columns, _)| {
            columns.contains("(tenant, ") && columns.ends_with(", id")
        })
        && error.constraint().is_some_and(|name| name.ends_with("_pkey"))
}

/// Whether the server refuses what a statement says or writes, and would whenever it came again: a
/// row twice in one statement, data that cannot be, a constraint, a value too long for an index. What
/// else fails is the server's own trouble, or the schema's.
fn is_row_refused(error: &tokio_postgres::Error) -> bool {
    const CLASSES: [&str; 3] = ["21", "22", "23"];
    let Some(code) = error.code() else { return false };
    *code == SqlState::PROGRAM_LIMIT_EXCEEDED
        || CLASSES.iter().any(|class| code.code().starts_with(class))
}

/// The text of a statement that fails where it changes nothing: it divides by how many rows it did.
fn must_change(sql: &str) -> String {
    format!("WITH changed AS ({sql} RETURNING 1) SELECT 1 / count(*) FROM changed")
}

fn is_nothing(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::DIVISION_BY_ZERO)
}

impl Session {
    pub(super) fn open(
        waiting: &Waiting,
        server: &Server,
        purpose: Use,
    ) -> Result<Self, StoreError> {
        let opening = async {
            let (client, moving) = server.connect_now().await?;
            client.batch_execute(&server.session_settings()).await?;
            let mut locked = true;
            if purpose != Use::Read {
                let silent_ms = SILENT_IN_TRANSACTION_MAX.as_millis();
                let setting = format!("SET idle_in_transaction_session_timeout = {silent_ms}");
                client.batch_execute(&setting).await?;
            }
            if let Some(sql) = purpose.lock() {
                let given_up_at = Instant::now() + LOCK_WAIT_MAX;
                loop {
                    locked = client.query_one(sql, &[&WRITER_LOCK]).await?.get(0);
                    if locked || Instant::now() >= given_up_at {
                        break;
                    }
                    tokio::time::sleep(LOCK_LOOK_EVERY).await;
                }
            }
            Ok::<_, tokio_postgres::Error>((client, moving, locked))
        };
        let opened = waiting.runtime().block_on(async {
            // A timer needs the runtime.
            tokio::time::timeout(server.connect_timeout(), opening).await
        });
        let refused = |source: Cause| {
            StoreError::ConnectionLost(Cause::new(Unreachable { place: server.place(), source }))
        };
        let (client, moving, locked) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return Err(refused(Cause::new(ServerError(error)))),
            Err(_) => return Err(refused(Failure::silent())),
        };
        if !locked {
            return Err(refused(Cause::new("another process writes it")));
        }
        let canceller = Canceller { token: client.cancel_token(), tls: server.tls.clone() };
        Ok(Self {
            limits: None,
            canceller,
            client,
            moving,
            answer_timeout: server.statement_timeout().map(|it| it + ANSWER_SLACK),
            statements: HashMap::new(),
            queue: Vec::new(),
            transaction: Transaction::None,
        })
    }

    /// Whether it has ended, as far as one can tell.
    pub(super) fn is_lost(&self, waiting: &Waiting) -> bool {
        waiting.listen();
        self.client.is_closed()
    }

    /// Ends reads from now on once limits are passed.
    pub(super) fn limit(&mut self, limits: Option<ReadLimits>) {
        self.limits = limits;
    }

    /// Whether reads have limits.
    pub(super) const fn is_limited(&self) -> bool {
        self.limits.is_some()
    }

    /// Whether a transaction was begun, or is to be.
    pub(super) fn is_begun(&self) -> bool {
        self.transaction != Transaction::None
    }

    /// Begins a transaction, together with the first statement.
    pub(super) fn begin(&mut self, text: &'static str) {
        self.transaction = Transaction::Deferred(text);
    }

    /// The prepared statement for a text of ours, which `spelt` writes as PostgreSQL has it.
    pub(super) fn statement(
        &mut self,
        waiting: &Waiting,
        sql: &str,
        spelt: impl FnOnce(&str) -> String,
    ) -> Result<Statement, StoreError> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let prepared = self.prepare(waiting, &spelt(sql))?;
        self.statements.insert(sql.to_owned(), prepared.clone());
        Ok(prepared)
    }

    /// A statement that is prepared and not kept.
    pub(super) fn prepare(
        &mut self,
        waiting: &Waiting,
        text: &str,
    ) -> Result<Statement, StoreError> {
        let client = &self.client;
        // The server takes locks for this already.
        let prepared = async { Ok(client.prepare(text).await?) };
        let answered = self.wait_within_limits(waiting, prepared);
        self.concluded(answered)
    }

    /// The columns that rows for a table are gathered in, until something else is sent.
    pub(super) fn gather(&mut self, table: &Table, sql: &str) -> &mut [Array] {
        // What is queued behind rows may be about them: no more of them are put before it.
        let since = self.queue.iter().rposition(|it| matches!(it, Queued::Once(_)));
        let since = since.map_or(0, |at| at + 1);
        let known = self.queue[since..].iter().position(|it| it.sql() == sql);
        let at = known.map_or(self.queue.len(), |at| since + at);
        if at == self.queue.len() {
            let columns = table.columns.iter().map(Array::of).collect();
            self.queue.push(Queued::Rows { sql: sql.to_owned(), columns });
        }
        match &mut self.queue[at] {
            Queued::Rows { columns, .. } => columns,
            Queued::Once(_) => unreachable!("it was looked for among the rows"),
        }
    }

    /// Runs a statement before the next that is waited for. `otherwise` is what it means if it
    /// changes nothing: the transaction has failed then.
    pub(super) fn enqueue(
        &mut self,
        sql: &str,
        parameters: &[Value<'_>],
        otherwise: Option<StoreError>,
    ) {
        let sql = if otherwise.is_some() { must_change(sql) } else { sql.to_owned() };
        let parameters = parameters.iter().map(|it| Cell::owned(*it)).collect();
        self.queue.push(Queued::Once(Once { sql, parameters, otherwise }));
    }

    /// Reads all rows.
    pub(super) fn query(
        &mut self,
        waiting: &Waiting,
        statement: &Statement,
        parameters: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        self.exchange(waiting, async |client| {
            Ok(client.query_raw(statement, parameters).await?.try_collect().await?)
        })
    }

    /// Reads all rows, with arrays for parameters.
    pub(super) fn query_arrays(
        &mut self,
        waiting: &Waiting,
        statement: &Statement,
        arrays: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.exchange(waiting, async |client| Ok(client.query(statement, arrays).await?))
    }

    /// Runs a statement, and tells how many rows it changed.
    pub(super) fn execute(
        &mut self,
        waiting: &Waiting,
        statement: &Statement,
        parameters: &[Value<'_>],
    ) -> Result<u64, StoreError> {
        self.begin_to_write(waiting)?;
        self.exchange(waiting, async |client| Ok(client.execute_raw(statement, parameters).await?))
    }

    /// Runs statements without parameters, and tells whether there were rows.
    pub(super) fn run(&mut self, waiting: &Waiting, sql: &str) -> Result<bool, StoreError> {
        self.begin_to_write(waiting)?;
        self.exchange(waiting, async |client| {
            let messages = client.simple_query(sql).await?;
            Ok(messages.iter().any(|it| matches!(it, SimpleQueryMessage::Row(_))))
        })
    }

    /// Ends the transaction, with everything that was queued.
    pub(super) fn commit(&mut self, waiting: &Waiting) -> Result<(), StoreError> {
        let written = match self.transaction {
            Transaction::Failed => Err(StoreError::Database(Cause::new("the transaction failed"))),
            Transaction::None | Transaction::Deferred(_) if self.queue.is_empty() => {
                self.transaction = Transaction::None;
                return Ok(());
            }
            Transaction::None | Transaction::Deferred(_) | Transaction::Begun => {
                self.begin_to_write(waiting).and_then(|()| self.prepare_queue(waiting))
            }
        };
        let statements = match written {
            Ok(statements) => statements,
            Err(error) => {
                self.rollback(waiting)?;
                return Err(error);
            }
        };
        let queue = std::mem::take(&mut self.queue);
        let client = &self.client;
        let sent = wait(waiting, self.answer_timeout, async {
            let writes = future::join_all(sending(client, &queue, &statements));
            let (writes, committed) = future::join(writes, client.batch_execute("COMMIT")).await;
            Ok((first_failure(writes), committed))
        });
        self.transaction = Transaction::None;
        let sent = match sent {
            // A statement failed while the session lives on: the server made a ROLLBACK of the
            // COMMIT behind it.
            Ok((Err(failure), _)) if !failure.ends_session() => return Err(failure.into()),
            Ok((Ok(()), Ok(()))) => return Ok(()),
            Ok((Ok(()), Err(error))) => Err(Failure::from(error)),
            Ok((Err(failure), _)) | Err(failure) => Err(failure),
        };
        match self.concluded(sent) {
            // Whatever ends the session may come after the commit took place.
            Err(StoreError::ConnectionLost(reason)) => Err(StoreError::OutcomeUnknown(reason)),
            result => result,
        }
    }

    /// Gives up the transaction, and what was queued.
    pub(super) fn rollback(&mut self, waiting: &Waiting) -> Result<(), StoreError> {
        self.queue.clear();
        let was = std::mem::replace(&mut self.transaction, Transaction::None);
        match was {
            Transaction::None | Transaction::Deferred(_) => Ok(()),
            Transaction::Begun | Transaction::Failed if self.client.is_closed() => Ok(()),
            Transaction::Begun | Transaction::Failed => {
                let client = &self.client;
                let rolled_back = wait(waiting, self.answer_timeout, async {
                    Ok(client.batch_execute("ROLLBACK").await?)
                });
                match self.concluded(rolled_back) {
                    // What was begun went with it.
                    Err(StoreError::ConnectionLost(_)) => Ok(()),
                    result => result,
                }
            }
        }
    }

    /// Waits for the beginning of the transaction: a write must never happen without it.
    fn begin_to_write(&mut self, waiting: &Waiting) -> Result<(), StoreError> {
        let Transaction::Deferred(text) = self.transaction else { return Ok(()) };
        let client = &self.client;
        let begun =
            wait(waiting, self.answer_timeout, async { Ok(client.batch_execute(text).await?) });
        self.concluded(begun)?;
        self.transaction = Transaction::Begun;
        Ok(())
    }

    fn prepare_queue(&mut self, waiting: &Waiting) -> Result<Vec<Statement>, StoreError> {
        self.queue.retain(|it| !it.is_empty());
        let texts: Vec<String> = self.queue.iter().map(|it| it.sql().to_owned()).collect();
        texts.iter().map(|sql| self.statement(waiting, sql, super::numbered)).collect()
    }

    /// Sends what is queued and `last` right behind it; waits for the answer of `last`.
    fn exchange<T>(
        &mut self,
        waiting: &Waiting,
        last: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        if !self.queue.is_empty() {
            self.begin_to_write(waiting)?;
        }
        let statements = self.prepare_queue(waiting)?;
        let queue = std::mem::take(&mut self.queue);
        let client = &self.client;
        let begin = match self.transaction {
            Transaction::Deferred(text) => client.batch_execute(text).left_future(),
            Transaction::None | Transaction::Begun | Transaction::Failed => {
                future::ready(Ok(())).right_future()
            }
        };
        let exchanged = async {
            // They are polled, and with it sent, in this order.
            let writes = future::join_all(sending(client, &queue, &statements));
            let (begun, writes, last) = future::join3(begin, writes, last(client)).await;
            begun?;
            first_failure(writes)?;
            last
        };
        let answered = self.wait_within_limits(waiting, exchanged);
        if self.is_begun() {
            self.transaction =
                if answered.is_ok() { Transaction::Begun } else { Transaction::Failed };
        }
        self.concluded(answered)
    }

    fn wait_within_limits<T>(
        &self,
        waiting: &Waiting,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match &self.limits {
            None => wait(waiting, self.answer_timeout, answer),
            Some(limits) => {
                wait(waiting, self.answer_timeout, within(limits, &self.canceller, answer))
            }
        }
    }

    /// Takes note of how an exchange ended. A session that is beyond use is closed.
    fn concluded<T>(&mut self, answered: Result<T, Failure>) -> Result<T, StoreError> {
        answered.map_err(|failure| {
            if failure.ends_session() {
                self.moving.abort();
            }
            if self.transaction == Transaction::Begun {
                self.transaction = Transaction::Failed;
            }
            failure.into()
        })
    }
}

fn sending<'a>(
    client: &'a Client,
    queue: &'a [Queued],
    statements: &'a [Statement],
) -> impl Iterator<Item = impl Future<Output = Result<(), Failure>>> {
    queue.iter().zip(statements).map(|(it, statement)| it.send(client, statement))
}

fn first_failure(all: Vec<Result<(), Failure>>) -> Result<(), Failure> {
    all.into_iter().collect()
}

/// Cancels what is waited for once limits are passed, and waits until the server has ended it.
async fn within<T>(
    limits: &ReadLimits,
    canceller: &Canceller,
    answer: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut answer = std::pin::pin!(answer);
    loop {
        tokio::select! {
            biased;
            answered = &mut answer => return answered,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if limits.are_passed() {
            let (_too_late, ()) = future::join(&mut answer, canceller.cancel()).await;
            return Err(Failure::Cancelled);
        }
    }
}

fn wait<T>(
    waiting: &Waiting,
    answer_timeout: Option<Duration>,
    answer: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    waiting.runtime().block_on(async {
        match answer_timeout {
            Some(answer_timeout) => match tokio::time::timeout(answer_timeout, answer).await {
                Ok(answer) => answer,
                Err(_) => Err(Failure::Silent),
            },
            None => answer.await,
        }
    })
}
