//! How a flow ends.

use super::request::{FlowKey, IdText};
use std::time::Duration;

/// The steps of a flow, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `POST /1.0/kb/accounts`
    Account,
    /// `POST /1.0/kb/accounts/{id}/paymentMethods`
    PaymentMethod,
    /// `POST /1.0/kb/accounts/{id}/payments`, or `POST /1.0/kb/payments/combo`
    Payment,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Account, Self::PaymentMethod, Self::Payment];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::PaymentMethod => "payment_method",
            Self::Payment => "payment",
        }
    }
}

/// The result of a flow.
#[derive(Debug)]
pub enum Outcome {
    /// All requests were answered as expected.
    Done(Done),
    /// A step had another answer, or none.
    Failed(Problem),
    /// The run ended while the server refused a step.
    Abandoned(Step),
}

/// A flow that succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// How long the request of each step took, where it has one.
    pub took: [Option<Duration>; 3],
    /// The rows that it created.
    pub created: Created,
}

/// The rows that a flow created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// Part of all their external keys.
    pub key: FlowKey,
    pub account: IdText,
    pub payment: IdText,
}

/// Why a flow failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind, as reports count it.
    pub kind: String,
    /// The beginning of the response's body.
    pub answer: Option<String>,
}
