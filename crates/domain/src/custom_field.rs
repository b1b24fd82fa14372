//! Custom fields: names and values that a tenant's clients put on accounts and on what belongs to them.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    AccountId, CustomFieldId, PaymentId, PaymentMethodId, Revision, TenantNo, Timestamp,
    TransactionId,
};

/// How many fields an object has at most.
pub const FIELDS_PER_OBJECT_MAX: usize = 100;

/// How many characters a name or a value has at most.
pub const FIELD_CHARS_MAX: usize = 255;

/// What has custom fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FieldObject {
    Account(AccountId),
    PaymentMethod(PaymentMethodId),
    Payment(PaymentId),
    Transaction { payment: PaymentId, id: TransactionId },
}

/// The kinds of [`FieldObject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldObjectKind {
    Account,
    PaymentMethod,
    Payment,
    Transaction,
}

impl FieldObjectKind {
    /// All of them, in the order of Kill Bill's names.
    pub const ALL: [Self; 4] =
        [Self::Account, Self::Payment, Self::PaymentMethod, Self::Transaction];

    /// The name in the API's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Account => "ACCOUNT",
            Self::PaymentMethod => "PAYMENT_METHOD",
            Self::Payment => "PAYMENT",
            Self::Transaction => "TRANSACTION",
        }
    }
}

impl FieldObject {
    #[must_use]
    pub const fn kind(self) -> FieldObjectKind {
        match self {
            Self::Account(_) => FieldObjectKind::Account,
            Self::PaymentMethod(_) => FieldObjectKind::PaymentMethod,
            Self::Payment(_) => FieldObjectKind::Payment,
            Self::Transaction { .. } => FieldObjectKind::Transaction,
        }
    }

    #[must_use]
    pub const fn id(self) -> Uuid {
        match self {
            Self::Account(id) => id.uuid(),
            Self::PaymentMethod(id) => id.uuid(),
            Self::Payment(id) => id.uuid(),
            Self::Transaction { id, .. } => id.uuid(),
        }
    }
}

/// A custom field. Several of an object may have the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomField {
    pub tenant: TenantNo,
    pub id: CustomFieldId,
    /// The account that the object is, or belongs to.
    pub account: AccountId,
    pub object: FieldObject,
    /// It never changes. Kept out of the journal, as the value is: both may say something of a person.
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub value: String,
    /// Its place among the fields that the same request made.
    pub ordinal: u8,
    /// False once it was removed.
    pub active: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: Revision,
}

/// Puts fields on an object: all, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddCustomFields {
    /// The account that the object is, or belongs to.
    pub account: AccountId,
    pub object: FieldObject,
    pub fields: Vec<NewCustomField>,
}

/// A field to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewCustomField {
    pub name: String,
    pub value: String,
}

/// Gives fields of an object other values: all, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateCustomFields {
    /// The account that the object is, or belongs to.
    pub account: AccountId,
    pub object: FieldObject,
    /// Of several for one field the last counts.
    pub fields: Vec<NewValue>,
}

/// A field's new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewValue {
    pub id: CustomFieldId,
    /// Refused where it is another than the field has.
    pub name: Option<String>,
    pub value: String,
}

/// Removes fields of an object. Those that are not there, or not any more, are passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveCustomFields {
    /// The account that the object is, or belongs to.
    pub account: AccountId,
    pub object: FieldObject,
    /// Empty: all of them.
    pub fields: Vec<CustomFieldId>,
}
