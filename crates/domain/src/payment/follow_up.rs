//! What may follow on a payment: capture, refund, void, chargeback and its reversal.

use super::initiate::{append, positive_amount, refuse_succeeded, refuse_used_key};
use super::outcome::{self, Asked};
use super::place::{Place, places};
use super::{
    Complete, FollowUp, PaymentFile, PaymentState, Transaction, TransactionStatus, TransactionType,
};
use crate::context::Context;
use crate::execute::Outcome;
use crate::state::State;
use crate::{Account, AmountMinor, Currency, PaymentMethodId, Rejection};

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
            return super::complete::complete(state, &request, cx);
        }
    }
    let places = refuse_transition(file, kind)?;
    let (place, amount) = match kind {
        TransactionType::Void => (places.first(), None),
        TransactionType::Capture
        | TransactionType::Refund
        | TransactionType::Chargeback
        | TransactionType::Authorize
        | TransactionType::Purchase
        | TransactionType::Credit
        | TransactionType::ChargebackReversal => {
            let amount = asked_amount(file, account, it)?;
            (Some(place_for(&places, kind, (amount, file.payment.currency))?), Some(amount))
        }
    };
    let way = way(place.expect("there is one, or it was refused").last);
    let mut file = file.clone();
    let currency = file.payment.currency;
    let key = it.transaction_key.clone();
    append(&mut file, (kind, key), way, amount.map(|amount| (amount, currency)), cx);
    let asked = Asked { amount, properties: &it.properties };
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
    let worked = |kind: TransactionType| {
        let of_kind = file.named(key).filter(move |tx| tx.kind == kind);
        of_kind.filter(|tx| tx.status == TransactionStatus::Success)
    };
    let total = |kind: TransactionType| {
        worked(kind).fold(AmountMinor::ZERO, |sum, tx| {
            sum.checked_add(tx.amount.unwrap_or_default()).unwrap_or(sum)
        })
    };
    let charged_back = total(TransactionType::Chargeback);
    let Some(chargeback) = worked(TransactionType::Chargeback).last() else {
        return Err(Rejection::NoSuchSuccess { payment: file.payment.id });
    };
    let way = way(chargeback);
    let open = charged_back.minus_floor_zero(total(TransactionType::ChargebackReversal));
    // Whatever settled since: the bank can give back what it took and has not given back.
    let from = file.payment.last_success;
    if open == AmountMinor::ZERO {
        return Err(Rejection::InvalidTransition { operation: TransactionType::Chargeback, from });
    }
    let mut file = file.clone();
    let amount = Some((open, file.payment.currency));
    let reversal = (TransactionType::ChargebackReversal, Some(key.clone()));
    append(&mut file, reversal, way, amount, cx);
    let asked = Asked { amount: Some(open), properties: &it.properties };
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

/// The way of a transaction, for what follows on it.
fn way(of: &Transaction) -> (String, PaymentMethodId) {
    (of.gateway.clone(), of.payment_method_id)
}

/// Where the operation may follow, the place of the latest success first.
fn refuse_transition(
    file: &PaymentFile,
    kind: TransactionType,
) -> Result<Vec<Place<'_>>, Rejection> {
    // A chargeback is the bank's fact, not a request of ours: doubt about another one is no obstacle.
    if kind != TransactionType::Chargeback && file.is_in_doubt() {
        return Err(Rejection::PaymentInDoubt { operation: kind });
    }
    let mut places = places(file);
    // Captures stay where they began: what another try reserved is not theirs to take.
    if kind == TransactionType::Capture && places.iter().any(Place::is_captured) {
        places.retain(Place::is_captured);
    }
    places.retain(|place| allowed(place.from, kind));
    let from = file.payment.last_success;
    let pending = places.iter().find_map(|place| excluding(file, place, kind));
    places.retain(|place| excluding(file, place, kind).is_none());
    if kind == TransactionType::Capture {
        places.truncate(1);
    }
    if places.is_empty() {
        let pending =
            pending.map(|operation| PaymentState { operation, status: TransactionStatus::Pending });
        return Err(Rejection::InvalidTransition { operation: kind, from: pending.or(from) });
    }
    Ok(places)
}

/// The pending operation that this one cannot be true beside: a void and a capture of the same money.
fn excluding(file: &PaymentFile, place: &Place, kind: TransactionType) -> Option<TransactionType> {
    use TransactionType as T;
    let here = file.transactions.iter().filter(|tx| tx.is_beside(place.last));
    let mut pending = here.filter(|tx| tx.status == TransactionStatus::Pending);
    let found = pending.find(|tx| {
        tx.kind == T::Void || (kind == T::Void && matches!(tx.kind, T::Capture | T::Void))
    });
    found.map(|tx| tx.kind)
}

/// Refuses to send what is pending once more where something worked since that leaves it nothing to
/// do: `others` is its payment without it. What the gateway says of it is booked all the same.
pub(super) fn refuse_superseded(
    others: &PaymentFile,
    pending: &Transaction,
    amount: Option<AmountMinor>,
) -> Result<(), Rejection> {
    use TransactionType as T;
    let from = others.payment.last_success;
    let mut places = places(others);
    places.retain(|place| place.last.is_beside(pending));
    let superseded = match pending.kind {
        T::Authorize | T::Purchase | T::Credit => from.is_some(),
        T::Void => !places.iter().any(|place| allowed(place.from, T::Void)),
        T::Capture | T::Refund | T::Chargeback | T::ChargebackReversal => {
            let amount = amount.unwrap_or_default();
            place_for(&places, pending.kind, (amount, others.payment.currency))?;
            false
        }
    };
    if superseded {
        return Err(Rejection::InvalidTransition { operation: pending.kind, from });
    }
    Ok(())
}

/// Kill Bill's links between operations (PaymentStates.xml): what may follow the last success.
const fn allowed(from: PaymentState, next: TransactionType) -> bool {
    use TransactionType as T;
    match from.operation {
        T::Authorize => matches!(next, T::Capture | T::Void),
        T::Capture => matches!(next, T::Capture | T::Refund | T::Chargeback),
        T::Purchase | T::Refund => matches!(next, T::Refund | T::Chargeback),
        T::Chargeback => matches!(next, T::Chargeback | T::ChargebackReversal),
        T::ChargebackReversal => matches!(next, T::Refund),
        T::Credit | T::Void => false,
    }
}

fn asked_amount(
    file: &PaymentFile,
    account: &Account,
    it: &FollowUp,
) -> Result<AmountMinor, Rejection> {
    let currency: Currency = file.payment.currency;
    let given = it.currency.or(account.currency).unwrap_or(currency);
    if given != currency {
        let reason = format!(" should be {currency} to match other existing transactions");
        return Err(Rejection::InvalidParameter { field: "currency".to_owned(), reason });
    }
    positive_amount(it.amount.as_deref(), currency)
}

/// The first of the places where enough is left: a transaction goes to one gateway, so nothing can be
/// taken from two places at once.
fn place_for<'p, 'a>(
    places: &'p [Place<'a>],
    kind: TransactionType,
    (amount, currency): (AmountMinor, Currency),
) -> Result<&'p Place<'a>, Rejection> {
    if let Some(place) = places.iter().find(|place| amount <= place.left(kind)) {
        return Ok(place);
    }
    let left = places.iter().map(|place| place.left(kind)).max().unwrap_or_default();
    let reason =
        format!("{} exceeds the {} left", amount.decimal(currency), left.decimal(currency));
    Err(Rejection::InvalidParameter { field: "amount".to_owned(), reason })
}
