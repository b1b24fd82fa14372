//! Writes the postings of what moved.

use crate::AmountMinor;
use crate::change::PaymentChange;
use crate::context::Context;
use crate::payment::dispute::Dispute;
use crate::payment::ledger::{LedgerAccount, Posting, sides};
use crate::payment::{Payment, Transaction};

/// Posts what a successful transaction moved. Authorize and void move nothing.
pub(crate) fn post(payment: &Payment, transaction: &Transaction, cx: &mut Context) {
    if let Some((debit, credit)) = sides(transaction.kind) {
        write(payment, transaction, (debit, credit), cx);
    }
}

/// Posts the opposite of what a transaction moved that turned out to have failed.
pub(crate) fn reverse(payment: &Payment, transaction: &Transaction, cx: &mut Context) {
    if let Some((debit, credit)) = sides(transaction.kind) {
        write(payment, transaction, (credit, debit), cx);
    }
}

/// Posts what a dispute took back beyond what was left of its payment.
pub(crate) fn post_excess(payment: &Payment, of: &Dispute, amount: AmountMinor, cx: &mut Context) {
    let sides = (LedgerAccount::DisputeExcess, LedgerAccount::Disputes);
    write_excess((payment, of), amount, sides, cx);
}

/// Posts what was given back of that.
pub(crate) fn return_excess(
    payment: &Payment,
    of: &Dispute,
    amount: AmountMinor,
    cx: &mut Context,
) {
    let sides = (LedgerAccount::Disputes, LedgerAccount::DisputeExcess);
    write_excess((payment, of), amount, sides, cx);
}

fn write_excess(
    (payment, of): (&Payment, &Dispute),
    amount: AmountMinor,
    (debit, credit): (LedgerAccount, LedgerAccount),
    cx: &mut Context,
) {
    assert!(amount > AmountMinor::ZERO, "a posting moves a positive amount");
    cx.change(PaymentChange::Posting(Posting {
        tenant: payment.tenant,
        account_id: payment.account_id,
        payment_id: payment.id,
        transaction_id: of.transaction_id,
        gateway: of.case.gateway.clone(),
        debit,
        credit,
        amount,
        currency: of.currency,
        at: cx.now,
    }));
}

fn write(
    payment: &Payment,
    transaction: &Transaction,
    (debit, credit): (LedgerAccount, LedgerAccount),
    cx: &mut Context,
) {
    let amount = transaction.processed_amount.unwrap_or_default();
    if amount == AmountMinor::ZERO {
        return;
    }
    assert!(amount > AmountMinor::ZERO, "a posting moves a positive amount");
    cx.change(PaymentChange::Posting(Posting {
        tenant: payment.tenant,
        account_id: payment.account_id,
        payment_id: payment.id,
        transaction_id: transaction.id,
        gateway: transaction.gateway.clone(),
        debit,
        credit,
        amount,
        currency: transaction.currency.unwrap_or(payment.currency),
        at: cx.now,
    }));
}
