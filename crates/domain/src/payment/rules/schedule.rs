//! When a failed payment is tried again.

use std::collections::BTreeSet;

use crate::change::TimerChange;
use crate::context::Context;
use crate::payment::attempt::{AttemptState, PaymentAttempt};
use crate::payment::rules::attempt::timer_of;
use crate::payment::{PaymentFile, Transaction, TransactionStatus};
use crate::state::State;
use crate::tenant::payment_rules::PaymentRules;
use crate::{Timestamp, TransactionId};

/// After how many days a decline is retried where the tenant has not set it, each counted from the try before
/// (Kill Bill's default of `org.killbill.payment.retry.days`).
const DAYS: &[u16] = &[8, 8, 8];

/// After how long a payment is retried that its gateway did not take; it doubles with each further one.
const PLUGIN_FAILURE_DELAY_US: i64 = 300 * Timestamp::SECOND_US;

/// How often such a payment is retried (Kill Bill's default).
const PLUGIN_FAILURE_RETRIES: u32 = 8;

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
