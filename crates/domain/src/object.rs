//! Objects that can have custom fields and tags: an account, or what belongs to one.

pub(crate) mod rules;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    AccountId, BundleId, InvoiceId, InvoiceItemId, PaymentId, PaymentMethodId, SubscriptionId,
    TransactionId,
};

/// An object that can have custom fields and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Object {
    Account(AccountId),
    PaymentMethod(PaymentMethodId),
    Payment(PaymentId),
    Transaction { payment: PaymentId, id: TransactionId },
    Bundle(BundleId),
    Subscription(SubscriptionId),
    Invoice(InvoiceId),
    InvoiceItem(InvoiceItemId),
}

/// The types of [`Object`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ObjectType {
    Account,
    PaymentMethod,
    Payment,
    Transaction,
    Bundle,
    Subscription,
    Invoice,
    InvoiceItem,
}

impl ObjectType {
    /// All of them, in the order of Kill Bill's names.
    pub const ALL: [Self; 8] = [
        Self::Account,
        Self::Bundle,
        Self::Invoice,
        Self::InvoiceItem,
        Self::Payment,
        Self::PaymentMethod,
        Self::Subscription,
        Self::Transaction,
    ];

    /// The type in stored refusals from before other objects had tags.
    pub(crate) const fn account() -> Self {
        Self::Account
    }

    /// The name in the API's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Account => "ACCOUNT",
            Self::PaymentMethod => "PAYMENT_METHOD",
            Self::Payment => "PAYMENT",
            Self::Transaction => "TRANSACTION",
            Self::Bundle => "BUNDLE",
            Self::Subscription => "SUBSCRIPTION",
            Self::Invoice => "INVOICE",
            Self::InvoiceItem => "INVOICE_ITEM",
        }
    }
}

impl Object {
    #[must_use]
    pub const fn kind(self) -> ObjectType {
        match self {
            Self::Account(_) => ObjectType::Account,
            Self::PaymentMethod(_) => ObjectType::PaymentMethod,
            Self::Payment(_) => ObjectType::Payment,
            Self::Transaction { .. } => ObjectType::Transaction,
            Self::Bundle(_) => ObjectType::Bundle,
            Self::Subscription(_) => ObjectType::Subscription,
            Self::Invoice(_) => ObjectType::Invoice,
            Self::InvoiceItem(_) => ObjectType::InvoiceItem,
        }
    }

    #[must_use]
    pub const fn id(self) -> Uuid {
        match self {
            Self::Account(id) => id.uuid(),
            Self::PaymentMethod(id) => id.uuid(),
            Self::Payment(id) => id.uuid(),
            Self::Transaction { id, .. } => id.uuid(),
            Self::Bundle(id) => id.uuid(),
            Self::Subscription(id) => id.uuid(),
            Self::Invoice(id) => id.uuid(),
            Self::InvoiceItem(id) => id.uuid(),
        }
    }
}
