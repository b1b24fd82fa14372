//! What an account's billing has once: its credit, and whether it waits for somebody.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::billing::Unbillable;
use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::{AccountId, AmountMinor, Revision, TenantNo, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountBilling {
    pub tenant: TenantNo,
    pub account_id: AccountId,
    /// In the account's currency. Invoices use it before they are paid; Kill Bill calls it CBA.
    pub credit: AmountMinor,
    /// The latest target of its invoices: later runs look as far ahead, so that what was invoiced early stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invoiced_until: Option<Date>,
    /// Its blocking states until then have taken effect; `None`: none that was to come has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_until: Option<Timestamp>,
    /// When its timer is due; `None`: nothing is to be done.
    pub due: Option<Timestamp>,
    /// Why it is billed no more until somebody acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Parked>,
    pub revision: Revision,
}

/// Why an account is billed no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    pub since: Timestamp,
    pub reason: Unbillable,
}

impl AccountBilling {
    /// Of an account that was never billed.
    #[must_use]
    pub const fn none_of(tenant: TenantNo, account_id: AccountId, revision: Revision) -> Self {
        Self {
            tenant,
            account_id,
            credit: AmountMinor::ZERO,
            invoiced_until: None,
            blocked_until: None,
            due: None,
            parked: None,
            revision,
        }
    }
}

impl Keyed for AccountBilling {
    type Key = (TenantNo, AccountId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.account_id)
    }
}

impl Entity for AccountBilling {
    fn facts(&self) -> Facts {
        Facts::new("account billing", self.account_id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}
