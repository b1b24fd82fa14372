//! Usage is committed, loaded, read and verified, and what is old is forgotten.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use domain::account::blocking_state::CloseAccount;
use domain::command::{AccountCommand, EntitlementCommand};
use domain::entitlement::GrantFeature;
use domain::entitlement::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset,
};
use domain::entitlement::usage::{
    ConfirmReservation, Ends, EventKey, KEPT_US, RecordUsage, RecordUsages, ReleaseReservation,
    ReservationStatus, Reserve, UsageItem,
};
use domain::flag::definition::Expected;
use domain::reply::EntitlementReply;
use domain::{AccountId, Command, Reply, ReservationId, Seq, TenantNo, Timestamp};
use engine::ports::{Bookkeeping, ExpiryCutoffs, Page, Store};
use store::verify::verify_source;
use uuid::Uuid;

use crate::workload::{Workload, World, create_account, person};

const TENANT: TenantNo = TenantNo(1);
const ALL: Page = Page { offset: 0, limit: 100 };

fn entitlement(command: EntitlementCommand) -> Command {
    Command::Entitlement(command)
}

fn put<S: Store>(workload: &mut Workload<S>, key: &str, resets: Reset) {
    let limit = LimitTerms { unit: "calls".to_owned(), resets, overdraft: false };
    let put = PutFeature {
        key: key.to_owned(),
        name: "Calls".to_owned(),
        terms: FeatureTerms { kind: FeatureKind::Limit(limit), combine: Combine::Sum },
        archived: false,
        expected: Expected::Anything,
    };
    workload.accepted(TENANT, entitlement(EntitlementCommand::PutFeature(Box::new(put))));
}

fn item(feature: &str, quantity: i64, event: u128) -> UsageItem {
    let event = EventKey(Uuid::from_u128(event));
    UsageItem { feature: feature.to_owned(), quantity, event, at: None }
}

fn reserve<S: Store>(
    workload: &mut Workload<S>,
    account: AccountId,
    quantity: i64,
) -> ReservationId {
    let ends = Ends::After(3_600 * Timestamp::SECOND_US);
    let reserve = Reserve { account, feature: "calls".to_owned(), quantity, ends };
    let command = entitlement(EntitlementCommand::Reserve(Box::new(reserve)));
    let reply = workload.accepted(TENANT, command);
    let Reply::Entitlement(EntitlementReply::Reserved { reservation, .. }) = reply else {
        panic!("{reply:?}")
    };
    reservation
}

/// An account that has used 5 of 20 calls and 7 of 20 credits, and reserved 3 calls more, that it may confirm.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> (AccountId, ReservationId) {
    put(workload, "calls", Reset::Month);
    put(workload, "credits", Reset::Never);
    let Reply::Account(domain::reply::AccountReply::Created(account)) =
        workload.accepted(TENANT, create_account(None, person("Ada")))
    else {
        panic!("an account is made")
    };
    for feature in ["calls", "credits"] {
        let grant = GrantFeature {
            account,
            feature: feature.to_owned(),
            value: FeatureValue::Limit(20),
            from: None,
            until: None,
            reason: "goodwill".to_owned(),
        };
        workload.accepted(TENANT, entitlement(EntitlementCommand::Grant(Box::new(grant))));
    }
    let record = RecordUsage { account, item: item("credits", 7, 1) };
    workload.accepted(TENANT, entitlement(EntitlementCommand::RecordUsage(Box::new(record))));
    let items = vec![item("calls", 2, 2), item("calls", 1, 3), item("calls", 90, 4)];
    let record = RecordUsages { account, items };
    workload.accepted(TENANT, entitlement(EntitlementCommand::RecordUsages(Box::new(record))));
    let reservation = reserve(workload, account, 4);
    let confirm = ConfirmReservation { account, reservation, quantity: Some(2) };
    workload.accepted(TENANT, entitlement(EntitlementCommand::Confirm(confirm)));
    let reservation = reserve(workload, account, 4);
    let release = ReleaseReservation { account, reservation };
    workload.accepted(TENANT, entitlement(EntitlementCommand::Release(release)));
    (account, reserve(workload, account, 3))
}

/// The used and the reserved quantity of each feature.
fn shown(world: &World, account: AccountId) -> BTreeMap<String, (i64, i64)> {
    let found = world.queries.usage_now(TENANT, account, &["calls", "credits"]);
    let found = found.expect("a store that answers").into_iter();
    let now = world.workload.now;
    found.map(|it| (it.feature.clone(), (it.used, it.reserved_at(now)))).collect()
}

#[test]
fn a_clock_that_is_set_back_far_loses_no_count() {
    let mut world = World::new(132);
    let (account, _) = fill(&mut world.workload);
    let mut record = |months: i64, event| {
        world.workload.now.0 += months * 31 * Timestamp::DAY_US;
        let record = RecordUsage { account, item: item("calls", 1, event) };
        world
            .workload
            .accepted(TENANT, entitlement(EntitlementCommand::RecordUsage(Box::new(record))));
    };
    for event in 0..12 {
        record(1, 100 + event);
    }
    record(-12, 200);
    let listed = world.queries.usage(TENANT, account, "calls", ALL).unwrap();
    assert_eq!(listed.iter().map(|it| it.used).sum::<i64>(), 5 + 13);
    assert_eq!(listed.last().map(|it| it.used), Some(5), "the first month is not counted anew");
}

#[test]
fn usage_is_read_again() {
    let mut world = World::new(131);
    let (account, reservation) = fill(&mut world.workload);
    let expected = [("calls".to_owned(), (5, 3)), ("credits".to_owned(), (7, 0))];
    assert_eq!(shown(&world, account), expected.into());
    let listed = world.queries.usage(TENANT, account, "calls", ALL).unwrap();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].period.until.is_some());
    let found = world.queries.reservation(TENANT, account, reservation).unwrap().unwrap();
    assert_eq!((found.quantity, found.status), (3, ReservationStatus::Open));
    let changed = world.queries.usage_changed(Seq(0), 10).unwrap();
    assert!(changed.iter().map(|it| it.0).is_sorted(), "{changed:?}");
    assert_eq!(changed.iter().map(|it| it.1).collect::<Vec<_>>(), [account; 2]);
    let [first, last] = [changed[0].0, changed[1].0];
    assert_eq!(world.queries.usage_changed(first, 10).unwrap(), changed[1..]);
    assert_eq!(world.queries.usage_changed(Seq(0), 1).unwrap(), changed[..1]);
    assert_eq!(world.queries.usage_changed(last, 10).unwrap(), []);
    // Another tenant and another account have none of it.
    let (other, nobody) = (TenantNo(2), AccountId::new(Uuid::from_u128(1)));
    assert_eq!(world.queries.usage(other, account, "calls", ALL).unwrap(), []);
    assert_eq!(world.queries.usage_now(other, account, &["calls"]).unwrap(), []);
    assert_eq!(world.queries.reservation(other, account, reservation).unwrap(), None);
    assert_eq!(world.queries.reservation(TENANT, nobody, reservation).unwrap(), None);
    // What was loaded again is what was written.
    let again = RecordUsage { account, item: item("credits", 7, 1) };
    let again = entitlement(EntitlementCommand::RecordUsage(Box::new(again)));
    let verdict = format!("{:?}", world.workload.one(TENANT, again));
    assert!(verdict.contains("EventCounted") && verdict.contains("used: 7"), "{verdict}");
    let confirm = ConfirmReservation { account, reservation, quantity: None };
    world.workload.accepted(TENANT, entitlement(EntitlementCommand::Confirm(confirm)));
    assert_eq!(shown(&world, account)["calls"], (8, 0));
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn closing_an_account_ends_its_reservations() {
    let mut world = World::new(132);
    let (account, _) = fill(&mut world.workload);
    let close =
        CloseAccount { account, remove_future_notifications: false, cancel_subscriptions: false };
    world.workload.accepted(TENANT, Command::Account(AccountCommand::Close(close)));
    assert_eq!(shown(&world, account)["calls"], (5, 0));
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn old_events_and_reservations_are_forgotten() {
    let mut world = World::new(133);
    let (account, reservation) = fill(&mut world.workload);
    let none = Timestamp(0);
    let before = |usage_forgotten| ExpiryCutoffs {
        operations_settled: none,
        mails_given_up: none,
        sessions_ended: none,
        replies_expired: none,
        usage_forgotten,
    };
    let now = world.workload.now;
    assert!(!world.queries.has_expired(before(now.plus_us(-KEPT_US))).unwrap());
    let later = before(now.plus_us(7_200 * Timestamp::SECOND_US));
    assert!(world.queries.has_expired(later).unwrap());
    crate::customers::note(&mut world.workload, vec![Bookkeeping::Expired(later)]);
    assert!(!world.queries.has_expired(later).unwrap());
    assert_eq!(world.queries.reservation(TENANT, account, reservation).unwrap(), None);
    assert_eq!(shown(&world, account)["credits"], (7, 0), "what was used stays used");
}

fn real_now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since_epoch.as_micros()).unwrap())
}

#[test]
fn verify_finds_counts_that_are_not_the_sum_of_their_parts() {
    let has = |sql: &str, expected: &str| {
        let mut world = World::new(134);
        // Of an old period not all events are known.
        world.workload.now = real_now();
        fill(&mut world.workload);
        world.home.damage(sql);
        let report = verify_source(&world.home.source()).unwrap();
        let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|it| it.contains(expected)), "{sql}: {found:?}");
    };
    let (less, more) = (
        "has used less than its events and reservations say",
        "has used more than its events and reservations say",
    );
    has("UPDATE feature_usage SET used = used - 1", less);
    has("UPDATE feature_usage SET used = used + 1 WHERE feature = 'calls'", more);
    has("DELETE FROM usage_event WHERE feature = 'calls'", more);
    has("UPDATE usage_event SET quantity = quantity + 1", less);
    has("UPDATE usage_reservation SET confirmed = 4 WHERE confirmed = 2", less);
    let reserved = "has not reserved what its open reservations say";
    has("UPDATE feature_usage SET reserved = '{}'", reserved);
    has(
        "UPDATE usage_reservation SET reservation_status = 3 WHERE reservation_status = 1",
        reserved,
    );
    has("UPDATE feature_usage SET used = -1", "counts less than nothing, or too much");
    has("DELETE FROM feature_usage", "is not there, and has events or reservations");
}
