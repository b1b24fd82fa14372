//! The images of entities in changes.

use super::{
    AccessChange, AccountChange, Change, CustomerChange, EntitlementChange, FlagChange,
    PaymentChange, TenantChange,
};
use crate::access::{Role, User};
use crate::account::Account;
use crate::account_email::AccountEmail;
use crate::blocking_state::BlockingState;
use crate::change_request::ChangeRequest;
use crate::custom_field::CustomField;
use crate::customer::Customer;
use crate::definition::Definition;
use crate::dispute::Dispute;
use crate::entitlement::Entitlements;
use crate::entity::Entity;
use crate::environment::{Environment, Secret};
use crate::feature::Feature;
use crate::offer::Offer;
use crate::operation::Operation;
use crate::payment::{Payment, Transaction};
use crate::payment_attempt::PaymentAttempt;
use crate::payment_method::PaymentMethod;
use crate::payment_rules::PaymentRules;
use crate::purchase::Purchase;
use crate::tag::{Tag, TagDefinition};
use crate::tenant::{Tenant, TenantValue};
use crate::{AccountId, Revision};

/// An entity that changes have images of.
pub trait Image: Entity {
    /// The image of this kind in a change, if the change has one.
    fn of(change: &Change) -> Option<&Self>;
}

/// An operation on an entity of any kind: see [`Change::entity`].
pub trait Visitor {
    type Output;

    fn visit<T: Image>(self, entity: &T) -> Self::Output;
}

/// Reads the revision of an entity.
pub(super) struct ReadRevision;

impl Visitor for ReadRevision {
    type Output = Revision;

    fn visit<T: Image>(self, entity: &T) -> Revision {
        entity.revision()
    }
}

/// Reads the account of an entity.
pub(super) struct ReadAccount;

impl Visitor for ReadAccount {
    type Output = Option<AccountId>;

    fn visit<T: Image>(self, entity: &T) -> Option<AccountId> {
        entity.account()
    }
}

impl Image for Tenant {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Tenant(TenantChange::Tenant(it)) = change else { return None };
        Some(it)
    }
}

impl Image for TenantValue {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Tenant(TenantChange::Value(it)) = change else { return None };
        Some(it)
    }
}

impl Image for TagDefinition {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Tenant(TenantChange::TagDefinition(it)) = change else { return None };
        Some(it)
    }
}

impl Image for PaymentRules {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Tenant(TenantChange::PaymentRules(it)) = change else { return None };
        Some(it)
    }
}

impl Image for User {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Access(AccessChange::User(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Role {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Access(AccessChange::Role(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Environment {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Flag(FlagChange::Environment(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Secret {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Flag(FlagChange::Secret(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Definition {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Flag(FlagChange::Definition(it)) = change else { return None };
        Some(it)
    }
}

impl Image for ChangeRequest {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Flag(FlagChange::ChangeRequest(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Account {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Account(AccountChange::Account(it)) = change else { return None };
        Some(it)
    }
}

impl Image for AccountEmail {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Account(AccountChange::Email(it)) = change else { return None };
        Some(it)
    }
}

impl Image for BlockingState {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Account(AccountChange::BlockingState(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Tag {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Account(AccountChange::Tag(it)) = change else { return None };
        Some(it)
    }
}

impl Image for CustomField {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Account(AccountChange::CustomField(it)) = change else { return None };
        Some(it)
    }
}

impl Image for PaymentMethod {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Account(AccountChange::PaymentMethod(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Customer {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Customer(CustomerChange::Customer(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Operation {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Customer(CustomerChange::Operation(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Payment {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Payment(PaymentChange::Payment(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Transaction {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Payment(PaymentChange::Transaction(it)) = change else { return None };
        Some(it)
    }
}

impl Image for PaymentAttempt {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Payment(PaymentChange::Attempt(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Dispute {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Payment(PaymentChange::Dispute(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Feature {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Entitlement(EntitlementChange::Feature(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Offer {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Entitlement(EntitlementChange::Offer(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Purchase {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Entitlement(EntitlementChange::Purchase(it)) = change else { return None };
        Some(it)
    }
}

impl Image for Entitlements {
    fn of(change: &Change) -> Option<&Self> {
        let Change::Entitlement(EntitlementChange::Entitlements(it)) = change else { return None };
        Some(it)
    }
}
