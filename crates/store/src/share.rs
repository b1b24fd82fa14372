//! Which part of a database a writer owns.

use domain::{AccountId, PartitionNo, TenantNo};

/// A partition, of so many. On a database file there is exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The partition that is owned.
    pub partition: PartitionNo,
    /// How many partitions the database has.
    pub partitions: u16,
}

impl Share {
    /// All there is.
    pub const WHOLE: Self = Self { partition: PartitionNo::FIRST, partitions: 1 };

    /// Whether what belongs to an account is only written by the owner of this share.
    #[must_use]
    pub fn has(self, tenant: TenantNo, account: AccountId) -> bool {
        self.partitions == 1 || PartitionNo::of(tenant, account, self.partitions) == self.partition
    }
}
