//! Transactions that may follow on a payment: capture, refund, void, chargeback and its reversal.

use super::complete;
use super::control::Control;
use super::initiate::{append, refuse_succeeded, refuse_used_key};
use super::outcome::{self, CallOptions};
use super::route::{Route, allowed, in_doubt, route_for, routes};
use crate::context::Context;
use crate::payment::routed::Destination;
use crate::payment::{
    Complete, FollowUp, PaymentFile, PaymentState, Transaction, TransactionStatus, TransactionType,
};
use crate::reply::Outcome;
use crate::state::State;
use crate::{Account, AmountMinor, Currency, PaymentRejection, Rejection, positive_amount};

pub(crate) fn follow_up(
    state: &State,
    kind: TransactionType,
    it: &FollowUp,
    cx: &mut Context,
) -> Outcome {
    let control = Control::of_follow_up(it)?;
    let (file, account) = payment_and_account(state, it, cx)?;
    if let Some(key) = &it.transaction_key {
        if kind == TransactionType::Chargeback {
            allowed_routes(file, kind)?;
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
                amount: it.amount.clone(),
                currency: it.currency,
                properties: it.properties.clone(),
                ..Complete::as_requested(file.payment.id, pending.id, kind)
            };
            return complete::complete(state, &request, cx);
        }
    }
    let routes = allowed_routes(file, kind)?;
    let (route, amount) = match kind {
        TransactionType::Void => (routes.first(), None),
        TransactionType::Capture
        | TransactionType::Refund
        | TransactionType::Chargeback
        | TransactionType::Authorize
        | TransactionType::Purchase
        | TransactionType::Credit
        | TransactionType::ChargebackReversal => {
            let amount = asked_amount(file, account, it)?;
            (Some(route_for(&routes, kind, (amount, file.payment.currency))?), Some(amount))
        }
    };
    let destination = destination_of(route.expect("there is one, or it was refused").last);
    let mut file = file.clone();
    let currency = file.payment.currency;
    let key = it.transaction_key.clone();
    append(&mut file, (kind, key), destination, amount.map(|amount| (amount, currency)), cx);
    let asked = CallOptions::of(amount, &it.properties, control.is_some());
    let accepted = if kind == TransactionType::Chargeback {
        outcome::settle_at_once(file, asked, cx)
    } else {
        outcome::submit(outcome::method_of(state, &file, cx), file, asked, cx)?
    };
    if let Some(control) = &control {
        control.followed(state, it, cx);
    }
    Ok(accepted)
}

pub(crate) fn reverse_chargeback(state: &State, it: &FollowUp, cx: &mut Context) -> Outcome {
    let control = Control::of_follow_up(it)?;
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
        return Err(PaymentRejection::NoSuchSuccess { payment: file.payment.id }.into());
    };
    let destination = destination_of(chargeback);
    let open = charged_back.minus_floor_zero(total(TransactionType::ChargebackReversal));
    // Whatever settled since: the bank can give back what it took and has not given back.
    let from = file.payment.last_success;
    if open == AmountMinor::ZERO {
        return Err(PaymentRejection::InvalidTransition {
            operation: TransactionType::Chargeback,
            from,
        }
        .into());
    }
    let mut file = file.clone();
    let amount = Some((open, file.payment.currency));
    let reversal = (TransactionType::ChargebackReversal, Some(key.clone()));
    append(&mut file, reversal, destination, amount, cx);
    let is_controlled = control.is_some();
    let asked = CallOptions::of(Some(open), &it.properties, is_controlled);
    let accepted = outcome::settle_at_once(file, asked, cx);
    if let Some(control) = &control {
        control.followed(state, it, cx);
    }
    Ok(accepted)
}

fn payment_and_account<'a>(
    state: &'a State,
    it: &FollowUp,
    cx: &Context,
) -> Result<(&'a PaymentFile, &'a Account), Rejection> {
    let Some(file) = state.payment(cx.tenant, it.payment) else {
        return Err(PaymentRejection::NotFound { payment: it.payment.to_string() }.into());
    };
    let account = state
        .account(cx.tenant, file.payment.account_id)
        .expect("a payment is loaded with its account");
    if file.transactions.len() >= cx.settings.transactions_per_payment_max {
        return Err(Rejection::invalid("paymentId", "has too many transactions"));
    }
    Ok((file, account))
}

/// The way of a transaction, which those that follow it take too.
pub(super) fn destination_of(of: &Transaction) -> Destination {
    Destination {
        gateway: of.gateway.clone(),
        merchant_account: of.merchant_account.clone(),
        payment_method: of.payment_method_id,
    }
}

/// The routes on which the operation may follow, the one of the latest success first; refused where
/// there is none.
fn allowed_routes(file: &PaymentFile, kind: TransactionType) -> Result<Vec<Route<'_>>, Rejection> {
    // A chargeback is the bank's fact, not a request of ours: doubt about another one is no obstacle.
    if kind != TransactionType::Chargeback && file.is_in_doubt() {
        return Err(in_doubt(file, kind));
    }
    let mut routes = routes(file);
    // Captures stay on one route: what another attempt reserved is not theirs to take.
    if kind == TransactionType::Capture && routes.iter().any(Route::is_captured) {
        routes.retain(Route::is_captured);
    }
    routes.retain(|route| allowed(route.from, kind));
    let from = file.payment.last_success;
    let pending = routes.iter().find_map(|route| excluding(file, route, kind));
    routes.retain(|route| excluding(file, route, kind).is_none());
    if kind == TransactionType::Capture {
        routes.truncate(1);
    }
    if routes.is_empty() {
        let pending =
            pending.map(|operation| PaymentState { operation, status: TransactionStatus::Pending });
        return Err(PaymentRejection::InvalidTransition {
            operation: kind,
            from: pending.or(from),
        }
        .into());
    }
    Ok(routes)
}

/// The pending operation that excludes this one: of a void and a capture of the same money only one can
/// succeed.
fn excluding(file: &PaymentFile, route: &Route, kind: TransactionType) -> Option<TransactionType> {
    use TransactionType as T;
    let here = file.transactions.iter().filter(|tx| tx.has_same_route(route.last));
    let mut pending = here.filter(|tx| tx.status == TransactionStatus::Pending);
    let found = pending.find(|tx| {
        tx.kind == T::Void || (kind == T::Void && matches!(tx.kind, T::Capture | T::Void))
    });
    found.map(|tx| tx.kind)
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
