//! The checks of customers: who is there, who is not any more, and what is to be done for them.

use std::collections::{BTreeMap, BTreeSet};

use domain::TenantNo;
use domain::account::tag::{ControlTag, DefinitionRef};
use domain::customer::operation::OperationStatus;
use domain::customer::{CustomerFile, CustomerStatus, Issued};

use super::Wrong;
use crate::ask::Uid;
use crate::ask::signup::Letter;
use crate::disk::Books;
use crate::model::{Customer, Model, Operation};
use crate::translate;

/// All checks of customers.
pub fn all(books: &Books, model: &Model) -> Vec<Result<(), Wrong>> {
    vec![
        addresses(books),
        accounts(books),
        forgotten(books),
        customers(books, model),
        mails(books, model),
        operations(books, model),
        tags(books, model),
        fields(books, model),
        states(books, model),
    ]
}

fn is_there(file: &&CustomerFile) -> bool {
    file.customer.status != CustomerStatus::Erased
}

fn addresses(books: &Books) -> Result<(), Wrong> {
    let mut seen = BTreeSet::new();
    for it in books.customers.iter().filter(is_there).map(|file| &file.customer) {
        if !seen.insert((it.tenant, it.profile.email_key.clone())) {
            return Err(Wrong::new("an address has one customer", &format!("{it:x?}")));
        }
    }
    Ok(())
}

/// Everybody has an account, whose key is their id, and from which nothing was paid by itself when it
/// was made.
fn accounts(books: &Books) -> Result<(), Wrong> {
    let mut by_key: BTreeMap<(TenantNo, &str), Vec<Uid>> = BTreeMap::new();
    for (it, _) in &books.accounts {
        if let Some(key) = &it.external_key {
            by_key.entry((it.tenant, key)).or_default().push(it.id.uuid().as_u128());
        }
    }
    let auto_pay_off = DefinitionRef::Control(ControlTag::AutoPayOff);
    let tagged = books.tags.iter().filter(|it| it.key.definition == auto_pay_off);
    let tagged: BTreeSet<_> = tagged.map(|it| (it.tenant, it.key.account)).collect();
    for it in books.customers.iter().map(|file| &file.customer) {
        let key = it.id.to_string();
        let own = by_key.get(&(it.tenant, key.as_str()));
        let is_theirs = own.is_some_and(|own| *own == [it.account.uuid().as_u128()]);
        if !is_theirs || !tagged.contains(&(it.tenant, it.account)) {
            let context = format!("{own:x?} of {it:x?}");
            return Err(Wrong::new("a customer has one account", &context));
        }
    }
    Ok(())
}

/// Nothing is left of who is forgotten: in their row, in their account's, or to be mailed.
fn forgotten(books: &Books) -> Result<(), Wrong> {
    let check = "nothing is left of who is forgotten";
    for file in books.customers.iter().filter(|file| !is_there(file)) {
        let it = &file.customer;
        let is_empty = it.profile == Default::default() && it.credentials == Default::default();
        if !is_empty || !file.sessions.is_empty() {
            return Err(Wrong::new(check, &format!("{file:x?}")));
        }
        let mut people = books.accounts.iter().filter(|(own, _)| own.id == it.account);
        if let Some((_, person)) = people.find(|(_, person)| person.email.is_some()) {
            return Err(Wrong::new(check, &format!("{person:?} of {:x?}", it.id)));
        }
        if let Some(mail) = books.mails.iter().find(|mail| mail.customer == it.id) {
            return Err(Wrong::new(check, &format!("{mail:x?}")));
        }
    }
    Ok(())
}

fn customers(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut stored: Vec<String> = books.customers.iter().map(shown).collect();
    let of_all = model.tenants.iter();
    let mut expected: Vec<String> = of_all
        .flat_map(|(no, tenant)| {
            tenant.people.customers.iter().map(|(id, it)| described(*no, *id, it))
        })
        .collect();
    same("customers are what the model says", &mut stored, &mut expected)
}

fn shown(file: &CustomerFile) -> String {
    let it = &file.customer;
    let held = |it: Option<Issued>| it.map(|it| (it.id.uuid().as_u128(), it.expires_at.0));
    let address = Some(&it.profile.email_key).filter(|key| !key.is_empty());
    let mut sessions: Vec<_> = file
        .sessions
        .iter()
        .map(|it| {
            (
                it.created_at.0,
                it.id.uuid().as_u128(),
                it.generation,
                it.renewed_at.0,
                it.refresh_until.0,
            )
        })
        .collect();
    sessions.sort_unstable();
    format!(
        "{} {:x} {:x} {address:?} {:?} {} {} {} {:x?} {:x?} {:?} {sessions:x?}",
        it.tenant.0,
        it.id.uuid().as_u128(),
        it.account.uuid().as_u128(),
        it.profile.first_name,
        it.status == CustomerStatus::Active,
        it.is_verified,
        it.password_version,
        held(it.verification),
        held(it.reset),
        it.expires_at.map(|at| at.0),
    )
}

fn described(tenant: u32, id: Uid, it: &Customer) -> String {
    let mut sessions: Vec<_> = it
        .sessions
        .iter()
        .map(|it| (it.began, it.id, it.generation, it.renewed, it.until))
        .collect();
    sessions.sort_unstable();
    format!(
        "{tenant} {id:x} {:x} {:?} {:?} {} {} {} {:x?} {:x?} {:?} {sessions:x?}",
        it.account,
        it.address.as_ref(),
        it.name,
        it.active && it.address.is_some(),
        it.verified,
        it.version,
        it.verification,
        it.reset,
        it.expires,
    )
}

fn mails(books: &Books, model: &Model) -> Result<(), Wrong> {
    let line = |tenant: u32, to: Uid, letter: Letter, token: Option<Uid>| {
        format!("{tenant} {to:x} {letter:?} {token:x?}")
    };
    let mut stored: Vec<String> = books
        .mails
        .iter()
        .map(|it| {
            let token = it.token.map(|token| token.uuid().as_u128());
            line(it.tenant.0, it.customer.uuid().as_u128(), translate::letter(it.kind), token)
        })
        .collect();
    let mut expected: Vec<String> = vec![];
    for (no, tenant) in &model.tenants {
        let own = tenant.people.mails.iter();
        expected.extend(own.map(|(to, letter, token, _)| line(*no, *to, *letter, *token)));
    }
    same("mails are those that were asked for", &mut stored, &mut expected)
}

fn operations(books: &Books, model: &Model) -> Result<(), Wrong> {
    let line = |tenant: u32, id: Uid, how: Operation, kept: bool| {
        format!("{tenant} {id:x} {how:x?} kept: {kept}")
    };
    let mut stored: Vec<String> = vec![];
    for it in &books.operations {
        let how = match it.status {
            OperationStatus::Waiting => Operation::Waiting,
            OperationStatus::Succeeded(made) => Operation::Made(made.map(|id| id.uuid().as_u128())),
            OperationStatus::Failed(_) => Operation::Failed,
        };
        stored.push(line(it.tenant.0, it.id.uuid().as_u128(), how, it.sealed.is_some()));
    }
    let mut expected: Vec<String> = vec![];
    for (no, tenant) in &model.tenants {
        let all = tenant.people.operations.iter();
        expected.extend(all.map(|(id, it)| line(*no, *id, *it, *it == Operation::Waiting)));
    }
    same("what was kept for later is what the model says", &mut stored, &mut expected)
}

fn tags(books: &Books, model: &Model) -> Result<(), Wrong> {
    let line = |tenant: u32, account: Uid, number: u8, active: bool| {
        format!("{tenant} {account:x} {number} {active}")
    };
    let mut stored: Vec<String> = vec![];
    for it in &books.tags {
        let DefinitionRef::Control(tag) = it.key.definition else { continue };
        let number = tag.definition().number;
        stored.push(line(it.tenant.0, it.key.account.uuid().as_u128(), number, it.active));
    }
    let mut expected: Vec<String> = vec![];
    for (no, tenant) in &model.tenants {
        let all = tenant.people.tags.iter();
        expected.extend(all.map(|((account, number), it)| line(*no, *account, *number, *it)));
    }
    same("tags are what the model says", &mut stored, &mut expected)
}

fn fields(books: &Books, model: &Model) -> Result<(), Wrong> {
    let line = |tenant: u32, object: Uid, name: &str, value: &str| {
        format!("{tenant} {object:x} {name}={value}")
    };
    let mut stored: Vec<String> = vec![];
    for it in &books.custom_fields {
        stored.push(line(it.tenant.0, it.object.id().as_u128(), &it.name, &it.value));
    }
    let mut expected: Vec<String> = vec![];
    for (no, tenant) in &model.tenants {
        for ((account, payment), fields) in &tenant.people.fields {
            let object = payment.unwrap_or(*account);
            expected.extend(fields.iter().map(|it| line(*no, object, &it.name, &it.value)));
        }
    }
    same("custom fields are what the model says", &mut stored, &mut expected)
}

fn states(books: &Books, model: &Model) -> Result<(), Wrong> {
    let line = |tenant: u32, account: Uid, at: usize, service: &str, state: &str| {
        format!("{tenant} {account:x} {at} {service}={state}")
    };
    let mut stored: Vec<String> = vec![];
    for it in &books.blocking_states {
        let (account, at) = (it.account.uuid().as_u128(), it.ordinal as usize);
        stored.push(line(it.tenant.0, account, at, &it.service, &it.name));
    }
    let mut expected: Vec<String> = vec![];
    for (no, tenant) in &model.tenants {
        for (account, it) in &tenant.accounts {
            let states = it.states.iter().zip(1..);
            expected.extend(
                states.map(|((service, state), at)| line(*no, *account, at, service, state)),
            );
        }
    }
    same("blocking states are what the model says", &mut stored, &mut expected)
}

pub(super) fn same(
    check: &'static str,
    stored: &mut [String],
    expected: &mut [String],
) -> Result<(), Wrong> {
    stored.sort_unstable();
    expected.sort_unstable();
    let differs = stored.iter().zip(expected.iter()).find(|(stored, expected)| stored != expected);
    if let Some((stored, expected)) = differs {
        return Err(Wrong::new(check, &format!("{stored}, not {expected}")));
    }
    if stored.len() != expected.len() {
        let context = format!("{} rows instead of {}", stored.len(), expected.len());
        return Err(Wrong::new(check, &context));
    }
    Ok(())
}
