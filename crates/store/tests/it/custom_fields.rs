//! Custom fields: committed, read back, searched, with their history, and erased with the person.

use domain::account::EraseAccount;
use domain::account::custom_field::{
    AddCustomFields, CustomField, NewCustomField, NewValue, RemoveCustomFields, UpdateCustomFields,
};
use domain::account::email::ChangeAccountEmail;
use domain::change::{AccountChange, Change};
use domain::command::AccountCommand;
use domain::object::{Object, ObjectType};
use domain::read::AccountRow;
use domain::reply::AccountReply;
use domain::{AccountId, Command, CustomFieldId, Person, Reply, TenantNo};
use engine::ports::{FieldSearch, HistoryOf, Page, Store};
use store::verify::verify_source;

use crate::workload::{Workload, World, create_account};

const TENANT: TenantNo = TenantNo(1);
const ALL: Page = Page { offset: 0, limit: 100 };

/// Puts fields on an account, and says what the first of them is called by.
fn add<S: Store>(
    workload: &mut Workload<S>,
    account: AccountId,
    fields: &[(&str, &str)],
) -> [CustomFieldId; 3] {
    let new = |(name, value): &(&str, &str)| NewCustomField {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    workload.now = workload.now.plus_us(1);
    let (object, fields) = (Object::Account(account), fields.iter().map(new).collect());
    let command = AccountCommand::AddCustomFields(AddCustomFields { account, object, fields });
    let request = workload.request(TENANT, Command::Account(command));
    let ids = [0, 1, 2].map(|ordinal| request.id.entity(ordinal));
    workload.batch(vec![request]);
    ids
}

/// An account with the fields `color=green`, which was blue, and `shape=round`; `size=L` was removed. Its further
/// addresses are `b@x.org` and, until it was removed, `a@x.org`.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> (AccountId, [CustomFieldId; 3]) {
    let reply = workload.accepted(TENANT, create_account(None, Person::default()));
    let Reply::Account(AccountReply::Created(account)) = reply else { panic!("{reply:?}") };
    let made = add(workload, account, &[("color", "blue"), ("size", "L"), ("shape", "round")]);
    let [color, size, _] = made;
    let object = Object::Account(account);
    let fields = vec![NewValue { id: color, name: None, value: "green".to_owned() }];
    let command = UpdateCustomFields { account, object, fields };
    workload.accepted_later(TENANT, Command::Account(AccountCommand::UpdateCustomFields(command)));
    let command = RemoveCustomFields { account, object, fields: vec![size] };
    workload.accepted_later(TENANT, Command::Account(AccountCommand::RemoveCustomFields(command)));
    for email in ["a@x.org", "b@x.org"] {
        let email = ChangeAccountEmail { account, email: email.to_owned() };
        workload.accepted_later(TENANT, Command::Account(AccountCommand::AddEmail(email)));
    }
    let email = ChangeAccountEmail { account, email: "a@x.org".to_owned() };
    workload.accepted_later(TENANT, Command::Account(AccountCommand::RemoveEmail(email)));
    (account, made)
}

fn shown(fields: &[CustomField]) -> Vec<String> {
    fields.iter().map(|it| format!("{}={}", it.name, it.value)).collect()
}

/// The states that a field had.
fn states(world: &World, id: CustomFieldId) -> Vec<String> {
    let rows = world.queries.history(TENANT, HistoryOf::new::<CustomField>(id.uuid())).unwrap();
    let state = |change: &Change| {
        let Change::Account(AccountChange::CustomField(it)) = change else { panic!("{change:?}") };
        format!("{}={} {}", it.name, it.value, it.active)
    };
    rows.iter().map(|row| state(&row.image)).collect()
}

#[test]
fn fields_are_read_in_their_order_with_their_history() {
    let mut world = World::new(197);
    let (account, [color, size, shape]) = fill(&mut world.workload);
    let queries = &*world.queries;
    let object = Object::Account(account);
    let expected = ["color=green", "shape=round"];
    assert_eq!(shown(&queries.custom_fields_of(TENANT, object).unwrap()), expected);
    assert_eq!(
        shown(&queries.custom_fields_of_account(TENANT, account, &ObjectType::ALL).unwrap()),
        expected
    );
    let all = queries.custom_fields(TENANT, ALL).unwrap();
    assert_eq!(
        (shown(&all.items), all.matching, all.all),
        (expected.map(str::to_owned).to_vec(), 2, 2)
    );
    assert_eq!(queries.custom_fields_of(TenantNo(2), object).unwrap(), []);
    assert_eq!(queries.custom_fields(TenantNo(2), ALL).unwrap().all, 0);
    assert_eq!(states(&world, color), ["color=blue true", "color=green true"]);
    assert_eq!(states(&world, size), ["size=L true", "size=L false"]);
    assert_eq!(states(&world, shape), ["shape=round true"]);
    let all = queries.account_histories(TENANT, account, 100).unwrap();
    assert_eq!(all.len(), 9, "the account, five states of fields and three of addresses");
}

#[test]
fn fields_are_found_by_what_they_are() {
    let mut world = World::new(198);
    let (account, [_, _, shape]) = fill(&mut world.workload);
    let queries = &*world.queries;
    let find = |search: FieldSearch| {
        shown(&queries.custom_fields_named(TENANT, &search, ALL).unwrap().items)
    };
    let of_name = |name: &str, value: Option<&str>| {
        let (kind, value) = (ObjectType::Account, value.map(str::to_owned));
        find(FieldSearch::Value { kind, name: name.to_owned(), value })
    };
    assert_eq!(of_name("color", None), ["color=green"]);
    assert_eq!(of_name("color", Some("green")), ["color=green"]);
    assert_eq!(of_name("color", Some("blue")), [""; 0], "it was that before");
    assert_eq!(of_name("size", None), [""; 0], "it was removed");
    assert_eq!(find(FieldSearch::Text("round".to_owned())), ["shape=round"]);
    assert_eq!(find(FieldSearch::Text("shape".to_owned())), ["shape=round"]);
    assert_eq!(find(FieldSearch::Text("ROUND".to_owned())), [""; 0]);
    assert_eq!(find(FieldSearch::Text(shape.to_string())), ["shape=round"]);
    assert_eq!(find(FieldSearch::Text(account.to_string())), ["color=green", "shape=round"]);
    let part = queries.search_custom_fields(TENANT, "OUN", ALL).unwrap();
    assert_eq!(shown(&part.items), ["shape=round"]);
}

#[test]
fn fields_are_erased_with_the_person_also_within_a_batch() {
    let mut world = World::new(199);
    let (account, [color, ..]) = fill(&mut world.workload);
    let (other, _) = fill(&mut world.workload);
    let fields = vec![NewCustomField { name: "late".to_owned(), value: "one".to_owned() }];
    let object = Object::Account(account);
    let add = AccountCommand::AddCustomFields(AddCustomFields { account, object, fields });
    let erase = AccountCommand::Erase(EraseAccount { account });
    let batch = [add.clone(), erase, add].map(|it| world.workload.request(TENANT, it.into()));
    world.workload.batch(batch.to_vec());
    let queries = &*world.queries;
    assert_eq!(shown(&queries.custom_fields_of(TENANT, object).unwrap()), ["late=one"]);
    assert_eq!(queries.custom_fields(TENANT, ALL).unwrap().all, 3, "two of the other account");
    assert_eq!(queries.custom_fields_of_account(TENANT, other, &ObjectType::ALL).unwrap().len(), 2);
    let emails = |account| {
        let rows = queries.rows(&[AccountRow::Emails(TENANT, account).into()].into()).unwrap();
        rows.account.emails.of(&(TENANT, account)).len()
    };
    assert_eq!((emails(account), emails(other)), (0, 1));
    assert_eq!(states(&world, color), ["= true", "= true"], "what happened stays");
    let found = queries.search_custom_fields(TENANT, "green", ALL).unwrap();
    assert_eq!(found.matching, 1, "the other account's");
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}
