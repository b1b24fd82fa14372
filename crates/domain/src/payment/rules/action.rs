//! Next actions of customers, before pending transactions go on: how long they are waited for.

use super::complete;
use crate::context::Context;
use crate::payment::{CANCEL, Complete, ExpireAction, Outstanding, Transaction, TransactionStatus};
use crate::reply::Outcome;
use crate::state::State;
use crate::timer::rules as timer;
use crate::timer::{TimerKey, TimerKind};
use crate::{Accepted, Reply, Timestamp, TransactionId};

/// How long giving up is put off while another operation of the payment is under way.
const POSTPONED_US: i64 = 60 * Timestamp::SECOND_US;

/// When giving up is tried again: the gateway may not have been reached.
const AGAIN_US: i64 = 3_600 * Timestamp::SECOND_US;

const fn key_of(transaction: TransactionId) -> TimerKey {
    TimerKey { kind: TimerKind::PaymentAction, object: transaction.uuid() }
}

/// Remembers what the customer has to do, and gives the transaction up when that takes too long.
pub(super) fn wait(
    outstanding: &mut Outstanding,
    (transaction, next_action): (&Transaction, Option<&String>),
    cx: &mut Context,
) {
    let Some(next_action) = next_action else { return };
    if transaction.status != TransactionStatus::Pending {
        return;
    }
    let is_first = outstanding.next_action.is_none();
    outstanding.next_action = Some(next_action.clone());
    let settings = cx.settings.gateway(&transaction.gateway);
    if let (true, Some(timeout_us)) = (is_first, settings.and_then(|it| it.action_timeout_us)) {
        set_timer(transaction, timeout_us, cx);
    }
}

fn set_timer(of: &Transaction, delay_us: i64, cx: &mut Context) {
    timer::set((key_of(of.id), of.account_id), cx.now.plus_us(delay_us), cx);
}

/// Gives a transaction up whose customer was waited for long enough: the gateway is called to cancel it, and says
/// what became of it. Where it has an outcome there is nothing to do.
pub(crate) fn expire(state: &State, it: &ExpireAction, cx: &mut Context) -> Outcome {
    let key = key_of(it.transaction);
    if !timer::take(state, (key, it.due), cx) {
        return Ok(Accepted::now(Reply::Done));
    }
    let file = state.payment(cx.tenant, it.payment);
    let open = file.and_then(|file| Some((file, file.transaction(it.transaction)?)));
    let open = open.filter(|(_, it)| it.status.is_open());
    let Some((file, open)) = open else { return Ok(Accepted::now(Reply::Done)) };
    // A completion of it that runs, or that ended without an answer, may leave it pending.
    if file.is_in_doubt() {
        set_timer(open, POSTPONED_US, cx);
        return Ok(Accepted::now(Reply::Done));
    }
    let request = Complete {
        properties: vec![(CANCEL.to_owned(), "true".to_owned())],
        ..Complete::as_requested(it.payment, it.transaction, open.kind)
    };
    let before = cx.done.clone();
    set_timer(open, AGAIN_US, cx);
    complete::complete(state, &request, cx).or_else(|_| {
        // What the rules do not complete stays as it is.
        cx.done = before;
        Ok(Accepted::now(Reply::Done))
    })
}
