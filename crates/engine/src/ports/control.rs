//! The request to a control program before a call about a payment goes on, and its decision.

use domain::payment::TransactionType;
use domain::{AccountId, AmountMinor, Currency, PaymentId, PaymentMethodId, Properties, TenantNo};
use uuid::Uuid;

/// A call about a payment that a control program decides about.
#[derive(Clone, Debug)]
pub struct ControlRequest {
    pub tenant: TenantNo,
    /// The same where a client sends the call again with its idempotency key.
    pub request: Uuid,
    /// `None` where the call makes the account.
    pub account: Option<AccountId>,
    /// `None` where the payment starts.
    pub payment: Option<PaymentId>,
    /// The client's names.
    pub payment_key: Option<String>,
    pub transaction_key: Option<String>,
    pub operation: TransactionType,
    /// `None` for a void and the reversal of a chargeback.
    pub amount: Option<AmountMinor>,
    pub currency: Currency,
    /// `None` where the call names none.
    pub payment_method: Option<PaymentMethodId>,
    pub properties: Properties,
}

/// The decision of a control program: untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlDecision {
    GoesOn {
        /// In place of what was asked for, in its currency.
        amount: Option<AmountMinor>,
        /// In place of the method that the call names.
        payment_method: Option<PaymentMethodId>,
    },
    Aborted {
        /// For the client.
        reason: String,
    },
}
