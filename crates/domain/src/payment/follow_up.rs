//! What may follow on a payment: capture, refund, void, chargeback and its reversal.

use super::amounts::{left_to_capture, left_to_return};
use super::initiate::{append, positive_amount, refuse_succeeded, refuse_used_key};
use super::outcome::{self, Asked};
use super::{
    Answers, Complete, FollowUp, PaymentFile, PaymentState, TransactionStatus, TransactionType,
};
use crate::context::Context;
use crate::execute::Outcome;
use crate::state::State;
use crate::{Account, AmountMinor, Currency, Rejection};

pub(crate) fn follow_up(
    state: &State,
    kind: TransactionType,
    it: &FollowUp,
    cx: &mut Context,
) -> Outcome {
    let (file, account) = payment_and_account(state, it, cx)?;
    if let Some(key) = &it.transaction_key {
        if kind == TransactionType::Chargeback {
            refuse_transition(file, kind)?;
        }
        refuse_used_key(state, account, (key, Some(file.payment.id)), cx)?;
        refuse_succeeded(file, key)?;
        let pending = file.named(key).find(|tx| tx.status == TransactionStatus::Pending);
        if let Some(pending) = pending {
            if pending.kind != kind {
                let reason = "differs from the pending transaction's";
                return Err(Rejection::invalid("transactionType", reason));
            }
            let request = Complete {
                payment: file.payment.id,
                transaction: Some(pending.id),
                transaction_key: None,
                kind: Some(kind),
                amount: it.amount.clone(),
                currency: it.currency,
                properties: it.properties.clone(),
            };
            return super::complete::complete_as(state, &request, answers(kind), cx);
        }
    }
    refuse_transition(file, kind)?;
    let amount = match kind {
        TransactionType::Void => None,
        TransactionType::Capture
        | TransactionType::Refund
        | TransactionType::Chargeback
        | TransactionType::Authorize
        | TransactionType::Purchase
        | TransactionType::Credit
        | TransactionType::ChargebackReversal => Some(amount_within(file, account, kind, it)?),
    };
    let mut file = file.clone();
    let currency = file.payment.currency;
    let key = it.transaction_key.clone();
    append(&mut file, (kind, key), amount.map(|amount| (amount, currency)), cx);
    let asked = Asked { answers: answers(kind), amount, properties: &it.properties };
    if kind == TransactionType::Chargeback {
        return Ok(outcome::settle_at_once(file, asked, cx));
    }
    outcome::submit(state, file, asked, cx)
}

pub(crate) fn reverse_chargeback(state: &State, it: &FollowUp, cx: &mut Context) -> Outcome {
    let (file, _) = payment_and_account(state, it, cx)?;
    let Some(key) = &it.transaction_key else {
        return Err(Rejection::invalid("transactionExternalKey", "needs to be set"));
    };
    let total = |kind: TransactionType| {
        let of_kind = file.named(key).filter(move |tx| tx.kind == kind);
        let worked = of_kind.filter(|tx| tx.status == TransactionStatus::Success);
        worked.fold(AmountMinor::ZERO, |sum, tx| {
            sum.checked_add(tx.amount.unwrap_or_default()).unwrap_or(sum)
        })
    };
    let charged_back = total(TransactionType::Chargeback);
    if charged_back == AmountMinor::ZERO {
        return Err(Rejection::NoSuchSuccess { payment: file.payment.id });
    }
    let open = charged_back.minus_floor_zero(total(TransactionType::ChargebackReversal));
    // Whatever settled since: the bank can give back what it took and has not given back.
    let from = file.payment.last_success;
    if open == AmountMinor::ZERO {
        return Err(Rejection::InvalidTransition { operation: TransactionType::Chargeback, from });
    }
    let mut file = file.clone();
    let amount = Some((open, file.payment.currency));
    append(&mut file, (TransactionType::ChargebackReversal, Some(key.clone())), amount, cx);
    let asked =
        Asked { answers: Answers::Creation, amount: Some(open), properties: &it.properties };
    Ok(outcome::settle_at_once(file, asked, cx))
}

fn payment_and_account<'a>(
    state: &'a State,
    it: &FollowUp,
    cx: &Context,
) -> Result<(&'a PaymentFile, &'a Account), Rejection> {
    let Some(file) = state.payment(cx.tenant, it.payment) else {
        return Err(Rejection::PaymentNotFound { payment: it.payment.to_string() });
    };
    let account = state
        .account(cx.tenant, file.payment.account_id)
        .expect("a payment is loaded with its account");
    if file.transactions.len() >= cx.settings.transactions_per_payment_max {
        return Err(Rejection::invalid("paymentId", "has too many transactions"));
    }
    Ok((file, account))
}

/// A void answers without a body whatever the gateway says; the others answer by status.
const fn answers(kind: TransactionType) -> Answers {
    match kind {
        TransactionType::Void => Answers::Completion,
        TransactionType::Authorize
        | TransactionType::Capture
        | TransactionType::Purchase
        | TransactionType::Refund
        | TransactionType::Credit
        | TransactionType::Chargeback
        | TransactionType::ChargebackReversal => Answers::Creation,
    }
}

fn refuse_transition(file: &PaymentFile, kind: TransactionType) -> Result<(), Rejection> {
    // A chargeback is the bank's fact, not a request of ours: doubt about another one is no obstacle.
    if kind != TransactionType::Chargeback && file.is_in_doubt() {
        return Err(Rejection::PaymentInDoubt { operation: kind });
    }
    let from = file.payment.last_success;
    if !allowed(from, kind) {
        return Err(Rejection::InvalidTransition { operation: kind, from });
    }
    match excluding(file, kind) {
        Some(pending) => {
            let from = PaymentState { operation: pending, status: TransactionStatus::Pending };
            Err(Rejection::InvalidTransition { operation: kind, from: Some(from) })
        }
        None => Ok(()),
    }
}

/// The pending operation that this one cannot be true beside: a void and a capture of the same money.
fn excluding(file: &PaymentFile, kind: TransactionType) -> Option<TransactionType> {
    use TransactionType as T;
    let mut pending = file.transactions.iter().filter(|tx| tx.status == TransactionStatus::Pending);
    let found = pending.find(|tx| {
        tx.kind == T::Void || (kind == T::Void && matches!(tx.kind, T::Capture | T::Void))
    });
    found.map(|tx| tx.kind)
}

/// Kill Bill's links between operations (PaymentStates.xml): what may follow the last success.
const fn allowed(from: Option<PaymentState>, next: TransactionType) -> bool {
    use TransactionType as T;
    let Some(from) = from else { return false };
    match from.operation {
        T::Authorize => matches!(next, T::Capture | T::Void),
        T::Capture => matches!(next, T::Capture | T::Refund | T::Chargeback),
        T::Purchase | T::Refund => matches!(next, T::Refund | T::Chargeback),
        T::Chargeback => matches!(next, T::Chargeback | T::ChargebackReversal),
        T::ChargebackReversal => matches!(next, T::Refund),
        T::Credit | T::Void => false,
    }
}

fn amount_within(
    file: &PaymentFile,
    account: &Account,
    kind: TransactionType,
    it: &FollowUp,
) -> Result<AmountMinor, Rejection> {
    let currency: Currency = file.payment.currency;
    let given = it.currency.or(account.currency).unwrap_or(currency);
    if given != currency {
        let reason = format!(" should be {currency} to match other existing transactions");
        return Err(Rejection::InvalidParameter { field: "currency".to_owned(), reason });
    }
    let amount = positive_amount(it.amount.as_deref(), currency)?;
    let left = if kind == TransactionType::Capture {
        left_to_capture(&file.transactions)
    } else {
        left_to_return(&file.transactions)
    };
    if amount > left {
        let reason =
            format!("{} exceeds the {} left", amount.decimal(currency), left.decimal(currency));
        return Err(Rejection::InvalidParameter { field: "amount".to_owned(), reason });
    }
    Ok(amount)
}
