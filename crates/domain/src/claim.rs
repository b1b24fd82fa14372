//! Claims: names that at most one thing of a tenant may have.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{AccountId, TenantNo};

/// The kind of a claimed key: the entity that the key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ClaimKind {
    /// A tenant's API key.
    TenantApiKey,
    /// A tenant's id.
    TenantId,
    /// An account's external key.
    Account,
    /// A payment method's external key.
    PaymentMethod,
    /// A payment's external key.
    Payment,
    /// A transaction's external key; its owner is the payment.
    Transaction,
    /// An environment's name: its project's key, a slash, its own key.
    Environment,
    /// A customer's e-mail address.
    CustomerEmail,
    /// The name of a tenant's definition of tags.
    TagDefinition,
    /// The id of what was brought over from another system, which minted it.
    ImportedId,
    /// A gateway's case, as [`crate::payment::dispute::DisputeCase::claimed`] spells it; its owner is the dispute.
    Dispute,
    /// A bundle's external key.
    Bundle,
}

/// A name that at most one thing of a tenant may have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimKey {
    pub tenant: TenantNo,
    /// Among which things.
    pub kind: ClaimKind,
    pub key: String,
}

impl ClaimKey {
    /// The claim on `key` among the tenant's things of this kind.
    #[must_use]
    pub fn new(tenant: TenantNo, kind: ClaimKind, key: &str) -> Self {
        Self { tenant, kind, key: key.to_owned() }
    }
}

/// Who has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The thing's id; for a transaction key, its payment's.
    pub owner: Uuid,
    /// The account it belongs to.
    pub account: Option<AccountId>,
}
