//! Changes of accounts and what belongs to them, payments aside. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::AccountId;
use crate::account::blocking_state::BlockingState;
use crate::account::custom_field::CustomField;
use crate::account::email::AccountEmail;
use crate::account::payment_method::PaymentMethod;
use crate::account::tag::Tag;
use crate::account::{Account, Person};
use crate::entity::{NoEntity, Visited, Visitor};
use crate::import::AuditEntry;

/// A row of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountChange {
    /// The account itself.
    Account(Account),
    /// Personal data, from this revision of the account on.
    Person {
        account: AccountId,
        /// All of its personal data.
        person: Box<Person>,
    },
    /// Personal data is erased: all revisions of it, what its payment methods' and
    /// attempts' rows have beside the journal, its custom fields and further addresses, and the texts of who changed it.
    PersonErased {
        account: AccountId,
    },
    /// A further e-mail address.
    Email(AccountEmail),
    /// A state that a service recorded for the account.
    BlockingState(BlockingState),
    /// A tag on the account or on what belongs to it.
    Tag(Tag),
    /// A custom field of the account or of what belongs to it.
    CustomField(CustomField),
    PaymentMethod(PaymentMethod),
    /// An entry of the audit log of the system that the account, or what belongs to it, was brought over from.
    AuditImported(AuditEntry),
}

impl AccountChange {
    /// See [`Change::entity`](crate::change::Change::entity).
    pub(crate) fn entity<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Visited<V::Output> {
        Ok(match self {
            Self::Account(it) => visitor.visit(it),
            Self::Email(it) => visitor.visit(it),
            Self::BlockingState(it) => visitor.visit(it),
            Self::Tag(it) => visitor.visit(it),
            Self::CustomField(it) => visitor.visit(it),
            Self::PaymentMethod(it) => visitor.visit(it),
            Self::Person { account, .. } | Self::PersonErased { account } => {
                return Err(NoEntity::of(*account));
            }
            Self::AuditImported(it) => return Err(NoEntity::of(it.account)),
        })
    }
}
