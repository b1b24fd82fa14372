//! The events of a subscription, as far as they change what it is charged.
//!
//! Beside the transitions that were stored there are days from which a new version of the catalog is for existing
//! subscriptions, and spans in which billing is blocked. In those nothing is charged, and plans and phases go on.

use std::borrow::Cow;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::account::calendar::AccountCalendar;
use crate::billing::overrides::{Overrides, price};
use crate::billing::{BillingEvent, EventKind, Fixed, Terms};
use crate::catalog::period::BillingPeriod;
use crate::catalog::phases::{Scheduled, schedule};
use crate::catalog::price::Price;
use crate::catalog::rules::{BillingAlignment, Offered};
use crate::catalog::versions::{Chosen, Versions};
use crate::catalog::{NoPrice, Phase, PhaseType};
use crate::{Currency, Timestamp};

/// A stored change of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    pub at: Timestamp,
    pub to: To,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum To {
    /// A plan, in one of its phases.
    Plan {
        by: PlanChange,
        plan: String,
        price_list: String,
        phase: PhaseType,
        /// When the phase ends, unless the plan changes before; `None`: it does not.
        until: Option<Timestamp>,
        /// The prices that replace the plan's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overrides: Option<Overrides>,
    },
    BillCycleDay(u8),
    Quantity(u32),
    Cancelled {
        /// Its base took it along, and takes it back where it goes on itself.
        with_base: bool,
    },
    Expired,
}

/// How a plan came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanChange {
    Create,
    Transfer,
    Change,
    /// The next phase of the same plan.
    Phase,
}

/// A plan in a phase, as a transition has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current<'a> {
    pub plan: &'a str,
    pub price_list: &'a str,
    pub phase: PhaseType,
    /// When the phase ends.
    pub until: Option<Timestamp>,
    /// When the plan was chosen: see [`Versions::plan`].
    pub chosen_at: Timestamp,
    /// The prices that replace the plan's.
    pub overrides: Option<&'a Overrides>,
}

impl<'a> Current<'a> {
    /// The plan after a transition; `None`: that is not of a plan.
    pub(super) fn after(before: Option<Self>, transition: &'a Transition) -> Option<Self> {
        let To::Plan { by, plan, price_list, phase, until, overrides } = &transition.to else {
            return None;
        };
        let chosen_at = match (by, before) {
            (PlanChange::Phase, Some(before)) => before.chosen_at,
            (
                PlanChange::Create | PlanChange::Transfer | PlanChange::Change | PlanChange::Phase,
                _,
            ) => transition.at,
        };
        let overrides = overrides.as_ref();
        Some(Self { plan, price_list, phase: *phase, until: *until, chosen_at, overrides })
    }

    /// The plan in the version that it has at a time. With price overrides it keeps the one that it was chosen from.
    #[must_use]
    pub fn plan_at(&self, versions: &'a Versions, at: Timestamp) -> Option<Chosen<'a>> {
        match self.overrides {
            Some(_) => versions.chosen(self.plan, self.chosen_at),
            None => versions.plan(self.plan, self.chosen_at, at),
        }
    }

    /// The later versions that the plan gets.
    pub fn later_versions(&self, versions: &'a Versions) -> impl Iterator<Item = Chosen<'a>> {
        let keeps_its = self.overrides.is_some();
        versions.for_existing(self.plan, self.chosen_at).filter(move |_| !keeps_its)
    }

    /// The plan's name, which is another one with price overrides.
    #[must_use]
    pub fn shown_plan(&self) -> Cow<'a, str> {
        match self.overrides {
            Some(overrides) => overrides.plan_name(self.plan).into(),
            None => self.plan.into(),
        }
    }

    /// What a phase of the plan costs once; `None`: nothing.
    ///
    /// # Errors
    /// [`NoPrice`].
    pub fn fixed(&self, phase: &Phase, currency: Currency) -> Result<Option<Price>, NoPrice> {
        let overridden = self.overrides.and_then(|it| it.of(phase.phase)?.fixed);
        phase.fixed.as_ref().map(|it| price(overridden, it, currency)).transpose()
    }

    /// What a phase of the plan costs in each period; `None`: nothing.
    ///
    /// # Errors
    /// [`NoPrice`].
    pub fn recurring(&self, phase: &Phase, currency: Currency) -> Result<Option<Price>, NoPrice> {
        let overridden = self.overridden_recurring(phase.phase);
        phase.recurring.as_ref().map(|it| price(overridden, &it.prices, currency)).transpose()
    }

    pub(super) fn overridden_recurring(&self, phase: PhaseType) -> Option<Price> {
        self.overrides.and_then(|it| it.of(phase)?.recurring)
    }
}

/// A span in which billing is blocked; without an end, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub from: Timestamp,
    pub until: Option<Timestamp>,
}

/// Whose bill cycle days there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BillCycleDays {
    /// The account's; `None`: it has none yet, and subscriptions have their own.
    pub account: Option<u8>,
    /// That of the bundle's base subscription; `None`: the subscription is the base itself.
    pub bundle: Option<u8>,
}

/// All that decides on a subscription's events.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    /// In their order, the first one makes it.
    pub transitions: &'a [Transition],
    /// Disjoint, in their order.
    pub blocked: &'a [Blocked],
    pub versions: &'a Versions,
    pub calendar: AccountCalendar,
    pub currency: Currency,
    pub days: BillCycleDays,
}

/// Why a subscription has no timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTimeline {
    /// No version has the plan any more, or it has not the phase.
    NoPlan,
    NoPrice(NoPrice),
}

/// The state of a subscription at a point of its timeline.
#[derive(Clone, Copy)]
struct Now<'a> {
    current: Current<'a>,
    day: Option<u8>,
    quantity: u32,
}

/// An event at an instant.
struct Moment {
    at: Timestamp,
    kind: EventKind,
    terms: Option<Terms>,
}

/// The events of a subscription, in their order.
///
/// # Errors
/// [`NoTimeline`].
pub fn timeline(it: &Basis<'_>) -> Result<Vec<BillingEvent>, NoTimeline> {
    let moments = block(transitions(it)?, it.blocked);
    let event =
        |Moment { at, kind, terms }| BillingEvent { date: it.calendar.date(at), kind, terms };
    Ok(moments.into_iter().map(event).collect())
}

/// The stored transitions, and the later versions of the catalog.
fn transitions(it: &Basis<'_>) -> Result<Vec<Moment>, NoTimeline> {
    let mut moments = vec![];
    let mut now: Option<Now<'_>> = None;
    for (index, transition) in it.transitions.iter().enumerate() {
        let at = transition.at;
        let kind = kind(&transition.to);
        now = after(now, transition);
        let Some(now) = &now else {
            moments.push(Moment { at, kind, terms: None });
            continue;
        };
        let later = &it.transitions[index + 1..];
        let charges = matches!(transition.to, To::Plan { .. });
        let chosen = now.current.plan_at(it.versions, at).ok_or(NoTimeline::NoPlan)?;
        let mut terms = terms(it, now, chosen)?;
        terms.fixed = if charges { fixed(it, now, chosen, (at, later))? } else { None };
        moments.push(Moment { at, kind, terms: Some(terms) });
        let until = later.first().map(|it| it.at);
        for chosen in now.current.later_versions(it.versions) {
            let at = chosen.from;
            if at > transition.at && until.is_none_or(|until| at < until) {
                let terms = self::terms(it, now, chosen)?;
                moments.push(Moment { at, kind: EventKind::Change, terms: Some(terms) });
            }
        }
    }
    Ok(moments)
}

fn kind(to: &To) -> EventKind {
    match to {
        To::Plan { by: PlanChange::Create, .. } => EventKind::Create,
        To::Plan { by: PlanChange::Transfer, .. } => EventKind::Transfer,
        To::Plan { by: PlanChange::Change, .. } => EventKind::Change,
        To::Plan { by: PlanChange::Phase, .. } => EventKind::Phase,
        To::BillCycleDay(_) => EventKind::BcdChange,
        To::Quantity(_) => EventKind::Quantity,
        To::Cancelled { .. } => EventKind::Cancel,
        To::Expired => EventKind::Expired,
    }
}

/// The state after a transition; `None`: the subscription has ended.
fn after<'a>(now: Option<Now<'a>>, transition: &'a Transition) -> Option<Now<'a>> {
    match &transition.to {
        To::Plan { .. } => {
            let current = Current::after(now.map(|it| it.current), transition)?;
            let day = now.and_then(|it| it.day);
            let quantity = now.map_or(1, |it| it.quantity);
            Some(Now { current, day, quantity })
        }
        To::BillCycleDay(day) => now.map(|it| Now { day: Some(*day), ..it }),
        To::Quantity(quantity) => now.map(|it| Now { quantity: *quantity, ..it }),
        To::Cancelled { .. } | To::Expired => None,
    }
}

/// The terms of a plan's phase, without its fixed price.
fn terms(it: &Basis<'_>, now: &Now<'_>, chosen: Chosen<'_>) -> Result<Terms, NoTimeline> {
    let (plan, current) = (chosen.plan, now.current);
    let phase = plan.phase(current.phase).ok_or(NoTimeline::NoPlan)?;
    let alignment = alignment(now, chosen)?;
    let shown = current.shown_plan();
    Ok(Terms {
        product: plan.product.clone(),
        phase: current.phase.of_plan(&shown),
        plan: shown.into_owned(),
        fixed: None,
        recurring: current.recurring(phase, it.currency).map_err(NoTimeline::NoPrice)?,
        period: phase.recurring.as_ref().map_or(BillingPeriod::NoBillingPeriod, |it| it.period),
        mode: plan.mode,
        bill_cycle_day: match now.day {
            Some(day) => day,
            None => aligned_day(it, alignment, own_day(it)?),
        },
        is_aligned_to_account: now.day.is_none() && alignment == BillingAlignment::Account,
        quantity: now.quantity,
        catalog_effective_at: chosen.catalog.effective_at,
    })
}

fn alignment(now: &Now<'_>, chosen: Chosen<'_>) -> Result<BillingAlignment, NoTimeline> {
    let product = chosen.catalog.product(&chosen.plan.product).ok_or(NoTimeline::NoPlan)?;
    let offered = Offered {
        product: &product.name,
        category: product.category,
        period: chosen.plan.period(),
        price_list: now.current.price_list,
    };
    Ok(chosen.catalog.rules.billing_alignment(now.current.phase, offered))
}

fn aligned_day(it: &Basis<'_>, alignment: BillingAlignment, own: u8) -> u8 {
    let of_alignment = match alignment {
        BillingAlignment::Account => it.days.account,
        BillingAlignment::Bundle => it.days.bundle,
        BillingAlignment::Subscription => None,
    };
    of_alignment.unwrap_or(own)
}

/// The bill cycle day of a subscription of its own: the day of its first recurring price above zero, as its first plan
/// has it. A later plan does not move it.
///
/// # Errors
/// [`NoTimeline`].
pub fn own_day(it: &Basis<'_>) -> Result<u8, NoTimeline> {
    let current = it.transitions.first().and_then(|first| Current::after(None, first));
    let current = current.ok_or(NoTimeline::NoPlan)?;
    let at = current.chosen_at;
    let plan = current.plan_at(it.versions, at).ok_or(NoTimeline::NoPlan)?.plan;
    let phases = schedule(plan, at, Some(current.phase)).ok_or(NoTimeline::NoPlan)?;
    let is_charged = |it: &&Scheduled| {
        let recurring = plan.phase(it.phase).and_then(|it| it.recurring.as_ref());
        let overridden = current.overridden_recurring(it.phase);
        it.until.is_none()
            || recurring.is_some_and(|recurring| match overridden {
                Some(price) => !price.is_zero(),
                None => !recurring.prices.is_free(),
            })
    };
    let first = phases.iter().find(is_charged).map(|it| it.from);
    let ended = phases.last().and_then(|it| it.until);
    let date = it.calendar.date(first.or(ended).unwrap_or(at));
    Ok(date.day().unsigned_abs())
}

/// The fixed price of a phase that begins at a time, before later transitions.
fn fixed(
    it: &Basis<'_>,
    now: &Now<'_>,
    chosen: Chosen<'_>,
    (at, later): (Timestamp, &[Transition]),
) -> Result<Option<Fixed>, NoTimeline> {
    let phase = chosen.plan.phase(now.current.phase).ok_or(NoTimeline::NoPlan)?;
    let price = now.current.fixed(phase, it.currency).map_err(NoTimeline::NoPrice)?;
    let Some(price) = price else { return Ok(None) };
    let has_end = phase.recurring.is_none() && phase.phase != PhaseType::Evergreen;
    let until = if has_end { end(it, (now, phase), at, later) } else { None };
    Ok(Some(Fixed { price, until }))
}

/// When a phase ends: with the next one, or else after its duration.
fn end(
    it: &Basis<'_>,
    (now, phase): (&Now<'_>, &Phase),
    at: Timestamp,
    later: &[Transition],
) -> Option<Date> {
    let is_phase = |it: &&Transition| matches!(it.to, To::Plan { by: PlanChange::Phase, .. });
    match later.iter().find(is_phase) {
        Some(next) => Some(it.calendar.date(next.at)),
        None => {
            let until = now.current.until.or_else(|| phase.duration?.after(at));
            until.map(|at| it.calendar.date(at))
        }
    }
}

/// Puts the blocked spans among the events, in place of those within them. At one instant a span begins after other
/// events and ends before them.
fn block(moments: Vec<Moment>, blocked: &[Blocked]) -> Vec<Moment> {
    let mut events = vec![];
    let mut rest = moments.into_iter().peekable();
    let mut terms: Option<Terms> = None;
    for span in blocked {
        while let Some(event) = rest.next_if(|it| it.at <= span.from) {
            terms.clone_from(&event.terms);
            events.push(event);
        }
        if terms.is_some() {
            events.push(Moment { at: span.from, kind: EventKind::Disabled, terms: None });
        }
        // What was charged before is not charged again, and what begins meanwhile is charged afterwards.
        if let Some(terms) = &mut terms {
            terms.fixed = None;
        }
        let mut is_within = false;
        while let Some(event) = rest.next_if(|it| span.until.is_none_or(|until| it.at < until)) {
            let fixed = match event.kind {
                EventKind::BcdChange | EventKind::Quantity => terms.and_then(|it| it.fixed),
                EventKind::Create
                | EventKind::Transfer
                | EventKind::Phase
                | EventKind::Change
                | EventKind::Cancel
                | EventKind::Expired
                | EventKind::Disabled
                | EventKind::Enabled => event.terms.as_ref().and_then(|it| it.fixed),
            };
            terms = event.terms.map(|it| Terms { fixed, ..it });
            is_within = true;
        }
        let goes_on = span.until.filter(|_| terms.is_some() || is_within);
        if let Some(at) = goes_on {
            events.push(Moment { at, kind: EventKind::Enabled, terms: terms.clone() });
        }
    }
    events.extend(rest);
    events
}

#[cfg(test)]
mod tests;
