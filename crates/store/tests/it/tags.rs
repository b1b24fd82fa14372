//! Tags on accounts: committed with the account or later, read back, with their history.

use domain::account::CreateAccount;
use domain::change::{AccountChange, Change};
use domain::command::AccountCommand;
use domain::read::Read;
use domain::reply::AccountReply;
use domain::tag::{AddTags, ControlTag, RemoveTags, Tag, TagKey};
use domain::{AccountId, Command, Person, Reply, TagDefinitionId, TenantNo};
use engine::ports::{HistoryOf, HistoryRow, Store};
use expect_test::expect;
use uuid::Uuid;

use crate::flags::damaged;
use crate::workload::{Workload, World, create_account};

const TENANT: TenantNo = TenantNo(1);

fn ids(numbers: &[u128]) -> Vec<TagDefinitionId> {
    numbers.iter().map(|it| TagDefinitionId::new(Uuid::from_u128(*it))).collect()
}

fn add<S: Store>(workload: &mut Workload<S>, account: AccountId, numbers: &[u128]) {
    workload.now = workload.now.plus_us(1);
    let definitions = ids(numbers);
    workload.accepted(
        TENANT,
        Command::Account(AccountCommand::AddTags(AddTags { account, definitions })),
    );
}

fn remove<S: Store>(workload: &mut Workload<S>, account: AccountId, numbers: &[u128]) {
    let definitions = ids(numbers);
    workload.accepted(
        TENANT,
        Command::Account(AccountCommand::RemoveTags(RemoveTags { account, definitions })),
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
    account
}

fn shown(tags: &[Tag]) -> Vec<(ControlTag, bool)> {
    tags.iter().map(|it| (it.key.definition, it.active)).collect()
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
    let tags = queries.tags_of(TENANT, account).unwrap();
    let expected = [
        (ControlTag::AutoPayOff, true),
        (ControlTag::AutoInvoicingReuseDraft, false),
        (ControlTag::Test, true),
    ];
    assert_eq!(shown(&tags), expected);
    assert_eq!(queries.tags_of(TenantNo(2), account).unwrap(), []);
    let history = |tenant, tag: &Tag| queries.history(tenant, HistoryOf::Tag(tag.id)).unwrap();
    assert_eq!(was_active(&history(TENANT, &tags[0])), [true]);
    assert_eq!(was_active(&history(TENANT, &tags[1])), [true, false]);
    assert_eq!(was_active(&history(TENANT, &tags[2])), [true, false, true]);
    assert!(history(TenantNo(2), &tags[0]).is_empty());
    let all = queries.account_histories(TENANT, account, 100).unwrap();
    let images = all
        .iter()
        .filter(|row| matches!(row.image, Change::Account(AccountChange::Tag(_))))
        .count();
    assert_eq!((all.len(), images), (7, 6));
}

#[test]
fn a_tag_that_is_not_there_is_loaded_as_absent() {
    let mut world = World::new(98);
    let account = fill(&mut world.workload);
    let key = |definition| TagKey { account, definition };
    let (there, not_there) = (key(ControlTag::Test), key(ControlTag::ManualPay));
    let reads =
        [Read::Tag(TENANT, there), Read::Tag(TENANT, not_there), Read::Tag(TenantNo(2), there)];
    let loaded = world.workload.partition.store().load(&reads.into(), &[].into()).unwrap().state;
    assert!(loaded.tags[&(TENANT, there)].is_some());
    assert_eq!(loaded.tags[&(TENANT, not_there)], None);
    assert_eq!(loaded.tags[&(TenantNo(2), there)], None);
}

#[test]
fn damage_is_found() {
    expect!["tag it is not what journal row N says"]
        .assert_eq(&damaged("UPDATE tag SET active = 0 WHERE definition = 1"));
    let lost = damaged("DELETE FROM tag WHERE definition = 1");
    assert!(lost.starts_with("journal tag ") && lost.ends_with(" is on no chain"), "{lost}");
}
