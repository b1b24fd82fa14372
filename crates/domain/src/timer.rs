//! Timers: at a domain time, something is done, once.
//!
//! A timer is set and cleared in the commit of what it belongs to. When it is due, the owner of its partition
//! submits a command that names its due time; the command clears the timer and does what it is for, in one
//! commit. Where the timer was fired, cleared or set anew meanwhile, the command does nothing.

pub(crate) mod rules;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::rows::Keyed;
use crate::{AccountId, TenantNo, Timestamp};

/// The purpose of a timer. An object has one timer of a kind at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TimerKind {
    /// Tries a failed payment again. The object is the scheduled attempt.
    PaymentRetry,
    /// Gives up a transaction whose customer has not done what it waits for. The object is the transaction.
    PaymentAction,
    /// Returns a late success. The object is its transaction.
    LateRefund,
    /// Books what had to wait of a dispute. The object is the dispute.
    DisputeBooking,
    /// Warns that evidence is due. The object is the dispute.
    DisputeEvidence,
    /// Goes on with what a payment method's gateway has to do with it. The object is the payment method.
    MethodStep,
    /// Ends or begins what an account was granted. The object is the account.
    Entitlements,
    /// Does what is due of an account's subscriptions. The object is the account.
    Billing,
    /// Pays an invoice that a tag held up. The object is the invoice.
    InvoicePayment,
}

impl TimerKind {
    pub const ALL: [Self; 9] = [
        Self::PaymentRetry,
        Self::PaymentAction,
        Self::LateRefund,
        Self::DisputeBooking,
        Self::DisputeEvidence,
        Self::MethodStep,
        Self::Entitlements,
        Self::Billing,
        Self::InvoicePayment,
    ];

    /// Its name in logs, metrics and lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PaymentRetry => "payment-retry",
            Self::PaymentAction => "payment-action",
            Self::LateRefund => "late-refund",
            Self::DisputeBooking => "dispute-booking",
            Self::DisputeEvidence => "dispute-evidence",
            Self::MethodStep => "method-step",
            Self::Entitlements => "entitlements",
            Self::Billing => "billing",
            Self::InvoicePayment => "invoice-payment",
        }
    }

    /// Whether money may move when it fires: such a timer waits for an operator where the clock is in doubt.
    #[must_use]
    pub const fn charges(self) -> bool {
        match self {
            Self::PaymentRetry | Self::LateRefund | Self::Billing | Self::InvoicePayment => true,
            // A booking writes down what has moved.
            Self::PaymentAction
            | Self::DisputeBooking
            | Self::DisputeEvidence
            | Self::MethodStep
            | Self::Entitlements => false,
        }
    }
}

/// The key of a timer: its kind and its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TimerKey {
    pub kind: TimerKind,
    /// The object's id.
    pub object: Uuid,
}

impl TimerKey {
    /// The timer of a kind of which each account has one.
    pub(crate) const fn of_account(kind: TimerKind, account: AccountId) -> Self {
        Self { kind, object: account.uuid() }
    }
}

/// Something to be done at a domain time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    pub tenant: TenantNo,
    pub key: TimerKey,
    /// The account of the object: its partition fires the timer.
    pub account: AccountId,
    /// Absolute, so that a clock that is set back moves no timer and repeats none.
    pub due: Timestamp,
}

impl Keyed for Timer {
    type Key = (TenantNo, TimerKey);

    fn key(&self) -> Self::Key {
        (self.tenant, self.key)
    }
}
