//! Writes the postings of invoices: an item that counts moves what it charges from the customer to sales or tax, and
//! what it gives back the other way.

use crate::AmountMinor;
use crate::billing::invoice::{InvoiceItem, booked_on};
use crate::change::Change;
use crate::context::Context;
use crate::ledger::{LedgerAccount, Posting, PostingSource};

/// Posts the items of an invoice, which counts from now on.
pub(super) fn post(items: &[InvoiceItem], cx: &mut Context) {
    for it in items {
        write(it, (booked_on(it, items), it.amount), cx);
    }
}

/// Posts what somebody took back of an item of an invoice that counts.
pub(super) fn post_adjustment(it: &InvoiceItem, of: &InvoiceItem, cx: &mut Context) {
    write(it, (of.kind.booked_on(), it.amount), cx);
}

/// Posts the opposite of what the items of an invoice moved, which counts no more.
pub(super) fn reverse(items: &[InvoiceItem], cx: &mut Context) {
    for it in items {
        write(it, (booked_on(it, items), AmountMinor(-it.amount.0)), cx);
    }
}

fn write(
    it: &InvoiceItem,
    (account, amount): (Option<LedgerAccount>, AmountMinor),
    cx: &mut Context,
) {
    let Some(account) = account.filter(|_| !amount.is_zero()) else { return };
    let (debit, credit) = match amount > AmountMinor::ZERO {
        true => (LedgerAccount::Customer, account),
        false => (account, LedgerAccount::Customer),
    };
    cx.change(Change::Posting(Posting {
        tenant: it.tenant,
        account_id: it.account_id,
        source: PostingSource::Invoice { invoice: it.invoice_id, item: it.id },
        debit,
        credit,
        amount: AmountMinor(amount.0.abs()),
        currency: it.currency,
        at: cx.now,
    }));
}
