//! Tags on accounts: added and removed.

use std::collections::BTreeSet;

use crate::change::AccountChange;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::tag::{
    AddTags, ControlTag, RemoveTags, TAGS_PER_REQUEST_MAX, Tag, TagDefinition, TagKey, TaggedKind,
};
use crate::{
    Accepted, AccountId, AccountRejection, Event, Rejection, Reply, Revision, TagDefinitionId,
};

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
            return Err(
                AccountRejection::TagNotFound { name: tag.definition().name.to_owned() }.into()
            );
        };
        cx.change(AccountChange::Tag(Tag {
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
            Err(AccountRejection::TagNotApplicable { name: definition.name.to_owned() }.into())
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
    cx.change(AccountChange::Tag(Tag { tenant, key, id, active: true, created_at, revision }));
    cx.event(Event::TagAdded { account: key.account, tag: id, definition: key.definition });
}

/// The definitions that a request names, each once, and of an account that is there.
fn named(
    state: &State,
    (account, definitions): (AccountId, &[TagDefinitionId]),
    cx: &Context,
) -> Result<Vec<ControlTag>, Rejection> {
    if state.account(cx.tenant, account).is_none() {
        return Err(AccountRejection::NotFound { id: account }.into());
    }
    if definitions.len() > TAGS_PER_REQUEST_MAX {
        return Err(Rejection::invalid("tagDefinitions", "are too many"));
    }
    let mut seen = BTreeSet::new();
    let mut tags = vec![];
    for id in definitions {
        let found = TagDefinition::find(*id);
        let tag = found
            .ok_or(Rejection::Account(AccountRejection::TagDefinitionNotFound { id: *id }))?
            .tag;
        if seen.insert(tag) {
            tags.push(tag);
        }
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use uuid::Uuid;

    use super::*;
    use crate::account::CreateAccount;
    use crate::change::Change;
    use crate::command::AccountCommand;
    use crate::reply::AccountReply;
    use crate::tag::CONTROL_TAGS;
    use crate::testing::{Rows, TENANT};
    use crate::{Command, Executed};

    fn new_account(tags: &[ControlTag]) -> Command {
        Command::Account(AccountCommand::Create(Box::new(CreateAccount {
            tags: tags.to_vec(),
            ..CreateAccount::default()
        })))
    }

    fn create(rows: &mut Rows, tags: &[ControlTag]) -> AccountId {
        match rows.run(new_account(tags)).unwrap().reply {
            Some(Reply::Account(AccountReply::Created(id))) => id,
            other => panic!("{other:?}"),
        }
    }

    fn ids(numbers: &[u8]) -> Vec<TagDefinitionId> {
        numbers.iter().map(|n| TagDefinitionId::new(Uuid::from_u128(u128::from(*n)))).collect()
    }

    fn add(account: AccountId, numbers: &[u8]) -> Command {
        Command::Account(AccountCommand::AddTags(AddTags { account, definitions: ids(numbers) }))
    }

    fn remove(account: AccountId, numbers: &[u8]) -> Command {
        Command::Account(AccountCommand::RemoveTags(RemoveTags {
            account,
            definitions: ids(numbers),
        }))
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
            expect!["Account(TagDefinitionNotFound { id: 00000000-0000-0000-0000-00000000000a })"],
        );
        check(
            |id| add(id, &[2, 4]),
            expect![[r#"Account(TagNotApplicable { name: "WRITTEN_OFF" })"#]],
        );
        check(
            |id| add(id, &[6; 101]),
            expect![[r#"InvalidParameter { field: "tagDefinitions", reason: "are too many" }"#]],
        );
        check(
            |id| remove(id, &[1, 10]),
            expect!["Account(TagDefinitionNotFound { id: 00000000-0000-0000-0000-00000000000a })"],
        );
        check(
            |id| remove(id, &[1, 2]),
            expect![[r#"Account(TagNotFound { name: "AUTO_INVOICING_OFF" })"#]],
        );
        check(|id| remove(id, &[4]), expect![[r#"Account(TagNotFound { name: "WRITTEN_OFF" })"#]]);
        let nobody = AccountId::new(Uuid::nil());
        check(
            |_| add(nobody, &[1]),
            expect!["Account(NotFound { id: 00000000-0000-0000-0000-000000000000 })"],
        );
        check(
            |_| remove(nobody, &[1]),
            expect!["Account(NotFound { id: 00000000-0000-0000-0000-000000000000 })"],
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
        let tags = changes
            .iter()
            .filter(|it| matches!(it, Change::Account(AccountChange::Tag(_))))
            .count();
        assert_eq!((changes.len(), tags), (2, 1));
        let account = create(&mut rows, &[ControlTag::Test]);
        assert_eq!(shown(rows.run(remove(account, &[6]))), "-Test");
        let refused = rows.run(new_account(&[ControlTag::Test, ControlTag::WrittenOff]));
        assert_eq!(
            refused,
            Err(AccountRejection::TagNotApplicable { name: "WRITTEN_OFF".to_owned() }.into())
        );
    }
}
