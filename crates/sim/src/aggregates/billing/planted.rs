//! The bugs that are planted at the store.

use std::collections::BTreeMap;

use domain::billing::account::AccountBilling;
use domain::billing::invoice::{Invoice, InvoiceItem, ItemKind};
use domain::change::{BillingChange, Change, Image, PaymentChange, TimerChange};
use domain::entitlement::Entitlements;
use domain::ledger::PostingSource;
use domain::rows::{Keyed, Part};
use domain::state::BillingState;
use domain::timer::TimerKind;
use domain::{AccountId, AmountMinor, Id, Timestamp};
use engine::ports::{Entry, Loaded};
use uuid::Uuid;

use super::days::DAY_US;
use crate::faulty::StoreBug;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingMutant {
    /// A period is written twice.
    DoublesPeriod,
    /// Timers of billing are not set now and then.
    LosesTimer,
    /// Timers of billing are set for a day before.
    SetsTimerEarly,
    /// Invoices are loaded as if nothing of their payments were on its way.
    PaysTwice,
    /// What was used of accounts' credit is not written.
    UsesCreditTwice,
    /// What a gateway said later is not written on invoices.
    MissesLateOutcome,
    /// The items that end first after the day until which all is settled are not loaded.
    ShortensHorizon,
    /// The newest version of the catalog is not loaded.
    KnowsNoNewVersion,
    /// The removal of grants is not written.
    LeavesGrantOn,
    /// What gateways' answers switch on is not written.
    GivesNothingForPayments,
    /// Postings of items are lost.
    LosesPosting,
    /// Postings of payments are lost.
    LosesPaymentPosting,
    /// Periods are not written now and then.
    LosesPeriod,
    /// Periods are written over more than they are.
    ChargesMore,
    /// Invoices are written over less than they are.
    MiscountsInvoice,
    /// Accounts are loaded without their payment method.
    LoadsNoMethod,
    /// The newest number of invoices is loaded as a higher one.
    SkipsNumber,
    /// Items are loaded as if they were of another phase.
    MixesUpPhases,
    /// Outcomes that are to come are not waited for.
    WaitsForNothing,
    /// Subscriptions are loaded as if they were not paused.
    ForgetsPauses,
}

/// A bug at the store of a process.
#[derive(Clone)]
pub(super) struct Planted {
    mutant: BillingMutant,
    /// The credit that accounts had before.
    credit: BTreeMap<AccountId, AmountMinor>,
    /// How many grants accounts had before.
    grants: BTreeMap<AccountId, usize>,
    seen: usize,
}

impl From<BillingMutant> for Planted {
    fn from(mutant: BillingMutant) -> Self {
        Self { mutant, credit: BTreeMap::new(), grants: BTreeMap::new(), seen: 0 }
    }
}

impl StoreBug for Planted {
    fn spoil_load(&mut self, loaded: &mut Loaded) {
        let state = &mut loaded.state;
        match self.mutant {
            BillingMutant::PaysTwice => {
                let invoices = state.billing.invoices.iter_mut();
                let payments = invoices.flat_map(|it| it.payments.values_mut());
                payments.for_each(|it| it.in_flight = AmountMinor::ZERO);
            }
            BillingMutant::ShortensHorizon => shorten_horizon(&mut state.billing),
            BillingMutant::KnowsNoNewVersion => {
                let tenants: Vec<_> = state.tenant.catalog_versions.owners().copied().collect();
                for tenant in tenants {
                    let versions = state.tenant.catalog_versions.of(&tenant);
                    let newest = versions.values().max_by_key(|it| it.effective_at).cloned();
                    let older = versions.values().min_by_key(|it| it.effective_at).cloned();
                    if let (Some(newest), Some(older)) = (newest, older) {
                        // It is as if it were the one before.
                        let catalog = older.catalog;
                        state
                            .tenant
                            .catalog_versions
                            .put(domain::tenant::catalog::CatalogVersion { catalog, ..newest });
                    }
                }
            }
            BillingMutant::ForgetsPauses => {
                for it in state.account.blocking_states.iter_mut() {
                    it.blocks.billing = false;
                }
            }
            BillingMutant::LoadsNoMethod => {
                state.account.accounts.iter_mut().for_each(|it| it.payment_method_id = None);
            }
            BillingMutant::SkipsNumber => {
                state.billing.invoice_numbers.values_mut().for_each(|it| *it += 1);
            }
            BillingMutant::MixesUpPhases => {
                let of = state.billing.items.iter_mut().filter_map(|it| it.of.as_mut());
                of.for_each(|it| it.phase.push('s'));
            }
            BillingMutant::DoublesPeriod
            | BillingMutant::LosesTimer
            | BillingMutant::SetsTimerEarly
            | BillingMutant::UsesCreditTwice
            | BillingMutant::MissesLateOutcome
            | BillingMutant::LeavesGrantOn
            | BillingMutant::GivesNothingForPayments
            | BillingMutant::LosesPosting
            | BillingMutant::LosesPaymentPosting
            | BillingMutant::LosesPeriod
            | BillingMutant::ChargesMore
            | BillingMutant::MiscountsInvoice
            | BillingMutant::WaitsForNothing => {}
        }
    }

    fn spoil_entry(&mut self, entry: &mut Entry) {
        let is_late = entry.command == "GatewayInquired";
        let is_of_gateway = is_late || entry.command == "GatewayReplied";
        if is_of_gateway && self.mutant == BillingMutant::GivesNothingForPayments {
            entry.changes.retain(|it| Entitlements::of(it).is_none());
        }
        let changes = std::mem::take(&mut entry.changes);
        let changes = changes.into_iter().flat_map(|it| self.spoilt(it, is_late));
        entry.changes = changes.collect();
    }
}

impl Planted {
    fn spoilt(&mut self, mut change: Change, is_late: bool) -> Vec<Change> {
        let mutant = self.mutant;
        if Invoice::of(&change).is_some() && mutant == BillingMutant::MissesLateOutcome && is_late {
            return vec![];
        }
        if Entitlements::of(&change).is_some_and(|it| self.leaves_on(it)) {
            return vec![];
        }
        let is_lost = match &mut change {
            Change::Timer(TimerChange::Set(it)) if it.key.kind == TimerKind::Billing => {
                self.seen += 1;
                if mutant == BillingMutant::SetsTimerEarly {
                    it.due = Timestamp(it.due.0 - DAY_US);
                }
                mutant == BillingMutant::LosesTimer && self.seen.is_multiple_of(7)
            }
            Change::Billing(BillingChange::Account(it)) => {
                self.keep_credit(it);
                false
            }
            Change::Billing(BillingChange::Item(it)) if it.kind == ItemKind::Recurring => {
                return self.spoilt_period(it);
            }
            Change::Billing(BillingChange::Invoice(it)) => {
                if mutant == BillingMutant::MiscountsInvoice {
                    it.charged.0 -= 1;
                }
                false
            }
            Change::Payment(PaymentChange::Outstanding(_)) => {
                mutant == BillingMutant::WaitsForNothing
            }
            Change::Posting(it) => match it.source {
                PostingSource::Invoice { .. } => mutant == BillingMutant::LosesPosting,
                PostingSource::Payment { .. } => mutant == BillingMutant::LosesPaymentPosting,
            },
            Change::Tenant(_)
            | Change::Access(_)
            | Change::Flag(_)
            | Change::Account(_)
            | Change::Customer(_)
            | Change::Payment(_)
            | Change::Entitlement(_)
            | Change::Billing(_)
            | Change::Claim(_)
            | Change::Timer(_)
            | Change::ReplySettled(_) => false,
        };
        if is_lost { vec![] } else { vec![change] }
    }

    fn spoilt_period(&mut self, it: &InvoiceItem) -> Vec<Change> {
        let change = |it: InvoiceItem| Change::Billing(BillingChange::Item(Box::new(it)));
        self.seen += 1;
        let mutant = self.mutant;
        if mutant == BillingMutant::DoublesPeriod && it.repaired.is_zero() {
            let id = Id::new(Uuid::from_u128(it.id.uuid().as_u128() ^ 1));
            return vec![change(it.clone()), change(InvoiceItem { id, ..it.clone() })];
        }
        let more = if mutant == BillingMutant::ChargesMore { it.amount.0 / 4 } else { 0 };
        let amount = AmountMinor(it.amount.0 + more);
        let is_lost = mutant == BillingMutant::LosesPeriod && self.seen.is_multiple_of(5);
        if is_lost { vec![] } else { vec![change(InvoiceItem { amount, ..it.clone() })] }
    }

    fn keep_credit(&mut self, it: &mut AccountBilling) {
        let before = self.credit.insert(it.account_id, it.credit).unwrap_or_default();
        if self.mutant == BillingMutant::UsesCreditTwice && it.credit < before {
            it.credit = before;
        }
    }

    fn leaves_on(&mut self, it: &Entitlements) -> bool {
        let now = it.grants.len();
        let before = self.grants.insert(it.account_id, now).unwrap_or_default();
        self.mutant == BillingMutant::LeavesGrantOn && now < before
    }
}

/// What ends first after the day until which all is settled is not loaded, as if that were settled too.
fn shorten_horizon(state: &mut BillingState) {
    let subscriptions = state.subscriptions.iter_mut();
    let settled: BTreeMap<_, _> = subscriptions.map(|it| (it.key(), it.settled)).collect();
    let mut first = BTreeMap::new();
    for it in state.items.iter_mut() {
        if settled.get(&it.owner()).is_some_and(|settled| it.last_day > *settled) {
            let day = first.entry(it.owner()).or_insert(it.last_day);
            *day = it.last_day.min(*day);
        }
    }
    state.items.retain(|it| first.get(&it.owner()) != Some(&it.last_day));
}
