//! Tags: defined, added and removed.

use std::collections::BTreeSet;

use crate::account::tag::{
    AddTags, CONTROL_TAGS, ControlTag, CreateTagDefinition, DEFINITION_CHARS_MAX,
    DEFINITION_TYPES_MAX, DefinitionRef, NamedDefinition, RemoveTags, TAGS_PER_REQUEST_MAX, Tag,
    TagDefinition, TagKey,
};
use crate::billing::rules::resume_payments;
use crate::change::{AccountChange, ClaimChange, TenantChange};
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::object::rules as object;
use crate::object::{Object, ObjectType};
use crate::payment::rules::attempt;
use crate::reply::Outcome;
use crate::state::State;
use crate::timer::{TimerKey, TimerKind, rules as timer};
use crate::{
    Accepted, AccountId, AccountRejection, Event, Rejection, Reply, Revision, TagDefinitionId,
    TenantRejection,
};

pub(crate) fn add(state: &State, it: &AddTags, cx: &mut Context) -> Outcome {
    let object = it.part.unwrap_or(Object::Account(it.account));
    for definition in named(state, (it.account, object), &it.definitions, cx)? {
        fits(state, definition, object.kind(), cx)?;
        let key = TagKey::new(it.account, object, definition);
        let named = with_name(state, definition, cx);
        put((key, named), state.tag(cx.tenant, key), cx);
    }
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn remove(state: &State, it: &RemoveTags, cx: &mut Context) -> Outcome {
    let object = it.part.unwrap_or(Object::Account(it.account));
    let definitions = named(state, (it.account, object), &it.definitions, cx)?;
    if definitions.contains(&DefinitionRef::Control(ControlTag::AutoPayOff)) {
        has_default_method(state, object, cx)?;
    }
    for definition in definitions {
        let key = TagKey::new(it.account, object, definition);
        let named = with_name(state, definition, cx);
        let Some(known) = state.tag(cx.tenant, key).filter(|it| it.active) else {
            return Err(AccountRejection::TagNotFound { name: named.name().to_owned() }.into());
        };
        cx.change(AccountChange::Tag(Tag {
            active: false,
            revision: known.revision.next(cx.seq),
            ..known.clone()
        }));
        cx.event(Event::TagRemoved { account: it.account, tag: known.id, definition: named });
    }
    if it.resumes_retries() {
        attempt::resume(state.scheduled_attempts(cx.tenant, it.account), cx);
    }
    if it.resumes_payments() {
        resume_payments(state, it.account, cx);
    }
    if it.resumes_invoicing() {
        // What was not invoiced meanwhile is due now.
        let (key, now) = (TimerKey::of_account(TimerKind::Billing, it.account), cx.now);
        timer::set((key, it.account), now, cx);
    }
    Ok(Accepted::now(Reply::Done))
}

/// Refuses to switch payments on for an account that has nothing to pay with (Kill Bill's rule).
fn has_default_method(state: &State, object: Object, cx: &Context) -> Result<(), Rejection> {
    let Object::Account(account) = object else { return Ok(()) };
    let account = state.account(cx.tenant, account);
    if account.is_some_and(|it| it.payment_method_id.is_none()) {
        let name = ControlTag::AutoPayOff.definition().name.to_owned();
        return Err(AccountRejection::TagNeedsDefaultMethod { name }.into());
    }
    Ok(())
}

/// Makes a definition of the tenant's own.
pub(crate) fn define(state: &State, it: &CreateTagDefinition, cx: &mut Context) -> Outcome {
    let claim = check_definition(state, (&it.name, &it.description, &it.applies_to), cx)?;
    let id: TagDefinitionId = cx.mint();
    cx.claim(claim, id.uuid(), None);
    cx.change(TenantChange::TagDefinition(TagDefinition {
        tenant: cx.tenant,
        id,
        name: it.name.clone(),
        description: it.description.clone(),
        applies_to: it.applies_to.clone(),
        active: true,
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    }));
    Ok(Accepted::now(Reply::TagDefinitionCreated(id)))
}

/// Checks name, description and types of a new definition. The claim on its name is for the caller to take.
pub(crate) fn check_definition(
    state: &State,
    (name, description, applies_to): (&str, &str, &[String]),
    cx: &Context,
) -> Result<ClaimKey, Rejection> {
    if name.is_empty() || name.chars().count() > DEFINITION_CHARS_MAX {
        return Err(Rejection::invalid("name", "should have 1 to 255 characters"));
    }
    if description.is_empty() || description.chars().count() > DEFINITION_CHARS_MAX {
        return Err(Rejection::invalid("description", "should have 1 to 255 characters"));
    }
    if applies_to.is_empty() || applies_to.len() > DEFINITION_TYPES_MAX {
        return Err(Rejection::invalid("applicableObjectTypes", "should be 1 to 32"));
    }
    let owned = || name.to_owned();
    if name.chars().any(char::is_uppercase) {
        return Err(TenantRejection::TagDefinitionNotLowercase { name: owned() }.into());
    }
    if CONTROL_TAGS.iter().any(|tag| tag.name.eq_ignore_ascii_case(name)) {
        return Err(TenantRejection::TagDefinitionReserved { name: owned() }.into());
    }
    let claim = ClaimKey::new(cx.tenant, ClaimKind::TagDefinition, name);
    match state.claim(&claim) {
        Some(_) => Err(TenantRejection::TagDefinitionExists { name: owned() }.into()),
        None => Ok(claim),
    }
}

/// Deletes a definition that nothing is tagged with. Where another partition tags with it at the same
/// moment, that tag can be read and removed.
pub(crate) fn undefine(state: &State, id: TagDefinitionId, cx: &mut Context) -> Outcome {
    let known = state.tag_definition(cx.tenant, id).filter(|it| it.active);
    let known = known.ok_or(TenantRejection::TagDefinitionNotFound { id })?;
    if state.is_tag_definition_used(cx.tenant, id) {
        return Err(TenantRejection::TagDefinitionInUse { id }.into());
    }
    let key = ClaimKey::new(cx.tenant, ClaimKind::TagDefinition, &known.name);
    cx.change(ClaimChange::Released { key });
    cx.change(TenantChange::TagDefinition(TagDefinition {
        active: false,
        revision: known.revision.next(cx.seq),
        ..known.clone()
    }));
    Ok(Accepted::now(Reply::Done))
}

/// Whether an object of a type can have it.
pub(crate) fn fits(
    state: &State,
    definition: DefinitionRef,
    on: ObjectType,
    cx: &Context,
) -> Result<(), Rejection> {
    let own = |id| state.tag_definition(cx.tenant, id).filter(|it| it.active);
    let (applies, name) = match definition {
        DefinitionRef::Control(tag) => {
            let definition = tag.definition();
            // Nothing is written off yet, so that the tag would promise what is not done.
            let takes_effect = tag != ControlTag::WrittenOff;
            (takes_effect && definition.applies_to == on.name(), definition.name.to_owned())
        }
        DefinitionRef::Own(id) => {
            let known = own(id).ok_or(AccountRejection::TagDefinitionNotFound { id })?;
            (known.applies_to.iter().any(|it| it == on.name()), known.name.clone())
        }
    };
    if applies { Ok(()) } else { Err(AccountRejection::TagNotApplicable { name, on }.into()) }
}

/// Puts a control tag on an account, which it has to be for, within whatever command there is. `known` is
/// the row of that key; an account that the same command makes has none.
pub(crate) fn put_control(
    (account, tag): (AccountId, ControlTag),
    known: Option<&Tag>,
    cx: &mut Context,
) {
    put((TagKey::of_account(account, tag), NamedDefinition::Control(tag)), known, cx);
}

/// Puts a tag where [`fits`] allows it.
fn put((key, definition): (TagKey, NamedDefinition), known: Option<&Tag>, cx: &mut Context) {
    let (id, revision) = match known {
        Some(known) if known.active => return,
        Some(known) => (known.id, known.revision.next(cx.seq)),
        None => (cx.mint(), Revision::first(cx.seq)),
    };
    let (tenant, created_at) = (cx.tenant, cx.now);
    cx.change(AccountChange::Tag(Tag { tenant, key, id, active: true, created_at, revision }));
    cx.event(Event::TagAdded { account: key.account, tag: id, definition });
}

fn with_name(state: &State, definition: DefinitionRef, cx: &Context) -> NamedDefinition {
    match definition {
        DefinitionRef::Control(tag) => NamedDefinition::Control(tag),
        DefinitionRef::Own(id) => {
            let known = state.tag_definition(cx.tenant, id);
            let name = known.map(|it| it.name.clone()).unwrap_or_default();
            NamedDefinition::Own { id, name }
        }
    }
}

/// The definitions that a request names, each once, for an object that is there.
fn named(
    state: &State,
    object: (AccountId, Object),
    definitions: &[TagDefinitionId],
    cx: &Context,
) -> Result<Vec<DefinitionRef>, Rejection> {
    object::find(state, object, cx)?;
    if definitions.len() > TAGS_PER_REQUEST_MAX {
        return Err(Rejection::invalid("tagDefinitions", "are too many"));
    }
    let mut seen = BTreeSet::new();
    let mut found = vec![];
    for id in definitions {
        let definition = DefinitionRef::of(*id);
        if let DefinitionRef::Own(id) = definition
            && state.tag_definition(cx.tenant, id).is_none()
        {
            return Err(AccountRejection::TagDefinitionNotFound { id }.into());
        }
        if seen.insert(definition) {
            found.push(definition);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use uuid::Uuid;

    use super::*;
    use crate::account::CreateAccount;
    use crate::account::payment_method::CreatePaymentMethod;
    use crate::account::tag::ControlTagDefinition;
    use crate::change::Change;
    use crate::command::{AccountCommand, TenantCommand};
    use crate::payment::EXTERNAL_PAYMENT;
    use crate::reply::AccountReply;
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

    fn give_default_method(rows: &mut Rows, account: AccountId) {
        let method = CreatePaymentMethod::default_of(account, EXTERNAL_PAYMENT.to_owned());
        rows.run(Command::Account(AccountCommand::CreatePaymentMethod(method))).unwrap();
    }

    fn ids(numbers: &[u8]) -> Vec<TagDefinitionId> {
        numbers.iter().map(|n| TagDefinitionId::new(Uuid::from_u128(u128::from(*n)))).collect()
    }

    fn add(account: AccountId, numbers: &[u8]) -> Command {
        Command::Account(AccountCommand::AddTags(AddTags {
            account,
            part: None,
            definitions: ids(numbers),
        }))
    }

    fn remove(account: AccountId, numbers: &[u8]) -> Command {
        Command::Account(AccountCommand::RemoveTags(RemoveTags {
            account,
            part: None,
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
                format!("+{}", definition.name())
            } else if let Event::TagRemoved { definition, .. } = it {
                format!("-{}", definition.name())
            } else {
                format!("{it:?}")
            }
        };
        executed.done.events.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// Compares the result of a command for an account with AUTO_PAY_OFF on it and a default payment method.
    fn check(command: impl FnOnce(AccountId) -> Command, expected: Expect) {
        let mut rows = Rows::new();
        let account = create(&mut rows, &[]);
        give_default_method(&mut rows, account);
        rows.run(add(account, &[1])).unwrap();
        expected.assert_eq(&shown(rows.run(command(account))).replace(&account.to_string(), "ID"));
    }

    #[test]
    fn every_tag_has_its_definition_and_its_id() {
        for (at, it) in CONTROL_TAGS.iter().enumerate() {
            assert_eq!((usize::from(it.number), it.tag.definition()), (at + 1, it));
            assert_eq!(ControlTagDefinition::find(it.id()), Some(it));
        }
        let last = ControlTag::AutoInvoicingReuseDraft.definition().id();
        assert_eq!(last.to_string(), "00000000-0000-0000-0000-000000000009");
        assert_eq!(ControlTagDefinition::find(TagDefinitionId::new(Uuid::nil())), None);
    }

    #[test]
    fn tags_are_added() {
        check(|id| add(id, &[2, 5]), expect!["+AUTO_INVOICING_OFF +MANUAL_PAY"]);
        check(|id| add(id, &[9, 9]), expect!["+AUTO_INVOICING_REUSE_DRAFT"]);
        check(|id| add(id, &[1]), expect![""]);
        check(|id| add(id, &[1, 6, 1]), expect!["+TEST"]);
        check(|id| add(id, &[]), expect![""]);
        check(|id| add(id, &[6; 100]), expect!["+TEST"]);
    }

    #[test]
    fn tags_are_removed() {
        check(|id| remove(id, &[1, 1]), expect!["-AUTO_PAY_OFF"]);
        check(|id| remove(id, &[]), expect![""]);
    }

    #[test]
    fn auto_pay_off_stays_on_an_account_without_a_default_method() {
        let mut rows = Rows::new();
        let account = create(&mut rows, &[ControlTag::AutoPayOff, ControlTag::Test]);
        let refused = expect![[r#"Account(TagNeedsDefaultMethod { name: "AUTO_PAY_OFF" })"#]];
        for numbers in [&[1][..], &[6, 1]] {
            refused.assert_eq(&shown(rows.run(remove(account, numbers))));
        }
        assert_eq!(shown(rows.run(remove(account, &[6]))), "-TEST");
        give_default_method(&mut rows, account);
        assert_eq!(shown(rows.run(remove(account, &[1]))), "-AUTO_PAY_OFF");
    }

    #[test]
    fn refusals() {
        check(
            |id| add(id, &[2, 10]),
            expect!["Account(TagDefinitionNotFound { id: 00000000-0000-0000-0000-00000000000a })"],
        );
        check(
            |id| add(id, &[2, 4]),
            expect![[r#"Account(TagNotApplicable { name: "WRITTEN_OFF", on: Account })"#]],
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
        let key = TagKey::of_account(account, ControlTag::Test);
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
        assert_eq!(shown(rows.run(remove(account, &[6]))), "-TEST");
        let refused = rows.run(new_account(&[ControlTag::Test, ControlTag::WrittenOff]));
        assert_eq!(
            refused,
            Err(AccountRejection::TagNotApplicable {
                name: "WRITTEN_OFF".to_owned(),
                on: ObjectType::Account
            }
            .into())
        );
    }

    fn define(rows: &mut Rows, name: &str, types: &[&str]) -> Result<TagDefinitionId, Rejection> {
        let applies_to = types.iter().map(|it| (*it).to_owned()).collect();
        let description = "what it means".to_owned();
        let command = CreateTagDefinition { name: name.to_owned(), description, applies_to };
        match rows.run(Command::Tenant(TenantCommand::DefineTag(command)))?.reply {
            Some(Reply::TagDefinitionCreated(id)) => Ok(id),
            other => panic!("{other:?}"),
        }
    }

    fn undefine(rows: &mut Rows, id: TagDefinitionId) -> Result<Executed, Rejection> {
        rows.run(Command::Tenant(TenantCommand::UndefineTag(id)))
    }

    fn add_own(account: AccountId, id: TagDefinitionId) -> Command {
        let definitions = vec![id];
        Command::Account(AccountCommand::AddTags(AddTags { account, part: None, definitions }))
    }

    fn remove_own(account: AccountId, id: TagDefinitionId) -> Command {
        let definitions = vec![id];
        let command = RemoveTags { account, part: None, definitions };
        Command::Account(AccountCommand::RemoveTags(command))
    }

    #[test]
    fn a_definition_is_made_used_and_deleted_once_nothing_is_tagged_with_it() {
        let mut rows = Rows::new();
        let account = create(&mut rows, &[]);
        let vip = define(&mut rows, "vip", &["ACCOUNT"]).unwrap();
        let of_payments = define(&mut rows, "odd", &["PAYMENT", "INVOICE"]).unwrap();
        assert_eq!(shown(rows.run(add_own(account, vip))), "+vip");
        assert_eq!(shown(rows.run(add_own(account, vip))), "");
        let unfit = rows.run(add_own(account, of_payments));
        let on = ObjectType::Account;
        let expected = AccountRejection::TagNotApplicable { name: "odd".to_owned(), on };
        assert_eq!(unfit, Err(expected.into()));
        let in_use = Err(TenantRejection::TagDefinitionInUse { id: vip }.into());
        assert_eq!(undefine(&mut rows, vip), in_use);
        assert_eq!(shown(rows.run(remove_own(account, vip))), "-vip");
        undefine(&mut rows, vip).unwrap();
        let not_found = || Err(TenantRejection::TagDefinitionNotFound { id: vip }.into());
        assert_eq!(undefine(&mut rows, vip), not_found());
        let deleted = Err(AccountRejection::TagDefinitionNotFound { id: vip }.into());
        assert_eq!(rows.run(add_own(account, vip)), deleted);
        define(&mut rows, "vip", &["ACCOUNT"]).expect("the name is free again");
    }

    #[test]
    fn a_tag_whose_definition_was_deleted_meanwhile_can_be_removed() {
        let mut rows = Rows::new();
        let account = create(&mut rows, &[]);
        let vip = define(&mut rows, "vip", &["ACCOUNT"]).unwrap();
        rows.run(add_own(account, vip)).unwrap();
        let definition = rows.state.tenant.tag_definitions.find_mut(&(TENANT, vip)).unwrap();
        definition.active = false;
        assert_eq!(shown(rows.run(remove_own(account, vip))), "-vip");
    }

    #[test]
    fn names_of_definitions() {
        let mut rows = Rows::new();
        define(&mut rows, "vip", &["ACCOUNT"]).unwrap();
        let mut check = |name: &str, types: &[&str], expected: Expect| {
            let refused = define(&mut rows, name, types).unwrap_err();
            expected.assert_eq(&refused.to_string());
        };
        let account = &["ACCOUNT"][..];
        check("vip", account, expect!["there is a tag definition vip already"]);
        check("Vip", account, expect!["the name Vip has to be in lower case"]);
        check("auto_pay_off", account, expect!["the name auto_pay_off is a control tag's"]);
        check("", account, expect!["name: should have 1 to 255 characters"]);
        check(&"x".repeat(256), account, expect!["name: should have 1 to 255 characters"]);
        check("new", &[], expect!["applicableObjectTypes: should be 1 to 32"]);
        check("new", &["X"; 33], expect!["applicableObjectTypes: should be 1 to 32"]);
    }
}
