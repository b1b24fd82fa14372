//! Custom fields: names and values that a tenant's clients put on accounts and on what belongs to them.

use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Facts};
use crate::object::Object;
use crate::rows::{Keyed, Part};
use crate::{AccountId, CustomFieldId, Revision, TenantNo, Timestamp};

/// How many fields an object has at most.
pub const FIELDS_PER_OBJECT_MAX: usize = 100;

/// How many characters a name or a value has at most.
pub const FIELD_CHARS_MAX: usize = 255;

/// A custom field. Several of an object may have the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomField {
    pub tenant: TenantNo,
    pub id: CustomFieldId,
    /// The account that the object is, or belongs to.
    pub account: AccountId,
    pub object: Object,
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

impl Keyed for CustomField {
    type Key = (TenantNo, CustomFieldId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Part for CustomField {
    type Owner = (TenantNo, Object);

    fn owner(&self) -> Self::Owner {
        (self.tenant, self.object)
    }

    fn is_active(&self) -> bool {
        self.active && !self.value.is_empty()
    }
}

impl Entity for CustomField {
    fn facts(&self) -> Facts {
        Facts::new("custom field", self.id, self.revision).of(self.account)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn erase(&mut self) {
        self.name.clear();
        self.value.clear();
    }
}

/// Puts fields on an object: all, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddCustomFields {
    /// The account that the object is, or belongs to.
    pub account: AccountId,
    pub object: Object,
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
    pub object: Object,
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
    pub object: Object,
    /// Empty: all of them.
    pub fields: Vec<CustomFieldId>,
}
