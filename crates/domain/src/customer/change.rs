//! Changes of customers and what belongs to them. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::customer::mail::Mail;
use crate::customer::operation::Operation;
use crate::customer::{Customer, Session};
use crate::entity::{NoEntity, Visited, Visitor};
use crate::{CustomerId, SessionId};

/// A row of a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "a registration, the hot path, writes the largest")]
pub enum CustomerChange {
    Customer(Customer),
    /// The customer's mails are deleted.
    MailsErased {
        customer: CustomerId,
    },
    /// A session was opened, or its tokens were renewed.
    Session(Session),
    /// A session has ended.
    SessionEnded {
        session: SessionId,
        customer: CustomerId,
    },
    /// A mail to be sent.
    Mail(Mail),
    /// An asynchronous operation.
    Operation(Operation),
}

impl CustomerChange {
    /// See [`Change::entity`](crate::change::Change::entity).
    pub(crate) fn entity<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Visited<V::Output> {
        Ok(match self {
            Self::Customer(it) => visitor.visit(it),
            Self::Operation(it) => visitor.visit(it),
            Self::MailsErased { .. }
            | Self::Session(_)
            | Self::SessionEnded { .. }
            | Self::Mail(_) => return Err(NoEntity::default()),
        })
    }
}
