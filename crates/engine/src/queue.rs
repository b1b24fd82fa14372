//! The queue between fronts, which have doors, and processors, which own partitions: what is sent,
//! where it goes, and what whoever owns a partition does with it. `crates/kafka` carries it.

use domain::{AccountId, Request, TenantNo};

use crate::partition::Answer;
use crate::ports::{BoxFuture, LedgerTotal, StoreError};
use crate::{Reason, Unavailable};

/// The partition of what belongs to no account: tenants, users and roles.
pub const SYSTEM_PARTITION: i32 = 0;

/// What is sent to whoever owns a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Execute a command.
    Request(Box<Request>),
    /// What the ledger says about an account.
    Balance {
        /// Whose account.
        tenant: TenantNo,
        /// Which.
        account: AccountId,
    },
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a request.
    Answer(Answer),
    /// To a question for a balance; `None` where there is no such account.
    Balance(Option<Vec<LedgerTotal>>),
}

/// Carries messages to whoever owns their partition and brings the replies back.
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

/// What a processor does with what the queue brings. The futures of what is called per message own
/// what they need, so that the calls can be made in order and waited for in any order.
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
    /// is part of the same commit, also where the answer is a refusal.
    ///
    /// After a failure that is not settled, all later calls for the partition fail until `assigned`
    /// has been called again: so no offset is passed over.
    fn execute(
        &self,
        partition: i32,
        offset: i64,
        request: Request,
    ) -> BoxFuture<'static, Result<Answer, Unavailable>>;

    /// There is nothing to execute at this offset: remembers that it is done. Called in order with
    /// `execute`.
    fn skip(&self, partition: i32, offset: i64) -> BoxFuture<'static, Result<(), Unavailable>>;

    /// What the ledger says about an account; `None` where there is no such account. Also for
    /// accounts of partitions that are not ours.
    fn balance(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> BoxFuture<'static, Result<Option<Vec<LedgerTotal>>, Unavailable>>;
}

/// Whether a refusal by [`Processor::execute`] is the last word on its command: the offset has been
/// passed, and the command is not executed later. Otherwise it is read again from the queue.
#[must_use]
pub const fn is_settled(reason: Reason) -> bool {
    match reason {
        Reason::GatewayFull | Reason::Quarantined | Reason::Bug => true,
        Reason::QueueFull
        | Reason::QueueAway
        | Reason::MessageTooLarge
        | Reason::ReadersFull
        | Reason::HashersFull
        | Reason::Stopping
        | Reason::DiskFull
        | Reason::Store
        | Reason::CommitInDoubt => false,
    }
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the owner of an account's partition.
    Account(TenantNo, AccountId),
    /// To the owner of [`SYSTEM_PARTITION`].
    System,
}

impl Route {
    /// The key of messages on this route: what has the same key keeps its order.
    #[must_use]
    pub fn key(self) -> String {
        match self {
            Self::Account(tenant, account) => format!("{}/{account}", tenant.0),
            Self::System => "system".to_owned(),
        }
    }

    /// The partition, of so many: Kafka's own choice for the key, so that any client makes the same.
    ///
    /// # Panics
    /// Where there are no partitions.
    #[must_use]
    pub fn partition(self, partitions: i32) -> i32 {
        match self {
            Self::Account(..) => partition_of(self.key().as_bytes(), partitions),
            Self::System => SYSTEM_PARTITION,
        }
    }
}

/// The partition of a key, as Kafka's Java client chooses it.
///
/// # Panics
/// Where there are no partitions.
#[must_use]
pub fn partition_of(key: &[u8], partitions: i32) -> i32 {
    let positive = murmur2(key) & 0x7fff_ffff;
    assert!(partitions > 0, "a topic has partitions");
    (positive % partitions.unsigned_abs()).cast_signed()
}

/// `MurmurHash2`, 32 bits, with the seed that Kafka's clients use.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const FACTOR: u32 = 0x5bd1_e995;
    const SHIFT: u32 = 24;
    let (words, rest) = data.as_chunks::<4>();
    let length = u32::try_from(data.len()).expect("a key is shorter than 4 GiB");
    let mut hash = SEED ^ length;
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(FACTOR);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(FACTOR) ^ mixed.wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |value, byte| (value << 8) | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(FACTOR);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(FACTOR);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    /// The values that Kafka's own tests of its Java client expect.
    #[test]
    fn keys_hash_as_in_kafkas_java_client() {
        let known: [(&str, i32); 7] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
            ("", 275_646_681),
        ];
        for (key, expected) in known {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
        }
    }

    #[test]
    fn routes_lead_to_partitions() {
        let account = AccountId::new(Uuid::from_u128(0x0192_aabb_ccdd_7000_8000_0000_0000_0001));
        let route = Route::Account(TenantNo(7), account);
        assert_eq!(route.key(), "7/0192aabb-ccdd-7000-8000-000000000001");
        assert_eq!(route.partition(5), partition_of(route.key().as_bytes(), 5));
        assert_eq!(Route::System.partition(5), 0);
        let seen: std::collections::BTreeSet<i32> =
            (0..100).map(|tenant| Route::Account(TenantNo(tenant), account).partition(5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
