//! Accounts: how they are created and changed.

use std::collections::BTreeSet;

use crate::account::rules::tag;
use crate::account::tag::{ControlTag, DefinitionRef};
use crate::account::{CreateAccount, EraseAccount, ReleaseAccount, UpdateAccount};
use crate::change::AccountChange;
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::entitlement::rules::account_user;
use crate::object::ObjectType;
use crate::reply::{AccountReply, Outcome};
use crate::state::State;
use crate::{
    Accepted, Account, AccountId, AccountRejection, Event, Person, Rejection, Reply, Revision,
    Timestamp,
};

pub(crate) fn create(state: &State, it: &CreateAccount, cx: &mut Context) -> Outcome {
    let account = make(state, it, cx)?;
    let id = account.id;
    write_new(account, it, cx);
    Ok(Accepted::now(Reply::Account(AccountReply::Created(id))))
}

/// A new account: its id is minted and its key claimed. The caller writes it, with [`write_new`].
pub(crate) fn make(
    state: &State,
    it: &CreateAccount,
    cx: &mut Context,
) -> Result<Account, Rejection> {
    let id: AccountId = cx.mint();
    if let Some(key) = &it.external_key {
        let claim = ClaimKey::new(cx.tenant, ClaimKind::Account, key);
        if state.claim(&claim).is_some() || state.defaulted_account(cx.tenant, key).is_some() {
            return Err(AccountRejection::AlreadyExists { key: key.clone() }.into());
        }
        cx.claim(claim, id.uuid(), Some(id));
    }
    if let Some(parent) = it.parent_account_id
        && state.account(cx.tenant, parent).is_none()
    {
        return Err(AccountRejection::NotFound { id: parent }.into());
    }
    let fits =
        |tag: &ControlTag| tag::fits(state, DefinitionRef::Control(*tag), ObjectType::Account, cx);
    it.tags.iter().try_for_each(fits)?;
    Ok(Account {
        tenant: cx.tenant,
        id,
        external_key: it.external_key.clone(),
        currency: it.currency,
        bill_cycle_day_local: it.bill_cycle_day_local,
        parent_account_id: it.parent_account_id,
        is_payment_delegated_to_parent: it.is_payment_delegated_to_parent,
        payment_method_id: None,
        external_payment_method: None,
        reference_time: it.reference_time.unwrap_or(cx.now),
        time_zone: it.time_zone.clone().unwrap_or_else(|| "UTC".to_owned()),
        is_migrated: it.is_migrated,
        created_at: cx.now,
        updated_at: cx.now,
        erased_at: None,
        revision: Revision::first(cx.seq),
    })
}

/// Writes a new account with its person and its tags.
pub(crate) fn write_new(account: Account, it: &CreateAccount, cx: &mut Context) {
    let id = account.id;
    cx.change(AccountChange::Account(account));
    if it.person != Person::default() {
        cx.change(AccountChange::Person { account: id, person: Box::new(it.person.clone()) });
    }
    cx.event(Event::AccountCreated { account: id });
    for definition in it.tags.iter().copied().collect::<BTreeSet<_>>() {
        tag::put_control((id, definition), None, cx);
    }
}

pub(crate) fn update(state: &State, it: &UpdateAccount, cx: &mut Context) -> Outcome {
    let Some(before) = state.account(cx.tenant, it.account) else {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    };
    refuse_fixed_fields(before, it)?;
    if let Some(parent) = it.parent_account_id
        && (parent == before.id || state.account(cx.tenant, parent).is_none())
    {
        return Err(AccountRejection::NotFound { id: parent }.into());
    }
    if let Some(method) = it.payment_method_id {
        let own = state.payment_method(cx.tenant, method).filter(|m| m.account_id == before.id);
        if own.is_none_or(|m| !m.active) {
            return Err(AccountRejection::PaymentMethodNotFound { id: method }.into());
        }
    }
    let mut account = before.clone();
    account.currency = it.currency.or(before.currency);
    account.bill_cycle_day_local = it.bill_cycle_day_local.unwrap_or(before.bill_cycle_day_local);
    account.is_migrated = it.is_migrated.or(before.is_migrated);
    if it.reset {
        account.payment_method_id = it.payment_method_id;
        account.parent_account_id = it.parent_account_id;
        account.is_payment_delegated_to_parent = it.is_payment_delegated_to_parent.unwrap_or(false);
    } else {
        account.payment_method_id = it.payment_method_id.or(before.payment_method_id);
        account.parent_account_id = it.parent_account_id.or(before.parent_account_id);
        account.is_payment_delegated_to_parent =
            it.is_payment_delegated_to_parent.unwrap_or(before.is_payment_delegated_to_parent);
    }
    account.updated_at = cx.now;
    account.revision = before.revision.next(cx.seq);
    let known = state.person(cx.tenant, it.account);
    let person = if it.reset { it.person.clone() } else { merge(known.clone(), &it.person) };
    if person != known {
        cx.change(AccountChange::Person { account: it.account, person: Box::new(person) });
    }
    cx.change(AccountChange::Account(account));
    cx.event(Event::AccountChanged { account: it.account });
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn erase(state: &State, it: &EraseAccount, cx: &mut Context) -> Outcome {
    let Some(before) = state.account(cx.tenant, it.account) else {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    };
    // The claim on the key stays: nobody else gets it.
    erase_person(state, before, None, cx);
    Ok(Accepted::now(Reply::Done))
}

/// Whether the account is out of service is not known here: the partition knows it.
pub(crate) fn release(it: &ReleaseAccount, cx: &mut Context) -> Outcome {
    cx.event(Event::AccountReleased { account: it.account });
    Ok(Accepted::now(Reply::Done))
}

/// Erases what is known of the person; `external_key` is what is left of the account's name.
pub(crate) fn erase_person(
    state: &State,
    before: &Account,
    external_key: Option<String>,
    cx: &mut Context,
) {
    cx.change(AccountChange::Account(Account {
        external_key,
        erased_at: Some(cx.now),
        updated_at: cx.now,
        revision: before.revision.next(cx.seq),
        ..before.clone()
    }));
    cx.change(AccountChange::PersonErased { account: before.id });
    account_user::erase(state, before, cx);
    cx.event(Event::AccountChanged { account: before.id });
}

fn refuse_fixed_fields(before: &Account, it: &UpdateAccount) -> Result<(), Rejection> {
    let current_key = before.external_key.clone().unwrap_or_else(|| before.id.to_string());
    if it.external_key.as_ref().is_some_and(|key| *key != current_key)
        || (it.reset && it.external_key.is_none())
    {
        return Err(AccountRejection::KeyIsFixed { current: current_key }.into());
    }
    let fixed = |field: &'static str| {
        Err(AccountRejection::FieldIsFixed { field: field.to_owned() }.into())
    };
    if it.currency.is_some() && before.currency.is_some() && it.currency != before.currency {
        return fixed("currency");
    }
    let day = before.bill_cycle_day_local;
    if day != 0 && it.bill_cycle_day_local.is_some_and(|new| new != day) {
        return fixed("billCycleDayLocal");
    }
    if it.time_zone.as_ref().is_some_and(|zone| *zone != before.time_zone) {
        return fixed("timeZone");
    }
    // Kill Bill shows times to the second, and clients send back what they were shown.
    let second = |at: Timestamp| at.0.div_euclid(Timestamp::SECOND_US);
    if it.reference_time.is_some_and(|time| second(time) != second(before.reference_time)) {
        return fixed("referenceTime");
    }
    Ok(())
}

/// The known personal data, with the new values in place of the old ones; a field that is `None` in `new` stays.
pub(crate) fn merge(known: Person, new: &Person) -> Person {
    let pick = |new: &Option<String>, old: Option<String>| new.clone().or(old);
    Person {
        name: pick(&new.name, known.name),
        first_name_length: new.first_name_length.or(known.first_name_length),
        email: pick(&new.email, known.email),
        address1: pick(&new.address1, known.address1),
        address2: pick(&new.address2, known.address2),
        postal_code: pick(&new.postal_code, known.postal_code),
        company: pick(&new.company, known.company),
        city: pick(&new.city, known.city),
        state: pick(&new.state, known.state),
        country: pick(&new.country, known.country),
        locale: pick(&new.locale, known.locale),
        phone: pick(&new.phone, known.phone),
        notes: pick(&new.notes, known.notes),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::Command;
    use crate::Currency;
    use crate::change::Change;
    use crate::command::AccountCommand;
    use crate::testing::{Rows, TENANT};

    fn new_account(key: Option<&str>) -> CreateAccount {
        CreateAccount {
            external_key: key.map(str::to_owned),
            person: Person { name: Some("Ann".to_owned()), ..Person::default() },
            currency: Currency::parse("USD"),
            ..CreateAccount::default()
        }
    }

    fn create(rows: &mut Rows, it: CreateAccount) -> Result<AccountId, Rejection> {
        match rows.run(Command::Account(AccountCommand::Create(Box::new(it))))?.reply {
            Some(Reply::Account(AccountReply::Created(id))) => Ok(id),
            other => panic!("{other:?}"),
        }
    }

    /// Changes an account of key `a` by `change` and shows what came of it.
    fn check(change: impl FnOnce(&mut UpdateAccount), expected: Expect) {
        let mut rows = Rows::new();
        let id = create(&mut rows, new_account(Some("a"))).unwrap();
        let mut update = UpdateAccount::unchanged(id);
        change(&mut update);
        let shown = match rows.run(Command::Account(AccountCommand::Update(Box::new(update)))) {
            Ok(executed) => {
                let account = rows.state.account(TENANT, id).unwrap();
                let name = rows.state.person(TENANT, id).name;
                format!("{name:?} {} {:?}", account.bill_cycle_day_local, executed.done.events)
            }
            Err(rejection) => format!("{rejection:?}"),
        };
        expected.assert_eq(&shown.replace(&id.to_string(), "ID"));
    }

    #[test]
    fn updates() {
        check(|_| {}, expect![[r#"Some("Ann") 0 [AccountChanged { account: ID }]"#]]);
        check(
            |it| it.person.name = Some("Bea".to_owned()),
            expect![[r#"Some("Bea") 0 [AccountChanged { account: ID }]"#]],
        );
        check(
            |it| {
                it.reset = true;
                it.external_key = Some("a".to_owned());
            },
            expect!["None 0 [AccountChanged { account: ID }]"],
        );
        check(|it| it.reset = true, expect![[r#"Account(KeyIsFixed { current: "a" })"#]]);
        check(
            |it| it.external_key = Some("b".to_owned()),
            expect![[r#"Account(KeyIsFixed { current: "a" })"#]],
        );
        check(
            |it| it.currency = Currency::parse("EUR"),
            expect![[r#"Account(FieldIsFixed { field: "currency" })"#]],
        );
        check(
            |it| it.bill_cycle_day_local = Some(15),
            expect![[r#"Some("Ann") 15 [AccountChanged { account: ID }]"#]],
        );
        check(
            |it| it.time_zone = Some("CET".to_owned()),
            expect![[r#"Account(FieldIsFixed { field: "timeZone" })"#]],
        );
        check(
            |it| it.reference_time = Some(Timestamp(5)),
            expect![[r#"Account(FieldIsFixed { field: "referenceTime" })"#]],
        );
    }

    #[test]
    fn a_key_is_taken_once_and_an_id_counts_as_a_key() {
        let mut rows = Rows::new();
        create(&mut rows, new_account(Some("a"))).unwrap();
        let refused = create(&mut rows, new_account(Some("a")));
        assert_eq!(refused, Err(AccountRejection::AlreadyExists { key: "a".to_owned() }.into()));
        let nameless = create(&mut rows, new_account(None)).unwrap();
        let refused = create(&mut rows, new_account(Some(&nameless.to_string())));
        assert_eq!(
            refused,
            Err(AccountRejection::AlreadyExists { key: nameless.to_string() }.into())
        );
    }

    #[test]
    fn the_journal_image_of_an_account_tells_nothing_of_the_person() {
        let mut rows = Rows::new();
        let it = new_account(Some("ann@example.com"));
        let executed = rows.run(Command::Account(AccountCommand::Create(Box::new(it)))).unwrap();
        let account = executed
            .done
            .changes
            .iter()
            .find(|it| matches!(it, Change::Account(AccountChange::Account(_))));
        let image = serde_json::to_string(account.unwrap()).unwrap();
        assert!(!image.contains("Ann") && !image.contains("example.com"), "{image}");
    }
}
