//! The queue between fronts and processors: what a front sends to whoever owns a partition, and what
//! a processor does with it. Within one process there is none of it: see [`crate::Engine::start`].

use std::time::Instant;

use domain::{AccountId, Request, TenantNo};

use crate::Unavailable;
use crate::partition::Answer;
use crate::ports::{BoxFuture, LedgerTotal, StoreError};

/// What a front asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// To execute a request.
    Request(Box<Request>),
    /// What an account's ledger account adds up to.
    Balance {
        /// Whose account.
        tenant: TenantNo,
        /// The account.
        account: AccountId,
    },
}

/// What comes back.
#[derive(Clone, Debug)]
pub enum Reply {
    /// To [`Message::Request`].
    Answer(Answer),
    /// To [`Message::Balance`]: per currency; `None` where there is no such account.
    Balance(Option<Vec<LedgerTotal>>),
}

/// Which partition a message goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// That of an account: see [`domain::PartitionNo::of`].
    Account(TenantNo, AccountId),
    /// The first: tenants, users, roles.
    System,
}

/// Carries messages to whoever owns their partition, and the answers back. Used by fronts.
pub trait Queue: Send + Sync {
    /// Sends a message and waits for the answer.
    ///
    /// # Errors
    /// [`Unavailable`]: nothing happened, or a retry will tell.
    fn ask(&self, route: Route, message: Message) -> BoxFuture<'_, Result<Reply, Unavailable>>;

    /// Whether it can be reached: where not, whoever asks is refused at once.
    fn is_available(&self) -> bool;
}

/// Where a queue that keeps what was read has a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its offset: the next one is read on from once the message is dealt with.
    pub offset: i64,
    /// When whoever asked has stopped waiting: later, nothing of it is done.
    pub expires_at: Option<Instant>,
}

/// What a processor does with what the queue brings.
pub trait Processor: Send + Sync + 'static {
    /// A partition is this process's from now on: takes it over. Answers with the offset to read
    /// from; `None` where nothing of it was read yet.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be taken over now.
    fn assigned(&self, partition: i32) -> BoxFuture<'_, Result<Option<i64>, StoreError>>;

    /// A partition is another's from now on: ends what runs. Returns within seconds.
    fn revoked(&self, partition: i32) -> BoxFuture<'_, ()>;

    /// Executes a request. Called in the order of offsets, without waiting for the one before; the
    /// future resolves once its effects are durable and its offset with them.
    fn execute(
        &self,
        partition: i32,
        place: Place,
        request: Request,
    ) -> BoxFuture<'static, Result<Answer, Unavailable>>;

    /// Nothing is to be executed for this offset: remembers that it is dealt with. In the order of
    /// offsets, as [`Processor::execute`].
    fn skip(&self, partition: i32, offset: i64) -> BoxFuture<'static, Result<(), Unavailable>>;

    /// What an account's ledger account adds up to; `None` where there is no such account.
    fn balance(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> BoxFuture<'_, Result<Option<Vec<LedgerTotal>>, Unavailable>>;
}
