//! Further e-mail addresses of accounts, beside the one that an account has.

use serde::{Deserialize, Serialize};

use crate::{AccountEmailId, AccountId, Revision, TenantNo, Timestamp};

/// How many further addresses an account has at most.
pub const EMAILS_PER_ACCOUNT_MAX: usize = 100;

/// How many characters an address has at most.
pub const EMAIL_CHARS_MAX: usize = 128;

/// A further address of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountEmail {
    pub tenant: TenantNo,
    pub id: AccountEmailId,
    pub account: AccountId,
    /// It never changes. Kept out of the journal.
    #[serde(skip)]
    pub email: String,
    /// False once it was removed.
    pub active: bool,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// Adds an address to an account, or removes it. What is there already, or not there, stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeAccountEmail {
    pub account: AccountId,
    pub email: String,
}
