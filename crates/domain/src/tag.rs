//! Tags on accounts: marks that say how an account is to be treated, of definitions that are given.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::context::Context;
use crate::execute::{Accepted, Outcome};
use crate::state::{Change, Read, State};
use crate::{
    AccountId, Event, Rejection, Reply, Revision, TagDefinitionId, TagId, TenantNo, Timestamp,
};

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
    /// An account to try things with.
    Test,
    /// A partner's account.
    Partner,
    /// Invoices are made as drafts.
    AutoInvoicingDraft,
    /// The draft that is there is used.
    AutoInvoicingReuseDraft,
}

/// What a tag can be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaggedKind {
    /// An account.
    Account,
    /// An invoice.
    Invoice,
}

impl TaggedKind {
    /// In the API's spelling.
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
    /// Which.
    pub tag: ControlTag,
    /// Its id is this number.
    pub number: u8,
    /// What it is called.
    pub name: &'static str,
    /// What it says.
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
    /// What it says.
    pub definition: ControlTag,
}

/// A tag on an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// Whose.
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
    /// Its history.
    pub revision: Revision,
}

/// Puts tags on an account: all, or none. Those that are there already stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddTags {
    /// The account.
    pub account: AccountId,
    /// At most [`TAGS_PER_REQUEST_MAX`].
    pub definitions: Vec<TagDefinitionId>,
}

/// Takes tags off an account: all, or none. Each must be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveTags {
    /// The account.
    pub account: AccountId,
    /// At most [`TAGS_PER_REQUEST_MAX`].
    pub definitions: Vec<TagDefinitionId>,
}

/// The rows of an account with these definitions on it.
pub(crate) fn reads(
    (account, definitions): (AccountId, &[TagDefinitionId]),
    tenant: TenantNo,
    read: &mut impl FnMut(Read),
) {
    read(Read::Account(tenant, account));
    for it in definitions.iter().filter_map(|id| TagDefinition::find(*id)) {
        read(Read::Tag(tenant, TagKey { account, definition: it.tag }));
    }
}

pub(crate) fn add(state: &State, it: &AddTags, cx: &mut Context) -> Outcome {
    for tag in named(state, (it.account, &it.definitions), cx)? {
        fits(tag)?;
        let key = TagKey { account: it.account, definition: tag };
        put(key, state.tag(cx.tenant, key), cx);
    }
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn remove(state: &State, it: &RemoveTags, cx: &mut Context) -> Outcome {
    for tag in named(state, (it.account, &it.definitions), cx)? {
        let key = TagKey { account: it.account, definition: tag };
        let Some(known) = state.tag(cx.tenant, key).filter(|it| it.active) else {
            return Err(Rejection::TagNotFound { name: tag.definition().name.to_owned() });
        };
        cx.change(Change::Tag(Tag {
            active: false,
            revision: known.revision.next(cx.seq),
            ..known.clone()
        }));
        cx.event(Event::TagRemoved { account: it.account, tag: known.id, definition: tag });
    }
    Ok(Accepted::now(Reply::Done))
}

/// Whether an account can have it.
pub(crate) fn fits(tag: ControlTag) -> Result<(), Rejection> {
    let definition = tag.definition();
    match definition.applies_to {
        TaggedKind::Account => Ok(()),
        TaggedKind::Invoice => {
            Err(Rejection::TagNotApplicable { name: definition.name.to_owned() })
        }
    }
}

/// Puts a tag where [`fits`] allows it, within whatever command there is. `known` is the row of that
/// key; an account that the same command makes has none.
pub(crate) fn put(key: TagKey, known: Option<&Tag>, cx: &mut Context) {
    let (id, revision) = match known {
        Some(known) if known.active => return,
        Some(known) => (known.id, known.revision.next(cx.seq)),
        None => (cx.mint(), Revision::first(cx.seq)),
    };
    let (tenant, created_at) = (cx.tenant, cx.now);
    cx.change(Change::Tag(Tag { tenant, key, id, active: true, created_at, revision }));
    cx.event(Event::TagAdded { account: key.account, tag: id, definition: key.definition });
}

/// The definitions that a request names, each once, and of an account that is there.
fn named(
    state: &State,
    (account, definitions): (AccountId, &[TagDefinitionId]),
    cx: &Context,
) -> Result<Vec<ControlTag>, Rejection> {
    if state.account(cx.tenant, account).is_none() {
        return Err(Rejection::AccountNotFound { id: account });
    }
    if definitions.len() > TAGS_PER_REQUEST_MAX {
        return Err(Rejection::invalid("tagDefinitions", "are too many"));
    }
    let mut seen = BTreeSet::new();
    let mut tags = vec![];
    for id in definitions {
        let found = TagDefinition::find(*id);
        let tag = found.ok_or(Rejection::TagDefinitionNotFound { id: *id })?.tag;
        if seen.insert(tag) {
            tags.push(tag);
        }
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::account::{CreateAccount, Person};
    use crate::testing::{Rows, TENANT};
    use crate::{Command, Executed};

    fn new_account(tags: &[ControlTag]) -> Command {
        Command::CreateAccount(Box::new(CreateAccount {
            external_key: None,
            person: Person::default(),
            currency: None,
            bill_cycle_day_local: 0,
            parent_account_id: None,
            is_payment_delegated_to_parent: false,
            reference_time: None,
            time_zone: None,
            is_migrated: None,
            tags: tags.to_vec(),
        }))
    }

    fn create(rows: &mut Rows, tags: &[ControlTag]) -> AccountId {
        match rows.run(new_account(tags)).unwrap().reply {
            Some(Reply::AccountCreated(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    fn ids(numbers: &[u8]) -> Vec<TagDefinitionId> {
        numbers.iter().map(|n| TagDefinitionId::new(Uuid::from_u128(u128::from(*n)))).collect()
    }

    fn add(account: AccountId, numbers: &[u8]) -> Command {
        Command::AddTags(AddTags { account, definitions: ids(numbers) })
    }

    fn remove(account: AccountId, numbers: &[u8]) -> Command {
        Command::RemoveTags(RemoveTags { account, definitions: ids(numbers) })
    }

    /// The events, in short, or the refusal.
    fn shown(result: Result<Executed, Rejection>) -> String {
        let executed = match result {
            Ok(executed) => executed,
            Err(refused) => return format!("{refused:?}"),
        };
        let name = |it: &Event| {
            if let Event::TagAdded { definition, .. } = it {
                format!("+{definition:?}")
            } else if let Event::TagRemoved { definition, .. } = it {
                format!("-{definition:?}")
            } else {
                format!("{it:?}")
            }
        };
        executed.done.events.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// What a command makes of an account with AUTO_PAY_OFF on it.
    fn check(command: impl FnOnce(AccountId) -> Command, expected: Expect) {
        let mut rows = Rows::new();
        let account = create(&mut rows, &[]);
        rows.run(add(account, &[1])).unwrap();
        expected.assert_eq(&shown(rows.run(command(account))).replace(&account.to_string(), "ID"));
    }

    #[test]
    fn every_tag_has_its_definition_and_its_id() {
        for (at, it) in CONTROL_TAGS.iter().enumerate() {
            assert_eq!((usize::from(it.number), it.tag.definition()), (at + 1, it));
            assert_eq!(TagDefinition::find(it.id()), Some(it));
        }
        let last = ControlTag::AutoInvoicingReuseDraft.definition().id();
        assert_eq!(last.to_string(), "00000000-0000-0000-0000-000000000009");
        assert_eq!(TagDefinition::find(TagDefinitionId::new(Uuid::nil())), None);
    }

    #[test]
    fn tags_are_added() {
        check(|id| add(id, &[2, 5]), expect!["+AutoInvoicingOff +ManualPay"]);
        check(|id| add(id, &[9, 9]), expect!["+AutoInvoicingReuseDraft"]);
        check(|id| add(id, &[1]), expect![""]);
        check(|id| add(id, &[1, 6, 1]), expect!["+Test"]);
        check(|id| add(id, &[]), expect![""]);
        check(|id| add(id, &[6; 100]), expect!["+Test"]);
    }

    #[test]
    fn tags_are_removed() {
        check(|id| remove(id, &[1, 1]), expect!["-AutoPayOff"]);
        check(|id| remove(id, &[]), expect![""]);
    }

    #[test]
    fn refusals() {
        check(
            |id| add(id, &[2, 10]),
            expect!["TagDefinitionNotFound { id: 00000000-0000-0000-0000-00000000000a }"],
        );
        check(|id| add(id, &[2, 4]), expect![[r#"TagNotApplicable { name: "WRITTEN_OFF" }"#]]);
        check(
            |id| add(id, &[6; 101]),
            expect![[r#"InvalidParameter { field: "tagDefinitions", reason: "are too many" }"#]],
        );
        check(
            |id| remove(id, &[1, 10]),
            expect!["TagDefinitionNotFound { id: 00000000-0000-0000-0000-00000000000a }"],
        );
        check(|id| remove(id, &[1, 2]), expect![[r#"TagNotFound { name: "AUTO_INVOICING_OFF" }"#]]);
        check(|id| remove(id, &[4]), expect![[r#"TagNotFound { name: "WRITTEN_OFF" }"#]]);
        let nobody = AccountId::new(Uuid::nil());
        check(
            |_| add(nobody, &[1]),
            expect!["AccountNotFound { id: 00000000-0000-0000-0000-000000000000 }"],
        );
        check(
            |_| remove(nobody, &[1]),
            expect!["AccountNotFound { id: 00000000-0000-0000-0000-000000000000 }"],
        );
    }

    #[test]
    fn a_tag_that_comes_back_is_the_same_one() {
        let mut rows = Rows::new();
        let account = create(&mut rows, &[]);
        let key = TagKey { account, definition: ControlTag::Test };
        rows.run(add(account, &[6])).unwrap();
        let first = rows.state.tag(TENANT, key).unwrap().clone();
        rows.run(remove(account, &[6])).unwrap();
        let removed = rows.state.tag(TENANT, key).unwrap().clone();
        assert_eq!((removed.active, removed.created_at), (false, first.created_at));
        assert_eq!(removed.revision.previous, Some(first.revision.seq));
        rows.now += 5;
        rows.run(add(account, &[6])).unwrap();
        let back = rows.state.tag(TENANT, key).unwrap();
        assert_eq!((back.active, back.id, back.created_at.0), (true, first.id, rows.now));
        assert_eq!(back.revision.previous, Some(removed.revision.seq));
    }

    #[test]
    fn an_account_is_made_with_its_tags_or_not_at_all() {
        let mut rows = Rows::new();
        let executed = rows.run(new_account(&[ControlTag::AutoPayOff, ControlTag::AutoPayOff]));
        let changes = executed.unwrap().done.changes;
        let tags = changes.iter().filter(|it| matches!(it, Change::Tag(_))).count();
        assert_eq!((changes.len(), tags), (2, 1));
        let account = create(&mut rows, &[ControlTag::Test]);
        assert_eq!(shown(rows.run(remove(account, &[6]))), "-Test");
        let refused = rows.run(new_account(&[ControlTag::Test, ControlTag::WrittenOff]));
        assert_eq!(refused, Err(Rejection::TagNotApplicable { name: "WRITTEN_OFF".to_owned() }));
    }
}
