//! Late successes: a try that was declined succeeded after all, beside a later try of the same request.

use super::follow_up::destination_of;
use super::initiate::append;
use super::outcome::{self, CallOptions};
use super::route::{allowed, routes};
use crate::context::Context;
use crate::payment::{
    PaymentFile, RefundLateSuccess, Transaction, TransactionStatus, TransactionType,
};
use crate::reply::Outcome;
use crate::state::State;
use crate::timer::rules as timer;
use crate::timer::{TimerKey, TimerKind};
use crate::{Accepted, AmountMinor, Event, Reply, Timestamp};

/// How long a refund is put off at least while another outcome of its payment is open.
const POSTPONED_US_MIN: i64 = 60 * Timestamp::SECOND_US;

/// How long at most.
const POSTPONED_US_MAX: i64 = Timestamp::DAY_US;

/// Reports the tries of a request that succeeded beside a later one, where a command made one succeed, and has
/// them refunded where the tenant's rules say so.
pub(crate) fn note_late_successes(state: &State, cx: &mut Context) {
    let mut late = vec![];
    for changed in cx.written::<Transaction>().filter(|it| is_routed_success(it)) {
        let file = state.payment.payments.find(&(cx.tenant, changed.payment_id));
        let Some(file) = file else { continue };
        let before = file.transaction(changed.id);
        if before.is_some_and(|it| it.status == TransactionStatus::Success) {
            continue;
        }
        let number = |it: &Transaction| it.routed.as_ref().map_or(0, |it| it.number);
        let others = file.transactions.iter().filter(|it| {
            it.id != changed.id
                && it.status == TransactionStatus::Success
                && it.first_try() == changed.first_try()
        });
        let mut all: Vec<&Transaction> = others.chain([changed]).collect();
        all.sort_by_key(|it| number(it));
        if let Some((last, earlier)) = all.split_last() {
            late.extend(
                earlier
                    .iter()
                    .filter(|it| it.id == changed.id || last.id == changed.id)
                    .map(|it| (it.account_id, it.payment_id, it.id)),
            );
        }
    }
    let rules = state.tenant.payment_rules.find(&cx.tenant);
    let routing = rules.and_then(|it| it.routing.as_ref());
    let is_refunded = routing.is_some_and(|it| it.cascade.refunds_late_successes);
    for (account, payment, transaction) in late {
        cx.event(Event::LateSuccess { account, payment, transaction, is_refunded });
        if is_refunded {
            let key = TimerKey { kind: TimerKind::LateRefund, object: transaction.uuid() };
            timer::set((key, account), cx.now, cx);
        }
    }
}

fn is_routed_success(it: &Transaction) -> bool {
    it.routed.is_some() && it.status == TransactionStatus::Success
}

/// Voids or refunds what is left of a late success. Where nothing is, as after a client's own refund, nothing
/// happens.
pub(crate) fn refund_late(state: &State, it: &RefundLateSuccess, cx: &mut Context) -> Outcome {
    let key = TimerKey { kind: TimerKind::LateRefund, object: it.transaction.uuid() };
    if !timer::take(state, (key, it.due), cx) {
        return Ok(Accepted::now(Reply::Done));
    }
    let Some(file) = state.payment(cx.tenant, it.payment) else {
        return Ok(Accepted::now(Reply::Done));
    };
    let open = file.transactions.iter().filter(|it| it.status.is_open());
    if let Some(since) = open.map(|it| it.effective_at).max() {
        let account = file.payment.account_id;
        // As long again as it is open already: an outcome that never comes costs a commit a day.
        let waited_us = since.until_us(cx.now).clamp(POSTPONED_US_MIN, POSTPONED_US_MAX);
        let due = cx.now.plus_us(waited_us);
        timer::set((key, account), due, cx);
        return Ok(Accepted::now(Reply::Done));
    }
    let has_room = file.transactions.len() < cx.settings.transactions_per_payment_max;
    match returned(file, it).filter(|_| has_room) {
        None => Ok(Accepted::now(Reply::Done)),
        Some((late, kind, amount)) => {
            let destination = destination_of(late);
            let mut file = file.clone();
            let priced = amount.map(|amount| (amount, file.payment.currency));
            append(&mut file, (kind, None), destination, priced, cx);
            let properties = vec![];
            let asked = CallOptions::of(amount, &properties, false);
            outcome::submit(outcome::method_of(state, &file, cx), file, asked, cx)
        }
    }
}

/// The late success, and what returns its money: a void, or a refund of what is left.
fn returned<'f>(
    file: &'f PaymentFile,
    it: &RefundLateSuccess,
) -> Option<(&'f Transaction, TransactionType, Option<AmountMinor>)> {
    let late = file.transaction(it.transaction)?;
    let routes = routes(file);
    let route = routes.iter().find(|route| route.last.has_same_route(late))?;
    if allowed(route.from, TransactionType::Void) {
        return Some((late, TransactionType::Void, None));
    }
    let left = route.left(TransactionType::Refund);
    let is_left = allowed(route.from, TransactionType::Refund) && left > AmountMinor::ZERO;
    is_left.then_some((late, TransactionType::Refund, Some(left)))
}
