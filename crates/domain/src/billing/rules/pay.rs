//! The payment of an invoice.

use super::books::Books;
use super::follow::{note, paid_by};
use crate::AmountMinor;
use crate::account::tag::ControlTag;
use crate::billing::invoice::{Invoice, InvoicePayment};
use crate::context::Context;
use crate::payment::rules::pay_invoice;
use crate::rows::Keyed;

/// Starts the payment of an invoice with the account's default method. Where there is none, or it is refused, the
/// invoice stays unpaid.
pub(super) fn pay(books: &Books<'_>, invoice: &mut Invoice, cx: &mut Context) {
    let amount = invoice.payable();
    let is_off = books.has(ControlTag::AutoPayOff) || books.has(ControlTag::ManualPay);
    if amount.is_zero() || is_off {
        return;
    }
    let asked = (invoice.key().1, amount, books.currency);
    let payment = pay_invoice(books.state, &books.account, asked, cx);
    if let Some(payment) = &payment {
        let started = InvoicePayment { paid: AmountMinor::ZERO, in_flight: amount };
        invoice.payments.insert(payment.id, paid_by(payment, started));
    }
    note(invoice, payment.as_ref(), cx);
}
