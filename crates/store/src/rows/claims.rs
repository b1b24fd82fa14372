//! Claims, as their rows hold them.

use domain::TenantNo;
use domain::claim::{Claim, ClaimKey, ClaimKind};
use uuid::Uuid;

/// The owner of a released key, until its row is deleted.
const TOMBSTONE: Uuid = Uuid::nil();

/// A claim with what its hash was made of, but for the key itself.
#[derive(Clone, Copy)]
pub(crate) struct Claimed {
    pub(crate) tenant: TenantNo,
    pub(crate) kind: ClaimKind,
    pub(crate) claim: Claim,
}

impl Claimed {
    /// A released key.
    pub(crate) fn released(key: &ClaimKey) -> Self {
        let claim = Claim { owner: TOMBSTONE, account: None };
        Self { tenant: key.tenant, kind: key.kind, claim }
    }

    /// Whether the key is free.
    pub(crate) const fn is_released(&self) -> bool {
        self.claim.owner.is_nil()
    }
}
