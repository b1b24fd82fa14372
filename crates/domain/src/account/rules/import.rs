//! Imports from another system: accounts, and definitions of tags.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::account::custom_field::{CustomField, FIELDS_PER_OBJECT_MAX};
use crate::account::email::{AccountEmail, EMAIL_CHARS_MAX, EMAILS_PER_ACCOUNT_MAX};
use crate::account::rules::custom_field;
use crate::account::rules::tag;
use crate::account::tag::{Tag, TagDefinition, TagKey};
use crate::change::{AccountChange, TenantChange};
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::import::{
    AuditEntry, Belongings, IMPORTED_MAX, ImportAccount, ImportTagDefinition, ImportedMethod,
    id_claim,
};
use crate::object::Object;
use crate::reply::Outcome;
use crate::state::State;
use crate::{
    Accepted, Account, AccountId, AccountRejection, EXTERNAL_PAYMENT, PaymentMethod, Person,
    Rejection, Reply, Revision,
};

pub(crate) fn account(state: &State, it: &ImportAccount, cx: &mut Context) -> Outcome {
    if is_here(state, it.id.uuid(), cx) {
        return Ok(Accepted::now(Reply::Imported { is_new: false }));
    }
    refuse_too_many(it.len())?;
    if state.account(cx.tenant, it.id).is_some() {
        return Err(AccountRejection::AlreadyExists { key: it.id.to_string() }.into());
    }
    claim_ids(state, (it.id, it.ids()), cx)?;
    claim_key(state, (ClaimKind::Account, it.id), (&it.account.external_key, it.id.uuid()), cx)?;
    let own = |id| it.methods.iter().find(|method| method.id == id && method.active);
    if it.payment_method.is_some_and(|id| own(id).is_none()) {
        return Err(Rejection::invalid("paymentMethodId", "is no method of the account"));
    }
    let is_external = |method: &&ImportedMethod| method.method.gateway == EXTERNAL_PAYMENT;
    let external = it.methods.iter().filter(|it| it.active).find(is_external);
    let (new, dates) = (&it.account, it.dates);
    cx.change(AccountChange::Account(Account {
        tenant: cx.tenant,
        id: it.id,
        external_key: new.external_key.clone(),
        currency: new.currency,
        bill_cycle_day_local: new.bill_cycle_day_local,
        parent_account_id: new.parent_account_id,
        is_payment_delegated_to_parent: new.is_payment_delegated_to_parent,
        payment_method_id: it.payment_method,
        external_payment_method: external.map(|it| it.id),
        reference_time: new.reference_time.unwrap_or(dates.created_at),
        time_zone: new.time_zone.clone().unwrap_or_else(|| "UTC".to_owned()),
        is_migrated: new.is_migrated,
        created_at: dates.created_at,
        updated_at: dates.updated_at,
        erased_at: None,
        revision: Revision::first(cx.seq),
    }));
    if new.person != Person::default() {
        cx.change(AccountChange::Person { account: it.id, person: Box::new(new.person.clone()) });
    }
    for method in &it.methods {
        write_method(state, it.id, method, cx)?;
    }
    write_emails(it, cx)?;
    let methods = it.methods.iter().map(|it| Object::PaymentMethod(it.id));
    let objects = std::iter::once(Object::Account(it.id)).chain(methods).collect();
    write_belongings(state, (it.id, &objects), &it.belongings, cx)?;
    Ok(Accepted::now(Reply::Imported { is_new: true }))
}

/// Brings a definition of tags. One of the same name that was made here is another one.
pub(crate) fn tag_definition(state: &State, it: &ImportTagDefinition, cx: &mut Context) -> Outcome {
    if is_here(state, it.id.uuid(), cx) {
        return Ok(Accepted::now(Reply::Imported { is_new: false }));
    }
    let claim = tag::check_definition(state, (&it.name, &it.description, &it.applies_to), cx)?;
    cx.claim(id_claim(cx.tenant, it.id.uuid()), it.id.uuid(), None);
    cx.claim(claim, it.id.uuid(), None);
    cx.change(TenantChange::TagDefinition(TagDefinition {
        tenant: cx.tenant,
        id: it.id,
        name: it.name.clone(),
        description: it.description.clone(),
        applies_to: it.applies_to.clone(),
        active: true,
        created_at: it.created_at,
        revision: Revision::first(cx.seq),
    }));
    Ok(Accepted::now(Reply::Imported { is_new: true }))
}

/// Whether an id was brought before.
pub(crate) fn is_here(state: &State, id: Uuid, cx: &Context) -> bool {
    state.claim(&id_claim(cx.tenant, id)).is_some()
}

pub(crate) fn refuse_too_many(things: usize) -> Result<(), Rejection> {
    match things > IMPORTED_MAX {
        true => Err(Rejection::invalid("id", "has more than 10000 things that belong to it")),
        false => Ok(()),
    }
}

/// Claims ids, which nothing may have that was brought before.
pub(crate) fn claim_ids(
    state: &State,
    (account, ids): (AccountId, impl Iterator<Item = Uuid>),
    cx: &mut Context,
) -> Result<(), Rejection> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if !seen.insert(id) || is_here(state, id, cx) {
            let reason = format!("{id} is there already");
            return Err(Rejection::InvalidParameter { field: "id".to_owned(), reason });
        }
        cx.claim(id_claim(cx.tenant, id), id, Some(account));
    }
    Ok(())
}

/// Claims an external key, which nothing else may have.
pub(crate) fn claim_key(
    state: &State,
    (kind, account): (ClaimKind, AccountId),
    (key, owner): (&Option<String>, Uuid),
    cx: &mut Context,
) -> Result<(), Rejection> {
    let Some(key) = key else { return Ok(()) };
    let claim = ClaimKey::new(cx.tenant, kind, key);
    if state.claim(&claim).is_some() {
        let reason = format!("{key} is taken");
        return Err(Rejection::InvalidParameter { field: "externalKey".to_owned(), reason });
    }
    cx.claim(claim, owner, Some(account));
    Ok(())
}

fn write_method(
    state: &State,
    account: AccountId,
    it: &ImportedMethod,
    cx: &mut Context,
) -> Result<(), Rejection> {
    let new = &it.method;
    claim_key(state, (ClaimKind::PaymentMethod, account), (&new.external_key, it.id.uuid()), cx)?;
    cx.change(AccountChange::PaymentMethod(PaymentMethod {
        tenant: cx.tenant,
        id: it.id,
        account_id: account,
        external_key: new.external_key.clone(),
        gateway: new.gateway.clone(),
        external_payment_method_id: new.external_payment_method_id.clone(),
        properties: new.properties.clone(),
        active: it.active,
        merchant_account: None,
        step: None,
        created_at: it.dates.created_at,
        updated_at: it.dates.updated_at,
        revision: Revision::first(cx.seq),
    }));
    Ok(())
}

fn write_emails(it: &ImportAccount, cx: &mut Context) -> Result<(), Rejection> {
    if it.emails.len() > EMAILS_PER_ACCOUNT_MAX {
        return Err(Rejection::invalid("emails", "are more than 100"));
    }
    let mut seen = BTreeSet::new();
    for new in &it.emails {
        if new.email.is_empty() || new.email.chars().count() > EMAIL_CHARS_MAX {
            return Err(Rejection::invalid("email", "should have 1 to 128 characters"));
        }
        if !seen.insert(&new.email) {
            return Err(Rejection::invalid("email", "is there twice"));
        }
        cx.change(AccountChange::Email(AccountEmail {
            tenant: cx.tenant,
            id: new.id,
            account: it.id,
            email: new.email.clone(),
            active: true,
            created_at: new.created_at,
            revision: Revision::first(cx.seq),
        }));
    }
    Ok(())
}

/// Writes tags, fields and the audit of `objects`, which are of the account.
pub(crate) fn write_belongings(
    state: &State,
    (account, objects): (AccountId, &BTreeSet<Object>),
    it: &Belongings,
    cx: &mut Context,
) -> Result<(), Rejection> {
    let known = |object: Object| match objects.contains(&object) {
        true => Ok(()),
        false => Err(Rejection::invalid("objectId", "is not what comes with it")),
    };
    let mut tagged = BTreeSet::new();
    for new in &it.tags {
        known(new.object)?;
        tag::fits(state, new.definition, new.object.kind(), cx)?;
        let key = TagKey::new(account, new.object, new.definition);
        if !tagged.insert(key) {
            return Err(Rejection::invalid("tagDefinitionId", "is there twice"));
        }
        cx.change(AccountChange::Tag(Tag {
            tenant: cx.tenant,
            key,
            id: new.id,
            active: true,
            created_at: new.created_at,
            revision: Revision::first(cx.seq),
        }));
    }
    write_fields((account, &known), it, cx)?;
    let mut ordinals = BTreeMap::<Uuid, u32>::new();
    for new in &it.audits {
        let ordinal = ordinals.entry(new.object).or_default();
        let (tenant, entry) = (cx.tenant, new.clone());
        cx.change(AccountChange::AuditImported(AuditEntry {
            tenant,
            account,
            ordinal: *ordinal,
            entry,
        }));
        *ordinal += 1;
    }
    Ok(())
}

fn write_fields(
    (account, known): (AccountId, &impl Fn(Object) -> Result<(), Rejection>),
    it: &Belongings,
    cx: &mut Context,
) -> Result<(), Rejection> {
    let mut counts = BTreeMap::<Object, usize>::new();
    for new in &it.fields {
        known(new.object)?;
        custom_field::check_text("fieldName", &new.name)?;
        custom_field::check_text("fieldValue", &new.value)?;
        let count = counts.entry(new.object).or_default();
        if *count == FIELDS_PER_OBJECT_MAX {
            return Err(AccountRejection::TooManyCustomFields.into());
        }
        let ordinal = u8::try_from(*count).expect("an object has at most 100 fields");
        *count += 1;
        cx.change(AccountChange::CustomField(CustomField {
            tenant: cx.tenant,
            id: new.id,
            account,
            object: new.object,
            name: new.name.clone(),
            value: new.value.clone(),
            ordinal,
            active: true,
            created_at: new.dates.created_at,
            updated_at: new.dates.updated_at,
            revision: Revision::first(cx.seq),
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use super::*;
    use crate::account::CreateAccount;
    use crate::account::email::AccountEmailId;
    use crate::account::payment_method::CreatePaymentMethod;
    use crate::account::tag::{ControlTag, DefinitionRef};
    use crate::command::{AccountCommand, TenantCommand};
    use crate::import::AuditKind;
    use crate::import::{Dates, ImportedAudit, ImportedEmail, ImportedField, ImportedTag};
    use crate::testing::{Rows, TENANT};
    use crate::{Command, CustomFieldId, PaymentMethodId, TagDefinitionId, TagId, Timestamp};

    const ID: AccountId = AccountId::new(Uuid::from_u128(0xa));
    const METHOD: PaymentMethodId = PaymentMethodId::new(Uuid::from_u128(0xb));
    const DATES: Dates = Dates { created_at: Timestamp(5), updated_at: Timestamp(6) };

    fn uuid(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn field(n: u128, object: Object) -> ImportedField {
        let (name, value) = ("color".to_owned(), "blue".to_owned());
        ImportedField { id: CustomFieldId::new(uuid(n)), object, name, value, dates: DATES }
    }

    /// An account with one of everything.
    fn ann() -> ImportAccount {
        let method = CreatePaymentMethod::default_of(ID, "elsewhere".to_owned());
        let definition = DefinitionRef::Control(ControlTag::AutoPayOff);
        let created_at = Timestamp(7);
        let tag = ImportedTag {
            id: TagId::new(uuid(1)),
            object: Object::Account(ID),
            definition,
            created_at,
        };
        let audit = ImportedAudit {
            object: ID.uuid(),
            kind: AuditKind::Insert,
            at: Timestamp(5),
            changed_by: "carla".to_owned(),
            reason: None,
            comments: None,
            token: Uuid::nil(),
        };
        let email = "ann@example.org".to_owned();
        ImportAccount {
            id: ID,
            account: CreateAccount {
                external_key: Some("ann".to_owned()),
                ..CreateAccount::default()
            },
            dates: DATES,
            payment_method: Some(METHOD),
            methods: vec![ImportedMethod { id: METHOD, method, active: true, dates: DATES }],
            emails: vec![ImportedEmail { id: AccountEmailId::new(uuid(3)), email, created_at }],
            belongings: Belongings {
                tags: vec![tag],
                fields: vec![field(2, Object::PaymentMethod(METHOD))],
                audits: vec![audit.clone(), ImportedAudit { kind: AuditKind::Update, ..audit }],
            },
        }
    }

    fn import(rows: &mut Rows, it: ImportAccount) -> Result<crate::Executed, Rejection> {
        rows.run(Command::Account(AccountCommand::Import(Box::new(it))))
    }

    #[test]
    fn an_account_is_brought_once_under_its_ids_and_nobody_is_notified() {
        let mut rows = Rows::new();
        let made = import(&mut rows, ann()).unwrap();
        assert_eq!(made.reply, Some(Reply::Imported { is_new: true }));
        assert_eq!((made.done.events, made.done.effects), (vec![], vec![]));
        let account = rows.state.account(TENANT, ID).unwrap();
        assert_eq!((account.created_at, account.payment_method_id), (Timestamp(5), Some(METHOD)));
        assert_eq!(rows.state.custom_fields(TENANT, Object::PaymentMethod(METHOD)).len(), 1);
        let again = import(&mut rows, ImportAccount { methods: vec![], ..ann() }).unwrap();
        assert_eq!(again.reply, Some(Reply::Imported { is_new: false }));
        assert_eq!(again.done.changes, []);
    }

    fn check(change: impl FnOnce(&mut ImportAccount), expected: Expect) {
        let mut it = ann();
        change(&mut it);
        let refused = import(&mut Rows::new(), it).unwrap_err();
        expected.assert_eq(&refused.to_string());
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        check(
            |it| it.methods[0].active = false,
            expect!["paymentMethodId: is no method of the account"],
        );
        check(
            |it| it.methods[0].id = PaymentMethodId::new(ID.uuid()),
            expect!["id: 00000000-0000-0000-0000-00000000000a is there already"],
        );
        check(
            |it| {
                it.emails.push(ImportedEmail {
                    id: AccountEmailId::new(uuid(9)),
                    ..it.emails[0].clone()
                })
            },
            expect!["email: is there twice"],
        );
        check(
            |it| it.emails[0].email = "x".repeat(129),
            expect!["email: should have 1 to 128 characters"],
        );
        check(
            |it| it.belongings.tags[0].object = Object::PaymentMethod(METHOD),
            expect!["an object of the type PAYMENT_METHOD cannot have the tag AUTO_PAY_OFF"],
        );
        let unknown = DefinitionRef::Own(TagDefinitionId::new(uuid(77)));
        check(
            |it| it.belongings.tags[0].definition = unknown,
            expect!["there is no tag definition 00000000-0000-0000-0000-00000000004d"],
        );
        check(
            |it| it.belongings.fields[0].name = String::new(),
            expect!["fieldName: needs to be set"],
        );
        check(
            |it| it.belongings.fields[0].object = Object::Account(AccountId::new(uuid(8))),
            expect!["objectId: is not what comes with it"],
        );
        let fields = (100..201).map(|n| field(n, Object::Account(ID))).collect();
        check(|it| it.belongings.fields = fields, expect!["there are 100 custom fields at most"]);
        let fields = (100..10_101).map(|n| field(n, Object::Account(ID))).collect();
        check(
            |it| it.belongings.fields = fields,
            expect!["id: has more than 10000 things that belong to it"],
        );
    }

    #[test]
    fn ids_and_keys_that_are_taken_are_refused() {
        let mut rows = Rows::new();
        let account = rows.account();
        let refused = import(&mut rows, ImportAccount { id: account, ..ann() }).unwrap_err();
        assert!(matches!(refused, Rejection::Account(AccountRejection::AlreadyExists { .. })));
        import(&mut rows, ann()).unwrap();
        let other = || AccountId::new(uuid(0xc));
        let alone = ImportAccount {
            id: other(),
            payment_method: None,
            methods: vec![],
            emails: vec![],
            belongings: Belongings::default(),
            ..ann()
        };
        let of_key = import(&mut rows, alone).unwrap_err();
        expect!["externalKey: ann is taken"].assert_eq(&of_key.to_string());
        let bob = ImportAccount { account: CreateAccount::default(), id: other(), ..ann() };
        let of_id = import(&mut rows, bob).unwrap_err();
        expect!["id: 00000000-0000-0000-0000-00000000000b is there already"]
            .assert_eq(&of_id.to_string());
    }

    #[test]
    fn a_definition_is_brought_once() {
        let mut rows = Rows::new();
        let it = ImportTagDefinition {
            id: TagDefinitionId::new(uuid(5)),
            name: "vip".to_owned(),
            description: "pays".to_owned(),
            applies_to: vec!["ACCOUNT".to_owned()],
            created_at: Timestamp(1),
        };
        let mut bring = |it: &ImportTagDefinition| {
            let reply = rows.run(Command::Tenant(TenantCommand::ImportTagDefinition(it.clone())));
            reply.map(|it| it.reply)
        };
        assert_eq!(bring(&it), Ok(Some(Reply::Imported { is_new: true })));
        assert_eq!(bring(&it), Ok(Some(Reply::Imported { is_new: false })));
        let other = ImportTagDefinition { id: TagDefinitionId::new(uuid(6)), ..it };
        assert!(matches!(
            bring(&other),
            Err(Rejection::Tenant(crate::TenantRejection::TagDefinitionExists { .. }))
        ));
    }
}
