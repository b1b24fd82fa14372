//! The cases of every driver on SQLite, and what only an embedded database can show.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use domain::change::{AccountChange, Change};
use domain::read::{AccountRead, Read};
use domain::{Revision, Seq, TenantNo};
use engine::Reason;
use engine::partition::{Answer, Times, Verdict, Work};
use engine::ports::{Batch, Store, StoreError};
use expect_test::{expect, expect_file};
use store::driver::Value;
use store::sqlite::DIALECT;
use store::verify::verify;
use store::{Error, Options, SqlStore, open_dir};
use tempfile::tempdir;

use crate::commits::{self, account_created, account_id, batch, entry, two_tenants};
use crate::workload::{person, rename};

/// As usual, but with memtables of claims so small that each history compacts many.
pub const OPTIONS: Options = Options { claims_held: 16, ..Options::DEFAULT };

pub fn open(dir: &Path) -> SqlStore {
    open_dir(dir, &OPTIONS).unwrap()
}

fn begin(store: &mut SqlStore) {
    store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
}

/// The number that a query yields.
pub fn number(store: &SqlStore, sql: &str) -> i64 {
    store.database().reader().query_one(sql, &[], |cells| cells.int()).unwrap().unwrap()
}

/// However much of it is held in memory: all, some, or next to nothing.
#[test]
fn committed_rows_are_loaded() {
    let usual = Options::default();
    for (entities_held, claims_held) in [(usual.entities_held, usual.claims_held), (5, 40), (0, 1)]
    {
        let scratch = tempdir().unwrap();
        let options = Options { entities_held, claims_held, ..usual };
        commits::committed_rows_are_loaded(|| open_dir(scratch.path(), &options).unwrap());
        // A command that had been given something stale would have broken a chain.
        assert!(verify(open(scratch.path()).database().reader()).unwrap().is_sound());
    }
}

#[test]
fn a_read_loads_what_belongs_to_it() {
    let scratch = tempdir().unwrap();
    commits::a_read_loads_what_belongs_to_it(|| open(scratch.path()));
}

#[test]
fn an_older_epoch_does_not_commit() {
    let scratch = tempdir().unwrap();
    commits::an_older_epoch_does_not_commit(|| open(scratch.path()));
}

#[test]
fn a_failed_commit_leaves_nothing() {
    let scratch = tempdir().unwrap();
    commits::a_failed_commit_leaves_nothing(|| open(scratch.path()));
    let mut store = open(scratch.path());
    store.open().unwrap();
    assert!(verify(store.database().reader()).unwrap().is_sound());
}

#[test]
fn an_abandoned_batch_is_given_up() {
    let scratch = tempdir().unwrap();
    commits::an_abandoned_batch_is_given_up(|| open(scratch.path()));
}

#[test]
fn replies_are_kept() {
    let scratch = tempdir().unwrap();
    commits::replies_are_kept(|| open(scratch.path()));
}

#[test]
fn bookkeeping_is_kept() {
    let scratch = tempdir().unwrap();
    commits::bookkeeping_is_kept(|| open(scratch.path()));
}

#[test]
fn totals_move_only_with_the_commit_and_survive_it() {
    let scratch = tempdir().unwrap();
    let mut workload = two_tenants(open(scratch.path()), 11);
    workload.run(300);
    let store = workload.partition.store();
    let before = store.totals().clone();
    assert!(before.counters.len() >= 6 && before.ledger.len() >= 6, "{before:?}");
    begin(store);
    let next = store.open().unwrap().next_seq;
    let mut failing = account_created(next, account_id(1));
    let mut other = failing.clone();
    other.seq = Seq(next.0 + 5);
    begin(store);
    let refused = store.commit(&batch(vec![failing.clone(), other])).unwrap_err();
    let gap = matches!(&refused, StoreError::Database(it) if it.to_string().ends_with("is not the next one"));
    assert!(gap, "{refused:?}");
    assert_eq!(*store.totals(), before);
    begin(store);
    failing.changes.push(Change::Account(AccountChange::Person {
        account: account_id(1),
        person: person("A").into(),
    }));
    store.commit(&batch(vec![failing])).unwrap();
    let after = store.totals().clone();
    assert_ne!(after, before);
    store.open().unwrap();
    assert_eq!(*store.totals(), after, "what is kept in memory is what is written");
    assert!(verify(store.database().reader()).unwrap().is_sound());
}

/// An entity that changes twice in a batch is written once; the journal has both images.
#[test]
fn a_batch_writes_the_newest_image_once() {
    let scratch = tempdir().unwrap();
    let mut store = open(scratch.path());
    let first = store.open().unwrap().next_seq;
    let made = account_created(first, account_id(1));
    let Change::Account(AccountChange::Account(mut account)) = made.changes[1].clone() else {
        unreachable!()
    };
    let second = Seq(first.0 + 1);
    account.bill_cycle_day_local = 5;
    account.revision = Revision { seq: second, previous: Some(first) };
    let changed =
        entry(second, vec![Change::Account(AccountChange::Account(account.clone()))], vec![]);
    begin(&mut store);
    store.commit(&batch(vec![made, changed])).unwrap();
    let reads: BTreeSet<Read> = [AccountRead::Account(TenantNo(1), account_id(1)).into()].into();
    let loaded = store.load(&reads, &BTreeSet::new()).unwrap();
    account.revision.previous = None;
    assert_eq!(loaded.state.account.accounts.find(&(TenantNo(1), account_id(1))), Some(&account));
    store.commit(&Batch::default()).unwrap();
    assert_eq!(number(&store, "SELECT sum(changes LIKE '%Account%') FROM journal"), 2);
    assert_eq!(number(&store, "SELECT count(*) FROM account"), 1);
    assert!(verify(store.database().reader()).unwrap().is_sound());
}

#[test]
fn a_full_disk_refuses_writes_serves_reads_and_ends() {
    let scratch = tempdir().unwrap();
    let mut workload = two_tenants(open(scratch.path()), 5);
    workload.run(50);
    let store = workload.partition.store();
    let pages = number(store, "PRAGMA page_count");
    number(store, &format!("PRAGMA max_page_count = {pages}"));
    let mut next = store.open().unwrap().next_seq;
    let before = store.totals().clone();
    let full = (0..1_000).find_map(|_| {
        begin(store);
        let entries = (0..50).map(|n| {
            let seq = Seq(next.0 + n);
            account_created(seq, account_id(u128::try_from(seq.0).unwrap() << 64))
        });
        let committed = store.commit(&batch(entries.collect()));
        if committed.is_ok() {
            next.0 += 50;
        }
        committed.err()
    });
    assert!(matches!(full, Some(StoreError::DiskFull)), "{full:?}");
    let written = store.totals().counters.values().sum::<i64>();
    begin(store);
    let reads = [AccountRead::Account(TenantNo(1), account_id(1)).into()].into();
    store.load(&reads, &BTreeSet::new()).expect("reads go on");
    number(store, "PRAGMA max_page_count = 1000000");
    begin(store);
    store.commit(&batch(vec![account_created(next, account_id(7))])).unwrap();
    assert_eq!(store.totals().counters.values().sum::<i64>(), written + 1);
    assert_ne!(*store.totals(), before);
    assert!(verify(store.database().reader()).unwrap().is_sound());
}

#[test]
fn a_damaged_row_fails_only_what_needs_it() {
    let scratch = tempdir().unwrap();
    let mut workload = two_tenants(open(scratch.path()), 5);
    workload.run(50);
    let (tenant, damaged) = workload.accounts[0];
    let store = workload.partition.store();
    let sql = "UPDATE account SET currency = 'none' WHERE tenant = ?1 AND id = ?2";
    assert_eq!(store.database().exec(sql, &[tenant.into(), damaged.into()]).unwrap(), 1);
    // Forgets what it holds of it.
    store.open().unwrap();
    let renamed: Vec<_> = workload.accounts[..3].to_vec();
    let works = renamed.into_iter().map(|(tenant, account)| {
        let request = workload.request(tenant, rename(account, person("A")));
        Work::Request(Box::new(request))
    });
    let works: Vec<Work> = works.collect();
    let times = Times { now: workload.now, real_now: workload.now };
    let processed = workload.partition.process(&works, times, &mut |_, _| Ok(()));
    assert!(
        matches!(
            processed.verdicts[..],
            [
                Verdict::Unavailable(Reason::Quarantined),
                Verdict::Answered(Answer::Replied(_)),
                Verdict::Answered(Answer::Replied(_)),
            ]
        ),
        "{processed:?}"
    );
}

#[test]
fn a_journal_with_a_hole_at_its_end_does_not_open() {
    let scratch = tempdir().unwrap();
    let mut workload = two_tenants(open(scratch.path()), 3);
    workload.run(20);
    let head = workload.head();
    let store = workload.partition.store();
    store.database().exec("DELETE FROM journal WHERE seq = ?1", &[head.into()]).unwrap();
    let refused = store.open();
    assert!(matches!(refused, Err(StoreError::Corrupt { table: "partition", .. })), "{refused:?}");
}

#[test]
fn personal_data_and_secrets_stay_out_of_the_journal() {
    let scratch = tempdir().unwrap();
    let mut workload = two_tenants(open(scratch.path()), 3);
    workload.run(200);
    let store = workload.partition.store();
    assert!(number(store, "SELECT count(*) FROM account_person WHERE name LIKE 'Person%'") > 5);
    assert_eq!(number(store, "SELECT count(*) FROM tenant WHERE secret_hash = 'hash'"), 2);
    let sql = "SELECT count(*) FROM journal WHERE changes LIKE ?1 OR events LIKE ?1";
    for secret in ["%Person%", "%Renamed%", "%example.org%", "%Lyon%", "%\"hash\"%", "%customer-%"]
    {
        let found = store.database().reader().query_one(sql, &[secret.into()], |it| it.int());
        assert_eq!(found.unwrap(), Some(0), "{secret}");
    }
}

#[test]
fn a_directory_has_one_owner_and_nobody_else_looks_in() {
    let scratch = tempdir().unwrap();
    let dir = scratch.path().join("data");
    let store = open(&dir);
    let refused = open_dir(&dir, &Options::default()).err().unwrap();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for name in ["faregate.db", "faregate.db-wal", "faregate.db-shm", "faregate.lock"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
    drop(store);
    open(&dir);
}

#[test]
fn a_database_of_another_kind_or_version_is_refused() {
    let scratch = tempdir().unwrap();
    let check = |sql: &str, parameters: &[Value<'_>]| {
        let store = open(scratch.path());
        store.database().exec(sql, parameters).unwrap();
        drop(store);
        let refused = open_dir(scratch.path(), &Options::default()).err().unwrap();
        refused.to_string().replace(&scratch.path().display().to_string(), "DIR")
    };
    let insert = "INSERT INTO migration (version, checksum) VALUES (?1, ?2)";
    expect!["DIR/faregate.db was written by a newer version: its schema is 99, this version knows up to 22"]
    .assert_eq(&check(insert, &[99.into(), "x".into()]));
    repair(scratch.path(), "DELETE FROM migration WHERE version = 99");
    expect!["the schema of DIR/faregate.db is not what version 22 of it should be"]
        .assert_eq(&check("UPDATE migration SET checksum = ?1", &["x".into()]));
    repair(scratch.path(), "PRAGMA application_id = 1");
    expect!["DIR/faregate.db is not a Faregate database"].assert_eq(&refusal(scratch.path()));
    std::fs::write(scratch.path().join("faregate.db"), "not a database at all").unwrap();
    expect!["DIR/faregate.db is not a Faregate database"].assert_eq(&refusal(scratch.path()));
}

fn refusal(dir: &Path) -> String {
    let refused = open_dir(dir, &Options::default()).err().unwrap();
    refused.to_string().replace(&dir.display().to_string(), "DIR")
}

/// Changes a database behind the store's back.
fn repair(dir: &Path, sql: &str) {
    let path = store::database_path(dir);
    let db = store::driver::Database::open(&path, &Options::default(), &[]).unwrap();
    db.exec(sql, &[]).unwrap();
}

/// `schema.sql` is what the catalogue says; `UPDATE_EXPECT=1` writes it anew.
#[test]
fn schema_sql_is_the_catalogue() {
    let header = "-- Generated from src/tables.rs; a test keeps it up to date.\n\n";
    let generated = format!("{header}{}", store::schema::sql(&DIALECT));
    expect_file!["../../schema.sql"].assert_eq(&generated);
}
