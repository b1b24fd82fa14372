//! Where a payment's money is: with the gateway and the method of the try that worked. Tries that were
//! given up may turn out to have worked too: then there is more than one such place, and each is
//! refunded and voided for itself. Captures are for one order, and come from one of them.

use super::amounts::{left_to_capture, left_to_return};
use super::{PaymentFile, PaymentState, Transaction, TransactionStatus, TransactionType};
use crate::AmountMinor;

/// A gateway and a method with which something succeeded.
pub(super) struct Place<'a> {
    /// What succeeded there last: what follows goes the same way.
    pub(super) last: &'a Transaction,
    /// Where the next operation starts from.
    pub(super) from: PaymentState,
    here: Vec<&'a Transaction>,
    everywhere: &'a [Transaction],
}

impl Place<'_> {
    /// How much an operation may still take there.
    pub(super) fn left(&self, kind: TransactionType) -> AmountMinor {
        let here = self.here.iter().copied();
        if kind == TransactionType::Capture {
            left_to_capture(here, self.everywhere)
        } else {
            left_to_return(here)
        }
    }

    /// Whether something was captured there, or may have been.
    pub(super) fn is_captured(&self) -> bool {
        self.here.iter().any(|it| it.kind == TransactionType::Capture && !it.status.is_failed())
    }
}

/// Every place of a payment, the one of the latest success first.
pub(super) fn places(file: &PaymentFile) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = vec![];
    let succeeded = |it: &&Transaction| it.status == TransactionStatus::Success;
    for last in file.transactions.iter().rev().filter(succeeded) {
        if places.iter().any(|place| place.last.is_beside(last)) {
            continue;
        }
        let here: Vec<_> = file.transactions.iter().filter(|it| it.is_beside(last)).collect();
        let from = last_success(here.iter().copied()).expect("it succeeded there");
        places.push(Place { last, from, here, everywhere: &file.transactions });
    }
    places
}

/// Where the next operation starts from: the success that was told last. What moved a payment's money
/// comes before what only reserved it or let go of it, whenever that was told: neither another try
/// that worked nor a void may hide money that can be returned. A credit, which nothing can follow,
/// comes after both.
pub(super) fn last_success<'a>(
    transactions: impl IntoIterator<Item = &'a Transaction>,
) -> Option<PaymentState> {
    use TransactionType as T;
    let rank = |kind: TransactionType| match kind {
        T::Credit => 0,
        T::Authorize | T::Void => 1,
        T::Purchase | T::Capture | T::Refund | T::Chargeback | T::ChargebackReversal => 2,
    };
    let all = transactions.into_iter();
    let last = all
        .filter(|it| it.status == TransactionStatus::Success)
        .max_by_key(|it| (rank(it.kind), it.revision.seq))?;
    Some(PaymentState { operation: last.kind, status: last.status })
}

/// Lets the payment go by the try that worked, the latest of several, or by the last one.
pub(super) fn follow_what_worked(file: &mut PaymentFile) {
    let mut tries = file.transactions.iter().rev().filter(|it| it.kind.is_initial());
    let worked = tries.clone().find(|it| it.status == TransactionStatus::Success);
    if let Some(holder) = worked.or_else(|| tries.next()) {
        file.payment.gateway.clone_from(&holder.gateway);
        file.payment.payment_method_id = holder.payment_method_id;
    }
}
