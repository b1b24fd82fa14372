//! Tags on accounts: committed with the account or later, read back, with their history.

use domain::account::CreateAccount;
use domain::account::tag::Tag;
use domain::account::tag::TagDefinition;
use domain::account::tag::{AddTags, ControlTag, CreateTagDefinition, RemoveTags, TagKey};
use domain::change::{AccountChange, Change};
use domain::command::{AccountCommand, TenantCommand};
use domain::object::{Object, ObjectType};
use domain::read::AccountRow;
use domain::reply::AccountReply;
use domain::{AccountId, Command, Person, Reply, TagDefinitionId, TenantNo};
use engine::ports::{HistoryOf, HistoryRow, NamedTag, Page, Store};
use store::verify::verify_source;
use uuid::Uuid;

use crate::flags::damaged;
use crate::workload::{Workload, World, create_account};

const TENANT: TenantNo = TenantNo(1);

fn ids(numbers: &[u128]) -> Vec<TagDefinitionId> {
    numbers.iter().map(|it| TagDefinitionId::new(Uuid::from_u128(*it))).collect()
}

fn add<S: Store>(workload: &mut Workload<S>, account: AccountId, numbers: &[u128]) {
    let definitions = ids(numbers);
    workload.accepted_later(
        TENANT,
        Command::Account(AccountCommand::AddTags(AddTags { account, part: None, definitions })),
    );
}

fn remove<S: Store>(workload: &mut Workload<S>, account: AccountId, numbers: &[u128]) {
    let definitions = ids(numbers);
    workload.accepted(
        TENANT,
        Command::Account(AccountCommand::RemoveTags(RemoveTags {
            account,
            part: None,
            definitions,
        })),
    );
}

/// An account that came with a tag, has another one that was removed and came back, and had a third.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> AccountId {
    let Command::Account(AccountCommand::Create(it)) = create_account(None, Person::default())
    else {
        unreachable!("it makes an account")
    };
    let it = CreateAccount { tags: vec![ControlTag::AutoPayOff], ..*it };
    let reply = workload.accepted(TENANT, Command::Account(AccountCommand::Create(Box::new(it))));
    let Reply::Account(AccountReply::Created(account)) = reply else { panic!("{reply:?}") };
    add(workload, account, &[6, 9]);
    remove(workload, account, &[6]);
    add(workload, account, &[1, 6]);
    remove(workload, account, &[9]);
    define(workload, account);
    account
}

/// A definition of the tenant's own, `vip`, with which the account is tagged.
fn define<S: Store>(workload: &mut Workload<S>, account: AccountId) -> TagDefinitionId {
    let command = TenantCommand::DefineTag(CreateTagDefinition {
        name: "vip".to_owned(),
        description: "pays at once".to_owned(),
        applies_to: vec!["ACCOUNT".to_owned(), "PAYMENT".to_owned()],
    });
    let reply = workload.accepted(TENANT, Command::Tenant(command));
    let Reply::TagDefinitionCreated(id) = reply else { panic!("{reply:?}") };
    let command = AddTags { account, part: None, definitions: vec![id] };
    workload.accepted_later(TENANT, Command::Account(AccountCommand::AddTags(command)));
    id
}

fn shown(tags: &[NamedTag]) -> Vec<(&str, bool)> {
    tags.iter().map(|it| (it.definition.name(), it.tag.active)).collect()
}

fn was_active(rows: &[HistoryRow]) -> Vec<bool> {
    let active = |row: &HistoryRow| matches!(&row.image, Change::Account(AccountChange::Tag(it)) if it.active);
    rows.iter().map(active).collect()
}

#[test]
fn tags_are_read_with_their_history() {
    let mut world = World::new(97);
    let account = fill(&mut world.workload);
    let queries = &*world.queries;
    let tags = queries.tags_of_account(TENANT, account, (&ObjectType::ALL, true)).unwrap();
    let expected = [
        ("AUTO_PAY_OFF", true),
        ("AUTO_INVOICING_REUSE_DRAFT", false),
        ("TEST", true),
        ("vip", true),
    ];
    assert_eq!(shown(&tags), expected);
    assert_eq!(
        queries.tags_of_account(TenantNo(2), account, (&ObjectType::ALL, true)).unwrap(),
        []
    );
    let history = |tenant, it: &NamedTag| {
        queries.history(tenant, HistoryOf::new::<Tag>(it.tag.id.uuid())).unwrap()
    };
    assert_eq!(was_active(&history(TENANT, &tags[0])), [true]);
    assert_eq!(was_active(&history(TENANT, &tags[1])), [true, false]);
    assert_eq!(was_active(&history(TENANT, &tags[2])), [true, false, true]);
    assert!(history(TenantNo(2), &tags[0]).is_empty());
    let all = queries.account_histories(TENANT, account, 100).unwrap();
    let images = all
        .iter()
        .filter(|row| matches!(row.image, Change::Account(AccountChange::Tag(_))))
        .count();
    assert_eq!((all.len(), images), (8, 7));
}

#[test]
fn tags_of_a_tenants_own_definition_are_found_and_keep_it_in_use() {
    let mut world = World::new(96);
    let account = fill(&mut world.workload);
    let queries = &*world.queries;
    let all = Page { offset: 0, limit: 100 };
    let definitions = queries.tag_definitions(TENANT).unwrap();
    let [vip] = &definitions[..] else { panic!("{definitions:?}") };
    assert_eq!(
        (vip.name.as_str(), &vip.applies_to[..]),
        ("vip", &["ACCOUNT".to_owned(), "PAYMENT".to_owned()][..])
    );
    assert_eq!(queries.tag_definitions(TenantNo(2)).unwrap(), []);
    let page = queries.tags(TENANT, all).unwrap();
    assert_eq!((page.items.len(), page.matching, page.all), (3, 3, 3));
    let test = ids(&[6])[0];
    let found = queries.tags_named(TENANT, &[vip.id, test], all).unwrap();
    assert_eq!(shown(&found.items), [("vip", true), ("TEST", true)]);
    let second = queries.tags_named(TENANT, &[vip.id, test], Page { offset: 1, limit: 1 }).unwrap();
    assert_eq!((shown(&second.items), second.matching, second.all), (vec![("TEST", true)], 2, 3));
    let states = queries.history(TENANT, HistoryOf::new::<TagDefinition>(vip.id.uuid())).unwrap();
    assert_eq!(states.len(), 1);
    let id = vip.id;
    let undefine = || Command::Tenant(TenantCommand::UndefineTag(id));
    let refused = world.workload.one(TENANT, undefine());
    assert!(format!("{refused:?}").contains("TagDefinitionInUse"), "{refused:?}");
    let command = RemoveTags { account, part: None, definitions: vec![id] };
    world.workload.accepted(TENANT, Command::Account(AccountCommand::RemoveTags(command)));
    world.workload.accepted(TENANT, undefine());
    let queries = &*world.queries;
    assert_eq!(queries.tag_definitions(TENANT).unwrap(), []);
    let gone = queries.tags_of(TENANT, Object::Account(account)).unwrap();
    assert_eq!(shown(&gone)[3], ("vip", false), "it still has its name");
    assert!(verify_source(&world.home.source()).unwrap().is_sound());
}

#[test]
fn a_tag_that_is_not_there_is_loaded_as_absent() {
    let mut world = World::new(98);
    let account = fill(&mut world.workload);
    let key = |tag| TagKey::of_account(account, tag);
    let (there, not_there) = (key(ControlTag::Test), key(ControlTag::ManualPay));
    let reads = [
        AccountRow::Tag(TENANT, there).into(),
        AccountRow::Tag(TENANT, not_there).into(),
        AccountRow::Tag(TenantNo(2), there).into(),
    ];
    let loaded = world.workload.partition.store().load(&reads.into(), &[].into()).unwrap().state;
    let tags = loaded.account.tags;
    assert!(tags.get(&(TENANT, there)).is_some());
    assert_eq!(tags.get(&(TENANT, not_there)), None);
    assert_eq!(tags.get(&(TenantNo(2), there)), None);
}

#[test]
fn damage_is_found() {
    let changed =
        damaged("UPDATE object_tag SET active = 0 WHERE seq = (SELECT min(seq) FROM object_tag)");
    assert!(changed.ends_with("object_tag it is not what journal row N says"), "{changed}");
    assert!(changed.starts_with("counter is "), "the total is another one: {changed}");
    let lost = damaged("DELETE FROM object_tag WHERE seq = (SELECT min(seq) FROM object_tag)");
    assert!(lost.contains("journal tag ") && lost.ends_with(" is on no chain"), "{lost}");
}
