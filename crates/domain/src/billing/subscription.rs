//! Subscriptions: a plan that an account has, from when on and until when. The plan itself is in the catalog.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::account::calendar::AccountCalendar;
use crate::billing::invoice::Manual;
use crate::billing::overrides::PriceOverride;
use crate::billing::timeline::{Current, To, Transition};
use crate::catalog::period::BillingPeriod;
use crate::catalog::rules::Policy;
use crate::catalog::{PhaseType, ProductCategory};
use crate::entity::{Entity, Facts};
use crate::rows::{Keyed, Part};
use crate::{
    AccountId, BundleId, Currency, InvoiceId, InvoiceItemId, Revision, SubscriptionId, TenantNo,
    Timestamp,
};

/// How many transitions a subscription has at most.
pub const TRANSITIONS_MAX: usize = 1_000;

/// How many plans a command subscribes to at most.
pub const SUBSCRIBED_MAX: usize = 1_000;

/// How many subscriptions of an account are billed together at most.
pub const SUBSCRIPTIONS_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    pub tenant: TenantNo,
    pub id: SubscriptionId,
    pub account_id: AccountId,
    pub bundle_id: BundleId,
    /// The client's name for it; `None` reads as the id. Never journalled.
    #[serde(skip)]
    pub external_key: Option<String>,
    pub category: ProductCategory,
    /// In their order: the first one makes it, and the last ones may be still to come.
    pub transitions: Vec<Transition>,
    /// How many of them have taken effect.
    pub in_effect: usize,
    /// From when on its product may be used.
    pub entitled_from: Timestamp,
    /// Until when; `None`: as long as it is billed.
    pub entitled_until: Option<Timestamp>,
    /// Whether the end of its entitlement has taken effect.
    pub entitlement_ended: bool,
    /// The day that it is invoiced through; `None`: it never was.
    pub charged_through: Option<Date>,
    /// All that ended on this day or before is settled: see [`Run::horizon`](crate::billing::Run::horizon).
    pub settled: Date,
    /// When its next period is due.
    pub next_due: Option<Date>,
    /// The first invoice that charges it something and is not void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_charged: Option<InvoiceId>,
    /// What it has of the features of its plan; `None`: it is not active, or no plan of the tenant has features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<GivenFeatures>,
    /// Whether it has ended, and nothing of it is to happen any more.
    pub is_over: bool,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// What an active subscription was given of the features of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenFeatures {
    /// How many grants.
    pub grants: usize,
    /// The earliest end of them; `None`: none has one.
    pub until: Option<Timestamp>,
    /// Whether the first invoice that charges it was paid.
    pub is_paid: bool,
}

impl Keyed for Subscription {
    type Key = (TenantNo, SubscriptionId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Part for Subscription {
    type Owner = (TenantNo, AccountId);

    fn owner(&self) -> Self::Owner {
        (self.tenant, self.account_id)
    }

    fn is_active(&self) -> bool {
        !self.is_over
    }
}

impl Entity for Subscription {
    fn facts(&self) -> Facts {
        Facts::new("subscription", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn erase(&mut self) {
        self.external_key = None;
    }
}

impl Subscription {
    /// When it is billed from.
    #[must_use]
    pub fn starts_at(&self) -> Timestamp {
        self.transitions.first().map_or(self.created_at, |it| it.at)
    }

    /// Whether it ends at an instant because its base does, or changes to a product that it does not go with.
    #[must_use]
    pub fn ends_with_base(&self, at: Timestamp) -> bool {
        let is_of_base = |it: &Transition| it.to == To::Cancelled { with_base: true };
        self.transitions.last().is_some_and(|it| it.at == at && is_of_base(it))
    }

    /// When it ends, or ended; `None`: no end is known.
    #[must_use]
    pub fn ends_at(&self) -> Option<Timestamp> {
        let last = self.transitions.last()?;
        matches!(last.to, To::Cancelled { .. } | To::Expired).then_some(last.at)
    }

    /// Whether it is, or will be, cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.transitions.last().is_some_and(|it| matches!(it.to, To::Cancelled { .. }))
    }

    /// Whether its end has taken effect.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ends_at().is_some() && self.pending_ones().is_empty()
    }

    /// When its entitlement ends, where that is still to take effect.
    #[must_use]
    pub fn entitlement_ends(&self) -> Option<Timestamp> {
        self.entitled_until.filter(|_| !self.entitlement_ended)
    }

    /// The next transition that has not taken effect.
    #[must_use]
    pub fn pending(&self) -> Option<&Transition> {
        self.transitions.get(self.in_effect)
    }

    /// The plan that it has, or had at its end; before its start, the one that it begins with.
    #[must_use]
    pub fn current(&self) -> Option<Current<'_>> {
        self.after(self.in_effect.max(1))
    }

    /// The plan after so many transitions.
    #[must_use]
    pub fn after(&self, transitions: usize) -> Option<Current<'_>> {
        let mut current: Option<Current<'_>> = None;
        for transition in self.transitions.iter().take(transitions) {
            current = Current::after(current, transition).or(current);
        }
        current
    }

    /// The transitions that have not taken effect.
    #[must_use]
    pub fn pending_ones(&self) -> &[Transition] {
        &self.transitions[self.in_effect.min(self.transitions.len())..]
    }

    /// The plans that it has or will have.
    pub fn plans_ahead(&self) -> impl Iterator<Item = &str> {
        let coming = self.pending_ones().iter().filter_map(|it| Current::after(None, it));
        self.current().into_iter().chain(coming).map(|it| it.plan)
    }

    /// When its entitlement ends; `None`: no end is known.
    #[must_use]
    pub fn entitlement_end(&self) -> Option<Timestamp> {
        let expired = self.transitions.iter().find(|it| it.to == To::Expired);
        let known = self.entitled_until.or(self.ends_at());
        known.into_iter().chain(expired.map(|it| it.at)).min()
    }

    /// Puts a transition in its place: behind those that are not later.
    pub(crate) fn put(&mut self, it: Transition) {
        let place = self.transitions.partition_point(|known| known.at <= it.at);
        self.transitions.insert(place.max(self.in_effect), it);
    }

    /// Drops pending transitions.
    pub(crate) fn drop_pending(&mut self, is_dropped: impl Fn(&Transition) -> bool) {
        let mut at = 0;
        let in_effect = self.in_effect;
        self.transitions.retain(|it| {
            at += 1;
            at <= in_effect || !is_dropped(it)
        });
    }

    /// Whether a cancellation or a change of its plan is to come.
    #[must_use]
    pub fn awaits(&self, is_it: fn(&To) -> bool) -> bool {
        self.pending_ones().iter().any(|it| is_it(&it.to))
    }

    /// The quantity that it has.
    #[must_use]
    pub fn quantity(&self) -> u32 {
        let done = self.transitions.iter().take(self.in_effect.max(1)).rev();
        done.filter_map(|it| match it.to {
            To::Quantity(quantity) => Some(quantity),
            To::Plan { .. } | To::BillCycleDay(_) | To::Cancelled { .. } | To::Expired => None,
        })
        .next()
        .unwrap_or(1)
    }

    /// When something is to be done with it next.
    #[must_use]
    pub fn due(&self, calendar: AccountCalendar) -> Option<Timestamp> {
        let period = self.next_due.and_then(|date| calendar.instant(date).ok());
        let transition = self.pending().map(|it| it.at);
        [period, transition, self.entitlement_ends()].into_iter().flatten().min()
    }
}

/// What is subscribed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanChoice {
    /// The plan of a name.
    Named(String),
    /// The plan of a product in a price list.
    Offered {
        product: String,
        period: BillingPeriod,
        /// `None`: the default one.
        price_list: Option<String>,
    },
}

/// A time that a client named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// A day of the account, at its time of day.
    Day(Date),
    At(Timestamp),
}

impl When {
    /// A day that is not later, whatever the account's calendar is.
    #[must_use]
    pub fn earliest_day(self) -> Date {
        let day = match self {
            Self::Day(day) => day,
            Self::At(at) => {
                let at = jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::MIN);
                jiff::tz::TimeZone::UTC.to_datetime(at).date()
            }
        };
        day.checked_sub(jiff::Span::new().days(2)).unwrap_or(Date::MIN)
    }
}

/// Subscribes an account to a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    pub account: AccountId,
    /// An add-on names the bundle of its base; `None`: a new bundle, or the one of `bundle_key`.
    pub bundle: Option<BundleId>,
    pub bundle_key: Option<String>,
    pub external_key: Option<String>,
    pub plan: PlanChoice,
    /// The phase to begin with; `None`: the first one.
    pub phase: Option<PhaseType>,
    /// 1 to 31; `None`: as the catalog's rules say.
    pub bill_cycle_day: Option<u8>,
    /// Above 0; `None`: 1.
    pub quantity: Option<u32>,
    /// From when on its product may be used; `None`: now.
    pub entitled_from: Option<When>,
    /// From when on it is billed; `None`: now.
    pub billed_from: Option<When>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub price_overrides: Vec<PriceOverride>,
}

/// Subscribes an account to several plans: all, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscribeAll {
    pub account: AccountId,
    /// What belongs into one bundle each, a base before its add-ons. Together at most [`SUBSCRIBED_MAX`], all of the
    /// account. The first one of each names the bundle, or makes it.
    pub bundles: Vec<Vec<Subscribe>>,
}

/// Changes the plan of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangePlan {
    pub account: AccountId,
    pub subscription: SubscriptionId,
    pub plan: PlanChoice,
    /// The phase to begin with; `None`: the one that the catalog's alignment gives.
    pub phase: Option<PhaseType>,
    /// `None`: as the catalog's rules say.
    pub policy: Option<Policy>,
    /// `None`: as the policy says.
    pub requested: Option<When>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub price_overrides: Vec<PriceOverride>,
}

/// Cancels a subscription, and with a base product its add-ons. Without policies and times: at once, and billed as the
/// catalog's rules say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelSubscription {
    pub account: AccountId,
    pub subscription: SubscriptionId,
    /// Until when its product may be used.
    pub entitlement: Option<Policy>,
    /// Until when it is billed.
    pub billing: Option<Policy>,
    /// Read where the policy of the entitlement is not given.
    pub requested: Option<When>,
    /// Whether it is billed until then as well.
    pub bills_until_requested: bool,
}

/// A subscription of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfAccount {
    pub account: AccountId,
    pub subscription: SubscriptionId,
}

/// Gives a subscription another quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetQuantity {
    pub account: AccountId,
    pub subscription: SubscriptionId,
    /// Above 0.
    pub quantity: u32,
    /// `None`: now.
    pub from: Option<When>,
    /// Whether a past time is taken.
    pub forces_past: bool,
}

/// Gives a subscription a bill cycle day of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetBillCycleDay {
    pub account: AccountId,
    pub subscription: SubscriptionId,
    /// 1 to 31.
    pub day: u8,
    /// From the next such day on or after this one; `None`: today.
    pub from: Option<When>,
    /// Whether a past day is taken.
    pub forces_past: bool,
}

/// Invoices what an account owes until a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceUntil {
    pub account: AccountId,
    /// `None`: today.
    pub target: Option<Date>,
}

/// What somebody puts on an invoice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManualKind {
    Charge,
    Tax,
    Credit,
}

/// Puts items on invoices: each on the draft that it names, and all that name none on a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddItems {
    pub account: AccountId,
    pub kind: ManualKind,
    /// At most [`ITEMS_MAX`].
    pub items: Vec<NewItem>,
    /// Whether the new invoice is committed, and no draft.
    pub commits: bool,
    /// The day of the new invoice and of items that name none; `None`: today.
    pub day: Option<When>,
}

/// How many items somebody puts on invoices at once at most.
pub const ITEMS_MAX: usize = 1_000;

/// An item that somebody puts on an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewItem {
    /// A draft of the account; `None`: the new invoice.
    pub invoice: Option<InvoiceId>,
    /// A decimal above 0, also of a credit.
    pub amount: Option<String>,
    /// `None`: the account's.
    pub currency: Option<Currency>,
    pub description: Option<String>,
    pub details: Option<String>,
    pub start: Option<Date>,
    pub end: Option<Date>,
    pub manual: Manual,
}

/// Takes back a part of an item, on its invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdjustItem {
    pub account: AccountId,
    pub invoice: InvoiceId,
    pub item: InvoiceItemId,
    /// A decimal above 0; `None`: all that is left of it.
    pub amount: Option<String>,
    pub currency: Option<Currency>,
    pub description: Option<String>,
    pub details: Option<String>,
    /// `None`: today.
    pub day: Option<When>,
}

/// An invoice of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceOf {
    pub account: AccountId,
    pub invoice: InvoiceId,
}

/// Takes back the account's credit that an item made, or that it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteCredit {
    pub account: AccountId,
    pub invoice: InvoiceId,
    pub item: InvoiceItemId,
}

/// Does what is due of an account's subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueBilling {
    pub account: AccountId,
    pub due: Timestamp,
}
