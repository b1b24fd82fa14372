//! The read models: followed from events they are what SQL says, whatever happened.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use domain::payment::{PaymentFile, TransactionStatus, TransactionType};
use domain::{Seq, TenantNo};
use engine::Clock;
use engine::analytics::{Deltas, Follower, ReadModels};
use engine::ports::{AnalyticsQueries, Days, Page, Queries, TransactionsFilter};
use store::analytics::{SqliteAnalyticsQueries, SqliteReadModels, analytics_path};
use store::driver::Database;
use store::{Options, Reader};
use tokio::sync::watch;

use crate::workload::{Random, World, currency};

const ALL: Page = Page { offset: 0, limit: u64::MAX };

fn models_path(world: &World) -> PathBuf {
    analytics_path(world.home.path())
}

fn open_models(world: &World) -> SqliteReadModels {
    let truth = world.home.source();
    SqliteReadModels::open(&models_path(world), &truth, &Options::default()).unwrap()
}

/// Folds what is in the journal, a random number of rows at a time.
fn follow(world: &World, models: &mut SqliteReadModels, random: &mut Random) {
    let mut cursor = models.cursor().unwrap();
    loop {
        let (rows, upto) = world.queries.journal_after(cursor, 1 + random.below(60)).unwrap();
        if upto == cursor {
            return;
        }
        cursor = models.apply(&Deltas::of(cursor, upto, &rows)).unwrap();
        assert_eq!(cursor, upto);
    }
}

/// All tables but the cursor's layout, as text.
fn dump(world: &World) -> Vec<String> {
    let reader = Reader::open(&models_path(world), &Options::default()).unwrap();
    let mut lines = vec![];
    for (table, columns) in [
        ("cursor", "seq"),
        ("accounts_of_day", "tenant, day, accounts"),
        (
            "transactions_of_day",
            "tenant, day, gateway, currency, kind, status, transactions, amount_minor",
        ),
        (
            "account_activity",
            "tenant, hex(account_id), payments, transactions, last_transaction_at_us",
        ),
        (
            "account_successes",
            "tenant, hex(account_id), currency, kind, transactions, amount_minor",
        ),
    ] {
        let sql = format!("SELECT concat_ws(' ', {columns}) FROM {table} ORDER BY 1");
        lines.extend(
            reader.query(&sql, &[], |cells| Ok(format!("{table}: {}", cells.text()?))).unwrap(),
        );
    }
    lines
}

fn lines_of(lines: &[String], table: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(table)).count()
}

#[test]
fn following_events_and_rebuilding_from_sql_give_equal_tables() {
    for seed in 1..=4 {
        let mut world = World::new(seed);
        let mut models = open_models(&world);
        let mut random = Random(seed);
        for _ in 0..8 {
            world.workload.run(500);
            follow(&world, &mut models, &mut random);
        }
        let followed = dump(&world);
        for table in
            ["accounts_of_day", "transactions_of_day", "account_activity", "account_successes"]
        {
            assert!(lines_of(&followed, table) > 5, "seed {seed}: a thin history in {table}");
        }
        models.rebuild().unwrap();
        assert_eq!(dump(&world), followed, "seed {seed}");
    }
}

#[test]
fn a_history_of_the_test_has_reversals_and_further_tries_through_other_gateways() {
    let world = World::after(1, 3000);
    let (mut reversed, mut late, mut moved) = (0, 0, 0);
    for entry in world.entries() {
        for event in &entry.events {
            let domain::Event::TransactionChanged(it) = event else { continue };
            let is = |status: TransactionStatus| status == TransactionStatus::Success;
            reversed += i32::from(it.before.is_some_and(is) && !is(it.status));
            let failed = TransactionStatus::PaymentFailure;
            late += i32::from(it.before == Some(failed) && is(it.status));
        }
    }
    for no in &world.workload.tenants {
        for file in world.queries.payments(*no, ALL.of_gateway(None)).unwrap().items {
            let gateway = &file.payment.gateway;
            moved += i32::from(file.transactions.iter().any(|it| it.gateway != *gateway));
        }
    }
    assert!(reversed > 5 && late > 3 && moved > 3, "{reversed} {late} {moved}");
}

#[test]
fn rebuilding_repairs_what_was_damaged_and_following_goes_on_from_there() {
    let mut world = World::after(11, 400);
    let mut models = open_models(&world);
    follow(&world, &mut models, &mut Random(1));
    let whole = dump(&world);
    let path = models_path(&world);
    let vandal = Database::open(&path, &Options::default(), &[]).unwrap();
    vandal.exec("UPDATE transactions_of_day SET transactions = 7", &[]).unwrap();
    vandal.exec("DELETE FROM account_activity", &[]).unwrap();
    assert_ne!(dump(&world), whole);
    assert_eq!(models.rebuild().unwrap(), world.workload.head());
    assert_eq!(dump(&world), whole);
    world.workload.run(200);
    follow(&world, &mut models, &mut Random(2));
    let followed = dump(&world);
    models.rebuild().unwrap();
    assert_eq!(dump(&world), followed);
}

#[test]
fn deltas_that_do_not_start_at_the_cursor_change_nothing() {
    let world = World::after(12, 200);
    let mut models = open_models(&world);
    let (rows, upto) = world.queries.journal_after(Seq(0), 20).unwrap();
    let deltas = Deltas::of(Seq(0), upto, &rows);
    assert_eq!(models.apply(&deltas).unwrap(), upto);
    let once = dump(&world);
    assert_eq!(models.apply(&deltas).unwrap(), upto);
    assert_eq!(dump(&world), once);
}

#[test]
fn tables_of_another_layout_are_made_anew() {
    let world = World::after(13, 200);
    let mut models = open_models(&world);
    follow(&world, &mut models, &mut Random(3));
    let whole = dump(&world);
    drop(models);
    assert_eq!(open_models(&world).cursor().unwrap(), world.workload.head());
    let path = models_path(&world);
    let other = Database::open(&path, &Options::default(), &[]).unwrap();
    other.exec("UPDATE cursor SET layout = 'another'", &[]).unwrap();
    drop(other);
    let mut models = open_models(&world);
    assert_eq!(models.cursor().unwrap(), Seq(0));
    follow(&world, &mut models, &mut Random(4));
    assert_eq!(dump(&world), whole);
}

#[test]
fn a_follower_catches_up_follows_and_stops() {
    // A write blocks, which is not allowed on an async worker thread.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut world = World::after(14, 300);
    let queries: Arc<dyn Queries> = Arc::clone(&world.queries) as Arc<dyn Queries>;
    let models = Box::new(open_models(&world));
    let follower = Follower::open(queries, models, Clock::new(false)).unwrap();
    let mut applied = follower.applied();
    let (head, heads) = watch::channel(world.workload.head());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = runtime.spawn(follower.run(heads, async move {
        let _ = stopped.await;
    }));
    let first = world.workload.head();
    runtime.block_on(applied.wait_for(|seq| *seq == first)).unwrap();
    for _ in 0..3 {
        world.workload.run(60);
        head.send_replace(world.workload.head());
    }
    let last = world.workload.head();
    runtime.block_on(applied.wait_for(|seq| *seq == last)).unwrap();
    stop.send(()).unwrap();
    runtime.block_on(task).unwrap();
    let followed = dump(&world);
    open_models(&world).rebuild().unwrap();
    assert_eq!(dump(&world), followed);
}

#[test]
fn models_ahead_of_the_journal_are_rebuilt() {
    let world = World::after(15, 200);
    let mut models = open_models(&world);
    follow(&world, &mut models, &mut Random(5));
    let whole = dump(&world);
    let ahead = Database::open(&models_path(&world), &Options::default(), &[]).unwrap();
    ahead.exec("UPDATE cursor SET seq = seq + 1000", &[]).unwrap();
    ahead.exec("UPDATE accounts_of_day SET accounts = 99", &[]).unwrap();
    drop(ahead);
    let queries: Arc<dyn Queries> = Arc::clone(&world.queries) as Arc<dyn Queries>;
    let follower = Follower::open(queries, Box::new(models), Clock::new(false)).unwrap();
    assert_eq!(*follower.applied().borrow(), world.workload.head());
    assert_eq!(dump(&world), whole);
}

#[test]
fn answers_are_sums_over_the_payments() {
    let world = World::after(16, 2500);
    let mut models = open_models(&world);
    follow(&world, &mut models, &mut Random(6));
    let analytics =
        SqliteAnalyticsQueries::open(&models_path(&world), &Options::default(), 2).unwrap();
    assert_eq!(analytics.cursor().unwrap(), world.workload.head());
    for no in &world.workload.tenants {
        let files = world.queries.payments(*no, ALL.of_gateway(None)).unwrap().items;
        check_transactions(&analytics, *no, &files);
        for (tenant, account) in world.workload.accounts.iter().filter(|(of, _)| of == no) {
            let own = files.iter().filter(|it| it.payment.account_id == *account);
            let own: Vec<&PaymentFile> = own.collect();
            let summary = analytics.account(*tenant, *account).unwrap();
            let transactions = || own.iter().flat_map(|it| &it.transactions);
            assert_eq!(summary.payments, i64::try_from(own.len()).unwrap());
            assert_eq!(summary.transactions, i64::try_from(transactions().count()).unwrap());
            assert_eq!(summary.last_transaction_at, transactions().map(|it| it.effective_at).max());
            for amounts in &summary.amounts {
                let sum = |kind| -> i128 {
                    transactions()
                        .filter(|it| it.kind == kind && it.status == TransactionStatus::Success)
                        .filter(|it| it.currency == Some(amounts.currency))
                        .map(|it| i128::from(it.processed_amount.unwrap().0))
                        .sum()
                };
                assert_eq!(amounts.purchased_minor, sum(TransactionType::Purchase));
                assert_eq!(amounts.captured_minor, sum(TransactionType::Capture));
                assert_eq!(amounts.refunded_minor, sum(TransactionType::Refund));
                assert_eq!(amounts.credited_minor, sum(TransactionType::Credit));
                let back = sum(TransactionType::Chargeback);
                let returned = sum(TransactionType::ChargebackReversal);
                assert_eq!(amounts.charged_back_minor, back - returned);
            }
        }
        let accounts = analytics.accounts(*no, Days::default()).unwrap();
        let all = world.queries.accounts(*no, ALL).unwrap();
        let counted: i64 = accounts.iter().map(|day| day.accounts).sum();
        assert_eq!(u64::try_from(counted).unwrap(), all.all);
        let (first, last) = (accounts[0].day, accounts[accounts.len() - 1].day);
        let days = Days { from: Some(first + 1), to: Some(last - 1) };
        assert_eq!(analytics.accounts(*no, days).unwrap(), accounts[1..accounts.len() - 1]);
    }
    let stranger = TenantNo(77);
    assert_eq!(analytics.accounts(stranger, Days::default()).unwrap(), []);
    let filter = TransactionsFilter::default();
    assert_eq!(analytics.transactions(stranger, &filter, ALL).unwrap(), []);
}

/// Each filter on its own, and all together, against the payments themselves.
fn check_transactions(analytics: &SqliteAnalyticsQueries, no: TenantNo, files: &[PaymentFile]) {
    let some = files[files.len() / 2].transactions[0].clone();
    let days = Days { from: Some(some.effective_at.day()), to: Some(some.effective_at.day()) };
    let none = TransactionsFilter::default();
    let filters = [
        none.clone(),
        TransactionsFilter { days, ..none.clone() },
        TransactionsFilter { gateway: Some("alpha".to_owned()), ..none.clone() },
        TransactionsFilter { currency: Some(currency("EUR")), ..none.clone() },
        TransactionsFilter { kind: Some(TransactionType::Refund), ..none.clone() },
        TransactionsFilter { status: Some(TransactionStatus::Pending), ..none },
        TransactionsFilter {
            days,
            gateway: Some(some.gateway),
            currency: some.currency,
            kind: Some(some.kind),
            status: Some(some.status),
        },
    ];
    for filter in filters {
        let mut expected = BTreeMap::new();
        for it in files.iter().flat_map(|file| &file.transactions) {
            let day = it.effective_at.day();
            let wanted = filter.days.from.is_none_or(|from| day >= from)
                && filter.days.to.is_none_or(|to| day <= to)
                && filter.gateway.as_ref().is_none_or(|gateway| *gateway == it.gateway)
                && filter.currency.is_none_or(|currency| it.currency == Some(currency))
                && filter.kind.is_none_or(|kind| kind == it.kind)
                && filter.status.is_none_or(|status| status == it.status);
            if wanted {
                let key = (day, it.gateway.clone(), it.currency, it.kind, it.status);
                let tally: &mut (i64, i128) = expected.entry(key).or_default();
                tally.0 += 1;
                if it.status == TransactionStatus::Success {
                    tally.1 += i128::from(it.processed_amount.unwrap().0);
                }
            }
        }
        let found = analytics.transactions(no, &filter, ALL).unwrap();
        let pages: Vec<_> = (0..found.len().div_ceil(3))
            .flat_map(|n| {
                let page = Page { offset: u64::try_from(n * 3).unwrap(), limit: 3 };
                analytics.transactions(no, &filter, page).unwrap()
            })
            .collect();
        assert_eq!(pages, found, "{filter:?}");
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|it| {
                let key = (it.day, it.gateway, it.currency, it.kind, it.status);
                (key, (it.transactions, it.amount_minor))
            })
            .collect();
        assert!(!expected.is_empty(), "{filter:?} finds nothing");
        assert_eq!(found, expected, "{filter:?}");
    }
}
