//! Partitions: each has one writer at a time, and a journal of its own.
//!
//! All that belongs to an account is in one partition, which never changes as long as the number of
//! partitions does not. What belongs to no account (tenants, users, roles) is in the first one.

use crate::revision::Seq;
use crate::{AccountId, PaymentId, PaymentMethodId, TenantNo};

/// How many partitions there can be. A [`Seq`] of the last one still is an integer that JSON readers
/// with double precision keep exact.
pub const PARTITIONS_MAX: u16 = 1 << (53 - SEQ_BITS);

/// The lower bits of a [`Seq`] count within its partition; the bits above name the partition.
const SEQ_BITS: u32 = 44;

/// A partition, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionNo(u16);

/// The subject of a command: the partition of its account executes the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The installation: tenants, users, roles, feature flags.
    System,
    Account(AccountId),
    /// A payment method: its account.
    PaymentMethod(PaymentMethodId),
    /// A payment: its account.
    Payment(PaymentId),
}

impl PartitionNo {
    /// The only one where there is one; where there are more, also that of tenants, users and roles.
    pub const FIRST: Self = Self(0);

    /// The partition with a number, where it can be one.
    #[must_use]
    pub fn new(number: i64) -> Option<Self> {
        u16::try_from(number).ok().filter(|number| *number < PARTITIONS_MAX).map(Self)
    }

    #[must_use]
    pub fn number(self) -> i64 {
        i64::from(self.0)
    }

    /// The partition of an account, of `count` that there are: what Kafka's own partitioner makes of
    /// [`partition_key`].
    ///
    /// # Panics
    /// Where there are none.
    #[must_use]
    pub fn of(tenant: TenantNo, account: AccountId, count: u16) -> Self {
        Self::of_key(partition_key(tenant, account).as_bytes(), count)
    }

    /// The partition of a key, as Kafka's own partitioner computes it for `count` partitions.
    ///
    /// # Panics
    /// Where there are no partitions.
    #[must_use]
    pub fn of_key(key: &[u8], count: u16) -> Self {
        assert!(count > 0, "there is at least one partition");
        let hash = murmur2(key) & 0x7fff_ffff;
        Self(u16::try_from(hash % u32::from(count)).expect("a remainder is less than the divisor"))
    }

    /// The place before its first journal row.
    #[must_use]
    pub fn start(self) -> Seq {
        Seq(self.number() << SEQ_BITS)
    }

    /// The place before the first journal row of the partition after it.
    #[must_use]
    pub fn end(self) -> Seq {
        Seq((self.number() + 1) << SEQ_BITS)
    }
}

impl Seq {
    /// The partition whose journal row it is.
    #[must_use]
    pub fn partition(self) -> PartitionNo {
        PartitionNo::new(self.0 >> SEQ_BITS).unwrap_or_default()
    }
}

/// The key that decides on the partition of an account: the tenant's number, a slash, and the account's id.
#[must_use]
pub fn partition_key(tenant: TenantNo, account: AccountId) -> String {
    format!("{}/{account}", tenant.0)
}

/// `MurmurHash2` as Kafka's default partitioner uses it (`org.apache.kafka.common.utils.Utils`):
/// 32 bits, little-endian, seed 0x9747b28c.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let length = u32::try_from(data.len()).expect("keys are short");
    let mut hash = SEED ^ length;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn hashes_as_kafka_does() {
        // The values that Kafka's own test of its hash expects.
        let expected: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (text, hash) in expected {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
        }
    }

    #[test]
    fn accounts_spread_over_all_partitions() {
        let mut counts = [0; 5];
        for n in 0..10_000 {
            let account = AccountId::new(Uuid::from_u128(n));
            counts[usize::from(PartitionNo::of(TenantNo(3), account, 5).0)] += 1;
        }
        assert!(counts.iter().all(|count| (1_700..2_300).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_row_names_its_partition() {
        for number in [0, 1, 7, i64::from(PARTITIONS_MAX) - 1] {
            let partition = PartitionNo::new(number).unwrap_or_default();
            assert_eq!(partition.number(), number);
            assert_eq!(Seq(partition.start().0 + 1).partition(), partition);
            assert_eq!(Seq(partition.end().0 - 1).partition(), partition);
        }
        assert_eq!(PartitionNo::new(i64::from(PARTITIONS_MAX)), None);
        assert_eq!(PartitionNo::new(-1), None);
        assert!(PartitionNo::new(511).unwrap_or_default().end().0 <= 1 << 53);
    }
}
