//! The answers of gateways: to a call, and to the inquiries about it.

use super::action;
use super::cascade;
use super::inquiry::{self, Age, Call, Inquired, Said};
use super::outcome::{self, Evidence, Settled, Source};
use crate::account::rules::method_step;
use crate::change::{AccountChange, PaymentChange};
use crate::context::Context;
use crate::payment::rules::gateway_text::gateway_text;
use crate::payment::{
    GatewayAnswer, GatewayInquired, GatewayKnowledge, GatewayOutcome, GatewayReplied,
    GatewayStatus, Outstanding, Transaction, TransactionStatus,
};
use crate::reply::Outcome;
use crate::state::State;
use crate::{Accepted, PaymentResult, Reply, Timestamp, TransactionId};

pub(crate) fn gateway_replied(state: &State, it: &GatewayReplied, cx: &mut Context) -> Outcome {
    let (file, transaction) = outcome::transaction_of(state, (it.payment, it.transaction), cx)?;
    let mut outstanding = state.outstanding(cx.tenant, it.transaction).cloned();
    let (settled, failure) = match &it.answer {
        GatewayAnswer::Outcome(said) => {
            (outcome::read_outcome(transaction, said, Source::CallReply), None)
        }
        GatewayAnswer::Failed { message } => (
            Settled::failed_with(TransactionStatus::Unknown, None, message),
            Some(PaymentResult::GatewayFailed { message: gateway_text(message) }),
        ),
        GatewayAnswer::Nothing => (
            Settled::failed(TransactionStatus::Unknown),
            Some(PaymentResult::GatewayAnsweredNothing),
        ),
        GatewayAnswer::TimedOut => {
            (Settled::failed(TransactionStatus::Unknown), Some(PaymentResult::GatewayTimedOut))
        }
        GatewayAnswer::NotSent { message, .. } => {
            // A completion that never left leaves pending what is pending at the gateway. What is
            // called for the first time has processed nothing yet, not even zero.
            let status = match transaction.processed_amount {
                Some(_) => TransactionStatus::Pending,
                None => TransactionStatus::PluginFailure,
            };
            let mut settled = Settled::failed_with(status, None, message);
            settled.unsent = true;
            (settled, None)
        }
    };
    let evidence = match &it.answer {
        GatewayAnswer::Outcome(_) | GatewayAnswer::NotSent { .. } => Evidence::Outcome,
        GatewayAnswer::Failed { .. } | GatewayAnswer::Nothing | GatewayAnswer::TimedOut => {
            Evidence::None
        }
    };
    // Only a call that runs can end by not answering; what is settled stays settled.
    let in_flight = transaction.status == TransactionStatus::InFlight;
    if let Some(outstanding) = outstanding.as_mut().filter(|_| in_flight) {
        // A process that stood still may have sent it as late as now.
        outstanding.deadline = outstanding.deadline.max(cx.real_now);
    }
    if let GatewayAnswer::Outcome(said) = &it.answer {
        name_method(state, transaction, (said, Source::CallReply), cx);
    } else if let Some(method) = state.payment_method(cx.tenant, transaction.payment_method_id) {
        method_step::ended_unknown(method, cx);
    }
    let mut file = file.clone();
    // What was reported since is newer than the answer to the call: a success stays one.
    let stays = transaction.status == TransactionStatus::Success;
    let books = in_flight || !stays && outcome::worth_booking(transaction.status, settled.status);
    if books {
        outcome::settle(&mut file, it.transaction, settled, cx);
    }
    if let Some(next) = cascade::next_try(state, it, (&file, outstanding.as_ref()), cx) {
        return cascade::begin(state, next, (file, it.is_controlled), cx);
    }
    let transaction = file.transaction(it.transaction).expect("it was found before").clone();
    if let (GatewayAnswer::Outcome(said), Some(outstanding)) = (&it.answer, &mut outstanding) {
        action::wait(outstanding, (&transaction, said.next_action.as_ref()), cx);
    }
    let mut reply = outcome::payment_reply(&file, &transaction);
    if books && let (Some(failure), Reply::Payment(payment)) = (failure, &mut reply) {
        payment.result = failure;
    }
    outcome::close_or_ask(&transaction, (outstanding, evidence), &reply, cx);
    if books {
        outcome::write(file, it.transaction, cx);
    }
    Ok(Accepted::now(reply))
}

/// Books what a gateway knows of a transaction, as [`inquiry::decide`] says.
pub(crate) fn gateway_inquired(state: &State, it: &GatewayInquired, cx: &mut Context) -> Outcome {
    let (file, transaction) = outcome::transaction_of(state, (it.payment, it.transaction), cx)?;
    let mut outstanding = outstanding_today(state, it.transaction, cx);
    let settled = said(transaction, outstanding.as_ref(), it, cx);
    let age = age(transaction, it.asked_at, cx);
    let call = match outstanding.as_ref().is_some_and(|open| may_run(open, it.asked_at)) {
        true => Call::MayRun,
        false => Call::Over,
    };
    let said = settled.as_ref().map(|it| Said { status: it.status, reopens: it.reopens });
    let decided = inquiry::decide(transaction.status, said, call, age);
    let evidence = match &it.knowledge {
        GatewayKnowledge::Found(found)
            if found.status != GatewayStatus::Undefined && age == Age::Newest =>
        {
            Evidence::Outcome
        }
        GatewayKnowledge::Found(_) | GatewayKnowledge::NotFound | GatewayKnowledge::Unreachable => {
            Evidence::None
        }
    };
    if let GatewayKnowledge::Found(found) = &it.knowledge {
        name_method(state, transaction, (found, Source::Later), cx);
    }
    let booked = match decided {
        Inquired::Book | Inquired::BookEarly | Inquired::BookAndConfirm => settled,
        Inquired::Unanswered => Some(Settled::failed(TransactionStatus::Unknown)),
        Inquired::Wait | Inquired::Continue | Inquired::Confirm => None,
    };
    let mut file = file.clone();
    let is_booked = booked.is_some();
    if let Some(mut settled) = booked {
        if settled.reopens && outstanding.is_none() {
            // What is open again is asked about as anything that is not known.
            outstanding = Some(outcome::outcome_of(transaction, cx.real_now, cx));
        }
        settled.heard_at = (decided != Inquired::Unanswered).then_some(it.asked_at);
        outcome::settle(&mut file, it.transaction, settled, cx);
    }
    let transaction = file.transaction(it.transaction).expect("it was found before").clone();
    if let (GatewayKnowledge::Found(found), Some(outstanding), true) =
        (&it.knowledge, &mut outstanding, is_booked)
    {
        action::wait(outstanding, (&transaction, found.next_action.as_ref()), cx);
    }
    let reply = outcome::payment_reply(&file, &transaction);
    match decided {
        Inquired::Wait => {}
        Inquired::BookEarly => {
            if let Some(open) = outstanding {
                outcome::answer_early(&transaction, open, &reply, cx);
            }
        }
        Inquired::Confirm | Inquired::BookAndConfirm => {
            outcome::ask_once_more(&transaction, outstanding, &reply, cx);
        }
        Inquired::Continue | Inquired::Unanswered | Inquired::Book => {
            outcome::close_or_ask(&transaction, (outstanding, evidence), &reply, cx);
        }
    }
    if is_booked {
        outcome::write(file, it.transaction, cx);
    }
    Ok(Accepted::now(reply))
}

/// The outcome that an inquiry found, to be booked; `None` if it found none.
fn said(
    transaction: &Transaction,
    outstanding: Option<&Outstanding>,
    it: &GatewayInquired,
    cx: &Context,
) -> Option<Settled> {
    match &it.knowledge {
        GatewayKnowledge::Found(found) => {
            Some(outcome::read_outcome(transaction, found, Source::Later))
        }
        GatewayKnowledge::NotFound
            if not_found_is_final(transaction, outstanding, it.asked_at, cx) =>
        {
            let message = "the gateway has no record of it";
            Some(Settled::failed_with(TransactionStatus::PluginFailure, None, message))
        }
        GatewayKnowledge::NotFound | GatewayKnowledge::Unreachable => None,
    }
}

/// Two inquiries may be answered in one order and booked in the other: the later one decides.
fn age(transaction: &Transaction, asked_at: Timestamp, cx: &Context) -> Age {
    let is_outdated = |heard_at| cx.is_outdated(asked_at, heard_at);
    match !transaction.status.is_open() && transaction.heard_at.is_some_and(is_outdated) {
        true => Age::Outdated,
        false => Age::Newest,
    }
}

/// Stores what the gateway calls the payment method of a transaction from now on. One that the call was to attach is
/// active then, and one that it did not attach never will be.
fn name_method(
    state: &State,
    transaction: &Transaction,
    (outcome, source): (&GatewayOutcome, Source),
    cx: &mut Context,
) {
    let Some(method) = state.payment_method(cx.tenant, transaction.payment_method_id) else {
        return;
    };
    if method.is_attaching() {
        return method_step::ended_by_call(
            state,
            method,
            (outcome, source == Source::CallReply),
            cx,
        );
    }
    // One that the person's erasure emptied stays empty.
    let Some(said) = outcome.payment_method.as_ref().filter(|_| method.active) else { return };
    let mut named = method_step::named(method, &transaction.gateway, said);
    if named != *method {
        named.updated_at = cx.now;
        named.revision = method.revision.next(cx.seq);
        cx.change(AccountChange::PaymentMethod(named));
    }
}

/// The row that waits for an outcome, by the present clock. A deadline or an inquiry further off than any can be was
/// set by a clock that has been set back since. It counts from now on: the gateway would not be believed, nor asked,
/// before the clock is there again.
fn outstanding_today(state: &State, id: TransactionId, cx: &mut Context) -> Option<Outstanding> {
    let found = state.outstanding(cx.tenant, id)?;
    let timeout_us = cx.settings.gateway(&found.gateway).map_or(0, |it| it.timeout_us);
    let ask_latest = cx.now.plus_us(cx.settings.longest_delay_us());
    let open = Outstanding {
        deadline: found.deadline.min(cx.real_now.plus_us(timeout_us)),
        ask_at: found.ask_at.map(|at| if at > ask_latest { cx.now } else { at }),
        ..found.clone()
    };
    if open != *found {
        cx.change(PaymentChange::Outstanding(open.clone()));
    }
    Some(open)
}

/// Whether the call itself may still answer: an outcome reported meanwhile is booked, but the row
/// that waits for the call stays, so that the call answers the waiting caller. Where nobody runs
/// the call any more, the first question after its deadline ends the waiting.
fn may_run(outstanding: &Outstanding, asked_at: Timestamp) -> bool {
    let answered = outstanding.asked > 0 || outstanding.ask_at.is_some();
    !answered && asked_at < outstanding.deadline
}

/// A request may still be on its way to the gateway until its deadline, and a gateway may take a
/// while to find what it took: only where it was asked after both does "not found" mean that nothing
/// happened.
fn not_found_is_final(
    transaction: &Transaction,
    outstanding: Option<&Outstanding>,
    asked_at: Timestamp,
    cx: &Context,
) -> bool {
    let Some(outstanding) = outstanding else { return false };
    let Some(settings) = cx.settings.gateway(&outstanding.gateway) else { return false };
    transaction.status.is_in_doubt()
        && asked_at >= outstanding.deadline.plus_us(settings.settle_after_us)
}
