//! Tags on accounts: marks that say how an account is to be treated, of definitions that are given.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{AccountId, Revision, TagDefinitionId, TagId, TenantNo, Timestamp};

/// How many definitions one request names at most.
pub const TAGS_PER_REQUEST_MAX: usize = 100;

/// A definition that everybody has and that means something to a billing system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ControlTag {
    /// Nothing is charged by itself.
    AutoPayOff,
    /// Nothing is invoiced.
    AutoInvoicingOff,
    /// What is overdue has no consequences.
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

/// What a tag can be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaggedKind {
    Account,
    Invoice,
}

impl TaggedKind {
    /// The name in the API's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Account => "ACCOUNT",
            Self::Invoice => "INVOICE",
        }
    }
}

/// What is known of a [`ControlTag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagDefinition {
    pub tag: ControlTag,
    /// Its id is this number.
    pub number: u8,
    /// What it is called.
    pub name: &'static str,
    pub description: &'static str,
    /// What it can be on.
    pub applies_to: TaggedKind,
}

/// All there are, by number. Clients know Kill Bill's ids and names by heart, so they are the same.
pub const CONTROL_TAGS: [TagDefinition; 9] = [
    TagDefinition {
        tag: ControlTag::AutoPayOff,
        number: 1,
        name: "AUTO_PAY_OFF",
        description: "Suspends payments until removed.",
        applies_to: TaggedKind::Account,
    },
    TagDefinition {
        tag: ControlTag::AutoInvoicingOff,
        number: 2,
        name: "AUTO_INVOICING_OFF",
        description: "Suspends invoicing until removed.",
        applies_to: TaggedKind::Account,
    },
    TagDefinition {
        tag: ControlTag::OverdueEnforcementOff,
        number: 3,
        name: "OVERDUE_ENFORCEMENT_OFF",
        description: "Suspends overdue enforcement behaviour until removed.",
        applies_to: TaggedKind::Account,
    },
    TagDefinition {
        tag: ControlTag::WrittenOff,
        number: 4,
        name: "WRITTEN_OFF",
        description: "Indicates that an invoice is written off. No billing or payment effect.",
        applies_to: TaggedKind::Invoice,
    },
    TagDefinition {
        tag: ControlTag::ManualPay,
        number: 5,
        name: "MANUAL_PAY",
        description: "Indicates that Killbill doesn't process payments for that account (external payments only)",
        applies_to: TaggedKind::Account,
    },
    TagDefinition {
        tag: ControlTag::Test,
        number: 6,
        name: "TEST",
        description: "Indicates that this is a test account",
        applies_to: TaggedKind::Account,
    },
    TagDefinition {
        tag: ControlTag::Partner,
        number: 7,
        name: "PARTNER",
        description: "Indicates that this is a partner account",
        applies_to: TaggedKind::Account,
    },
    TagDefinition {
        tag: ControlTag::AutoInvoicingDraft,
        number: 8,
        name: "AUTO_INVOICING_DRAFT",
        description: "Generate account invoices in DRAFT mode.",
        applies_to: TaggedKind::Account,
    },
    TagDefinition {
        tag: ControlTag::AutoInvoicingReuseDraft,
        number: 9,
        name: "AUTO_INVOICING_REUSE_DRAFT",
        description: "Use existing draft invoice if exists.",
        applies_to: TaggedKind::Account,
    },
];

impl TagDefinition {
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
    /// What is known of it.
    ///
    /// # Panics
    /// Never: a test goes through them all.
    #[must_use]
    pub fn definition(self) -> &'static TagDefinition {
        let found = CONTROL_TAGS.iter().find(|it| it.tag == self);
        found.expect("each has its row in the table")
    }
}

/// What tells a tag from the others of its tenant: an account has at most one of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TagKey {
    /// What it is on.
    pub account: AccountId,
    pub definition: ControlTag,
}

/// A tag on an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub tenant: TenantNo,
    /// What it is known by.
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

/// Puts tags on an account: all, or none. Those that are there already stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddTags {
    pub account: AccountId,
    /// At most [`TAGS_PER_REQUEST_MAX`].
    pub definitions: Vec<TagDefinitionId>,
}

/// Takes tags off an account: all, or none. Each must be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveTags {
    pub account: AccountId,
    /// At most [`TAGS_PER_REQUEST_MAX`].
    pub definitions: Vec<TagDefinitionId>,
}
