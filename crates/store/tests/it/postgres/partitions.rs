//! Several writers, each with a partition of one database.

use std::collections::BTreeSet;

use domain::change::{Change, ClaimChange};
use domain::claim::{Claim, ClaimKey, ClaimKind};
use domain::command::EntitlementCommand;
use domain::customer::{CustomerRejection, email_claim};
use domain::entitlement::account_user::{SetAccountUsers, user_claim};
use domain::flag::definition::Expected;
use domain::payment::ReplyKey;
use domain::read::Read;
use domain::reply::AccountReply;
use domain::{AccountId, Command, PartitionNo, Person, Reply, Seq, TenantNo};
use engine::Answer;
use engine::partition::Verdict;
use engine::ports::{
    AccountQueries as _, Batch, CustomerQueries as _, EntitlementQueries as _,
    FollowerQueries as _, OutcomeQueries as _, Store, StoreError, StoredReply,
};
use store::verify::verify;
use store::{Error, Options, Share, SqlStore, open_share};
use uuid::Uuid;

use super::Scratch;
use crate::commits::{account_created, account_id, batch, two_tenants};
use crate::customers;
use crate::sqlite::number;
use crate::workload::{BEGIN, Workload, create_account};

const PARTITIONS: u16 = 3;

fn share(number: i64) -> Share {
    Share { partition: PartitionNo::new(number).unwrap(), partitions: PARTITIONS }
}

fn open(scratch: &Scratch, number: i64) -> SqlStore {
    open_share(&scratch.server(), share(number), &Options::default()).unwrap()
}

fn begin(store: &mut SqlStore, reads: &[Read], replies: &[ReplyKey]) {
    let reads: BTreeSet<Read> = reads.iter().cloned().collect();
    store.load(&reads, &replies.iter().copied().collect()).unwrap();
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn each_partition_has_a_journal_numbers_totals_and_outcomes_of_its_own() {
    let scratch = Scratch::new();
    let first = open(&scratch, 0);
    let queries = first.queries(2).unwrap();
    let mut first = two_tenants(first, 5);
    first.run(300);
    let mut others: Vec<Workload<SqlStore>> = (1..i64::from(PARTITIONS))
        .map(|number| {
            let mut workload = Workload::new(open(&scratch, number), 5 + number.unsigned_abs());
            workload.tenants.clone_from(&first.tenants);
            workload
        })
        .collect();
    // Side by side, so that claims and totals of one come between those of the other.
    for _ in 0..10 {
        first.run(30);
        others.iter_mut().for_each(|it| it.run(30));
    }
    let heads: Vec<Seq> =
        std::iter::once(first.head()).chain(others.iter().map(Workload::head)).collect();
    assert_eq!(queries.journal_heads().unwrap(), heads);
    let at = |head: &Seq| queries.of(head.partition()).journal_row(*head).unwrap().unwrap().at;
    assert_eq!(queries.journal_heads_at().unwrap(), heads.iter().map(at).max());
    for (number, head) in (0..).zip(&heads) {
        let of = queries.of(share(number).partition);
        assert_eq!(of.journal_head().unwrap(), *head);
        assert_eq!(head.partition(), share(number).partition);
        let (rows, upto) = of.journal_after(share(number).partition.start(), 10_000).unwrap();
        assert_eq!(upto, *head);
        assert!(rows.len() > 100, "the history is not of nothing");
        assert!(rows.iter().all(|row| row.seq.partition() == share(number).partition));
        let due = engine::ports::due_outcomes(&of, domain::Timestamp(i64::MAX), 10_000).unwrap();
        let orphans = of.outstanding_orphans().unwrap();
        assert!(due.len() + orphans.len() > 0, "something is waited for");
    }
    let counted: u64 = first
        .tenants
        .iter()
        .map(|no| queries.accounts(*no, engine::ports::Page { offset: 0, limit: 1 }).unwrap().all)
        .sum();
    let made: usize =
        first.accounts.len() + others.iter().map(|it| it.accounts.len()).sum::<usize>();
    assert_eq!(counted, made as u64, "a total is the sum over the partitions");
    let report = verify(first.partition.store().database().reader()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(report.accounts, counted);
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_key_that_two_want_goes_to_one_and_the_other_learns_of_it() {
    let scratch = Scratch::new();
    let (mut a, mut b) = (open(&scratch, 0), open(&scratch, 1));
    let (at_a, at_b) = (a.open().unwrap().next_seq, b.open().unwrap().next_seq);
    // An account has its id for a key: both want the key of account 7.
    let key = ClaimKey::new(TenantNo(1), ClaimKind::Account, &account_id(7).to_string());
    begin(&mut a, &[Read::Claim(key.clone())], &[]);
    begin(&mut b, &[Read::Claim(key.clone())], &[]);
    a.commit(&batch(vec![account_created(at_a, account_id(7))])).unwrap();
    let late = batch(vec![account_created(at_b, account_id(7))]);
    assert!(matches!(b.commit(&late), Err(StoreError::KeyTaken)));
    let again = b.load(&[Read::Claim(key.clone())].into(), &BTreeSet::new()).unwrap();
    assert_eq!(again.state.claims[&key].unwrap().owner, account_id(7).uuid());
    // A key that changes hands does so once.
    begin(&mut a, &[Read::Claim(key.clone())], &[]);
    begin(&mut b, &[Read::Claim(key.clone())], &[]);
    a.commit(&batch(vec![reclaimed(Seq(at_a.0 + 1), &key, 8)])).unwrap();
    let late = batch(vec![reclaimed(at_b, &key, 9)]);
    assert!(matches!(b.commit(&late), Err(StoreError::KeyTaken)));
    let now = b.load(&[Read::Claim(key.clone())].into(), &BTreeSet::new()).unwrap();
    assert_eq!(now.state.claims[&key].unwrap().owner, account_id(8).uuid());
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_users_key_is_of_one_account_whichever_partition_maps_it() {
    let scratch = Scratch::new();
    let mut a = two_tenants(open(&scratch, 0), 5);
    let mut b = Workload::new(open(&scratch, 1), 6);
    let tenant = a.tenants[0];
    let create = |key: &str| create_account(Some(key.to_owned()), Person::default());
    let account = |workload: &mut Workload<SqlStore>, key: &str| {
        let reply = workload.accepted(tenant, create(key));
        let Reply::Account(AccountReply::Created(id)) = reply else { panic!("{reply:?}") };
        id
    };
    let (of_a, of_b) = (account(&mut a, "ann"), account(&mut b, "bea"));
    let set = |account, users: &[&str]| {
        let users = users.iter().map(|it| (*it).to_owned()).collect();
        let set = SetAccountUsers { account, users, expected: Expected::Anything };
        Command::Entitlement(EntitlementCommand::SetUsers(Box::new(set)))
    };
    let is_refused = |workload: &mut Workload<SqlStore>, command| {
        let verdict = workload.one(tenant, command);
        matches!(verdict, Verdict::Answered(Answer::Refused(_)))
    };
    let queries = b.partition.store().queries(1).unwrap();
    let of = |user: &str| queries.account_of_user(tenant, user).unwrap();
    a.accepted(tenant, set(of_a, &["u", "v"]));
    assert!(is_refused(&mut b, set(of_b, &["u"])), "mapped in the other partition");
    assert!(is_refused(&mut b, create("u")), "nor is an account made with it");
    assert!(is_refused(&mut b, set(of_b, &["ann"])), "nor an external key of one there");
    assert!(is_refused(&mut b, set(of_b, &[&of_a.to_string()])), "nor an id");
    assert_eq!([of("u"), of("ann"), of(&of_a.to_string())], [Some(of_a); 3]);
    a.accepted(tenant, set(of_a, &["v"]));
    b.accepted(tenant, set(of_b, &["u"]));
    assert_eq!([of("u"), of("v")], [Some(of_b), Some(of_a)]);
    // Both have looked, and found it free: the one who commits first has it.
    let key = user_claim(tenant, "w");
    let claimed = |at: i64, owner: AccountId| {
        let mut entry = account_created(Seq(at), account_id(u128::from(at.unsigned_abs())));
        let claim = Claim { owner: owner.uuid(), account: Some(owner) };
        entry.changes.push(Change::Claim(ClaimChange::Taken { key: key.clone(), claim }));
        batch(vec![entry])
    };
    let (at_a, at_b) = (a.head().0 + 1, b.head().0 + 1);
    drop((a, b));
    let (mut a, mut b) = (open(&scratch, 0), open(&scratch, 1));
    assert_eq!([a.open().unwrap().next_seq, b.open().unwrap().next_seq], [Seq(at_a), Seq(at_b)]);
    begin(&mut a, &[Read::Claim(key.clone())], &[]);
    begin(&mut b, &[Read::Claim(key.clone())], &[]);
    b.commit(&claimed(at_b, of_b)).unwrap();
    assert!(matches!(a.commit(&claimed(at_a, of_a)), Err(StoreError::KeyTaken)));
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn an_address_that_two_want_goes_to_one_and_is_free_again() {
    let scratch = Scratch::new();
    let (mut a, mut b) = (open(&scratch, 0), open(&scratch, 1));
    let (at_a, at_b) = (a.open().unwrap().next_seq, b.open().unwrap().next_seq);
    let key = email_claim(TenantNo(1), "ada@example.org");
    let looked_for = [Read::Claim(key.clone())];
    let with = |at: i64, change: Change| {
        let mut entry = account_created(Seq(at), account_id(u128::from(at.unsigned_abs())));
        entry.changes.push(change);
        batch(vec![entry])
    };
    let taken = |at: i64, owner: u128| {
        let claim = Claim { owner: account_id(owner).uuid(), account: None };
        with(at, Change::Claim(ClaimChange::Taken { key: key.clone(), claim }))
    };
    begin(&mut a, &looked_for, &[]);
    begin(&mut b, &looked_for, &[]);
    a.commit(&taken(at_a.0, 7)).unwrap();
    assert!(matches!(b.commit(&taken(at_b.0, 8)), Err(StoreError::KeyTaken)));
    // An erasure does not read the claim of the address: it is the customer's own.
    begin(&mut a, &[], &[]);
    a.commit(&with(at_a.0 + 1, Change::Claim(ClaimChange::Released { key: key.clone() }))).unwrap();
    begin(&mut a, &looked_for, &[]);
    begin(&mut b, &looked_for, &[]);
    b.commit(&taken(at_b.0, 8)).unwrap();
    assert!(matches!(a.commit(&taken(at_a.0 + 2, 7)), Err(StoreError::KeyTaken)));
    let now = a.load(&looked_for.clone().into(), &BTreeSet::new()).unwrap().state;
    assert_eq!(now.claims[&key].unwrap().owner, account_id(8).uuid());
    // A notice to the owner of an address checks the claim: the owner may be erased meanwhile.
    begin(&mut a, &looked_for, &[]);
    begin(&mut b, &[], &[]);
    b.commit(&with(at_b.0 + 1, Change::Claim(ClaimChange::Released { key: key.clone() }))).unwrap();
    assert!(matches!(a.commit(&taken(at_a.0 + 2, 8)), Err(StoreError::KeyTaken)));
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn customers_of_all_partitions_share_their_addresses() {
    let scratch = Scratch::new();
    let mut a = two_tenants(open(&scratch, 0), 8);
    let mut b = Workload::new(open(&scratch, 1), 9);
    let queries = b.partition.store().queries(1).unwrap();
    for _ in 0..3 {
        let ada = customers::sign_up(&mut a, TenantNo(1), "Ada");
        let again = customers::register(customers::registration("Ada"));
        let refused = b.one(TenantNo(1), again);
        assert_eq!(customers::refusal(&refused), CustomerRejection::EmailTaken);
        customers::ask(&mut a, customers::erase(ada));
        let ada = customers::sign_up(&mut b, TenantNo(1), "Ada");
        let found = queries.customer_by_email(TenantNo(1), "ada@example.org").unwrap();
        assert_eq!(found.map(|it| it.id), Some(ada.id));
        customers::ask(&mut b, customers::erase(ada));
    }
    let report = verify(a.partition.store().database().reader()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    let sql = "SELECT count(*) FROM claim WHERE kind = 8";
    assert_eq!(number(a.partition.store(), sql), 0);
}

fn reclaimed(seq: Seq, key: &ClaimKey, owner: u128) -> engine::ports::Entry {
    let mut entry = account_created(seq, account_id(owner + 100));
    let claim = Claim { owner: account_id(owner).uuid(), account: None };
    entry.changes.push(Change::Claim(ClaimChange::Taken { key: key.clone(), claim }));
    entry
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_request_that_two_get_is_answered_by_one() {
    let scratch = Scratch::new();
    let (mut a, mut b) = (open(&scratch, 0), open(&scratch, 1));
    a.open().unwrap();
    b.open().unwrap();
    let key = ReplyKey(Uuid::from_u128(1));
    let reply = StoredReply {
        key,
        fingerprint: Uuid::nil(),
        answer: Some(Ok(Reply::Done)),
        expires_at: BEGIN,
    };
    let replies = Batch { replies: vec![reply], ..Batch::default() };
    begin(&mut a, &[], &[key]);
    begin(&mut b, &[], &[key]);
    a.commit(&replies).unwrap();
    assert!(matches!(b.commit(&replies), Err(StoreError::KeyTaken)));
    assert!(b.load(&BTreeSet::new(), &[key].into()).unwrap().replies.contains_key(&key));
    // The time of that answer is over, and both get the request again.
    let reply = StoredReply { expires_at: BEGIN.plus_us(1), ..replies.replies[0].clone() };
    let replies = Batch { replies: vec![reply], ..Batch::default() };
    begin(&mut a, &[], &[key]);
    a.commit(&replies).unwrap();
    assert!(matches!(b.commit(&replies), Err(StoreError::KeyTaken)));
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn former_owner_neither_commits_nor_retakes_the_partition() {
    let scratch = Scratch::new();
    let (mut stale, mut owner) = (open(&scratch, 2), open(&scratch, 2));
    let next = stale.open().unwrap().next_seq;
    begin(&mut stale, &[], &[]);
    assert_eq!(owner.open().unwrap().next_seq, next);
    let one = batch(vec![account_created(next, account_id(1))]);
    assert!(matches!(stale.commit(&one), Err(StoreError::NotOwner)));
    assert!(matches!(stale.open(), Err(StoreError::NotOwner)));
    begin(&mut owner, &[], &[]);
    owner.commit(&Batch { queue_offset: Some(17), ..one }).unwrap();
    assert_eq!(owner.open().unwrap().queue_offset, Some(17), "it may open what it still owns");
    assert_eq!(open(&scratch, 2).open().unwrap().next_seq, Seq(next.0 + 1));
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_database_with_one_partition_gets_more_once() {
    let scratch = Scratch::new();
    let mut workload = two_tenants(scratch.open(), 3);
    workload.run(300);
    let queries = workload.partition.store().queries(1).unwrap();
    let refused = open_share(&scratch.server(), share(1), &Options::default()).err().unwrap();
    assert!(refused.to_string().contains("another process"), "{refused}");
    let head = workload.head();
    let waited_for = queries.outstanding_count().unwrap();
    drop(workload);
    let (mut first, mut second) = (open(&scratch, 0), open(&scratch, 1));
    assert_eq!(first.open().unwrap().next_seq, Seq(head.0 + 1));
    assert_eq!(second.open().unwrap().next_seq, Seq(share(1).partition.start().0 + 1));
    let mut spread = 0;
    for number in 0..i64::from(PARTITIONS) {
        let of = queries.of(share(number).partition);
        let mut own =
            engine::ports::due_outcomes(&of, domain::Timestamp(i64::MAX), 10_000).unwrap();
        own.extend(of.outstanding_orphans().unwrap());
        assert!(own.iter().all(|it| share(number).has(it.tenant, it.account_id)));
        spread += own.len();
    }
    assert!(spread > 3 && i64::try_from(spread).unwrap() <= waited_for, "{spread}, {waited_for}");
    assert!(verify(first.database().reader()).unwrap().is_sound());
    let other = Share { partitions: PARTITIONS + 1, ..share(1) };
    let refused = open_share(&scratch.server(), other, &Options::default()).err().unwrap();
    assert!(refused.to_string().contains("another process"), "{refused}");
    drop((first, second));
    for wrong in [other, Share::WHOLE] {
        let refused = open_share(&scratch.server(), wrong, &Options::default()).err().unwrap();
        assert!(matches!(refused, Error::Partitions { found: PARTITIONS, .. }), "{refused}");
    }
}
