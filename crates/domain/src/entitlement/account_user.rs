//! Users of feature flags that belong to an account, besides those that its own keys name.
//!
//! The keys of users are personal data: they lie in rows beside the journal.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::claim::{ClaimKey, ClaimKind};
use crate::flag::definition::Expected;
use crate::{AccountId, TenantNo};

/// How many users are mapped to an account at most.
pub const USERS_MAX: usize = 10_000;

/// How long the key of a user is at most.
pub const USER_CHARS_MAX: usize = 255;

/// Replaces the users of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAccountUsers {
    pub account: AccountId,
    /// Their keys, at most [`USERS_MAX`].
    pub users: Vec<String>,
    /// Of [`Entitlements::users_version`].
    ///
    /// [`Entitlements::users_version`]: crate::entitlement::Entitlements::users_version
    pub expected: Expected,
}

/// Which users an account got and lost. Never journalled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedUsers {
    pub tenant: TenantNo,
    pub account: AccountId,
    /// In order.
    pub mapped: Vec<String>,
    /// In order.
    pub unmapped: Vec<String>,
}

/// The claim on the key of a user: that of external keys, so that no key is one account's external key and another
/// account's user.
#[must_use]
pub fn user_claim(tenant: TenantNo, key: &str) -> ClaimKey {
    ClaimKey::new(tenant, ClaimKind::Account, key)
}

/// The account whose id the key of a user is, in the spelling that is given out, where it is one.
#[must_use]
pub fn spelled_account(key: &str) -> Option<AccountId> {
    Uuid::try_parse(key).ok().filter(|id| id.to_string() == key).map(AccountId::new)
}
