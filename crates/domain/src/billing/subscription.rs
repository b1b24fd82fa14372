//! Subscriptions: a plan that an account has, from when on and until when. The plan itself is in the catalog.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::account::calendar::AccountCalendar;
use crate::billing::timeline::{PlanChange, To, Transition};
use crate::catalog::period::BillingPeriod;
use crate::catalog::{PhaseType, ProductCategory};
use crate::entity::{Entity, Facts};
use crate::rows::{Keyed, Part};
use crate::{AccountId, BundleId, Revision, SubscriptionId, TenantNo, Timestamp};

/// How many transitions a subscription has at most.
pub const TRANSITIONS_MAX: usize = 1_000;

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
    /// The day that it is invoiced through; `None`: it never was.
    pub charged_through: Option<Date>,
    /// All that ended on this day or before is settled: see [`Run::horizon`](crate::billing::Run::horizon).
    pub settled: Date,
    /// When its next period is due.
    pub next_due: Option<Date>,
    /// Whether it has ended, and nothing of it is billed any more.
    pub is_over: bool,
    pub created_at: Timestamp,
    pub revision: Revision,
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

/// A plan in a phase, as a transition has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current<'a> {
    pub plan: &'a str,
    pub price_list: &'a str,
    pub phase: PhaseType,
    /// When the plan was chosen: see [`Versions::plan`](crate::catalog::versions::Versions::plan).
    pub chosen_at: Timestamp,
}

impl Subscription {
    /// When it is billed from.
    #[must_use]
    pub fn starts_at(&self) -> Timestamp {
        self.transitions.first().map_or(self.created_at, |it| it.at)
    }

    /// When it ends, or ended; `None`: no end is known.
    #[must_use]
    pub fn ends_at(&self) -> Option<Timestamp> {
        let last = self.transitions.last()?;
        matches!(last.to, To::Cancelled | To::Expired).then_some(last.at)
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
        for Transition { at, to } in self.transitions.iter().take(transitions) {
            let To::Plan { by, plan, price_list, phase } = to else { continue };
            let chosen_at = match (by, current) {
                (PlanChange::Phase, Some(before)) => before.chosen_at,
                (
                    PlanChange::Create
                    | PlanChange::Transfer
                    | PlanChange::Change
                    | PlanChange::Phase,
                    _,
                ) => *at,
            };
            current = Some(Current { plan, price_list, phase: *phase, chosen_at });
        }
        current
    }

    /// The quantity that it has.
    #[must_use]
    pub fn quantity(&self) -> u32 {
        let done = self.transitions.iter().take(self.in_effect.max(1)).rev();
        done.filter_map(|it| match it.to {
            To::Quantity(quantity) => Some(quantity),
            To::Plan { .. } | To::BillCycleDay(_) | To::Cancelled | To::Expired => None,
        })
        .next()
        .unwrap_or(1)
    }

    /// When something is to be done with it next.
    #[must_use]
    pub fn due(&self, calendar: AccountCalendar) -> Option<Timestamp> {
        let period = self.next_due.and_then(|date| calendar.instant(date).ok());
        let transition = self.pending().map(|it| it.at);
        period.into_iter().chain(transition).min()
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
}

/// Does what is due of an account's subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueBilling {
    pub account: AccountId,
    pub due: Timestamp,
}
