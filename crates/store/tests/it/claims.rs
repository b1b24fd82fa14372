//! Claims on their way from `claim_recent` into `claim`: found at every step, by everybody.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use domain::change::{Change, ClaimChange};
use domain::claim::{Claim, ClaimKey, ClaimKind};
use domain::read::Read;
use domain::reply::AccountReply;
use domain::{AccountId, Reply, Seq, TenantNo};
use engine::ports::{Batch, Entry, Queries, Store, StoreError};
use store::verify::verify_dir;
use store::{SqlQueries, SqlStore, database_path};
use tempfile::tempdir;

use crate::commits::{account_created, account_id, batch, two_tenants};
use crate::sqlite::{OPTIONS, number, open};
use crate::workload::{Workload, create_account, person};

const TENANT: TenantNo = TenantNo(1);

fn add_account(workload: &mut Workload<SqlStore>, key: &str) -> AccountId {
    let create = create_account(Some(key.to_owned()), person("Ada"));
    let Reply::Account(AccountReply::Created(id)) = workload.accepted(TENANT, create) else {
        panic!()
    };
    id
}

fn rows(store: &SqlStore) -> (i64, i64) {
    let [recent, merged] = ["claim_recent", "claim"]
        .map(|table| number(store, &format!("SELECT count(*) FROM {table}")));
    (recent, merged)
}

/// The owners of the keys, as the writer loads them.
fn loaded(store: &mut SqlStore, keys: &[(String, AccountId)]) -> Vec<Option<AccountId>> {
    let reads: BTreeSet<Read> = keys.iter().map(|(key, _)| Read::Claim(claim_key(key))).collect();
    let state = store.load(&reads, &BTreeSet::new()).unwrap().state;
    let owner = |key: &str| state.claims[&claim_key(key)].map(|it| AccountId::new(it.owner));
    keys.iter().map(|(key, _)| owner(key)).collect()
}

fn claim_key(key: &str) -> ClaimKey {
    ClaimKey::new(TENANT, ClaimKind::Account, key)
}

fn owner(queries: &dyn Queries, key: &str) -> Option<AccountId> {
    queries.account_by_key(TENANT, key).unwrap().map(|view| view.account.id)
}

/// After each commit, through memtables that fill, are compacted and deleted: by the writer, by readers
/// beside it, and after a kill, of which a copy of the files is the same.
#[test]
fn a_claim_is_found_at_every_step_of_a_merge() {
    let (scratch, killed) = (tempdir().unwrap(), tempdir().unwrap());
    let mut workload = two_tenants(open(scratch.path()), 3);
    let queries = workload.partition.store().queries(2).unwrap();
    let mut keys: Vec<(String, AccountId)> = vec![];
    let mut seen = BTreeSet::new();
    for n in 0..4 * OPTIONS.claims_held {
        let key = format!("key-{n}");
        keys.push((key.clone(), add_account(&mut workload, &key)));
        let store = workload.partition.store();
        let expected: Vec<_> = keys.iter().map(|(_, id)| Some(*id)).collect();
        assert_eq!(loaded(store, &keys), expected, "after {n}");
        store.commit(&Batch::default()).unwrap();
        for (key, id) in &keys {
            assert_eq!(owner(&queries, key), Some(*id), "{key} after {n}");
        }
        seen.insert(rows(store));
        if n % 7 == 0 {
            // Goes on from what the database has.
            store.open().unwrap();
        }

        copy(scratch.path(), killed.path());
        let mut again = open(killed.path());
        again.open().unwrap();
        assert_eq!(loaded(&mut again, &keys), expected, "killed after {n}");
        drop(again);
        let alone = SqlQueries::open(&database_path(killed.path()), &OPTIONS, 1).unwrap();
        assert_eq!(owner(&alone, &key), keys.last().map(|(_, id)| *id));
        let report = verify_dir(killed.path()).unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
    }
    let held = i64::try_from(OPTIONS.claims_held).unwrap();
    let (most, _) = seen.iter().max().unwrap();
    assert!((held..=2 * held).contains(most), "at most two memtables wait: {most}");
    let (last, merged) = rows(workload.partition.store());
    assert!(last < *most && merged > held, "{last} wait, {merged} are merged");
}

/// The files of a data directory as they are now, but for its lock.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// Readers ask for what was committed while it moves: they never miss it.
#[test]
fn readers_never_miss_a_claim_that_moves() {
    let scratch = tempdir().unwrap();
    let mut workload = two_tenants(open(scratch.path()), 4);
    let queries = workload.partition.store().queries(3).unwrap();
    let committed: Mutex<Vec<(String, AccountId)>> = Mutex::new(vec![]);
    let (is_over, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for reader in 0..2 {
            let (queries, committed, is_over, reads) = (&queries, &committed, &is_over, &reads);
            scope.spawn(move || {
                let mut at = reader;
                while !is_over.load(Ordering::Relaxed) {
                    let known = committed.lock().unwrap_or_else(PoisonError::into_inner);
                    // Mostly those that are on their way.
                    let from = known.len().saturating_sub(3 * OPTIONS.claims_held);
                    let asked = known[from..].get(at % (3 * OPTIONS.claims_held)).cloned();
                    drop(known);
                    at += 7;
                    if let Some((key, id)) = asked {
                        assert_eq!(owner(queries, &key), Some(id), "{key}");
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for n in 0.. {
            if n > 1_000 && reads.load(Ordering::Relaxed) > 5_000 {
                break;
            }
            let key = format!("key-{n}");
            let id = add_account(&mut workload, &key);
            committed.lock().unwrap_or_else(PoisonError::into_inner).push((key, id));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// A process that is killed goes on with the merge where the last one was.
#[test]
fn unmerged_claims_stay_bounded_across_kills() {
    let scratch = tempdir().unwrap();
    drop(two_tenants(open(scratch.path()), 5));
    let mut most = 0;
    for n in 0..12 * OPTIONS.claims_held {
        let mut store = open(scratch.path());
        let next = store.open().unwrap().next_seq;
        store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
        let id = account_id(u128::try_from(n).unwrap() + 1);
        store.commit(&batch(vec![claimed(next, id, &format!("key-{n}"))])).unwrap();
        most = most.max(rows(&store).0);
    }
    let held = i64::try_from(OPTIONS.claims_held).unwrap();
    assert!((held..=2 * held).contains(&most), "{most} rows");
}

/// A commit that fails leaves memory as it was, whatever it had merged.
#[test]
fn a_commit_that_fails_merges_nothing() {
    let scratch = tempdir().unwrap();
    let mut workload = two_tenants(open(scratch.path()), 6);
    for n in 0..OPTIONS.claims_held + 2 {
        add_account(&mut workload, &format!("key-{n}"));
    }
    let store = workload.partition.store();
    let (recent, merged) = rows(store);
    assert!(merged > 0, "a run is being merged");
    let sql = "CREATE TRIGGER fails BEFORE UPDATE ON counter BEGIN SELECT raise(ABORT, 'no'); END";
    store.database().exec(sql, &[]).unwrap();
    let next = Seq(workload.head().0 + 1);
    let id = account_id(77);
    let failing = batch(vec![claimed(next, id, "another")]);
    let store = workload.partition.store();
    store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
    let refused = store.commit(&failing);
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(rows(store), (recent, merged));
    let reads = BTreeSet::from([Read::Claim(claim_key("another"))]);
    let state = store.load(&reads, &BTreeSet::new()).unwrap().state;
    assert_eq!(state.claims[&claim_key("another")], None);
    store.commit(&Batch::default()).unwrap();
    store.database().exec("DROP TRIGGER fails", &[]).unwrap();
    store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
    store.commit(&failing).unwrap();
    assert_eq!(loaded(store, &[("another".to_owned(), id)]), [Some(id)]);
}

/// A claim that changes hands: the last one holds, while it waits, while the earlier one is merged
/// after it, and when both are.
#[test]
fn the_last_claim_on_a_key_holds() {
    let scratch = tempdir().unwrap();
    drop(two_tenants(open(scratch.path()), 7));
    let mut store = open(scratch.path());
    let mut next = store.open().unwrap().next_seq;
    let mut holder = None;
    for n in 1..=5 * u128::try_from(OPTIONS.claims_held).unwrap() {
        store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
        let key = if n % 5 == 1 { "wanted".to_owned() } else { format!("key-{n}") };
        let id = account_id(n);
        store.commit(&batch(vec![claimed(next, id, &key)])).unwrap();
        next.0 += 1;
        if key == "wanted" {
            holder = Some(id);
        }
        let wanted = [("wanted".to_owned(), id)];
        assert_eq!(loaded(&mut store, &wanted), [holder], "after {n}");
        if n % 3 == 0 {
            store.open().unwrap();
            assert_eq!(loaded(&mut store, &wanted), [holder], "opened again after {n}");
        }
        store.commit(&Batch::default()).unwrap();
    }
}

/// A commit can be read before the writer has added it to memory: what a reader sees holds.
#[test]
fn a_reader_ahead_of_memory_goes_by_what_it_sees() {
    let scratch = tempdir().unwrap();
    let mut workload = two_tenants(open(scratch.path()), 8);
    let [first, second] = ["first", "second"].map(|key| add_account(&mut workload, key));
    let store = workload.partition.store();
    let queries = store.queries(1).unwrap();
    assert_eq!(owner(&queries, "first"), Some(first));
    let [next, old] = ["max(n) + 1", "min(n)"]
        .map(|n| number(store, &format!("SELECT {n} FROM claim_recent WHERE kind = 3")));
    let copy = "INSERT INTO claim_recent SELECT ?1, key_hash, tenant, kind, ?2, ?2 \
                FROM claim_recent WHERE n = ?3";
    store.database().exec(copy, &[next.into(), second.uuid().into(), old.into()]).unwrap();
    // The second account has another key: nobody has this one now.
    assert_eq!(owner(&queries, "first"), None);
    assert_eq!(owner(&queries, "second"), Some(second));
}

/// A journal row that makes an account, and claims one more key for it.
fn claimed(seq: Seq, id: AccountId, key: &str) -> Entry {
    let mut entry = account_created(seq, id);
    let claim = Claim { owner: id.uuid(), account: Some(id) };
    entry.changes.push(Change::Claim(ClaimChange::Taken { key: claim_key(key), claim }));
    entry
}
