//! The state that commands look at: the rows that a batch loaded, with the changes of its commands since.
//!
//! Each group of rows is with its aggregate, in its `read.rs`: its rows, its reads, and what a change does to it.

use std::collections::BTreeMap;

use crate::TenantNo;
use crate::change::{Change, ClaimChange, TimerChange};
use crate::claim::{Claim, ClaimKey};
use crate::rows::Rows;
use crate::timer::{Timer, TimerKey};

pub use crate::access::read::AccessState;
pub use crate::account::read::AccountState;
pub use crate::customer::read::CustomerState;
pub use crate::entitlement::read::{CatalogSize, EntitlementState, UsageState};
pub use crate::flag::read::FlagState;
pub use crate::payment::read::PaymentState;
pub use crate::tenant::read::TenantState;

/// The rows of a batch, in the groups of [`Change`]. A row that was looked for and is not there is known as
/// absent; a look at a row that nobody loaded is a bug and panics.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub tenant: TenantState,
    pub access: AccessState,
    pub flag: FlagState,
    pub account: AccountState,
    pub customer: CustomerState,
    pub payment: PaymentState,
    pub entitlement: EntitlementState,
    /// Claims by key.
    pub claims: BTreeMap<ClaimKey, Option<Claim>>,
    pub timers: Rows<Timer>,
}

pub(crate) const LOADED: &str = "a command's reads are loaded before it is executed";

impl State {
    pub(crate) fn claim(&self, key: &ClaimKey) -> Option<&Claim> {
        self.claims.get(key).expect(LOADED).as_ref()
    }

    pub(crate) fn timer(&self, tenant: TenantNo, key: TimerKey) -> Option<&Timer> {
        self.timers.get(&(tenant, key))
    }

    /// Makes a command's changes visible to the commands after it in the batch.
    pub fn apply(&mut self, tenant: TenantNo, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Tenant(it) => self.tenant.apply(it),
                Change::Access(it) => self.access.apply(it),
                Change::Flag(it) => self.flag.apply(it),
                Change::Account(it) => {
                    self.account.apply(tenant, it);
                    self.payment.apply_to_account(tenant, it);
                }
                Change::Customer(it) => self.customer.apply(tenant, it),
                Change::Payment(it) => self.payment.apply(tenant, it),
                Change::Entitlement(it) => self.entitlement.apply(it),
                Change::Claim(ClaimChange::Taken { key, claim }) => {
                    self.claims.insert(key.clone(), Some(*claim));
                }
                Change::Claim(ClaimChange::Released { key }) => {
                    self.claims.insert(key.clone(), None);
                }
                Change::Timer(TimerChange::Set(timer)) => drop(self.timers.put(timer.clone())),
                Change::Timer(TimerChange::Cleared(key)) => self.timers.set((tenant, *key), None),
                Change::ReplySettled(_) => {}
            }
        }
    }
}
