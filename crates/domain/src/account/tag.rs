//! Tags: marks on accounts and on what belongs to them. Control tags say how an account is to be treated;
//! a tenant defines others.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::entity::{Entity, Facts};
use crate::object::Object;
use crate::rows::Keyed;
use crate::{AccountId, Revision, TagDefinitionId, TagId, TenantNo, Timestamp};

/// How many definitions one request names at most.
pub const TAGS_PER_REQUEST_MAX: usize = 100;

/// How many characters the name or the description of a definition has at most.
pub const DEFINITION_CHARS_MAX: usize = 255;

/// How many types of objects a definition names at most.
pub const DEFINITION_TYPES_MAX: usize = 32;

/// A definition that everybody has and that means something to a billing system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ControlTag {
    /// Nothing is charged by itself.
    AutoPayOff,
    /// Nothing is invoiced.
    AutoInvoicingOff,
    /// Overdue enforcement is suspended.
    OverdueEnforcementOff,
    /// An invoice is given up.
    WrittenOff,
    /// Payments come from outside only.
    ManualPay,
    /// The account is for tests.
    Test,
    /// A partner's account.
    Partner,
    /// Invoices are made as drafts.
    AutoInvoicingDraft,
    /// The draft that is there is used.
    AutoInvoicingReuseDraft,
}

const ACCOUNT: &str = "ACCOUNT";
const INVOICE: &str = "INVOICE";

/// The definition of a [`ControlTag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlTagDefinition {
    pub tag: ControlTag,
    /// Its id is this number.
    pub number: u8,
    /// Its name, as in Kill Bill.
    pub name: &'static str,
    pub description: &'static str,
    /// The type of objects that it can be on.
    pub applies_to: &'static str,
}

/// All there are, by number. Clients know Kill Bill's ids and names by heart, so they are the same.
pub const CONTROL_TAGS: [ControlTagDefinition; 9] = [
    ControlTagDefinition {
        tag: ControlTag::AutoPayOff,
        number: 1,
        name: "AUTO_PAY_OFF",
        description: "Suspends payments until removed.",
        applies_to: ACCOUNT,
    },
    ControlTagDefinition {
        tag: ControlTag::AutoInvoicingOff,
        number: 2,
        name: "AUTO_INVOICING_OFF",
        description: "Suspends invoicing until removed.",
        applies_to: ACCOUNT,
    },
    ControlTagDefinition {
        tag: ControlTag::OverdueEnforcementOff,
        number: 3,
        name: "OVERDUE_ENFORCEMENT_OFF",
        description: "Suspends overdue enforcement behaviour until removed.",
        applies_to: ACCOUNT,
    },
    ControlTagDefinition {
        tag: ControlTag::WrittenOff,
        number: 4,
        name: "WRITTEN_OFF",
        description: "Indicates that an invoice is written off. No billing or payment effect.",
        applies_to: INVOICE,
    },
    ControlTagDefinition {
        tag: ControlTag::ManualPay,
        number: 5,
        name: "MANUAL_PAY",
        description: "Indicates that Killbill doesn't process payments for that account (external payments only)",
        applies_to: ACCOUNT,
    },
    ControlTagDefinition {
        tag: ControlTag::Test,
        number: 6,
        name: "TEST",
        description: "Indicates that this is a test account",
        applies_to: ACCOUNT,
    },
    ControlTagDefinition {
        tag: ControlTag::Partner,
        number: 7,
        name: "PARTNER",
        description: "Indicates that this is a partner account",
        applies_to: ACCOUNT,
    },
    ControlTagDefinition {
        tag: ControlTag::AutoInvoicingDraft,
        number: 8,
        name: "AUTO_INVOICING_DRAFT",
        description: "Generate account invoices in DRAFT mode.",
        applies_to: ACCOUNT,
    },
    ControlTagDefinition {
        tag: ControlTag::AutoInvoicingReuseDraft,
        number: 9,
        name: "AUTO_INVOICING_REUSE_DRAFT",
        description: "Use existing draft invoice if exists.",
        applies_to: ACCOUNT,
    },
];

impl ControlTagDefinition {
    /// The id that clients name it by.
    #[must_use]
    pub fn id(&self) -> TagDefinitionId {
        TagDefinitionId::new(Uuid::from_u128(u128::from(self.number)))
    }

    /// The definition of this id.
    #[must_use]
    pub fn find(id: TagDefinitionId) -> Option<&'static Self> {
        CONTROL_TAGS.iter().find(|it| it.id() == id)
    }
}

impl ControlTag {
    /// The definition of this control tag.
    ///
    /// # Panics
    /// Never: a test goes through them all.
    #[must_use]
    pub fn definition(self) -> &'static ControlTagDefinition {
        let found = CONTROL_TAGS.iter().find(|it| it.tag == self);
        found.expect("each has its row in the table")
    }
}

/// A definition of a tag that a tenant made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagDefinition {
    pub tenant: TenantNo,
    pub id: TagDefinitionId,
    /// Unique among the tenant's definitions, in lower case.
    pub name: String,
    pub description: String,
    /// The types of objects that it can be on, by Kill Bill's names: also of those that are not here.
    pub applies_to: Vec<String>,
    /// False once it was deleted: tags of it can still be read and removed.
    pub active: bool,
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for TagDefinition {
    type Key = (TenantNo, TagDefinitionId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for TagDefinition {
    fn facts(&self) -> Facts {
        Facts::new("tag definition", self.id, self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// The definition of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DefinitionRef {
    Control(ControlTag),
    /// One of the tenant's own.
    Own(TagDefinitionId),
}

impl DefinitionRef {
    /// The definition that an id names: where it is no control tag's, the tenant may have one of this id.
    #[must_use]
    pub fn of(id: TagDefinitionId) -> Self {
        ControlTagDefinition::find(id).map_or(Self::Own(id), |it| Self::Control(it.tag))
    }

    /// The id that clients name it by.
    #[must_use]
    pub fn id(self) -> TagDefinitionId {
        match self {
            Self::Control(tag) => tag.definition().id(),
            Self::Own(id) => id,
        }
    }
}

/// The definition of a tag with its name, as events have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NamedDefinition {
    Control(ControlTag),
    Own { id: TagDefinitionId, name: String },
}

impl NamedDefinition {
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Control(tag) => tag.definition().name,
            Self::Own { name, .. } => name,
        }
    }
}

/// The key of a tag among those of its tenant: an object has at most one tag of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TagKey {
    /// The account that the tagged object is, or belongs to.
    pub account: AccountId,
    /// The tagged object, where it is not the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<Object>,
    pub definition: DefinitionRef,
}

impl TagKey {
    /// The tag of a definition on an object of an account.
    #[must_use]
    pub fn new(account: AccountId, object: Object, definition: DefinitionRef) -> Self {
        let part = Some(object).filter(|object| *object != Object::Account(account));
        Self { account, part, definition }
    }

    /// A control tag of an account.
    #[must_use]
    pub const fn of_account(account: AccountId, tag: ControlTag) -> Self {
        Self { account, part: None, definition: DefinitionRef::Control(tag) }
    }

    /// The tagged object.
    #[must_use]
    pub fn object(&self) -> Object {
        self.part.unwrap_or(Object::Account(self.account))
    }
}

/// A tag on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub tenant: TenantNo,
    /// The key that identifies it among the tenant's tags.
    pub key: TagKey,
    /// Its id; the same again where it is removed and comes back, so that repeating that makes no
    /// more rows.
    pub id: TagId,
    /// False once it was removed.
    pub active: bool,
    /// When it was added; of one that came back, when it did.
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for Tag {
    type Key = (TenantNo, TagKey);

    fn key(&self) -> Self::Key {
        (self.tenant, self.key)
    }
}

impl Entity for Tag {
    fn facts(&self) -> Facts {
        Facts::new("tag", self.id, self.revision).of(self.key.account)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// Makes a definition of the tenant's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateTagDefinition {
    pub name: String,
    pub description: String,
    /// Names of types of objects, as the API knows them; at most [`DEFINITION_TYPES_MAX`].
    pub applies_to: Vec<String>,
}

/// Puts tags on an object: all, or none. Those that are there already stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddTags {
    /// The account that the object is, or belongs to.
    pub account: AccountId,
    /// The object, where it is not the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Object>,
    /// At most [`TAGS_PER_REQUEST_MAX`].
    pub definitions: Vec<TagDefinitionId>,
}

/// Takes tags off an object: all, or none. Each must be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveTags {
    /// The account that the object is, or belongs to.
    pub account: AccountId,
    /// The object, where it is not the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Object>,
    /// At most [`TAGS_PER_REQUEST_MAX`].
    pub definitions: Vec<TagDefinitionId>,
}

/// The tags of an account that suspend payments of its invoices, and retries of its payments: they wait until neither is
/// there.
pub const SUSPENDING_TAGS: [ControlTag; 2] = [ControlTag::AutoPayOff, ControlTag::ManualPay];

impl RemoveTags {
    /// Whether retries of the account's payments may go on afterwards.
    #[must_use]
    pub fn resumes_retries(&self) -> bool {
        self.frees_account_of(&SUSPENDING_TAGS)
    }

    /// Whether the account is invoiced again afterwards.
    #[must_use]
    pub fn resumes_invoicing(&self) -> bool {
        self.frees_account_of(&[ControlTag::AutoInvoicingOff])
    }

    /// Whether the account's unpaid invoices are paid afterwards.
    #[must_use]
    pub fn resumes_payments(&self) -> bool {
        self.frees_account_of(&[ControlTag::AutoPayOff])
    }

    fn frees_account_of(&self, tags: &[ControlTag]) -> bool {
        let is_one = |id: &TagDefinitionId| {
            ControlTagDefinition::find(*id).is_some_and(|it| tags.contains(&it.tag))
        };
        self.part.is_none() && self.definitions.iter().any(is_one)
    }
}
