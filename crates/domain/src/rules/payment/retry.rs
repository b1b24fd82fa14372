//! Retries of failed payments: when they are due, and what happens then.

use std::collections::BTreeSet;

use super::initiate;
use crate::change::{Change, PaymentChange, TimerChange};
use crate::context::Context;
use crate::payment::{Initiate, PaymentFile, Transaction, TransactionStatus};
use crate::payment_attempt::{AttemptState, CancelRetries, PaymentAttempt, RetryPayment};
use crate::payment_rules::PaymentRules;
use crate::reply::Outcome;
use crate::rules::attempt::{cancel, end, timer_of};
use crate::rules::timer;
use crate::state::State;
use crate::tag::{SUSPENDING_TAGS, TagKey};
use crate::timer::{TimerKey, TimerKind};
use crate::{Accepted, Account, AccountId, PaymentMethodId, Reply, Timestamp, TransactionId};

/// After how many days a decline is retried where the tenant has not set it, each counted from the try before
/// (Kill Bill's default of `org.killbill.payment.retry.days`).
const DAYS: &[u16] = &[8, 8, 8];

/// After how long a payment is retried that its gateway did not take; it doubles with each further one.
const PLUGIN_FAILURE_DELAY_US: i64 = 300 * Timestamp::SECOND_US;

/// How often such a payment is retried (Kill Bill's default).
const PLUGIN_FAILURE_RETRIES: u32 = 8;

/// How long a retry is put off while its payment may still change at the gateway.
const POSTPONED_US: i64 = 3_600 * Timestamp::SECOND_US;

/// Codes of declines after which the same card must not be tried again: response codes of ISO 8583 (pick up the
/// card, lost, stolen, closed account, revoked authorization) and Stripe's names for the same.
const FINAL_DECLINES: [&str; 18] = [
    "04",
    "07",
    "14",
    "41",
    "43",
    "46",
    "R0",
    "R1",
    "R3",
    "do_not_try_again",
    "fraudulent",
    "lost_card",
    "pickup_card",
    "restricted_card",
    "revocation_of_all_authorizations",
    "revocation_of_authorization",
    "stolen_card",
    "stop_payment_order",
];

/// The attempt as a failure leaves it: scheduled where a retry is to come, else aborted.
pub(super) fn after_failure(
    state: &State,
    attempt: &PaymentAttempt,
    failed: &Transaction,
    cx: &mut Context,
) -> PaymentAttempt {
    let file = state.payment(cx.tenant, failed.payment_id);
    let due = delay_us(attempt, failed, file, state.payment_rules(cx.tenant))
        .map(|delay_us| cx.now.plus_us(delay_us));
    let revision = attempt.revision.next(cx.seq);
    if let Some(due) = due {
        cx.change(TimerChange::Set(timer_of(attempt, due)));
    }
    let after = if due.is_some() { AttemptState::Scheduled } else { AttemptState::Aborted };
    PaymentAttempt { state: after, due_at: due, revision, ..attempt.clone() }
}

fn delay_us(
    attempt: &PaymentAttempt,
    failed: &Transaction,
    file: Option<&PaymentFile>,
    rules: Option<&PaymentRules>,
) -> Option<i64> {
    let is_final = |code: &String| FINAL_DECLINES.contains(&code.as_str());
    if !attempt.retries || failed.gateway_error_code.as_ref().is_some_and(is_final) {
        return None;
    }
    let earlier = file.map_or(&[][..], |file| &file.transactions);
    let alike = |it: &&Transaction| it.id != failed.id && it.status == failed.status;
    // The tries of one call count once.
    let calls: BTreeSet<TransactionId> = earlier
        .iter()
        .filter(|it| it.kind == failed.kind && it.first_try() != failed.first_try())
        .filter(alike)
        .map(Transaction::first_try)
        .collect();
    let retried = calls.len();
    match failed.status {
        TransactionStatus::PaymentFailure => {
            let own = rules.and_then(|it| it.retries.as_ref()?.days.as_deref());
            let days = own.unwrap_or(DAYS).get(retried).copied()?;
            Some(i64::from(days) * Timestamp::DAY_US)
        }
        TransactionStatus::PluginFailure => {
            let retried = u32::try_from(retried).ok().filter(|it| *it < PLUGIN_FAILURE_RETRIES)?;
            Some(PLUGIN_FAILURE_DELAY_US << retried)
        }
        TransactionStatus::InFlight
        | TransactionStatus::Success
        | TransactionStatus::Pending
        | TransactionStatus::Unknown => None,
    }
}

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
        Some(method) => try_again(state, (attempt, method), it, cx),
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
    (attempt, method): (&PaymentAttempt, PaymentMethodId),
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
    match initiate::initiate(state, attempt.kind, &call, cx) {
        Ok(accepted) => {
            for change in &mut cx.done.changes[before.changes.len()..] {
                if let Change::Payment(PaymentChange::Attempt(next)) = change {
                    next.tries = attempt.tries.saturating_add(1);
                    next.retries = attempt.retries;
                }
            }
            end(attempt, AttemptState::Retried, cx);
            Ok(accepted)
        }
        Err(_) => {
            cx.done = before;
            end(attempt, AttemptState::Aborted, cx);
            Ok(Accepted::now(Reply::Done))
        }
    }
}
