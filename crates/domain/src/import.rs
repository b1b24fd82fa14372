//! Imports from another billing system, under the ids of that system.
//!
//! Only `faregate import` submits these commands: no API takes an id for what it makes.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::account::CreateAccount;
use crate::account::email::AccountEmailId;
use crate::account::payment_method::CreatePaymentMethod;
use crate::account::tag::DefinitionRef;
use crate::claim::{ClaimKey, ClaimKind};
use crate::object::Object;
use crate::payment::{TransactionStatus, TransactionType};
use crate::{
    AccountId, AmountMinor, Currency, CustomFieldId, PaymentId, PaymentMethodId, TagDefinitionId,
    TagId, TenantNo, Timestamp, TransactionId,
};

/// How many things one command brings at most.
pub const IMPORTED_MAX: usize = 10_000;

/// When something was made and last changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dates {
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Brings an account with what belongs to it, its payments aside. One that was brought before stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportAccount {
    pub id: AccountId,
    /// The account's fields. Its `tags` are empty: they are in `belongings`.
    pub account: CreateAccount,
    pub dates: Dates,
    /// The default payment method, one of `methods`.
    pub payment_method: Option<PaymentMethodId>,
    pub methods: Vec<ImportedMethod>,
    pub emails: Vec<ImportedEmail>,
    pub belongings: Belongings,
}

/// A payment method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedMethod {
    pub id: PaymentMethodId,
    /// The payment method's fields. `is_default` is ignored.
    pub method: CreatePaymentMethod,
    pub active: bool,
    pub dates: Dates,
}

/// A further e-mail address of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedEmail {
    pub id: AccountEmailId,
    pub email: String,
    pub created_at: Timestamp,
}

/// Tags and custom fields, and who changed what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Belongings {
    pub tags: Vec<ImportedTag>,
    pub fields: Vec<ImportedField>,
    /// Of each object, the oldest first.
    pub audits: Vec<ImportedAudit>,
}

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedTag {
    pub id: TagId,
    pub object: Object,
    pub definition: DefinitionRef,
    pub created_at: Timestamp,
}

/// A custom field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedField {
    pub id: CustomFieldId,
    pub object: Object,
    pub name: String,
    pub value: String,
    pub dates: Dates,
}

/// An entry of the other system's audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedAudit {
    /// The account, or what belongs to it, that was changed.
    pub object: Uuid,
    pub kind: AuditKind,
    pub at: Timestamp,
    pub changed_by: String,
    pub reason: Option<String>,
    pub comments: Option<String>,
    /// The token of the request that changed it.
    pub token: Uuid,
}

/// The kind of change that an entry of an audit log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditKind {
    Insert,
    Update,
    Delete,
}

/// Brings a payment with all its transactions. One that was brought before stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportPayment {
    pub account: AccountId,
    pub id: PaymentId,
    pub external_key: String,
    pub dates: Dates,
    /// In the order in which they were made.
    pub transactions: Vec<ImportedTransaction>,
    pub belongings: Belongings,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedTransaction {
    pub id: TransactionId,
    pub external_key: String,
    /// A payment method of the account.
    pub payment_method: PaymentMethodId,
    pub kind: TransactionType,
    pub status: TransactionStatus,
    /// The requested amount; `None` for a void.
    pub amount: Option<AmountMinor>,
    /// The amount that was processed, in `currency`; `None` where it is not known.
    pub processed_amount: Option<AmountMinor>,
    /// The payment's; a void has it too.
    pub currency: Currency,
    pub effective_at: Timestamp,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub first_reference: Option<String>,
    pub second_reference: Option<String>,
}

/// Brings a definition of tags. One that was brought before stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportTagDefinition {
    pub id: TagDefinitionId,
    pub name: String,
    pub description: String,
    pub applies_to: Vec<String>,
    pub created_at: Timestamp,
}

/// The claim on an id that was not minted here.
pub(crate) fn id_claim(tenant: TenantNo, id: Uuid) -> ClaimKey {
    ClaimKey::new(tenant, ClaimKind::ImportedId, &id.to_string())
}

impl Belongings {
    /// The ids of its tags and fields.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Uuid> {
        let tags = self.tags.iter().map(|it| it.id.uuid());
        tags.chain(self.fields.iter().map(|it| it.id.uuid()))
    }

    /// The definitions of a tenant's own that its tags name.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = TagDefinitionId> {
        self.tags.iter().filter_map(|it| match it.definition {
            DefinitionRef::Own(id) => Some(id),
            DefinitionRef::Control(_) => None,
        })
    }

    fn len(&self) -> usize {
        self.tags.len() + self.fields.len() + self.audits.len()
    }
}

impl ImportAccount {
    /// The ids that it brings, its own first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Uuid> {
        let methods = self.methods.iter().map(|it| it.id.uuid());
        let emails = self.emails.iter().map(|it| it.id.uuid());
        let parts = methods.chain(emails).chain(self.belongings.ids());
        std::iter::once(self.id.uuid()).chain(parts)
    }

    /// How many things it brings beside the account.
    pub(crate) fn len(&self) -> usize {
        self.methods.len() + self.emails.len() + self.belongings.len()
    }
}

impl ImportPayment {
    /// The ids that it brings, its own first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Uuid> {
        let transactions = self.transactions.iter().map(|it| it.id.uuid());
        std::iter::once(self.id.uuid()).chain(transactions).chain(self.belongings.ids())
    }

    /// How many things it brings beside the payment.
    pub(crate) fn len(&self) -> usize {
        self.transactions.len() + self.belongings.len()
    }
}

/// An entry of the other system's audit log, as a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub tenant: TenantNo,
    /// The account that the object is, or belongs to.
    pub account: AccountId,
    /// Its place among the entries of the object, from 0.
    pub ordinal: u32,
    pub entry: ImportedAudit,
}
