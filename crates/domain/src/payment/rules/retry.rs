//! Retries of failed payments: the next try, and what ends them.

use super::initiate::{self, Origin};
use crate::account::tag::{SUSPENDING_TAGS, TagKey};
use crate::change::{PaymentChange, TimerChange};
use crate::context::Context;
use crate::payment::attempt::{AttemptState, CancelRetries, PaymentAttempt, RetryPayment};
use crate::payment::rules::attempt::{cancel, end, timer_of};
use crate::payment::{Initiate, PaymentFile};
use crate::reply::Outcome;
use crate::state::State;
use crate::timer::rules as timer;
use crate::timer::{TimerKey, TimerKind};
use crate::{Accepted, Account, AccountId, PaymentMethodId, Reply, Timestamp};

/// How long a retry is put off while its payment may still change at the gateway.
const POSTPONED_US: i64 = 3_600 * Timestamp::SECOND_US;

pub(crate) fn cancel_retries(state: &State, it: &CancelRetries, cx: &mut Context) -> Outcome {
    let attempts = state.attempts(cx.tenant, it.payment);
    let scheduled = attempts.iter().filter(|attempt| attempt.state == AttemptState::Scheduled);
    for attempt in scheduled.filter(|attempt| attempt.transaction_id == Some(it.transaction)) {
        cancel(attempt, cx);
    }
    Ok(Accepted::now(Reply::Done))
}

/// Tries a failed payment again, under the same keys. It is not tried while an outcome of the payment may still
/// change, nor where it has succeeded; and it waits as long as the account has a tag of [`SUSPENDING_TAGS`].
pub(crate) fn retry(state: &State, it: &RetryPayment, cx: &mut Context) -> Outcome {
    let attempts = state.attempts(cx.tenant, it.payment);
    let attempt = attempts.iter().find(|attempt| attempt.id == it.attempt);
    let key = TimerKey { kind: TimerKind::PaymentRetry, object: it.attempt.uuid() };
    if !timer::take(state, (key, it.due), cx) {
        return Ok(Accepted::now(Reply::Done));
    }
    let Some(attempt) = attempt.filter(|it| it.state == AttemptState::Scheduled) else {
        return Ok(Accepted::now(Reply::Done));
    };
    if is_suspended(state, it.account, cx) {
        return Ok(Accepted::now(Reply::Done));
    }
    let (Some(file), Some(account)) =
        (state.payment(cx.tenant, it.payment), state.account(cx.tenant, it.account))
    else {
        end(attempt, AttemptState::Aborted, cx);
        return Ok(Accepted::now(Reply::Done));
    };
    if !it.is_answered || may_change(state, file, cx) {
        let due = cx.now.plus_us(POSTPONED_US);
        cx.change(TimerChange::Set(timer_of(attempt, due)));
        let revision = attempt.revision.next(cx.seq);
        let postponed = PaymentAttempt { due_at: Some(due), revision, ..attempt.clone() };
        cx.change(PaymentChange::Attempt(postponed));
        return Ok(Accepted::now(Reply::Done));
    }
    match method(state, attempt, account, cx) {
        Some(method) => try_again(state, (attempt, account, method), it, cx),
        None => {
            end(attempt, AttemptState::Aborted, cx);
            Ok(Accepted::now(Reply::Done))
        }
    }
}

/// Whether an outcome is open, or the gateway is still asked about one: what it has no record of may be
/// delivered late, and a retry made before would charge twice.
fn may_change(state: &State, file: &PaymentFile, cx: &Context) -> bool {
    let mut transactions = file.transactions.iter();
    transactions.any(|it| it.status.is_open() || state.outstanding(cx.tenant, it.id).is_some())
}

fn is_suspended(state: &State, account: AccountId, cx: &Context) -> bool {
    SUSPENDING_TAGS.into_iter().any(|tag| {
        let found = state.tag(cx.tenant, TagKey::of_account(account, tag));
        found.is_some_and(|it| it.active)
    })
}

/// The method of the attempt, or the account's default where that was deleted. What belonged to a person who
/// was erased since is not charged.
fn method(
    state: &State,
    attempt: &PaymentAttempt,
    account: &Account,
    cx: &Context,
) -> Option<PaymentMethodId> {
    if account.erased_at.is_some_and(|erased_at| erased_at >= attempt.created_at) {
        return None;
    }
    let of_attempt = attempt.payment_method_id.and_then(|id| state.payment_method(cx.tenant, id));
    of_attempt.filter(|it| it.active).map(|it| it.id).or(account.payment_method_id)
}

/// The same call as the attempt's, with the method. One that the rules refuse ends the retries.
fn try_again(
    state: &State,
    (attempt, account, method): (&PaymentAttempt, &Account, PaymentMethodId),
    it: &RetryPayment,
    cx: &mut Context,
) -> Outcome {
    let call = Initiate {
        account: it.account,
        payment: Some(it.payment),
        payment_method: Some(method),
        payment_key: None,
        transaction_key: attempt.transaction_key.clone(),
        amount: Some(attempt.amount.decimal(attempt.currency)),
        currency: Some(attempt.currency),
        control: attempt.plugins.clone(),
        approved: vec![],
        properties: attempt.properties.clone(),
        gateways: vec![],
    };
    let before = cx.done.clone();
    let origin = Origin { retried: Some(attempt), ..Origin::of(account) };
    match initiate::start(state, attempt.kind, &call, origin, cx) {
        Ok(started) => {
            end(attempt, AttemptState::Retried, cx);
            Ok(started.accepted)
        }
        Err(_) => {
            cx.done = before;
            end(attempt, AttemptState::Aborted, cx);
            Ok(Accepted::now(Reply::Done))
        }
    }
}
