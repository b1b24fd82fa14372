//! The payment of an invoice: the one place where billing asks for money.

use super::initiate::{Origin, start};
use super::{follow, note_late_successes};
use crate::context::Context;
use crate::payment::{Initiate, PaidFor, Payment, TransactionType};
use crate::reply::Outcome;
use crate::state::State;
use crate::{Account, AmountMinor, Currency, InvoiceId, PaymentMethod};

/// Starts the payment of an invoice with the default method of its account. `None`: there is no such method, or the
/// payment is refused, and nothing of it is written.
pub(crate) fn pay_invoice(
    state: &State,
    account: &Account,
    (invoice, amount, currency): (InvoiceId, AmountMinor, Currency),
    cx: &mut Context,
) -> Option<Payment> {
    account.payment_method_id?;
    let call = Initiate {
        amount: Some(amount.decimal(currency)),
        currency: Some(currency),
        ..Initiate::of(account.id)
    };
    let paid_for = Some(PaidFor::Invoice { invoice });
    let before = cx.done.clone();
    // The caller is answered when the invoice is written, whatever becomes of its payment.
    let reply_key = cx.reply_key.take();
    let origin = Origin { paid_for, ..Origin::of(account) };
    let started = start(state, TransactionType::Purchase, &call, origin, cx);
    cx.reply_key = reply_key;
    let Ok(started) = started else {
        cx.done = before;
        return None;
    };
    follow(state, cx);
    note_late_successes(state, cx);
    started.payment
}

/// Starts the payment of an invoice that a client asks for, which its outcome answers. `made`: the method that the same
/// command makes. The invoice itself is the caller's.
pub(crate) fn pay_as_asked(
    state: &State,
    (account, made): (&Account, Option<&PaymentMethod>),
    (invoice, call): (InvoiceId, &Initiate),
    cx: &mut Context,
) -> Outcome {
    let paid_for = Some(PaidFor::Invoice { invoice });
    let origin = Origin { made, paid_for, ..Origin::of(account) };
    let started = start(state, TransactionType::Purchase, call, origin, cx)?;
    follow(state, cx);
    note_late_successes(state, cx);
    Ok(started.accepted)
}
