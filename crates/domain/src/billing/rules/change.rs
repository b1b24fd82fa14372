//! Another plan for a subscription, now or later, and taking that back.

use super::books::Books;
use super::course::{is_cancellation, is_change, is_of_plan, refuse_too_many};
use super::plan::{self, Sold};
use super::run;
use crate::billing::subscription::{ChangePlan, OfAccount, PlanChoice, Subscription};
use crate::billing::timeline::{PlanChange, To, Transition};
use crate::catalog::phases::{self, schedule};
use crate::catalog::rules::{Alignment, Offered, Policy};
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::{Accepted, BillingRejection as R, Rejection, Reply, SubscriptionStep, Timestamp};

pub(crate) fn change(state: &State, it: &ChangePlan, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    let effective_at = apply(&mut books, it, cx)?;
    if effective_at <= cx.now {
        run::at(&mut books, effective_at, cx);
    }
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}

/// Puts the change into the books, and says when it takes effect.
pub(super) fn apply(
    books: &mut Books<'_>,
    it: &ChangePlan,
    cx: &mut Context,
) -> Result<Timestamp, Rejection> {
    let ended = || R::NotChangeable { subscription: it.subscription };
    let at = books.place(it.subscription).ok_or_else(ended)?;
    let subscription = &books.subscriptions[at];
    refuse_too_many(subscription)?;
    books.refuse_blocked(Some(subscription), cx)?;
    if subscription.awaits(is_cancellation) {
        return Err(R::CancelPending { subscription: it.subscription }.into());
    }
    let sold = plan::sold(books.state, cx);
    let having = books.having(subscription).ok_or_else(ended)?;
    let from = having.offered();
    let choice = with_price_list(&it.plan, having.chosen.catalog.rules.price_list(from));
    let chosen = plan::find(&sold, &choice, cx.now)?;
    let to = offered(&chosen);
    let rules = &having.chosen.catalog.rules;
    let policy = rules.change_policy(having.current.phase, from, to);
    let effective_at = effective_at(books, subscription, it, policy, cx)?;
    let alignment = rules.change_alignment(having.current.phase, from, to);
    let transition = transition(books, subscription, it, (&chosen, alignment, effective_at), cx)?;
    books.refuse_beyond_grants((&chosen, &it.plan), Some(it.subscription), cx)?;
    keep_add_ons(books, at, cx);
    let subscription = &mut books.subscriptions[at];
    subscription
        .drop_pending(|it| is_change(&it.to) || is_of_plan(&it.to) && it.at >= effective_at);
    subscription.put(transition);
    books.reopen(at, effective_at);
    books.requested(at, (SubscriptionStep::Changed, effective_at), cx);
    cancel_add_ons(books, at, (&chosen, effective_at), cx);
    books.follow_phase(at);
    Ok(effective_at)
}

pub(crate) fn undo(state: &State, it: &OfAccount, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    let place = books.place(it.subscription);
    let at = place.filter(|at| books.subscriptions[*at].awaits(is_change));
    let at = at.ok_or(R::NoChangePending { subscription: it.subscription })?;
    keep_add_ons(&mut books, at, cx);
    books.subscriptions[at].drop_pending(|it| is_of_plan(&it.to));
    let now = cx.now;
    books.reopen(at, now);
    books.follow_phase(at);
    books.requested(at, (SubscriptionStep::Changed, now), cx);
    books.requested(at, (SubscriptionStep::Changed, now), cx);
    // Runs that knew of the change found nothing due behind it.
    run::at(&mut books, now, cx);
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}

/// The choice with the price list that the rules give where it names none.
fn with_price_list(choice: &PlanChoice, by_rules: &str) -> PlanChoice {
    match choice {
        PlanChoice::Named(_) => choice.clone(),
        PlanChoice::Offered { product, period, price_list } => PlanChoice::Offered {
            product: product.clone(),
            period: *period,
            price_list: Some(price_list.clone().unwrap_or_else(|| by_rules.to_owned())),
        },
    }
}

fn offered<'a>(chosen: &Sold<'a>) -> Offered<'a> {
    Offered {
        product: &chosen.product.name,
        category: chosen.product.category,
        period: chosen.plan.period(),
        price_list: chosen.price_list,
    }
}

/// When the change takes effect.
fn effective_at(
    books: &Books<'_>,
    subscription: &Subscription,
    it: &ChangePlan,
    by_rules: Policy,
    cx: &Context,
) -> Result<Timestamp, Rejection> {
    if by_rules == Policy::Illegal {
        let plan = subscription.current().map(|it| it.plan.to_owned()).unwrap_or_default();
        return Err(R::ChangeIllegal { plan }.into());
    }
    let at = match it.requested {
        Some(when) => books.instant(when, "requestedDate")?,
        None => match it.policy.unwrap_or(by_rules) {
            Policy::Immediate | Policy::Illegal => cx.now,
            Policy::EndOfTerm => books.charged_through(subscription).unwrap_or(cx.now).max(cx.now),
            Policy::StartOfTerm => {
                let reason = "START_OF_TERM is for cancellations only";
                return Err(Rejection::invalid("billingPolicy", reason));
            }
        },
    };
    let done = &subscription.transitions[..subscription.in_effect];
    if done.last().is_some_and(|last| at < last.at) || at < subscription.starts_at() {
        return Err(R::BeforeLastTransition { subscription: subscription.id }.into());
    }
    if subscription.ends_at().is_some_and(|end| end <= at) {
        return Err(R::ExpiresBefore { subscription: subscription.id }.into());
    }
    Ok(at)
}

/// The transition to the new plan, in the phase that its alignment gives.
fn transition(
    books: &Books<'_>,
    subscription: &Subscription,
    it: &ChangePlan,
    (chosen, alignment, at): (&Sold<'_>, Alignment, Timestamp),
    cx: &Context,
) -> Result<Transition, Rejection> {
    if it.phase.is_some_and(|phase| chosen.plan.phase(phase).is_none()) {
        return Err(R::NoSuchPhase { plan: chosen.plan.name.clone() }.into());
    }
    let of_bundle = books.subscriptions.iter().filter(|it| it.bundle_id == subscription.bundle_id);
    let aligned_to = match alignment {
        Alignment::StartOfBundle => of_bundle.map(Subscription::starts_at).min().unwrap_or(at),
        Alignment::StartOfSubscription => subscription.starts_at(),
        Alignment::ChangeOfPlan => at,
    };
    // Its phases begin with the one that the subscription began with, where the plan has that.
    let began_with = subscription.after(1).map(|it| it.phase);
    let began_with = began_with.filter(|_| alignment != Alignment::ChangeOfPlan);
    let (aligned_to, first) = match it.phase {
        Some(phase) => (at, Some(phase)),
        None => (aligned_to, began_with),
    };
    let beyond = || Rejection::invalid("requestedDate", "is outside the calendar's years");
    let phases = schedule(chosen.plan, aligned_to, first).ok_or_else(beyond)?;
    let phase = phases::at(&phases, at).ok_or_else(beyond)?;
    let to = To::Plan {
        by: PlanChange::Change,
        plan: chosen.plan.name.clone(),
        price_list: chosen.price_list.to_owned(),
        phase: phase.phase,
        // A last phase that would have ended before ends at once.
        until: phase.until.map(|until| until.max(at)),
        overrides: chosen.overrides(&it.price_overrides, cx)?,
    };
    Ok(Transition { at, to })
}

/// Cancels the add-ons of a base product that are part of its new product, or not sold with that.
fn cancel_add_ons(
    books: &mut Books<'_>,
    base: usize,
    (chosen, at): (&Sold<'_>, Timestamp),
    cx: &mut Context,
) {
    for add_on in books.add_ons(base) {
        let name = books.having(&books.subscriptions[add_on]).map(|it| it.product.name.clone());
        let fits = name.is_some_and(|name| {
            chosen.product.available.contains(&name) && !chosen.product.included.contains(&name)
        });
        // One that ends before still does.
        let is_longer = books.subscriptions[add_on].ends_at().is_none_or(|end| end > at);
        if !fits && is_longer {
            books.end(add_on, (at, at), true, cx);
        }
    }
}

/// Takes back the ends of add-ons that came with a change which is to come.
fn keep_add_ons(books: &mut Books<'_>, base: usize, cx: &mut Context) {
    let pending = books.subscriptions[base].pending_ones().iter();
    let Some(at) = pending.filter(|it| is_change(&it.to)).map(|it| it.at).next() else { return };
    for add_on in books.add_ons(base) {
        let it = &books.subscriptions[add_on];
        if it.ends_with_base(at) && it.entitled_until == Some(at) {
            books.go_on(add_on, cx);
        }
    }
}
