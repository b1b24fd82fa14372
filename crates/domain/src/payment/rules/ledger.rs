//! Writes the postings of what moved.

use crate::change::Change;
use crate::context::Context;
use crate::ledger::{LedgerAccount, Posting, PostingSource, sides};
use crate::payment::dispute::Dispute;
use crate::payment::{Payment, Transaction};
use crate::{AmountMinor, Currency, TransactionId};

/// Posts what a successful transaction moved. Authorize and void move nothing.
pub(crate) fn post(payment: &Payment, transaction: &Transaction, cx: &mut Context) {
    if let Some(sides) = sides(transaction.kind) {
        write(payment, Moved::by(transaction, payment), sides, cx);
    }
}

/// Posts the opposite of what a transaction moved that turned out to have failed.
pub(crate) fn reverse(payment: &Payment, transaction: &Transaction, cx: &mut Context) {
    if let Some((debit, credit)) = sides(transaction.kind) {
        write(payment, Moved::by(transaction, payment), (credit, debit), cx);
    }
}

/// Posts what a dispute took back beyond what was left of its payment.
pub(crate) fn post_excess(payment: &Payment, of: &Dispute, amount: AmountMinor, cx: &mut Context) {
    let sides = (LedgerAccount::DisputeExcess, LedgerAccount::Disputes);
    write(payment, Moved::of_dispute(of, amount), sides, cx);
}

/// Posts what was given back of that.
pub(crate) fn return_excess(
    payment: &Payment,
    of: &Dispute,
    amount: AmountMinor,
    cx: &mut Context,
) {
    let sides = (LedgerAccount::Disputes, LedgerAccount::DisputeExcess);
    write(payment, Moved::of_dispute(of, amount), sides, cx);
}

/// An amount, and through which transaction it moved.
struct Moved<'a> {
    amount: AmountMinor,
    currency: Currency,
    transaction: TransactionId,
    gateway: &'a str,
}

impl<'a> Moved<'a> {
    fn by(transaction: &'a Transaction, payment: &Payment) -> Self {
        Self {
            amount: transaction.processed_amount.unwrap_or_default(),
            currency: transaction.currency.unwrap_or(payment.currency),
            transaction: transaction.id,
            gateway: &transaction.gateway,
        }
    }

    fn of_dispute(of: &'a Dispute, amount: AmountMinor) -> Self {
        assert!(amount > AmountMinor::ZERO, "a dispute moves a positive amount");
        let Dispute { currency, transaction_id: transaction, case, .. } = of;
        Self { amount, currency: *currency, transaction: *transaction, gateway: &case.gateway }
    }
}

fn write(
    payment: &Payment,
    moved: Moved<'_>,
    (debit, credit): (LedgerAccount, LedgerAccount),
    cx: &mut Context,
) {
    if moved.amount == AmountMinor::ZERO {
        return;
    }
    assert!(moved.amount > AmountMinor::ZERO, "a posting moves a positive amount");
    let source = PostingSource::Payment {
        payment: payment.id,
        transaction: moved.transaction,
        gateway: moved.gateway.to_owned(),
    };
    cx.change(Change::Posting(Posting {
        tenant: payment.tenant,
        account_id: payment.account_id,
        source,
        debit,
        credit,
        amount: moved.amount,
        currency: moved.currency,
        at: cx.now,
    }));
}
