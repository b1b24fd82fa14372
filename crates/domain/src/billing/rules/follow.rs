//! Invoices follow their payments: in the commit that settles a payment or returns it, its invoice says so.

use super::features;
use crate::billing::invoice::{Invoice, InvoicePayment};
use crate::change::BillingChange;
use crate::context::Context;
use crate::payment::{PaidFor, Payment, Transaction};
use crate::rows::Keyed;
use crate::state::State;
use crate::{AmountMinor, Event, PaymentId};

/// Brings the invoices of the payments that a command changed to where these stand.
pub(crate) fn follow(state: &State, cx: &mut Context) {
    let mut payments: Vec<Payment> = vec![];
    for payment in cx.written::<Payment>().rev() {
        let is_known = payments.iter().any(|it| it.id == payment.id);
        if !is_known && payment.paid_for.and_then(PaidFor::invoice).is_some() {
            payments.push(payment.clone());
        }
    }
    for payment in payments {
        let Some(id) = payment.paid_for.and_then(PaidFor::invoice) else { continue };
        let key = (cx.tenant, id);
        let known = cx.newest::<Invoice>(&key).or_else(|| state.billing.invoices.get(&key));
        let Some(known) = known.cloned() else { continue };
        let before = known.payments.get(&payment.id).copied();
        let asked = asked(&payment, cx).or(before.map(|it| it.in_flight)).unwrap_or_default();
        let now = paid_by(&payment, asked);
        if before == Some(now) {
            continue;
        }
        let revision = known.revision.next(cx.seq);
        let mut invoice = Invoice { revision, ..known };
        invoice.payments.insert(payment.id, now);
        note(&invoice, Some(&payment), cx);
        cx.change(BillingChange::Invoice(Box::new(invoice)));
    }
    features::follow(state, cx);
}

/// The amount of the transaction of a payment that this command wrote, where its outcome is to come.
fn asked(payment: &Payment, cx: &Context) -> Option<AmountMinor> {
    let is_open = |it: &&Transaction| {
        it.payment_id == payment.id && it.kind.is_initial() && it.status.is_open()
    };
    cx.written::<Transaction>().rev().find(is_open)?.amount
}

/// What a payment has done for its invoice. What it asked for is on its way until its outcome is known.
pub(super) fn paid_by(payment: &Payment, asked: AmountMinor) -> InvoicePayment {
    let amounts = &payment.amounts;
    let taken = amounts.purchased.0 + amounts.captured.0;
    let back = amounts.refunded.0 + amounts.charged_back.0;
    let is_open = payment.state.operation.is_initial() && payment.state.status.is_open();
    let in_flight = if is_open { asked } else { AmountMinor::ZERO };
    InvoicePayment { paid: AmountMinor(taken - back), in_flight }
}

/// Says what came of a payment of an invoice; nothing as long as it is on its way. Without a payment there was no
/// method to pay with.
pub(super) fn note(invoice: &Invoice, payment: Option<&Payment>, cx: &mut Context) {
    let paid = payment.and_then(|it| invoice.payments.get(&it.id)).copied().unwrap_or_default();
    if !paid.in_flight.is_zero() {
        return;
    }
    let id: Option<PaymentId> = payment.map(|it| it.key().1);
    cx.event(Event::InvoicePaid {
        account: invoice.account_id,
        invoice: invoice.id,
        payment: id,
        is_paid: !paid.paid.is_zero(),
        amount: paid.paid,
        balance: invoice.balance(),
        currency: invoice.currency,
    });
}
