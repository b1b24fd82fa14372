//! Changes of payments and what they are checked against. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::TransactionId;
use crate::entity::{NoEntity, Visited, Visitor};
use crate::payment::attempt::{PaymentAttempt, PaymentVelocity};
use crate::payment::dispute::Dispute;
use crate::payment::{Outstanding, Payment, Transaction};

/// A row of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaymentChange {
    /// The payment itself.
    Payment(Payment),
    Transaction(Transaction),
    /// The attempt of a controlled call.
    Attempt(PaymentAttempt),
    /// The number and the sums of the payments that the account started in a day.
    Velocity(PaymentVelocity),
    /// A dispute.
    Dispute(Box<Dispute>),
    /// The outcome of a transaction is awaited.
    Outstanding(Outstanding),
    /// The outcome of a transaction is no longer awaited.
    OutstandingClosed {
        transaction: TransactionId,
    },
}

impl PaymentChange {
    /// See [`Change::entity`](crate::change::Change::entity).
    pub(crate) fn entity<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Visited<V::Output> {
        Ok(match self {
            Self::Payment(it) => visitor.visit(it),
            Self::Transaction(it) => visitor.visit(it),
            Self::Attempt(it) => visitor.visit(it),
            Self::Dispute(it) => visitor.visit(&**it),
            Self::Velocity(it) => return Err(NoEntity::of(it.account_id)),
            Self::Outstanding(it) => return Err(NoEntity::of(it.account_id)),
            Self::OutstandingClosed { .. } => return Err(NoEntity::default()),
        })
    }
}
