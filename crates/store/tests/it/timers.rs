//! Timers: due ones in order, set anew, cleared, and those of one partition.

use std::collections::BTreeSet;

use domain::change::{Change, TimerChange};
use domain::read::Read;
use domain::timer::{Timer, TimerKey, TimerKind};
use domain::{AccountId, Seq, TenantNo, Timestamp};
use engine::ports::{Store as _, TimerQueries as _};
use store::SqlQueries;
use uuid::Uuid;

use crate::commits::{batch, entry, two_tenants};
use crate::home::Home;

fn timer(n: u128, due: i64) -> Timer {
    let key = TimerKey { kind: TimerKind::PaymentRetry, object: Uuid::from_u128(n) };
    let account = AccountId::new(Uuid::from_u128(7));
    Timer { tenant: TenantNo(1), key, account, due: Timestamp(due) }
}

#[test]
fn due_timers_are_found_in_order_until_they_are_cleared() {
    let home = Home::new();
    let mut workload = two_tenants(home.open(&store::Options::DEFAULT), 3);
    let head = workload.head().0;
    let store = workload.partition.store();
    let mut commit = |seq: i64, changes: Vec<TimerChange>| {
        let changes = changes.into_iter().map(Change::from).collect();
        store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
        store.commit(&batch(vec![entry(Seq(head + seq), changes, vec![])])).unwrap();
    };
    let set = [timer(1, 30), timer(2, 10), timer(3, 20), timer(4, 20)];
    commit(1, set.map(TimerChange::Set).into());

    let queries = SqlQueries::open_source(home.source(), 1).unwrap();
    let due = |now, after: Option<&Timer>, limit| {
        let found = queries.timers_due(Timestamp(now), after, limit).unwrap();
        found.iter().map(|it| it.key.object.as_u128()).collect::<Vec<_>>()
    };
    assert_eq!(due(9, None, 10), []);
    assert_eq!(due(20, None, 10), [2, 3, 4]);
    assert_eq!(due(i64::MAX, None, 2), [2, 3]);
    assert_eq!(due(i64::MAX, Some(&timer(3, 20)), 10), [4, 1], "behind one with its time");

    commit(2, vec![TimerChange::Set(timer(2, 40)), TimerChange::Cleared(timer(3, 20).key)]);
    assert_eq!(due(i64::MAX, None, 10), [4, 1, 2]);

    let keys = [timer(2, 0).key, timer(3, 0).key];
    let reads = keys.iter().map(|key| Read::Timer(TenantNo(1), *key)).collect();
    let loaded = workload.partition.store().load(&reads, &BTreeSet::new()).unwrap().state.timers;
    let due = |key| loaded.get(key).map(|it| it.due);
    let loaded: Vec<_> = loaded.keys().map(due).collect();
    assert_eq!(loaded, [Some(Timestamp(40)), None]);
}
