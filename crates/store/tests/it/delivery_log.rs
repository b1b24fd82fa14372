//! The log of webhook deliveries: what is added is found, and only so much is kept.

use std::time::Duration;

use domain::tenant::webhook::DisableReason;
use domain::{Id, PartitionNo, Seq, TenantNo, Timestamp, WebhookEndpointId};
use engine::ports::{DeliveryId, DeliveryLogQueries, DeliveryLogSource as _, ReadLimits};
use engine::webhooks::{
    DeliveryTry, Health, LogRetention, LoggedTry, REPLAYS_MAX, RefusedEndpoint, Replay,
    ReplayProgress, TryFilter, TryOutcome,
};
use store::delivery_log::{LogSource, SqlDeliveryLogQueries};
use tempfile::tempdir;
use uuid::Uuid;

const TENANT: TenantNo = TenantNo(1);

fn endpoint(n: u128) -> WebhookEndpointId {
    Id::new(Uuid::from_u128(n))
}

fn tried(seq: i64, to: u128, outcome: TryOutcome) -> DeliveryTry {
    DeliveryTry {
        id: DeliveryId { seq: Seq(seq), ordinal: 3, endpoint: endpoint(to) },
        tenant: TENANT,
        receiver: endpoint(to),
        event_type: "payment.failed".to_owned(),
        attempt: 2,
        at: Timestamp(seq),
        outcome,
        status: Some(500),
        took_ms: 7,
        answer: Some("no".to_owned()),
        error: Some("HTTP 500".to_owned()),
        next_at: Some(Timestamp(seq + 5)),
    }
}

fn found(queries: &dyn DeliveryLogQueries, filter: &TryFilter, limit: u64) -> Vec<LoggedTry> {
    let (limits, _awaited) = ReadLimits::new(Duration::from_secs(60));
    queries.tries(TENANT, filter, (limit, &limits)).unwrap()
}

fn seqs(queries: &dyn DeliveryLogQueries, filter: &TryFilter) -> Vec<i64> {
    found(queries, filter, 100).iter().map(|it| it.it.id.seq.0).collect()
}

#[test]
fn tries_are_found_newest_first_and_page_by_page() {
    let dir = tempdir().unwrap();
    let source = LogSource::in_dir(dir.path()).unwrap();
    let second = PartitionNo::new(1).unwrap();
    let mut log = source.open(PartitionNo::FIRST).unwrap();
    let mut other = source.open(second).unwrap();
    let tries = [tried(10, 1, TryOutcome::Failed), tried(12, 2, TryOutcome::Delivered)];
    log.add(&tries, &[]).unwrap();
    // At the same time as another one, and one of another tenant.
    let strange = DeliveryTry { tenant: TenantNo(2), ..tried(11, 1, TryOutcome::Failed) };
    other.add(&[tried(12, 1, TryOutcome::GivenUp), strange], &[]).unwrap();
    let queries = SqlDeliveryLogQueries::open(&source, 1).unwrap();
    let all = found(&queries, &TryFilter::default(), 100);
    let outcomes: Vec<_> = all.iter().map(|it| it.it.outcome).collect();
    assert_eq!(outcomes, [TryOutcome::GivenUp, TryOutcome::Delivered, TryOutcome::Failed]);
    assert_eq!(all[2].it, tries[0], "all of it is read back");
    let mut before = None;
    let mut paged = vec![];
    while let Some(one) = found(&queries, &TryFilter { before, ..TryFilter::default() }, 1).pop() {
        before = Some(one.place);
        paged.push(one);
    }
    assert_eq!(paged, all);
    let only = |filter: TryFilter| seqs(&queries, &filter);
    assert_eq!(only(TryFilter { endpoint: Some(endpoint(1)), ..TryFilter::default() }), [12, 10]);
    assert_eq!(only(TryFilter { event: Some((Seq(10), 3)), ..TryFilter::default() }), [10]);
    assert_eq!(only(TryFilter { event: Some((Seq(10), 4)), ..TryFilter::default() }), [0; 0]);
    let delivered = TryFilter { outcome: Some(TryOutcome::Delivered), ..TryFilter::default() };
    assert_eq!(only(delivered), [12]);
}

#[test]
fn the_oldest_tries_go_first_by_time_and_by_size() {
    let dir = tempdir().unwrap();
    let source = LogSource::in_dir(dir.path()).unwrap();
    let mut log = source.open(PartitionNo::FIRST).unwrap();
    let tries: Vec<_> = (1..=2_500).map(|seq| tried(seq, 1, TryOutcome::Delivered)).collect();
    log.add(&tries, &[]).unwrap();
    let queries = SqlDeliveryLogQueries::open(&source, 1).unwrap();
    let oldest = |queries: &dyn DeliveryLogQueries| seqs_all(queries).last().copied();
    let since = |at, bytes_max| LogRetention { since: Timestamp(at), bytes_max };
    assert!(log.forget(since(2_001, i64::MAX)).unwrap(), "a thousand at a time");
    assert!(log.forget(since(2_001, i64::MAX)).unwrap());
    assert!(!log.forget(since(2_001, i64::MAX)).unwrap());
    assert_eq!(oldest(&queries), Some(2_001));
    drop(log);
    // The size is known after a restart, too.
    let mut log = source.open(PartitionNo::FIRST).unwrap();
    log.forget(since(0, 100 * 300)).unwrap();
    let left = seqs_all(&queries);
    assert!((100..=150).contains(&left.len()), "{}", left.len());
    assert_eq!(left[0], 2_500);
}

fn seqs_all(queries: &dyn DeliveryLogQueries) -> Vec<i64> {
    found(queries, &TryFilter::default(), 10_000).iter().map(|it| it.it.id.seq.0).collect()
}

#[test]
fn what_is_known_of_an_endpoint_is_kept_by_partition() {
    let dir = tempdir().unwrap();
    let source = LogSource::in_dir(dir.path()).unwrap();
    let mut log = source.open(PartitionNo::FIRST).unwrap();
    let mut other = source.open(PartitionNo::new(1).unwrap()).unwrap();
    let key = (TENANT, endpoint(1));
    assert_eq!(log.health(TENANT, endpoint(1)).unwrap(), Health::default());
    let failing = Health {
        failing_since: Some(Timestamp(5)),
        received_at: None,
        refused: Some(DisableReason::Failing),
    };
    log.add(&[], &[(key, failing)]).unwrap();
    let receiving = Health { received_at: Some(Timestamp(9)), ..Health::default() };
    other.add(&[], &[(key, receiving)]).unwrap();
    assert_eq!(log.health(TENANT, endpoint(1)).unwrap(), failing);
    assert!(log.has_received(key, Timestamp(9)).unwrap());
    assert!(!log.has_received(key, Timestamp(10)).unwrap());
    let refused =
        RefusedEndpoint { tenant: TENANT, endpoint: endpoint(1), reason: DisableReason::Failing };
    assert_eq!(other.refused().unwrap(), [refused]);
    other.forget_health(refused).unwrap();
    assert_eq!(log.refused().unwrap(), []);
    assert_eq!(log.health(TENANT, endpoint(1)).unwrap(), Health::default());
}

#[test]
fn a_log_of_another_version_is_made_anew() {
    let dir = tempdir().unwrap();
    let source = LogSource::in_dir(dir.path()).unwrap();
    source.open(PartitionNo::FIRST).unwrap().add(&[tried(1, 1, TryOutcome::Failed)], &[]).unwrap();
    LogSource::in_dir(dir.path()).unwrap();
    assert_eq!(seqs(&SqlDeliveryLogQueries::open(&source, 1).unwrap(), &TryFilter::default()), [1]);
    std::fs::write(dir.path().join("webhooks.db"), "something else").unwrap();
    drop(std::fs::remove_file(dir.path().join("webhooks.db-wal")));
    let source = LogSource::in_dir(dir.path()).unwrap();
    assert_eq!(
        seqs(&SqlDeliveryLogQueries::open(&source, 1).unwrap(), &TryFilter::default()),
        [0; 0]
    );
}

#[test]
fn replays_are_kept_until_they_are_done_and_the_last_of_a_tenant_are_shown() {
    let dir = tempdir().unwrap();
    let source = LogSource::in_dir(dir.path()).unwrap();
    let replays = source.open_replays().unwrap();
    let replay = |n: i64| Replay {
        tenant: TENANT,
        id: Uuid::from_u128(u128::try_from(n).unwrap()),
        endpoint: None,
        times: (Timestamp(1), Timestamp(2)),
        events: vec!["payment.*".to_owned()],
        account: Some(Id::new(Uuid::from_u128(7))),
        created_at: Timestamp(n),
    };
    for n in 1..=2 {
        assert!(replays.add(&replay(n), 2).unwrap());
    }
    let second = PartitionNo::new(1).unwrap();
    let progress = ReplayProgress { upto: Some(Seq(9)), queued: 5, is_done: false };
    replays.advance((TENANT, replay(1).id), second, progress).unwrap();
    let none = ReplayProgress::default();
    let running = |partition| replays.running(partition).unwrap();
    assert_eq!(running(second), [(replay(1), progress), (replay(2), none)]);
    assert_eq!(running(PartitionNo::FIRST), [(replay(1), none), (replay(2), none)]);
    let done = ReplayProgress { is_done: true, ..progress };
    replays.advance((TENANT, replay(1).id), second, done).unwrap();
    assert_eq!(running(second), [(replay(2), none)]);
    assert_eq!(replays.find(TENANT, replay(1).id).unwrap(), Some((replay(1), vec![done])));
    assert_eq!(replays.find(TenantNo(2), replay(1).id).unwrap(), None);
    for n in 3..=REPLAYS_MAX {
        assert!(replays.add(&replay(n), 2).unwrap());
    }
    let is_there = |n| replays.find(TENANT, replay(n).id).unwrap().is_some();
    let next = REPLAYS_MAX + 1;
    assert!(!replays.add(&replay(next), 2).unwrap(), "the first is done in one of two partitions");
    assert!(is_there(1) && !is_there(next));
    let of_another = Replay { tenant: TenantNo(2), ..replay(next) };
    assert!(replays.add(&of_another, 2).unwrap());
    let expected = [(replay(1), none), (replay(2), none), (of_another, none)];
    assert_eq!(running(PartitionNo::FIRST), expected, "two of a tenant at a time");
    for n in [1, 5, 7] {
        for partition in [PartitionNo::FIRST, second] {
            replays.advance((TENANT, replay(n).id), partition, done).unwrap();
        }
    }
    assert!(replays.add(&replay(next), 2).unwrap());
    assert!(!is_there(1) && is_there(2) && is_there(5), "the oldest that was done went");
    assert!(replays.add(&replay(next + 1), 2).unwrap());
    assert!(is_there(2) && !is_there(5) && is_there(7), "and the next one");
}
