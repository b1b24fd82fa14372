//! Reads that look at every row of a tenant: they end at their limits, and hold up no other read.

use std::sync::mpsc;
use std::time::Duration;

use domain::reply::AccountReply;
use domain::{AccountId, Reply, TenantNo};
use engine::ports::{Page, Queries, ReadLimits, StoreError};
use engine::{Engine, Reason, Running, Unavailable};
use futures_util::future::poll_immediate;
use store::driver::Database;
use store::tables::{self, TABLES};
use store::{Options, database_path};
use tokio::runtime::Runtime;

use crate::bounds::multiply;
use crate::home::Home;
use crate::refused::start;
use crate::workload::{World, create_account, person, rename};

const ALL: Page = Page { offset: 0, limit: 100 };
const TENANT: TenantNo = TenantNo(1);
const OTHER: TenantNo = TenantNo(2);
const LONG: Duration = Duration::from_secs(60);

/// A store whose first tenant has so many accounts that a search looks at its limits.
fn with_many_accounts() -> World {
    let mut world = World::at(Home::embedded(), 61);
    world.workload.accepted(TENANT, create_account(None, person("Ada Lovelace")));
    let path = database_path(world.home.path());
    let db = Database::open(&path, &Options::default(), TABLES).unwrap();
    multiply(&db, &tables::ACCOUNT_PERSON, "tenant = 1", &[("account_id", "randomblob(16)")]);
    world
}

#[test]
fn a_search_ends_at_its_limits_and_leaves_its_connection_usable() {
    let world = with_many_accounts();
    let search = |queries: &dyn Queries| queries.search_accounts(TENANT, "nobody", ALL);
    let too_long = |limits: ReadLimits| {
        let ended = search(&*world.queries.within(limits));
        assert!(matches!(ended, Err(StoreError::ReadTooLong)), "{ended:?}");
    };
    let (limits, awaited) = ReadLimits::new(Duration::ZERO);
    too_long(limits);
    drop(awaited);
    let (limits, awaited) = ReadLimits::new(LONG);
    drop(awaited);
    too_long(limits);
    let (limits, _awaited) = ReadLimits::new(LONG);
    assert_eq!(search(&*world.queries.within(limits)).unwrap().matching, 0);
    assert_eq!(search(&*world.queries).unwrap().matching, 0, "the limits of before are gone");
}

#[test]
fn a_search_ends_while_it_runs_once_its_caller_has_gone() {
    let world = with_many_accounts();
    let (limits, awaited) = ReadLimits::new(LONG);
    let queries = world.queries.within(limits);
    let (found, searched) = mpsc::channel();
    let searching = std::thread::spawn(move || {
        loop {
            let ended = queries.search_accounts(TENANT, "nobody", ALL);
            let is_over = ended.is_err();
            found.send(ended.map(|paged| paged.matching)).unwrap();
            if is_over {
                return;
            }
        }
    });
    assert_eq!(searched.recv().unwrap().unwrap(), 0);
    drop(awaited);
    searching.join().unwrap();
    let last = searched.into_iter().last().unwrap();
    assert!(matches!(last, Err(StoreError::ReadTooLong)), "{last:?}");
}

#[test]
fn ids_keys_and_addresses_are_found_without_a_look_at_every_account() {
    let mut world = World::new(62);
    let no = world.workload.tenants[0];
    let made = create_account(Some("key of Ada".to_owned()), person("Ada Lovelace"));
    let Reply::Account(AccountReply::Created(ada)) = world.workload.accepted(no, made) else {
        panic!("no account")
    };
    let others = ["Nada Lovelace", "Ada Lovelace"];
    let same_address = others.map(|name| {
        let made = create_account(Some(format!("other key of {name}")), person(name));
        let Reply::Account(AccountReply::Created(id)) = world.workload.accepted(no, made) else {
            panic!("no account")
        };
        id
    });
    let mut both = vec![ada, same_address[1]];
    both.sort();
    let check = |world: &World, no: TenantNo, text: &str, expected: &[AccountId]| {
        let found = world.queries.accounts_named(no, text, ALL).unwrap();
        let ids: Vec<AccountId> = found.items.iter().map(|it| it.account.id).collect();
        assert_eq!((&ids[..], found.matching), (expected, expected.len() as u64), "{text}");
    };
    check(&world, no, &ada.to_string(), &[ada]);
    check(&world, no, &ada.to_string().to_uppercase(), &[ada]);
    check(&world, no, "key of Ada", &[ada]);
    check(&world, no, "key of ada", &[]);
    check(&world, no, "Ada.Lovelace@Example.org", &both);
    check(&world, no, "da.lovelace@example.org", &[]);
    check(&world, no, "ada.lovelace@example.or_", &[]);
    check(&world, OTHER, "ada.lovelace@example.org", &[]);
    check(&world, OTHER, "key of Ada", &[]);
    world.workload.now = world.workload.now.plus_us(1);
    world.workload.accepted(no, rename(same_address[1], person("Ada King")));
    check(&world, no, "ada.lovelace@example.org", &[ada]);
    check(&world, no, "ada.king@example.org", &[same_address[1]]);
}

/// An engine on a store with two tenants.
fn engine() -> (Home, Runtime, Engine, Running) {
    let World { workload, home, .. } = World::new(63);
    drop(workload);
    let store = home.open(&Options::DEFAULT);
    let queries = store.queries(4).unwrap();
    let (runtime, engine, running) = start(store, queries);
    (home, runtime, engine, running)
}

/// A scan that runs until it is let go, and says when it begins.
fn hold(
    engine: &Engine,
    tenant: TenantNo,
    began: &mpsc::Sender<TenantNo>,
) -> (mpsc::Sender<()>, impl Future<Output = Result<(), Unavailable>> + use<>) {
    let (let_go, held) = mpsc::channel();
    let (engine, began) = (engine.clone(), began.clone());
    let scan = async move {
        let query = move |_: &dyn Queries| {
            began.send(tenant).unwrap();
            // It is let go by its sender, or because that has gone.
            let _ = held.recv_timeout(LONG);
            Ok(())
        };
        engine.scan(tenant, query).await
    };
    (let_go, scan)
}

#[test]
fn scans_run_one_at_a_time_and_other_reads_beside_them() {
    let (_home, runtime, engine, running) = engine();
    let (began, begins) = mpsc::channel();
    let (first_let_go, first) = hold(&engine, TENANT, &began);
    let (second_let_go, second) = hold(&engine, TENANT, &began);
    let first = runtime.spawn(first);
    assert_eq!(begins.recv_timeout(LONG).unwrap(), TENANT);
    let second = runtime.spawn(second);
    for _ in 0..100 {
        runtime.block_on(engine.read(|queries| queries.tenant_count())).unwrap();
    }
    assert!(begins.try_recv().is_err(), "the second waits for the first");
    first_let_go.send(()).unwrap();
    assert_eq!(begins.recv_timeout(LONG).unwrap(), TENANT);
    second_let_go.send(()).unwrap();
    runtime.block_on(first).unwrap().unwrap();
    runtime.block_on(second).unwrap().unwrap();
    runtime.block_on(running.stop(Duration::ZERO));
}

#[test]
fn a_scan_that_cannot_begin_is_refused_and_one_without_a_caller_makes_room() {
    let (_home, runtime, engine, running) = engine();
    let (began, begins) = mpsc::channel();
    let (let_go, holding) = hold(&engine, TENANT, &began);
    let holding = runtime.spawn(holding);
    begins.recv_timeout(LONG).unwrap();
    let (_, late) = hold(&engine, OTHER, &began);
    let refused = runtime.block_on(late).unwrap_err();
    assert_eq!((refused.reason, refused.retry_after.is_some()), (Reason::ReadersFull, true));
    // Of one tenant, so many wait; the next is refused at once.
    let mut waiting: Vec<_> = (1..16).map(|_| Box::pin(hold(&engine, TENANT, &began).1)).collect();
    let refused = runtime.block_on(async {
        for scan in &mut waiting {
            assert!(poll_immediate(scan.as_mut()).await.is_none(), "it waits");
        }
        hold(&engine, TENANT, &began).1.await.unwrap_err()
    });
    assert_eq!(refused.reason, Reason::ReadersFull);
    drop(waiting);
    drop(let_go);
    runtime.block_on(holding).unwrap().unwrap();
    let (other_let_go, other) = hold(&engine, OTHER, &began);
    drop(other_let_go);
    runtime.block_on(other).unwrap();
    runtime.block_on(running.stop(Duration::ZERO));
}

#[test]
fn a_long_page_is_read_as_a_scan_and_a_short_one_beside_others() {
    let (_home, runtime, engine, running) = engine();
    let (began, begins) = mpsc::channel();
    let (let_go, holding) = hold(&engine, TENANT, &began);
    let holding = runtime.spawn(holding);
    begins.recv_timeout(LONG).unwrap();
    let page = |offset, limit| {
        let page = Page { offset, limit };
        let read = engine.read_page((TENANT, page), |_: &dyn Queries| {
            Ok(std::thread::current().name() == Some("scan"))
        });
        runtime.block_on(async { poll_immediate(Box::pin(read)).await })
    };
    assert!(page(0, 1_001).is_none(), "it waits for the scan of its tenant");
    assert!(page(10_001, 1).is_none());
    let of_short = engine
        .read_page((TENANT, Page { offset: 0, limit: 1_000 }), |_: &dyn Queries| {
            Ok(std::thread::current().name() == Some("scan"))
        });
    assert!(!runtime.block_on(of_short).unwrap());
    drop(let_go);
    runtime.block_on(holding).unwrap().unwrap();
    runtime.block_on(running.stop(Duration::ZERO));
}

/// A read of a tenant's request that goes on until it is let go.
async fn held_read(
    engine: Engine,
    tenant: TenantNo,
    held: mpsc::Receiver<()>,
) -> Result<(), Unavailable> {
    let client = std::sync::Arc::new(engine::client::Client::new(|| false));
    let read = async {
        engine::client::serves(tenant);
        let query = move |_: &dyn Queries| {
            let _ = held.recv_timeout(LONG);
            Ok(())
        };
        engine.read(query).await
    };
    engine::client::serve(client, read).await
}

#[test]
fn a_tenant_that_holds_its_readers_delays_no_other_and_its_own_reads_end_in_time() {
    let (_home, runtime, engine, running) = engine();
    let (ended, ends) = mpsc::channel();
    let read = |_| {
        let ((let_go, held), ended) = (mpsc::channel(), ended.clone());
        let read = held_read(engine.clone(), TENANT, held);
        runtime.spawn(async move { ended.send(read.await.map_err(|it| it.reason)) });
        let_go
    };
    let let_go: Vec<mpsc::Sender<()>> = (0..8).map(read).collect();
    // Three of the four readers are held, and five more reads wait for them.
    for _ in 0..100 {
        let (done, held) = mpsc::channel();
        drop(done);
        runtime.block_on(held_read(engine.clone(), OTHER, held)).unwrap();
    }
    // The time that they wait counts: they are refused while the others are still held.
    for _ in 0..5 {
        assert_eq!(ends.recv_timeout(LONG).unwrap(), Err(Reason::ReadersFull));
    }
    drop(let_go);
    for _ in 0..3 {
        assert_eq!(ends.recv_timeout(LONG).unwrap(), Ok(()));
    }
    runtime.block_on(running.stop(Duration::ZERO));
}
