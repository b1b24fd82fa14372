//! The copy of a data directory to a server: killed and gone on with, served meanwhile, compared.

use domain::TenantNo;
use engine::ports::{CustomerQueries as _, Store as _, TenantQueries as _};
use store::migrate::{Progress, check, sqlite_to_server};
use store::verify::verify;
use store::{Error, Options, Reader, open_dir, open_server};

use super::Scratch;
use crate::commits::two_tenants;
use crate::home::Home;
use crate::sqlite::{self, number};
use crate::workload::World;
use crate::{customers, insights};

fn no_progress(_: Progress) {}

/// Runs a statement on the test's database.
fn plant(target: &Scratch, sql: &str) {
    let reader = Reader::connect(&target.server()).unwrap();
    reader.for_each(sql, &[], |_| Ok(())).unwrap();
}

/// The tables that differ.
fn different(source: &Home, target: &Scratch) -> Vec<&'static str> {
    let compared = check(source.path(), &target.server()).unwrap();
    assert!(compared.tables.len() > 15);
    compared.tables.iter().filter(|it| !it.is_equal).map(|it| it.table).collect()
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_data_directory_is_copied_and_served_on() {
    let mut world = World::at(Home::embedded(), 61).run(5_000);
    customers::fill(&mut world.workload);
    let passing = customers::sign_up(&mut world.workload, TenantNo(1), "Passing");
    customers::ask(&mut world.workload, customers::erase(passing));
    let (head, tenants) = (world.workload.head(), world.queries.tenant_count().unwrap());
    insights::fill(&world.home.source());
    let World { workload, home: source, queries, .. } = world;
    drop((workload, queries));
    let target = Scratch::new();
    let recent = number(&sqlite::open(source.path()), "SELECT count(*) FROM claim_recent");
    assert!(recent > 0, "claims that wait to be merged go among the others");
    let released = "SELECT count(*) FROM claim_recent WHERE owner = zeroblob(16)";
    let released = number(&sqlite::open(source.path()), released);
    assert!(released > 0, "what nobody has any more waits too");
    let copied = sqlite_to_server(source.path(), &target.server(), &mut no_progress).unwrap();
    assert!(copied.is_complete(), "{copied:?}");
    let count = |table: &str| {
        copied.tables.iter().find(|it| it.table == table).map(|it| it.target_rows).unwrap()
    };
    assert_eq!((count("flag_insight"), count("metric_insight")), (2, 1));
    let of_customers = ["customer", "customer_session", "mail", "operation"].map(count);
    assert!(of_customers.iter().all(|rows| *rows > 1), "{copied:?}");
    assert!(count("journal") > 2_000 && count("claim") > 500, "{copied:?}");
    assert_eq!(different(&source, &target), Vec::<&str>::new());

    let mut store = target.open();
    assert_eq!(store.open().unwrap().next_seq.0, head.0 + 1);
    let report = verify(store.database().reader()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(report.claims, count("claim"));
    let of_nobody =
        "SELECT count(*) FROM claim WHERE owner = '00000000-0000-0000-0000-000000000000'";
    assert_eq!(number(&store, of_nobody), 0);
    let found = store.queries(1).unwrap().customer_by_email(TenantNo(1), "bob@example.org");
    assert_eq!(found.unwrap().map(|it| it.profile.first_name).as_deref(), Some("Bob"));
    assert_eq!(store.queries(1).unwrap().tenant_count().unwrap(), tenants);
    // It is served now: a copy would overwrite what is written there.
    drop(store);
    let refused = sqlite_to_server(source.path(), &target.server(), &mut no_progress);
    assert!(matches!(refused, Err(Error::OtherData { .. })), "{refused:?}");
}

/// The server ends the connection again and again, while the source goes on being written.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_copy_that_is_killed_is_gone_on_with() {
    let mut world = World::at(Home::embedded(), 62).run(5_000);
    let target = Scratch::new();
    let mut kills = 0;
    let mut begun_from = Vec::new();
    // The source is served: each try ends without a comparison, if it comes to its end.
    for kill_at in [3, 2, 5, 4, usize::MAX] {
        let mut portions = 0;
        let copied = sqlite_to_server(world.home.path(), &target.server(), &mut |progress| {
            portions += 1;
            if portions == 1 {
                begun_from.push(progress.table);
            }
            if portions == kill_at {
                super::faults::end_connections(&target);
            }
        });
        world.workload.run(200);
        match copied {
            Err(_) => kills += 1,
            Ok(copied) => assert!(copied.tables.is_empty() && !copied.is_complete()),
        }
        let refused = open_server(&target.server(), &Options::default()).err().unwrap();
        assert!(matches!(refused, Error::Unfinished { .. }), "{refused}");
    }
    assert_eq!(kills, 4);
    begun_from.dedup();
    assert!(begun_from.len() > 1, "each began at the beginning: {begun_from:?}");
    let World { workload, home: source, queries, .. } = world;
    drop((workload, queries));
    // Killed in the second pass too, which begins again.
    let mut is_killed = false;
    let killed = sqlite_to_server(source.path(), &target.server(), &mut |progress| {
        if progress.is_locked && progress.table == "payment" && !is_killed {
            is_killed = true;
            super::faults::end_connections(&target);
        }
    });
    assert!(killed.is_err());
    let copied = sqlite_to_server(source.path(), &target.server(), &mut no_progress).unwrap();
    assert!(copied.is_complete(), "{copied:?}");
    let store = target.open();
    let report = verify(store.database().reader()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_difference_is_found_and_mended_before_the_end() {
    let source = Home::embedded();
    let mut workload = two_tenants(source.open(&sqlite::OPTIONS), 63);
    workload.run(600);
    let target = Scratch::new();
    // What the first pass wrote and somebody changed is mended by the second.
    let served = sqlite_to_server(source.path(), &target.server(), &mut no_progress).unwrap();
    assert!(served.tables.is_empty());
    drop(workload);
    plant(&target, "UPDATE account SET currency = 'JPY'");
    plant(&target, "DELETE FROM journal WHERE seq = 7");
    plant(&target, "INSERT INTO follower VALUES ('nobody', 0, 1, 0, 0)");
    assert_eq!(different(&source, &target), ["journal", "account", "follower"]);
    let copied = sqlite_to_server(source.path(), &target.server(), &mut no_progress).unwrap();
    assert!(copied.is_complete(), "{copied:?}");
    assert!(copied.written > 2, "{copied:?}");
    // One digit of one row, once it is done.
    plant(
        &target,
        "UPDATE posting SET amount_minor = amount_minor + 1 \
         WHERE (seq, ordinal) = (SELECT seq, ordinal FROM posting ORDER BY seq LIMIT 1)",
    );
    assert_eq!(different(&source, &target), ["posting"]);
    plant(&target, "DELETE FROM claim WHERE kind = 3");
    assert_eq!(different(&source, &target), ["posting", "claim"]);
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_copy_goes_into_an_empty_database_and_comes_from_one_source() {
    let source = Home::embedded();
    let other = Home::embedded();
    for (home, seed) in [(&source, 64), (&other, 65)] {
        two_tenants(home.open(&sqlite::OPTIONS), seed).run(50);
    }
    let target = Scratch::new();
    let foreign = Scratch::new();
    plant(&foreign, "CREATE TABLE theirs (n BIGINT)");
    let refused = sqlite_to_server(source.path(), &foreign.server(), &mut no_progress);
    assert!(matches!(refused, Err(Error::NotADatabase { .. })), "{refused:?}");
    let served = open_dir(source.path(), &sqlite::OPTIONS).unwrap();
    sqlite_to_server(source.path(), &target.server(), &mut no_progress).unwrap();
    let refused = sqlite_to_server(other.path(), &target.server(), &mut no_progress);
    assert!(matches!(refused, Err(Error::OtherData { .. })), "{refused:?}");
    let in_use = check(source.path(), &target.server());
    assert!(matches!(in_use, Err(Error::InUse { .. })), "{in_use:?}");
    drop(served);
    assert!(
        sqlite_to_server(source.path(), &target.server(), &mut no_progress).unwrap().is_complete()
    );
}
