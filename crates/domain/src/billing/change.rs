//! Changes of subscriptions and invoices. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::billing::account::AccountBilling;
use crate::billing::bundle::Bundle;
use crate::billing::invoice::{Invoice, InvoiceItem};
use crate::billing::subscription::Subscription;
use crate::entity::{Visited, Visitor};

/// A row of subscriptions and invoices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BillingChange {
    Bundle(Bundle),
    Subscription(Box<Subscription>),
    Invoice(Box<Invoice>),
    Item(Box<InvoiceItem>),
    /// What an account's billing has once.
    Account(AccountBilling),
}

impl BillingChange {
    /// See [`Change::entity`](crate::change::Change::entity).
    pub(crate) fn entity<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Visited<V::Output> {
        Ok(match self {
            Self::Bundle(it) => visitor.visit(it),
            Self::Subscription(it) => visitor.visit(&**it),
            Self::Invoice(it) => visitor.visit(&**it),
            Self::Item(it) => visitor.visit(&**it),
            Self::Account(it) => visitor.visit(it),
        })
    }
}
