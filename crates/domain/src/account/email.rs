//! Further e-mail addresses of accounts, beside the one that an account has.

use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Facts};
use crate::rows::{Keyed, Part};
use crate::{AccountId, Id, Revision, TenantNo, Timestamp};

/// How many further addresses an account has at most.
pub const EMAILS_PER_ACCOUNT_MAX: usize = 100;

/// How many characters an address has at most.
pub const EMAIL_CHARS_MAX: usize = 128;

/// Names a further address of an account.
pub type AccountEmailId = Id<AccountEmail>;

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

impl Keyed for AccountEmail {
    type Key = (TenantNo, AccountEmailId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Part for AccountEmail {
    type Owner = (TenantNo, AccountId);

    fn owner(&self) -> Self::Owner {
        (self.tenant, self.account)
    }

    fn is_active(&self) -> bool {
        self.active && !self.email.is_empty()
    }
}

impl Entity for AccountEmail {
    fn facts(&self) -> Facts {
        Facts::new("address", self.id, self.revision).of(self.account)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn erase(&mut self) {
        self.email.clear();
    }
}

/// Adds an address to an account, or removes it. What is there already, or not there, stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeAccountEmail {
    pub account: AccountId,
    pub email: String,
}
