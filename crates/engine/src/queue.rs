//! The queue between fronts, which serve APIs, and processors, which own partitions: its messages,
//! their routes, and how a partition's owner processes them. `crates/kafka` implements it.

use std::time::{Duration, Instant};

use domain::partition::partition_key;
use domain::{AccountId, PartitionNo, Request, Seq, TenantNo, WebhookEndpointId};

use crate::partition::Answer;
use crate::periodic::random_share;
use crate::ports::{BoxFuture, LedgerTotal, Question, StoreError};
use crate::{Reason, Unavailable};

/// A message to a partition's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Execute a command.
    Request(Box<Request>),
    /// Read the totals of an account in the ledger.
    Balance {
        tenant: TenantNo,
        account: AccountId,
        /// The simulated work before the answer.
        work: Option<SimulatedWork>,
    },
    /// Ask the gateway of a transaction, and commit what it answers. The message says nothing of an outcome: no
    /// front is believed about one.
    Inquire(Question),
    /// Send an event of the partition again.
    Resend(Resend),
}

/// An event that is sent again under its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resend {
    pub tenant: TenantNo,
    /// Its journal row.
    pub seq: Seq,
    /// Its place in the row.
    pub ordinal: u16,
    /// Where to.
    pub endpoints: Vec<WebhookEndpointId>,
}

/// Work that is only simulated: it takes some time between the two, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedWork {
    /// At least so long.
    pub from: Duration,
    /// At most so long.
    pub to: Duration,
}

impl SimulatedWork {
    /// The longest work that is simulated, whatever is asked for.
    pub const MAX: Duration = Duration::from_secs(60);

    /// How long it takes this time: anything between the two is as likely. At most [`Self::MAX`].
    #[must_use]
    pub fn duration(self) -> Duration {
        let (from, to) = (self.from.min(Self::MAX), self.to.min(Self::MAX));
        let between = to.saturating_sub(from).as_secs_f64();
        from + Duration::from_secs_f64(between * random_share())
    }
}

/// The reply to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a request.
    Answer(Answer),
    /// To a question for a balance; `None` where there is no such account.
    Balance(Option<Vec<LedgerTotal>>),
    /// To a message to inquire.
    Inquired(Inquired),
    /// The event's deliveries are queued.
    Resent,
}

/// The result of an inquiry that a front asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inquired {
    /// There is no such transaction.
    NoTransaction,
    /// The gateway gave no answer; nothing was written.
    Unreachable,
    /// The gateway's answer is committed: it has no final outcome, or no record.
    Open,
    /// The gateway's answer is committed: the transaction succeeded or failed, or it is the dispute asked for.
    Final,
}

/// Sends messages to their partition's owner and receives the replies.
pub trait Queue: Send + Sync {
    /// Sends a message and waits for its reply.
    ///
    /// # Errors
    /// [`Unavailable`]: nothing happened. Only [`Reason::CommitInDoubt`] says that this is not
    /// known: the message may have been taken, or may be taken yet.
    fn ask(&self, route: Route, message: Message) -> BoxFuture<'_, Result<Reply, Unavailable>>;

    /// Whether a message would find its way now.
    fn is_available(&self) -> bool;
}

/// The position of a message in a queue that keeps what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// Its offset: the next one is read on from once the message is dealt with.
    pub offset: i64,
    /// When the client stops waiting: later, nothing of it is done.
    pub expires_at: Option<Instant>,
}

/// The work of a processor on a message. The future owns what it needs, so that the calls can be made in order and
/// waited for in any order.
pub type Work<T> = BoxFuture<'static, Result<T, Unavailable>>;

/// The operations of a processor on the messages of the queue.
pub trait Processor: Send + Sync + 'static {
    /// A partition of commands is ours from now on. Answers with the offset to read from; `None`
    /// for the first there is. Called again for a partition that is ours already after an unsettled
    /// failure ([`is_settled`]): what was given to `execute` and `skip` before and is not durable
    /// has failed by the time this answers.
    ///
    /// # Errors
    /// [`StoreError`]: it is tried again until it succeeds or the partition is revoked.
    fn assigned(&self, partition: i32) -> BoxFuture<'_, Result<Option<i64>, StoreError>>;

    /// A partition is no longer ours: ends what runs for it. Returns within seconds.
    fn revoked(&self, partition: i32) -> BoxFuture<'_, ()>;

    /// Executes a command. Called in the order of the offsets, without waiting for the earlier
    /// ones, and only for a partition that is ours. The answer comes once it is durable; the offset
    /// is part of the same commit, also where the answer is a refusal. What has expired by the time
    /// its turn comes is refused with [`Reason::Expired`].
    ///
    /// After a failure that is not settled, all later calls for the partition fail until `assigned`
    /// has been called again: so no offset is passed over.
    fn execute(&self, partition: i32, position: QueuePosition, request: Request) -> Work<Answer>;

    /// There is nothing to execute at this offset: remembers that it is done. Called in order with
    /// `execute`.
    fn skip(&self, partition: i32, offset: i64) -> Work<()>;

    /// Asks the gateway of a transaction of a partition that is ours, and commits the answer.
    fn inquire(&self, partition: i32, question: Question) -> Work<Inquired>;

    /// Queues the deliveries of an event of a partition that is ours.
    fn resend(&self, partition: i32, resend: Resend) -> Work<()>;

    /// The totals of an account in the ledger; `None` where there is no such account. Also for accounts of partitions
    /// that are not ours.
    fn balance(
        &self,
        tenant: TenantNo,
        account: AccountId,
        work: Option<SimulatedWork>,
    ) -> Work<Option<Vec<LedgerTotal>>>;
}

/// Whether a refusal by [`Processor::execute`] is the last word on its command: the offset has been
/// passed, and the command is not executed later. Otherwise it is read again from the queue.
#[must_use]
pub const fn is_settled(reason: Reason) -> bool {
    match reason {
        Reason::GatewayFull
        | Reason::GatewayStopped
        | Reason::BreakerOpen
        | Reason::ControlFailed
        | Reason::Expired
        | Reason::Repeated
        | Reason::Quarantined
        | Reason::Bug => true,
        Reason::QueueFull
        | Reason::QueueAway
        | Reason::MessageTooLarge
        | Reason::ReadersFull
        | Reason::ReadTooLong
        | Reason::HashersFull
        | Reason::Stopping
        | Reason::DiskFull
        | Reason::Store
        | Reason::NotOwner
        | Reason::CommitInDoubt => false,
    }
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the owner of an account's partition.
    Account(TenantNo, AccountId),
    /// To the owner of [`PartitionNo::FIRST`]: tenants, users and roles.
    System,
    /// To the owner of a partition, where one of its rows is meant.
    Partition(PartitionNo),
}

impl Route {
    /// The key of messages on this route: what has the same key keeps its order.
    #[must_use]
    pub fn key(self) -> String {
        match self {
            Self::Account(tenant, account) => partition_key(tenant, account),
            Self::System => "system".to_owned(),
            Self::Partition(partition) => format!("partition {}", partition.number()),
        }
    }

    /// The partition, of so many: Kafka's own choice for the key, so that any client makes the same.
    ///
    /// # Panics
    /// Where there are no partitions.
    #[must_use]
    pub fn partition(self, partitions: u16) -> PartitionNo {
        match self {
            Self::Account(tenant, account) => PartitionNo::of(tenant, account, partitions),
            Self::System => PartitionNo::FIRST,
            Self::Partition(partition) => partition,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_work_takes_a_minute_at_most() {
        let day = Duration::from_secs(86_400);
        let check = |from, to, least, most| {
            let took = SimulatedWork { from, to }.duration();
            assert!((least..=most).contains(&took), "{from:?} to {to:?}: {took:?}");
        };
        let ms = Duration::from_millis;
        check(ms(5), ms(9), ms(5), ms(9));
        check(ms(5), ms(3), ms(5), ms(5));
        check(day, day, SimulatedWork::MAX, SimulatedWork::MAX);
        check(Duration::MAX, Duration::ZERO, SimulatedWork::MAX, SimulatedWork::MAX);
        check(ms(5), Duration::MAX, ms(5), SimulatedWork::MAX);
    }
}
