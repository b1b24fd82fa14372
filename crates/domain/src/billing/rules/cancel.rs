//! The end of a subscription: of its entitlement and of its billing, which need not be the same.

use super::books::Books;
use super::course::{is_cancellation, refuse_too_many};
use super::run;
use crate::billing::subscription::{CancelSubscription, OfAccount, Subscription};
use crate::billing::timeline::{To, Transition};
use crate::catalog::ProductCategory;
use crate::catalog::rules::Policy;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::{
    Accepted, AccountId, BillingRejection as R, Rejection, Reply, SubscriptionStep, Timestamp,
};

pub(crate) fn cancel(state: &State, it: &CancelSubscription, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    let billed_until = apply(&mut books, it, cx)?;
    if billed_until <= cx.now {
        run::at(&mut books, billed_until, cx);
    }
    let now = cx.now;
    run::end_entitlements(&mut books, now, cx);
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}

/// Puts the end into the books, and says until when it is billed.
pub(super) fn apply(
    books: &mut Books<'_>,
    it: &CancelSubscription,
    cx: &mut Context,
) -> Result<Timestamp, Rejection> {
    let ended = || R::AlreadyCancelled { subscription: it.subscription };
    let at = books.place(it.subscription).ok_or_else(ended)?;
    let subscription = &books.subscriptions[at];
    refuse_too_many(subscription)?;
    let ends = ends(books, subscription, it, cx)?;
    books.end(at, ends, false, cx);
    for add_on in books.add_ons(at) {
        // One that ends before its base still does.
        if books.subscriptions[add_on].ends_at().is_none_or(|end| end > ends.1) {
            books.end(add_on, ends, true, cx);
        }
    }
    Ok(ends.1)
}

/// Ends all subscriptions of an account now, and gives back what was invoiced for later.
pub(crate) fn cancel_all(state: &State, account: AccountId, cx: &mut Context) {
    let Ok(mut books) = Books::open(state, account, cx) else { return };
    let going_on: Vec<usize> = (0..books.subscriptions.len())
        .filter(|at| books.subscriptions[*at].ends_at().is_none_or(|end| end > cx.now))
        .collect();
    let now = cx.now;
    for at in &going_on {
        books.end(*at, (now, now), false, cx);
    }
    if !going_on.is_empty() {
        run::at(&mut books, now, cx);
    }
    books.close(cx);
}

pub(crate) fn uncancel(state: &State, it: &OfAccount, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    let is_pending = |it: &Subscription| {
        it.awaits(is_cancellation) && it.entitled_until.is_none_or(|until| until > cx.now)
    };
    let place = books.place(it.subscription).filter(|at| is_pending(&books.subscriptions[*at]));
    let at = place.ok_or(R::NotCancelled { subscription: it.subscription })?;
    let end = books.subscriptions[at].ends_at();
    let mut with_it = books.add_ons(at);
    with_it
        .retain(|add_on| end.is_some_and(|end| books.subscriptions[*add_on].ends_with_base(end)));
    for place in [vec![at], with_it].concat() {
        books.go_on(place, cx);
    }
    // What the end had cut is charged.
    let now = cx.now;
    run::at(&mut books, now, cx);
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}

/// Until when the product may be used, and until when it is billed.
fn ends(
    books: &Books<'_>,
    subscription: &Subscription,
    it: &CancelSubscription,
    cx: &Context,
) -> Result<(Timestamp, Timestamp), Rejection> {
    let start = subscription.starts_at();
    if start > cx.now {
        return Ok((subscription.entitled_from.max(start), start));
    }
    // A day begins at the account's time of day, which may be before now.
    let today = books.calendar.instant(books.calendar.date(cx.now)).unwrap_or(cx.now);
    let through = books.charged_through(subscription);
    let requested = it.requested.map(|when| books.instant(when, "requestedDate")).transpose()?;
    let entitled_until = match it.entitlement {
        None => requested.unwrap_or(cx.now),
        Some(Policy::Immediate) => today,
        Some(Policy::EndOfTerm) => through.unwrap_or(today),
        Some(Policy::StartOfTerm | Policy::Illegal) => {
            return Err(Rejection::invalid(
                "entitlementPolicy",
                "should be IMMEDIATE or END_OF_TERM",
            ));
        }
    };
    let is_asked = it.entitlement.is_none() && it.billing.is_none() && it.bills_until_requested;
    let billed_until = match (requested.filter(|_| is_asked), it.billing) {
        (Some(requested), _) => requested,
        (None, Some(policy)) => by_policy(books, subscription, policy, cx),
        (None, None) => {
            let having = books.having(subscription);
            let policy = having.map_or(Policy::Immediate, |it| {
                it.chosen.catalog.rules.cancel_policy(it.current.phase, it.offered())
            });
            by_policy(books, subscription, policy, cx)
        }
    };
    Ok((entitled_until.max(subscription.entitled_from), billed_until.max(start)))
}

fn by_policy(
    books: &Books<'_>,
    subscription: &Subscription,
    policy: Policy,
    cx: &Context,
) -> Timestamp {
    match policy {
        Policy::Immediate | Policy::Illegal => cx.now,
        Policy::EndOfTerm => books.charged_through(subscription).unwrap_or(cx.now).max(cx.now),
        Policy::StartOfTerm => books.term_start(subscription).unwrap_or(cx.now),
    }
}

impl Books<'_> {
    /// The places of the add-ons of a base product; none of another product.
    pub(super) fn add_ons(&self, of: usize) -> Vec<usize> {
        let base = &self.subscriptions[of];
        let is_base = base.category == ProductCategory::Base;
        let add_ons = self.subscriptions.iter().enumerate().filter(|(_, it)| {
            is_base
                && it.bundle_id == base.bundle_id
                && it.category == ProductCategory::AddOn
                && !it.has_ended()
        });
        add_ons.map(|(at, _)| at).collect()
    }

    /// Takes back the end of a subscription that is to come.
    pub(super) fn go_on(&mut self, at: usize, cx: &mut Context) {
        let it = &mut self.subscriptions[at];
        it.drop_pending(|it| is_cancellation(&it.to));
        (it.entitled_until, it.entitlement_ended) = (None, false);
        let now = cx.now;
        self.reopen(at, now);
        self.follow_phase(at);
        self.requested(at, (SubscriptionStep::Uncancelled, now), cx);
        self.requested(at, (SubscriptionStep::Uncancelled, now), cx);
    }

    /// Ends a subscription, by itself or with its base: its entitlement at one instant, and its billing at another.
    pub(super) fn end(
        &mut self,
        at: usize,
        (entitled_until, billed_until): (Timestamp, Timestamp),
        with_base: bool,
        cx: &mut Context,
    ) {
        let it = &mut self.subscriptions[at];
        let billed_until = billed_until.max(it.starts_at());
        it.drop_pending(|it| it.at >= billed_until || is_cancellation(&it.to));
        it.put(Transition { at: billed_until, to: To::Cancelled { with_base } });
        (it.entitled_until, it.entitlement_ended) = (Some(entitled_until), false);
        self.reopen(at, billed_until);
        self.requested(at, (SubscriptionStep::Cancelled, billed_until), cx);
    }
}
