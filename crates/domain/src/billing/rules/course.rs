//! The course of a subscription: which phase comes next, and what a change of it moves.

use jiff::civil::Date;

use super::books::Books;
use crate::billing::invoice::ItemKind;
use crate::billing::reconcile::Billed;
use crate::billing::subscription::{Subscription, When};
use crate::billing::timeline::{Current, PlanChange, To, Transition};
use crate::catalog::rules::Offered;
use crate::catalog::versions::Chosen;
use crate::catalog::{Phase, Product};
use crate::context::Context;
use crate::{BillingRejection as R, Event, Rejection, SubscriptionId, SubscriptionStep, Timestamp};

/// Whether a transition is one of the plan: to a phase, another plan, or the end of the last phase.
pub(super) const fn is_of_plan(to: &To) -> bool {
    match to {
        To::Plan { .. } | To::Expired => true,
        To::BillCycleDay(_) | To::Quantity(_) | To::Cancelled { .. } => false,
    }
}

/// Whether a transition is another plan.
pub(super) const fn is_change(to: &To) -> bool {
    matches!(to, To::Plan { by: PlanChange::Change, .. })
}

/// Whether a transition is a cancellation.
pub(super) const fn is_cancellation(to: &To) -> bool {
    matches!(to, To::Cancelled { .. })
}

/// A subscription's plan as rules see it.
pub(super) struct Having<'a> {
    pub(super) current: Current<'a>,
    pub(super) chosen: Chosen<'a>,
    pub(super) product: &'a Product,
}

impl<'a> Having<'a> {
    pub(super) fn offered(&self) -> Offered<'a> {
        Offered {
            product: &self.product.name,
            category: self.product.category,
            period: self.chosen.plan.period(),
            price_list: self.current.price_list,
        }
    }
}

impl Books<'_> {
    /// The place of a subscription that is not over.
    pub(super) fn place(&self, id: SubscriptionId) -> Option<usize> {
        self.subscriptions.iter().position(|it| it.id == id && !it.has_ended())
    }

    /// The plan that a subscription has; `None`: the catalog has it no more.
    pub(super) fn having<'a>(&'a self, of: &'a Subscription) -> Option<Having<'a>> {
        let current = of.current()?;
        let chosen = current.plan_at(&self.versions, current.chosen_at)?;
        let product = chosen.catalog.product(&chosen.plan.product)?;
        Some(Having { current, chosen, product })
    }

    /// The instant that a client named.
    pub(super) fn instant(&self, when: When, field: &str) -> Result<Timestamp, Rejection> {
        match when {
            When::At(at) => Ok(at),
            When::Day(date) => {
                let beyond = |_| Rejection::invalid(field, "is outside the calendar's years");
                self.calendar.instant(date).map_err(beyond)
            }
        }
    }

    /// The instant of the day that a subscription is charged through, where that is later than now.
    pub(super) fn charged_through(&self, of: &Subscription) -> Option<Timestamp> {
        of.charged_through.and_then(|date| self.calendar.instant(date).ok())
    }

    /// The beginning of the period that a subscription was invoiced for last.
    pub(super) fn term_start(&self, of: &Subscription) -> Option<Timestamp> {
        let items = self.items(of);
        let recurring = items.iter().filter(|it| it.kind == ItemKind::Recurring);
        let start = recurring.max_by_key(|it| it.start).map(|it| it.start)?;
        self.calendar.instant(start).ok()
    }

    /// Puts the phase after the one that a subscription is in among its transitions, or its end, unless its plan changes
    /// or ends before.
    pub(super) fn follow_phase(&mut self, at: usize) {
        let Some(next) = self.next_phase(&self.subscriptions[at]) else { return };
        let it = &mut self.subscriptions[at];
        let pending = it.transitions.get(it.in_effect.max(1)..).unwrap_or_default();
        let mut ends = pending.iter().filter(|it| is_change(&it.to) || is_cancellation(&it.to));
        let is_late = ends.next().is_some_and(|it| it.at <= next.at);
        if !is_late && !pending.contains(&next) {
            it.put(next);
        }
    }

    fn next_phase(&self, of: &Subscription) -> Option<Transition> {
        let current = of.current()?;
        let at = current.until?;
        let plan = current.plan_at(&self.versions, at)?.plan;
        let position = plan.phases.iter().position(|it| it.phase == current.phase)?;
        let to = plan.phases.get(position + 1).map_or(To::Expired, |next: &Phase| To::Plan {
            by: PlanChange::Phase,
            plan: current.plan.to_owned(),
            price_list: current.price_list.to_owned(),
            phase: next.phase,
            until: next.duration.and_then(|it| it.after(at)),
            overrides: current.overrides.cloned(),
        });
        Some(Transition { at, to })
    }

    /// Has runs look at a subscription's days again from an instant on. Where that day is settled, they begin anew: the
    /// days before may go on past it from now on. What was not loaded stays settled, or it would be charged again.
    pub(super) fn reopen(&mut self, at: usize, from: Timestamp) {
        let date = self.calendar.date(from);
        let of = &self.subscriptions[at];
        if date > of.settled {
            return;
        }
        let horizon = match self.state.billing.items_from(of) {
            Date::MIN => Date::MIN,
            _ => Billed::of(&self.items(of)).since(date),
        };
        let it = &mut self.subscriptions[at];
        it.settled = it.settled.min(horizon);
    }

    /// Notes that a change of a subscription was asked for.
    pub(super) fn requested(
        &self,
        at: usize,
        (step, effective_at): (SubscriptionStep, Timestamp),
        cx: &mut Context,
    ) {
        cx.event(Event::SubscriptionChanged {
            account: self.account.id,
            subscription: self.subscriptions[at].id,
            step,
            effective_at,
            is_in_effect: false,
        });
    }
}

/// Refuses more transitions than a subscription has.
pub(super) fn refuse_too_many(it: &Subscription) -> Result<(), Rejection> {
    match it.transitions.len() + 2 > crate::billing::subscription::TRANSITIONS_MAX {
        true => Err(R::TooManyTransitions.into()),
        false => Ok(()),
    }
}
