//! How Kill Bill spells operations, statuses and the states of its payment machine.

use domain::payment::{PaymentState, TransactionStatus, TransactionType};

/// Where a payment stands before anything succeeded.
pub(crate) const START_STATE: &str = "BIG_BANG_INIT";

/// An operation. A reversal of a chargeback is a CHARGEBACK to Kill Bill, one that failed.
pub(crate) const fn operation_name(kind: TransactionType) -> &'static str {
    match kind {
        TransactionType::Authorize => "AUTHORIZE",
        TransactionType::Capture => "CAPTURE",
        TransactionType::Purchase => "PURCHASE",
        TransactionType::Refund => "REFUND",
        TransactionType::Credit => "CREDIT",
        TransactionType::Void => "VOID",
        TransactionType::Chargeback | TransactionType::ChargebackReversal => "CHARGEBACK",
    }
}

/// A status. Whoever asks while the call runs is told that the outcome is not known.
pub(crate) const fn status_name(kind: TransactionType, status: TransactionStatus) -> &'static str {
    match (kind, status) {
        (TransactionType::ChargebackReversal, TransactionStatus::Success)
        | (_, TransactionStatus::PaymentFailure) => "PAYMENT_FAILURE",
        (_, TransactionStatus::Success) => "SUCCESS",
        (_, TransactionStatus::Pending) => "PENDING",
        (_, TransactionStatus::PluginFailure) => "PLUGIN_FAILURE",
        (_, TransactionStatus::InFlight | TransactionStatus::Unknown) => "UNKNOWN",
    }
}

/// A status by Kill Bill's name for it.
pub(crate) fn status(name: &str) -> Option<TransactionStatus> {
    match name {
        "SUCCESS" => Some(TransactionStatus::Success),
        "PENDING" => Some(TransactionStatus::Pending),
        "PAYMENT_FAILURE" => Some(TransactionStatus::PaymentFailure),
        "PLUGIN_FAILURE" => Some(TransactionStatus::PluginFailure),
        "UNKNOWN" => Some(TransactionStatus::Unknown),
        _ => None,
    }
}

/// A state of Kill Bill's machine, such as `AUTH_SUCCESS`.
pub(crate) fn state_name(state: PaymentState) -> String {
    let operation = match state.operation {
        TransactionType::Authorize => "AUTH",
        TransactionType::Capture
        | TransactionType::Purchase
        | TransactionType::Refund
        | TransactionType::Credit
        | TransactionType::Void
        | TransactionType::Chargeback
        | TransactionType::ChargebackReversal => operation_name(state.operation),
    };
    let outcome = match (state.operation, state.status) {
        (TransactionType::ChargebackReversal, TransactionStatus::Success)
        | (_, TransactionStatus::PaymentFailure) => "FAILED",
        (_, TransactionStatus::InFlight) => "INIT",
        (_, TransactionStatus::Success) => "SUCCESS",
        (_, TransactionStatus::Pending) => "PENDING",
        (_, TransactionStatus::PluginFailure | TransactionStatus::Unknown) => "ERRORED",
    };
    format!("{operation}_{outcome}")
}

/// The states that Kill Bill gives this name; none where it is no state's name.
pub(crate) fn states_named(name: &str) -> Vec<PaymentState> {
    use {TransactionStatus as S, TransactionType as T};
    let operations = [
        T::Authorize,
        T::Capture,
        T::Purchase,
        T::Refund,
        T::Credit,
        T::Void,
        T::Chargeback,
        T::ChargebackReversal,
    ];
    let statuses =
        [S::InFlight, S::Success, S::Pending, S::PaymentFailure, S::PluginFailure, S::Unknown];
    let all = operations.into_iter().flat_map(|operation| {
        statuses.into_iter().map(move |status| PaymentState { operation, status })
    });
    all.filter(|state| state_name(*state) == name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_spelled_as_in_kill_bills_machine() {
        use {TransactionStatus as S, TransactionType as T};
        let cases = [
            (T::Authorize, S::Success, "AUTH_SUCCESS", "SUCCESS"),
            (T::Capture, S::PaymentFailure, "CAPTURE_FAILED", "PAYMENT_FAILURE"),
            (T::Purchase, S::Pending, "PURCHASE_PENDING", "PENDING"),
            (T::Refund, S::PluginFailure, "REFUND_ERRORED", "PLUGIN_FAILURE"),
            (T::Credit, S::Unknown, "CREDIT_ERRORED", "UNKNOWN"),
            (T::Void, S::InFlight, "VOID_INIT", "UNKNOWN"),
            (T::Chargeback, S::Success, "CHARGEBACK_SUCCESS", "SUCCESS"),
            (T::ChargebackReversal, S::Success, "CHARGEBACK_FAILED", "PAYMENT_FAILURE"),
        ];
        for (operation, status, state, shown) in cases {
            assert_eq!(state_name(PaymentState { operation, status }), state);
            assert_eq!(status_name(operation, status), shown);
        }
        assert_eq!(states_named("CHARGEBACK_FAILED").len(), 3);
        assert_eq!(states_named("PURCHASE_ERRORED").len(), 2);
        assert_eq!(states_named("AUTHORIZE_SUCCESS"), []);
        for name in ["SUCCESS", "PENDING", "PAYMENT_FAILURE", "PLUGIN_FAILURE", "UNKNOWN"] {
            assert_eq!(super::status(name).map(|it| status_name(T::Purchase, it)), Some(name));
        }
        assert_eq!(super::status("FOO"), None);
    }
}
