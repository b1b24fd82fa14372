//! The sums of a payment's transactions, and the amounts that are left of it.

use crate::AmountMinor;
use crate::payment::{Amounts, Transaction, TransactionStatus, TransactionType};

impl Amounts {
    /// Adds up the successful transactions.
    #[must_use]
    pub fn of<'a>(transactions: impl IntoIterator<Item = &'a Transaction> + Clone) -> Self {
        let all = || transactions.clone().into_iter();
        let succeeded = |status| status == TransactionStatus::Success;
        let sum = |kind| sum(all(), kind, succeeded);
        // A void lets go of what was reserved where it went.
        let is_void = |it: &&Transaction| it.kind == TransactionType::Void && succeeded(it.status);
        let is_held =
            |it: &&Transaction| !all().filter(is_void).any(|void| void.has_same_route(it));
        Self {
            authorized: self::sum(all().filter(is_held), TransactionType::Authorize, succeeded),
            captured: sum(TransactionType::Capture),
            purchased: sum(TransactionType::Purchase),
            refunded: sum(TransactionType::Refund),
            credited: sum(TransactionType::Credit),
            charged_back: sum(TransactionType::Chargeback)
                .minus_floor_zero(sum(TransactionType::ChargebackReversal)),
        }
    }
}

/// The amount that may still be captured on a route: the largest authorization that it holds, less every capture of
/// the payment that succeeded or still may. Attempts reserve the same money: the amounts that several of them hold
/// are not added up.
pub(super) fn left_to_capture<'a>(
    route: impl IntoIterator<Item = &'a Transaction> + Clone,
    all_routes: &[Transaction],
) -> AmountMinor {
    let worked = |kind| {
        let of_kind = route.clone().into_iter().filter(move |it| it.kind == kind);
        of_kind.filter(|it| it.status == TransactionStatus::Success)
    };
    if worked(TransactionType::Void).next().is_some() {
        return AmountMinor::ZERO;
    }
    let largest = worked(TransactionType::Authorize).map(counted).max().unwrap_or_default();
    largest.minus_floor_zero(sum(all_routes, TransactionType::Capture, worked_or_may))
}

/// The amount that may still be refunded or charged back: captures and purchases, less every refund that succeeded or
/// still may, less the amount that the bank took back.
pub(super) fn left_to_return<'a>(
    transactions: impl IntoIterator<Item = &'a Transaction> + Clone,
) -> AmountMinor {
    let amounts = Amounts::of(transactions.clone());
    let taken = amounts.captured.checked_add(amounts.purchased).unwrap_or(AmountMinor(i64::MAX));
    let refunds = sum(transactions, TransactionType::Refund, worked_or_may);
    taken.minus_floor_zero(refunds).minus_floor_zero(amounts.charged_back)
}

const fn worked_or_may(status: TransactionStatus) -> bool {
    status.is_open() || matches!(status, TransactionStatus::Success)
}

fn sum<'a>(
    transactions: impl IntoIterator<Item = &'a Transaction>,
    kind: TransactionType,
    counts: impl Fn(TransactionStatus) -> bool,
) -> AmountMinor {
    let matching = transactions.into_iter().filter(|it| it.kind == kind && counts(it.status));
    let minor = matching.fold(0_i64, |total, it| total.saturating_add(counted(it).0));
    AmountMinor(minor)
}

/// The amount that a transaction counts for. A completed one may have processed another amount than was asked for.
fn counted(it: &Transaction) -> AmountMinor {
    let processed = it.processed_amount.filter(|_| it.status == TransactionStatus::Success);
    processed.or(it.amount).unwrap_or_default()
}
