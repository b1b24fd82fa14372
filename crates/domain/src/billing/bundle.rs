//! Bundles: subscriptions of an account that belong together, a base product with its add-ons for example.

use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Facts};
use crate::rows::{Keyed, Part};
use crate::{AccountId, BundleId, Revision, TenantNo, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    pub tenant: TenantNo,
    pub id: BundleId,
    pub account_id: AccountId,
    /// The client's name for it; `None` reads as the id. At most one bundle with a subscription that has not ended has a
    /// name. Never journalled.
    #[serde(skip)]
    pub external_key: Option<String>,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// Gives a bundle another key, which no other bundle of the tenant has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenameBundle {
    pub account: AccountId,
    pub bundle: BundleId,
    pub key: String,
}

impl Keyed for Bundle {
    type Key = (TenantNo, BundleId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Part for Bundle {
    type Owner = (TenantNo, AccountId);

    fn owner(&self) -> Self::Owner {
        (self.tenant, self.account_id)
    }

    fn is_active(&self) -> bool {
        true
    }
}

impl Entity for Bundle {
    fn facts(&self) -> Facts {
        Facts::new("bundle", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn erase(&mut self) {
        self.external_key = None;
    }
}
