//! Usage: rows, commands, replies, refusals and events.

use std::collections::BTreeMap;

use domain::account::blocking_state::ClosedTo;
use domain::change::{Change, EntitlementChange};
use domain::command::EntitlementCommand;
use domain::entitlement::feature::Reset;
use domain::entitlement::level::{Counted, Level};
use domain::entitlement::period::Period;
use domain::entitlement::usage::{
    ConfirmReservation, Ends, EventKey, RecordUsage, RecordUsages, ReleaseReservation, Reservation,
    ReservationStatus, Reserve, Usage, UsageEvent, UsageItem,
};
use domain::reply::EntitlementReply;
use domain::{Command, EntitlementRejection, Event, Rejection, Reply, TenantNo, Timestamp};
use expect_test::expect;
use uuid::Uuid;

use super::{check, id};

const MONTH: Period =
    Period { resets: Reset::Month, from: Timestamp(7), until: Some(Timestamp(9)) };

fn counted() -> Counted {
    let level = Level { limit: 10, used: 4, reserved: 2, resets_at: Some(Timestamp(9)) };
    Counted { feature: "calls".to_owned(), quantity: 3, level }
}

fn item() -> UsageItem {
    let event = EventKey(Uuid::from_u128(8));
    UsageItem { feature: "calls".to_owned(), quantity: 3, event, at: Some(Timestamp(8)) }
}

#[test]
fn rows() {
    let (tenant, account_id, feature) = (TenantNo(1), id(3), "calls".to_owned());
    let usage = Usage {
        tenant,
        account_id,
        feature: feature.clone(),
        period: MONTH,
        used: 4,
        reserved: BTreeMap::from([(Timestamp(8), 2)]),
        endings: 1,
        is_reached: true,
        updated_at: Timestamp(7),
    };
    check(
        &Change::Entitlement(EntitlementChange::Usage(Box::new(usage))),
        expect![[
            r#"{"Entitlement":{"Usage":{"tenant":1,"account_id":"00000000-0000-0000-0000-000000000003","feature":"calls","period":{"resets":"Month","from":7,"until":9},"used":4,"reserved":{"8":2},"endings":1,"is_reached":true,"updated_at":7}}}"#
        ]],
    );
    let event = UsageEvent {
        tenant,
        account_id,
        key: EventKey(Uuid::from_u128(8)),
        period: Period { resets: Reset::Never, from: Timestamp(0), until: None },
        counted: counted(),
        counted_at: Timestamp(8),
    };
    check(
        &Change::Entitlement(EntitlementChange::UsageEvent(Box::new(event))),
        expect![[
            r#"{"Entitlement":{"UsageEvent":{"tenant":1,"account_id":"00000000-0000-0000-0000-000000000003","key":"00000000-0000-0000-0000-000000000008","period":{"resets":"Never","from":0,"until":null},"counted":{"feature":"calls","quantity":3,"level":{"limit":10,"used":4,"reserved":2,"resets_at":9}},"counted_at":8}}}"#
        ]],
    );
    let reservation = Reservation {
        tenant,
        id: id(5),
        account_id,
        feature,
        period: MONTH,
        quantity: 3,
        until: Timestamp(8),
        endings: 1,
        status: ReservationStatus::Confirmed { quantity: 2 },
        created_at: Timestamp(7),
        updated_at: Timestamp(7),
    };
    check(
        &Change::Entitlement(EntitlementChange::Reservation(Box::new(reservation))),
        expect![[
            r#"{"Entitlement":{"Reservation":{"tenant":1,"id":"00000000-0000-0000-0000-000000000005","account_id":"00000000-0000-0000-0000-000000000003","feature":"calls","period":{"resets":"Month","from":7,"until":9},"quantity":3,"until":8,"endings":1,"status":{"Confirmed":{"quantity":2}},"created_at":7,"updated_at":7}}}"#
        ]],
    );
    check(
        &vec![ReservationStatus::Open, ReservationStatus::Released],
        expect![[r#"["Open","Released"]"#]],
    );
    check(&ClosedTo::Usage, expect![[r#""Usage""#]]);
}

#[test]
fn commands() {
    let command = |it: EntitlementCommand| Command::Entitlement(it);
    let (account, reservation) = (id(3), id(5));
    let record = RecordUsage { account, item: item() };
    check(
        &command(EntitlementCommand::RecordUsage(Box::new(record))),
        expect![[
            r#"{"Entitlement":{"RecordUsage":{"account":"00000000-0000-0000-0000-000000000003","item":{"feature":"calls","quantity":3,"event":"00000000-0000-0000-0000-000000000008","at":8}}}}"#
        ]],
    );
    let record = RecordUsages { account, items: vec![UsageItem { at: None, ..item() }] };
    check(
        &command(EntitlementCommand::RecordUsages(Box::new(record))),
        expect![[
            r#"{"Entitlement":{"RecordUsages":{"account":"00000000-0000-0000-0000-000000000003","items":[{"feature":"calls","quantity":3,"event":"00000000-0000-0000-0000-000000000008","at":null}]}}}"#
        ]],
    );
    let reserve = |ends| {
        let feature = "calls".to_owned();
        let reserve = Reserve { account, feature, quantity: 3, ends };
        command(EntitlementCommand::Reserve(Box::new(reserve)))
    };
    check(
        &reserve(Ends::At(Timestamp(8))),
        expect![[
            r#"{"Entitlement":{"Reserve":{"account":"00000000-0000-0000-0000-000000000003","feature":"calls","quantity":3,"ends":{"At":8}}}}"#
        ]],
    );
    check(
        &reserve(Ends::After(8)),
        expect![[
            r#"{"Entitlement":{"Reserve":{"account":"00000000-0000-0000-0000-000000000003","feature":"calls","quantity":3,"ends":{"After":8}}}}"#
        ]],
    );
    let confirm = ConfirmReservation { account, reservation, quantity: Some(2) };
    check(
        &command(EntitlementCommand::Confirm(confirm)),
        expect![[
            r#"{"Entitlement":{"Confirm":{"account":"00000000-0000-0000-0000-000000000003","reservation":"00000000-0000-0000-0000-000000000005","quantity":2}}}"#
        ]],
    );
    let release = ReleaseReservation { account, reservation };
    check(
        &command(EntitlementCommand::Release(release)),
        expect![[
            r#"{"Entitlement":{"Release":{"account":"00000000-0000-0000-0000-000000000003","reservation":"00000000-0000-0000-0000-000000000005"}}}"#
        ]],
    );
}

#[test]
fn replies_refusals_and_events() {
    use EntitlementRejection as R;
    check(
        &Reply::Entitlement(EntitlementReply::Counted(counted())),
        expect![[
            r#"{"Entitlement":{"Counted":{"feature":"calls","quantity":3,"level":{"limit":10,"used":4,"reserved":2,"resets_at":9}}}}"#
        ]],
    );
    let refused = R::EventCounted(Box::new(counted())).into();
    let recorded = vec![Ok(counted()), Err(refused)];
    check(
        &Reply::Entitlement(EntitlementReply::Recorded(recorded)),
        expect![[
            r#"{"Entitlement":{"Recorded":[{"Ok":{"feature":"calls","quantity":3,"level":{"limit":10,"used":4,"reserved":2,"resets_at":9}}},{"Err":{"Entitlement":{"EventCounted":{"feature":"calls","quantity":3,"level":{"limit":10,"used":4,"reserved":2,"resets_at":9}}}}}]}}"#
        ]],
    );
    let (until, counted_now) = (Timestamp(8), counted());
    let reserved = EntitlementReply::Reserved { reservation: id(5), until, counted: counted_now };
    check(
        &Reply::Entitlement(reserved),
        expect![[
            r#"{"Entitlement":{"Reserved":{"reservation":"00000000-0000-0000-0000-000000000005","until":8,"counted":{"feature":"calls","quantity":3,"level":{"limit":10,"used":4,"reserved":2,"resets_at":9}}}}}"#
        ]],
    );
    let all = vec![
        R::NotEntitled { feature: "calls".to_owned() },
        R::LimitReached(Box::new(counted())),
        R::ReservationNotFound { id: id(5) },
        R::ReservationEnded { id: id(5), status: "released".to_owned() },
    ];
    let all: Vec<Rejection> = all.into_iter().map(Rejection::Entitlement).collect();
    check(
        &all,
        expect![[
            r#"[{"Entitlement":{"NotEntitled":{"feature":"calls"}}},{"Entitlement":{"LimitReached":{"feature":"calls","quantity":3,"level":{"limit":10,"used":4,"reserved":2,"resets_at":9}}}},{"Entitlement":{"ReservationNotFound":{"id":"00000000-0000-0000-0000-000000000005"}}},{"Entitlement":{"ReservationEnded":{"id":"00000000-0000-0000-0000-000000000005","status":"released"}}}]"#
        ]],
    );
    let (account, feature, limit, used) = (id(3), "calls".to_owned(), 10, 10);
    check(
        &Event::LimitReached { account, feature, limit, used, period: MONTH },
        expect![[
            r#"{"LimitReached":{"account":"00000000-0000-0000-0000-000000000003","feature":"calls","limit":10,"used":10,"period":{"resets":"Month","from":7,"until":9}}}"#
        ]],
    );
}
