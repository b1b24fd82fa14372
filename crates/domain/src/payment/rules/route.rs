//! The routes of a payment: the gateway and the payment method of each attempt that succeeded. An
//! attempt that was given up may turn out to have succeeded too: then there is more than one route, and
//! each is refunded and voided for itself. Captures are for one order, and come from one of them.

use super::amounts::{left_to_capture, left_to_return};
use crate::payment::{PaymentFile, PaymentState, Transaction, TransactionStatus, TransactionType};
use crate::{AmountMinor, Currency, PaymentRejection, Rejection};

/// A gateway and a method with which something succeeded.
pub(super) struct Route<'a> {
    /// The latest success, whose gateway and method the next operation takes.
    pub(super) last: &'a Transaction,
    /// Where the next operation starts from.
    pub(super) from: PaymentState,
    /// The transactions of this route.
    own: Vec<&'a Transaction>,
    /// The transactions of all routes.
    all: &'a [Transaction],
}

impl Route<'_> {
    /// How much an operation may still take there.
    pub(super) fn left(&self, kind: TransactionType) -> AmountMinor {
        let own = self.own.iter().copied();
        if kind == TransactionType::Capture {
            left_to_capture(own, self.all)
        } else {
            left_to_return(own)
        }
    }

    /// Whether something was captured there, or may have been.
    pub(super) fn is_captured(&self) -> bool {
        self.own.iter().any(|it| it.kind == TransactionType::Capture && !it.status.is_failed())
    }
}

/// Every route of a payment, the one of the latest success first.
pub(super) fn routes(file: &PaymentFile) -> Vec<Route<'_>> {
    let mut routes: Vec<Route<'_>> = vec![];
    let succeeded = |it: &&Transaction| it.status == TransactionStatus::Success;
    for last in file.transactions.iter().rev().filter(succeeded) {
        if routes.iter().any(|route| route.last.has_same_route(last)) {
            continue;
        }
        let own: Vec<_> = file.transactions.iter().filter(|it| it.has_same_route(last)).collect();
        let from = last_success(own.iter().copied()).expect("it succeeded there");
        routes.push(Route { last, from, own, all: &file.transactions });
    }
    routes
}

/// Where the next operation starts from: the success that was reported last. What moved a payment's money
/// comes before what only reserved or released it, whenever that was reported: neither another attempt
/// that succeeded nor a void may hide money that can be returned. A credit, which nothing can follow,
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

/// Sets the payment's gateway and method to those of the latest attempt that succeeded, or of the last
/// attempt if none has.
pub(super) fn set_route_of_payment(file: &mut PaymentFile) {
    let mut attempts = file.transactions.iter().rev().filter(|it| it.kind.is_initial());
    let succeeded = attempts.clone().find(|it| it.status == TransactionStatus::Success);
    if let Some(holder) = succeeded.or_else(|| attempts.next()) {
        file.payment.gateway.clone_from(&holder.gateway);
        file.payment.payment_method_id = holder.payment_method_id;
    }
}

/// The refusal of an operation while an outcome of its payment is not known.
pub(super) fn in_doubt(file: &PaymentFile, operation: TransactionType) -> Rejection {
    PaymentRejection::InDoubt { payment: file.payment.id, operation }.into()
}

/// Refuses to send what is pending once more where something worked since that leaves it nothing to
/// do: `others` is its payment without it. What the gateway says of it is booked all the same.
pub(super) fn refuse_superseded(
    others: &PaymentFile,
    pending: &Transaction,
    amount: Option<AmountMinor>,
) -> Result<(), Rejection> {
    use TransactionType as T;
    let from = others.payment.last_success;
    let mut routes = routes(others);
    routes.retain(|route| route.last.has_same_route(pending));
    let superseded = match pending.kind {
        T::Authorize | T::Purchase | T::Credit => from.is_some(),
        T::Void => !routes.iter().any(|route| allowed(route.from, T::Void)),
        T::Capture | T::Refund | T::Chargeback | T::ChargebackReversal => {
            let amount = amount.unwrap_or_default();
            route_for(&routes, pending.kind, (amount, others.payment.currency))?;
            false
        }
    };
    if superseded {
        return Err(PaymentRejection::InvalidTransition { operation: pending.kind, from }.into());
    }
    Ok(())
}

/// Kill Bill's links between operations (PaymentStates.xml): what may follow the last success. Beside them, another
/// case may charge back what an earlier one gave back, or has not taken.
pub(super) const fn allowed(from: PaymentState, next: TransactionType) -> bool {
    use TransactionType as T;
    match from.operation {
        T::Authorize => matches!(next, T::Capture | T::Void),
        T::Capture => matches!(next, T::Capture | T::Refund | T::Chargeback),
        T::Purchase | T::Refund => matches!(next, T::Refund | T::Chargeback),
        T::Chargeback => matches!(next, T::Chargeback | T::ChargebackReversal),
        T::ChargebackReversal => matches!(next, T::Refund | T::Chargeback),
        T::Credit | T::Void => false,
    }
}

/// The first of the routes where enough is left: a transaction goes to one gateway, so nothing can be
/// taken from two routes at once.
pub(super) fn route_for<'p, 'a>(
    routes: &'p [Route<'a>],
    kind: TransactionType,
    (amount, currency): (AmountMinor, Currency),
) -> Result<&'p Route<'a>, Rejection> {
    if let Some(route) = routes.iter().find(|route| amount <= route.left(kind)) {
        return Ok(route);
    }
    let left = routes.iter().map(|route| route.left(kind)).max().unwrap_or_default();
    let reason =
        format!("{} exceeds the {} left", amount.decimal(currency), left.decimal(currency));
    Err(Rejection::InvalidParameter { field: "amount".to_owned(), reason })
}
