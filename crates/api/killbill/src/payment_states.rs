//! Kill Bill's names of operations, statuses, and states of its payment state machine.

use domain::payment::{PaymentState, TransactionStatus, TransactionType};

/// The state of a payment without a success.
pub(crate) const START_STATE: &str = "BIG_BANG_INIT";

/// The name of a status. A transaction in flight is UNKNOWN, as in Kill Bill.
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

/// The status with Kill Bill's name.
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

/// The name of a state of Kill Bill's machine, such as `AUTH_SUCCESS`.
pub(crate) fn state_name(state: PaymentState) -> String {
    let operation = match state.operation {
        TransactionType::Authorize => "AUTH",
        TransactionType::Capture
        | TransactionType::Purchase
        | TransactionType::Refund
        | TransactionType::Credit
        | TransactionType::Void
        | TransactionType::Chargeback
        | TransactionType::ChargebackReversal => state.operation.killbill_name(),
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

/// The states with Kill Bill's name; empty if no state has it.
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
    fn states_have_the_names_of_kill_bills_machine() {
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
        for (operation, status, state, name) in cases {
            assert_eq!(state_name(PaymentState { operation, status }), state);
            assert_eq!(status_name(operation, status), name);
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
