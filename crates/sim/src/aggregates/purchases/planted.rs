//! The bugs that are planted at the store, and on the way to the users' screens.

use std::collections::BTreeMap;

use domain::AccountId;
use domain::change::{Change, EntitlementChange, Image, TimerChange};
use domain::entitlement::Entitlements;
use domain::timer::TimerKind;
use engine::ports::{Entry, Loaded};

use crate::faulty::StoreBug;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurchaseMutant {
    /// New grants are not written with the purchase that is paid.
    LosesGrants,
    /// Purchases are loaded as if they were free.
    GrantsUnpaid,
    /// The offers that an account bought are not loaded.
    ForgetsBought,
    /// The removal of revoked grants is not written.
    StaysOn,
    /// The timers of entitlements are forgotten.
    DropsTimer,
    /// Grants are loaded as if they never ended.
    ForgetsEnds,
    /// Closed accounts are loaded as open ones.
    ForgetsClosing,
    /// The offer for newcomers is not loaded.
    ForgetsNewcomers,
    /// Keys of users are loaded as if they were free.
    ForgetsKeys,
    /// The removal of an account's users at its erasure is not written.
    KeepsUsers,
    /// Entitlements are sent to the users of accounts before they are committed.
    PushesEarly,
    /// A user who was away is sent what has changed by the times of flags alone.
    MissesWhileAway,
    /// An account's change is sent to another account's users.
    WakesOthers,
}

/// A bug at the store of a process.
#[derive(Clone)]
pub(super) struct Planted {
    mutant: PurchaseMutant,
    /// How many grants accounts had before.
    grants: BTreeMap<AccountId, usize>,
}

impl From<PurchaseMutant> for Planted {
    fn from(mutant: PurchaseMutant) -> Self {
        Self { mutant, grants: BTreeMap::new() }
    }
}

impl StoreBug for Planted {
    fn spoil_load(&mut self, loaded: &mut Loaded) {
        let entitlement = &mut loaded.state.entitlement;
        match self.mutant {
            PurchaseMutant::GrantsUnpaid => {
                entitlement.purchases.iter_mut().for_each(|it| it.terms.offer.price = None);
            }
            PurchaseMutant::ForgetsBought => {
                entitlement.entitlements.iter_mut().for_each(|it| it.bought.clear());
            }
            PurchaseMutant::ForgetsEnds => {
                let grants = entitlement.entitlements.iter_mut().flat_map(|it| &mut it.grants);
                grants.for_each(|it| it.until = None);
            }
            PurchaseMutant::ForgetsClosing => loaded.state.account.closed.clear(),
            PurchaseMutant::ForgetsNewcomers => {
                entitlement.newcomers_offers.values_mut().for_each(|it| *it = None);
            }
            PurchaseMutant::ForgetsKeys => {
                loaded.state.claims.values_mut().for_each(|it| *it = None);
            }
            PurchaseMutant::LosesGrants
            | PurchaseMutant::StaysOn
            | PurchaseMutant::DropsTimer
            | PurchaseMutant::KeepsUsers
            | PurchaseMutant::PushesEarly
            | PurchaseMutant::MissesWhileAway
            | PurchaseMutant::WakesOthers => {}
        }
    }

    fn spoil_entry(&mut self, entry: &mut Entry) {
        let is_timer = entry.command == "ContinueEntitlements";
        entry.changes.retain(|it| !self.is_lost(it, is_timer));
    }
}

impl Planted {
    fn is_lost(&mut self, change: &Change, is_timer: bool) -> bool {
        let mutant = self.mutant;
        if let Change::Timer(TimerChange::Set(it)) = change {
            return mutant == PurchaseMutant::DropsTimer && it.key.kind == TimerKind::Entitlements;
        }
        if let Change::Entitlement(EntitlementChange::Users(it)) = change {
            return mutant == PurchaseMutant::KeepsUsers && it.mapped.is_empty();
        }
        let Some(it) = Entitlements::of(change) else { return false };
        let now = it.grants.len();
        let before = self.grants.insert(it.account_id, now).unwrap_or_default();
        (mutant == PurchaseMutant::LosesGrants && now > before)
            || (mutant == PurchaseMutant::StaysOn && now < before && !is_timer)
    }
}
