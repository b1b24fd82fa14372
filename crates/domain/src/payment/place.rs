//! Where a payment's money is: with the gateway and the method of the try that worked. Tries that were
//! given up may turn out to have worked too: then there is more than one such place, and each is
//! captured, refunded and voided for itself.

use super::amounts::{left_to_capture, left_to_return};
use super::{PaymentFile, PaymentState, Transaction, TransactionStatus, TransactionType};
use crate::AmountMinor;

/// A gateway and a method with which something succeeded.
pub(super) struct Place<'a> {
    /// What succeeded there last: what follows goes the same way.
    pub(super) last: &'a Transaction,
    /// Where the next operation starts from.
    pub(super) from: PaymentState,
    transactions: Vec<&'a Transaction>,
}

impl Place<'_> {
    /// How much an operation may still take there.
    pub(super) fn left(&self, kind: TransactionType) -> AmountMinor {
        let transactions = self.transactions.iter().copied();
        if kind == TransactionType::Capture {
            left_to_capture(transactions)
        } else {
            left_to_return(transactions)
        }
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
        let from = PaymentState { operation: last.kind, status: last.status };
        let transactions = file.transactions.iter().filter(|it| it.is_beside(last)).collect();
        places.push(Place { last, from, transactions });
    }
    // A payment in one place remembers in which order things worked, whatever their order is.
    if let ([only], Some(from)) = (&mut places[..], file.payment.last_success) {
        only.from = from;
    }
    places
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
