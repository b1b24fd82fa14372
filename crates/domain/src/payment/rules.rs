//! Payments: the machine that says which transaction may follow which.

mod action;
mod amounts;
mod answer;
pub(crate) mod attempt;
mod buy;
mod cascade;
mod combo;
mod complete;
mod control;
mod dispute;
mod follow_up;
pub(crate) mod gateway_text;
mod import;
mod initiate;
mod inquiry;
mod invoice;
mod late;
pub(crate) mod ledger;
pub(crate) mod merchant_account;
mod outcome;
mod retry;
mod route;
mod routing;
mod schedule;
#[cfg(test)]
mod tests;

use crate::billing;
use crate::context::Context;
use crate::entitlement::rules::purchase;
use crate::payment::TransactionType;
use crate::payment::command::PaymentCommand;
use crate::reply::Outcome;
use crate::state::State;

pub(crate) use action::expire as expire_action;
pub(crate) use answer::{gateway_inquired, gateway_replied};
pub(crate) use buy::{begin as begin_purchase, buy};
pub(crate) use combo::initiate_combo;
pub(crate) use complete::{complete, fix, resolve_pending};
pub(crate) use control::follow;
pub(crate) use dispute::{
    book_waiting as book_dispute, record as record_dispute, warn as warn_of_dispute,
};
pub(crate) use follow_up::{follow_up, reverse_chargeback};
pub(crate) use import::import;
pub(crate) use initiate::{initiate, repeats_pending};
pub(crate) use invoice::{pay_as_asked, pay_invoice};
pub(crate) use late::{note_late_successes, refund_late};
pub(crate) use retry::{cancel_retries, retry};

/// Executes a command of this group.
pub(crate) fn execute(state: &State, command: &PaymentCommand, cx: &mut Context) -> Outcome {
    use TransactionType as T;
    let accepted = match command {
        PaymentCommand::Authorize(it) => initiate(state, T::Authorize, it, cx),
        PaymentCommand::Purchase(it) => initiate(state, T::Purchase, it, cx),
        PaymentCommand::Credit(it) => initiate(state, T::Credit, it, cx),
        PaymentCommand::InitiateCombo(it) => initiate_combo(state, it, cx),
        PaymentCommand::Capture(it) => follow_up(state, T::Capture, it, cx),
        PaymentCommand::Refund(it) => follow_up(state, T::Refund, it, cx),
        PaymentCommand::Void(it) => follow_up(state, T::Void, it, cx),
        PaymentCommand::Chargeback(it) => follow_up(state, T::Chargeback, it, cx),
        PaymentCommand::ReverseChargeback(it) => reverse_chargeback(state, it, cx),
        PaymentCommand::Complete(it) => complete(state, it, cx),
        PaymentCommand::ResolvePending(it) => resolve_pending(state, it, cx),
        PaymentCommand::FixTransaction(it) => fix(state, it, cx),
        PaymentCommand::GatewayReplied(it) => gateway_replied(state, it, cx),
        PaymentCommand::GatewayInquired(it) => gateway_inquired(state, it, cx),
        PaymentCommand::Retry(it) => retry(state, it, cx),
        PaymentCommand::ExpireAction(it) => expire_action(state, it, cx),
        PaymentCommand::CancelRetries(it) => cancel_retries(state, it, cx),
        PaymentCommand::RefundLateSuccess(it) => refund_late(state, it, cx),
        PaymentCommand::RecordDispute(it) => record_dispute(state, it, cx),
        PaymentCommand::BookDispute(it) => book_dispute(state, it, cx),
        PaymentCommand::WarnOfDispute(it) => warn_of_dispute(state, it, cx),
        PaymentCommand::Import(it) => import(state, it, cx),
        PaymentCommand::Buy(it) => buy(state, it, cx),
    }?;
    follow(state, cx);
    note_late_successes(state, cx);
    purchase::follow(state, cx);
    billing::rules::follow(state, cx);
    Ok(accepted)
}
