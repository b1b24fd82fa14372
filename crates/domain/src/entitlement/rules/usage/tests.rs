//! Usage: what is counted, reserved and refused, one line each.

use expect_test::{Expect, expect};
use uuid::Uuid;

use crate::account::blocking_state::CloseAccount;
use crate::command::{AccountCommand, EntitlementCommand};
use crate::entitlement::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset,
};
use crate::entitlement::level::Counted;
use crate::entitlement::usage::{
    ConfirmReservation, Ends, EventKey, RecordUsage, RecordUsages, ReleaseReservation, Reserve,
    UsageItem,
};
use crate::entitlement::{GrantFeature, RevokeGrant};
use crate::flag::definition::Expected;
use crate::reply::EntitlementReply;
use crate::testing::{Rows, TENANT, run_script};
use crate::{AccountId, Command, Event, GrantId, Reply, ReservationId, Timestamp};

/// Runs the steps, separated by `|`, and shows what the last one answered, with its event. The account may use 10 calls
/// a day, 10 credits in all and 10 units a day or more; `pro` is a switch. It is second 1000 of a day. Steps:
/// `use FEATURE QUANTITY [id=N] [at=SECOND]`, `batch FEATURE:QUANTITY:N ...`, `reserve FEATURE QUANTITY [ttl=SECONDS]
/// [until=SECOND]`, `confirm N [QUANTITY]`, `release N` (the N-th reservation from 1), `wait SECONDS`, `ahead SECONDS` (domain time goes on, real time does not), `grant FEATURE
/// LIMIT`, `revoke N`, `close`, `open`, `put FEATURE RESET`.
fn check(script: &str, expected: Expect) {
    expected.assert_eq(&World::new().run(script));
}

struct World {
    rows: Rows,
    account: AccountId,
    grants: Vec<GrantId>,
    reservations: Vec<ReservationId>,
    events: u128,
}

const DAY: i64 = 1_000;

fn second(text: &str) -> Timestamp {
    let seconds: i64 = text.parse().unwrap();
    Timestamp(DAY * Timestamp::DAY_US + seconds * Timestamp::SECOND_US)
}

fn shown(it: &Counted) -> String {
    let level = it.level;
    let resets = level.resets_at.map_or("never".to_owned(), |it| {
        let us = it.0 - DAY * Timestamp::DAY_US;
        format!("{}", us / Timestamp::SECOND_US)
    });
    let (quantity, used, left) = (it.quantity, level.used, level.left());
    format!("{quantity}: {used}+{} of {}, {left} left, {resets}", level.reserved, level.limit)
}

fn put(words: &[&str]) -> EntitlementCommand {
    let overdraft = words.contains(&"overdraft");
    let limit =
        |resets| FeatureKind::Limit(LimitTerms { unit: "calls".to_owned(), resets, overdraft });
    let reset = Reset::ALL.into_iter().find(|it| it.name() == words[2]);
    let kind = reset.map_or(FeatureKind::Switch, limit);
    EntitlementCommand::PutFeature(Box::new(PutFeature {
        key: words[1].to_owned(),
        name: "Feature".to_owned(),
        terms: FeatureTerms { kind, combine: Combine::Latest },
        archived: false,
        expected: Expected::Anything,
    }))
}

impl World {
    fn new() -> Self {
        let mut rows = Rows::new();
        rows.now = second("1000").0;
        let account = rows.account();
        let (grants, reservations) = (vec![], vec![]);
        let mut world = Self { rows, account, grants, reservations, events: 1_000_000 };
        for step in ["calls day", "credits never", "units day overdraft", "pro switch"] {
            world.step(&format!("put {step}"));
        }
        for step in ["calls 10", "credits 10", "units 10"] {
            world.step(&format!("grant {step}"));
        }
        world
    }

    fn run(&mut self, script: &str) -> String {
        run_script(script, |step| self.step(step))
    }

    fn step(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split(' ').collect();
        let account = self.account;
        let command: Command = match words[0] {
            "wait" => {
                self.rows.now += words[1].parse::<i64>().unwrap() * Timestamp::SECOND_US;
                return String::new();
            }
            "ahead" => {
                let us = words[1].parse::<i64>().unwrap() * Timestamp::SECOND_US;
                self.rows.now += us;
                self.rows.ahead += us;
                return String::new();
            }
            "close" => AccountCommand::Close(CloseAccount {
                account,
                remove_future_notifications: false,
                cancel_subscriptions: false,
            })
            .into(),
            "open" => {
                // As a state of the account service that is not CLOSED does.
                self.rows.state.account.closed.clear();
                return String::new();
            }
            _ => self.entitlement(&words).into(),
        };
        self.answer(command)
    }

    fn entitlement(&mut self, words: &[&str]) -> EntitlementCommand {
        let account = self.account;
        let option = |name: &str| words.iter().find_map(|it| it.strip_prefix(name));
        let number = |at: usize| words.get(at).map(|it| it.parse::<i64>().unwrap());
        let nth = |at: usize| usize::try_from(number(at).unwrap()).unwrap() - 1;
        match words[0] {
            "put" => put(words),
            "grant" => EntitlementCommand::Grant(Box::new(GrantFeature {
                account,
                feature: words[1].to_owned(),
                value: FeatureValue::Limit(number(2).unwrap()),
                from: None,
                until: None,
                reason: "test".to_owned(),
            })),
            "revoke" => {
                EntitlementCommand::Revoke(RevokeGrant { account, grant: self.grants[nth(1)] })
            }
            "use" => EntitlementCommand::RecordUsage(Box::new(RecordUsage {
                account: option("to=").map_or(account, |_| AccountId::new(Uuid::from_u128(7))),
                item: self.item(words[1], number(2).unwrap(), option("id="), option("at=")),
            })),
            "batch" => {
                let item = |text: &str| {
                    let mut parts = text.split(':');
                    let (feature, quantity) = (parts.next().unwrap(), parts.next().unwrap());
                    self.item(feature, quantity.parse().unwrap(), parts.next(), None)
                };
                let items = words[1..].iter().copied().map(item).collect();
                EntitlementCommand::RecordUsages(Box::new(RecordUsages { account, items }))
            }
            "reserve" => {
                let ttl = option("ttl=").map_or(60, |it| it.parse().unwrap());
                EntitlementCommand::Reserve(Box::new(Reserve {
                    account,
                    feature: words[1].to_owned(),
                    quantity: number(2).unwrap(),
                    ends: match option("until=") {
                        Some(until) => Ends::At(second(until)),
                        None => Ends::After(ttl * Timestamp::SECOND_US),
                    },
                }))
            }
            "confirm" => EntitlementCommand::Confirm(ConfirmReservation {
                account,
                reservation: self.reservation(nth(1)),
                quantity: number(2),
            }),
            "release" => EntitlementCommand::Release(ReleaseReservation {
                account,
                reservation: self.reservation(nth(1)),
            }),
            other => panic!("no step {other}"),
        }
    }

    fn reservation(&self, nth: usize) -> ReservationId {
        let known = self.reservations.get(nth).copied();
        known.unwrap_or(ReservationId::new(Uuid::from_u128(9)))
    }

    fn item(
        &mut self,
        feature: &str,
        quantity: i64,
        id: Option<&str>,
        at: Option<&str>,
    ) -> UsageItem {
        self.events += 1;
        let id = id.map_or(self.events, |it| it.parse().unwrap());
        UsageItem {
            feature: feature.to_owned(),
            quantity,
            event: EventKey(Uuid::from_u128(id)),
            at: at.map(second),
        }
    }

    fn answer(&mut self, command: Command) -> String {
        let executed = match self.rows.run(command) {
            Ok(executed) => executed,
            Err(rejection) => return rejection.to_string(),
        };
        let mut shown_reply = match executed.reply {
            Some(Reply::Entitlement(EntitlementReply::Granted(id))) => {
                self.grants.push(id);
                String::new()
            }
            Some(Reply::Entitlement(EntitlementReply::Counted(it))) => shown(&it),
            Some(Reply::Entitlement(EntitlementReply::Reserved {
                reservation, counted, ..
            })) => {
                self.reservations.push(reservation);
                shown(&counted)
            }
            Some(Reply::Entitlement(EntitlementReply::Recorded(all))) => {
                let of = |it: Result<Counted, crate::Rejection>| {
                    it.map_or_else(|refused| refused.to_string(), |it| shown(&it))
                };
                all.into_iter().map(of).collect::<Vec<_>>().join("; ")
            }
            _ => String::new(),
        };
        for event in executed.done.events {
            if let Event::LimitReached { feature, limit, used, .. } = event {
                shown_reply.push_str(&format!("; {feature} reached {used} of {limit}"));
            }
        }
        shown_reply
    }
}

#[test]
fn usage_is_counted() {
    check("use calls 3", expect!["3: 3+0 of 10, 7 left, 86400"]);
    check("use calls 3|use calls 4", expect!["4: 7+0 of 10, 3 left, 86400"]);
    check("use credits 3", expect!["3: 3+0 of 10, 7 left, never"]);
    check("use calls 3|use credits 4", expect!["4: 4+0 of 10, 6 left, never"]);
}

#[test]
fn a_limit_is_not_passed() {
    check("use calls 11", expect!["the account has 10 of the feature calls left"]);
    check("use calls 7|use calls 4", expect!["the account has 3 of the feature calls left"]);
    check(
        "use calls 7|use calls 4|use calls 3",
        expect!["3: 10+0 of 10, 0 left, 86400; calls reached 10 of 10"],
    );
    check("use calls 10|use calls 1", expect!["the account has 0 of the feature calls left"]);
}

#[test]
fn a_limit_is_passed_where_the_feature_says_so() {
    check("use units 11", expect!["11: 11+0 of 10, 0 left, 86400; units reached 11 of 10"]);
    check("use units 11|use units 1", expect!["1: 12+0 of 10, 0 left, 86400"]);
    check("reserve units 11", expect!["11: 0+11 of 10, 0 left, 86400"]);
    check(
        "use units 9007199254740991|use units 1",
        expect!["quantity: would count to more than 9007199254740991"],
    );
}

#[test]
fn a_limit_is_reached_once_in_a_period() {
    check("use calls 10|grant calls 12|use calls 2", expect!["2: 12+0 of 12, 0 left, 86400"]);
    check(
        "use calls 10|wait 86400|use calls 10",
        expect!["10: 10+0 of 10, 0 left, 172800; calls reached 10 of 10"],
    );
}

#[test]
fn a_count_starts_again() {
    check(
        "use calls 10|wait 85399|use calls 1",
        expect!["the account has 0 of the feature calls left"],
    );
    check("use calls 10|wait 85400|use calls 1", expect!["1: 1+0 of 10, 9 left, 172800"]);
    check(
        "use credits 10|wait 864000|use credits 1",
        expect!["the account has 0 of the feature credits left"],
    );
}

#[test]
fn a_late_event_counts_in_its_period() {
    check("wait 86400|use calls 3 at=86399", expect!["3: 3+0 of 10, 7 left, 86400"]);
    check(
        "use calls 8|wait 86400|use calls 3 at=86399",
        expect!["the account has 2 of the feature calls left"],
    );
    check("wait 86400|use calls 3 at=86399|use calls 1", expect!["1: 1+0 of 10, 9 left, 172800"]);
    check("wait 3600|use calls 3 at=1000", expect!["3: 3+0 of 10, 7 left, 86400"]);
    check("wait 3600|use calls 3 at=999", expect!["at: is more than an hour ago"]);
    check("use calls 3 at=1060", expect!["3: 3+0 of 10, 7 left, 86400"]);
    check("use calls 3 at=1061", expect!["at: is in the future"]);
}

#[test]
fn an_event_is_counted_once() {
    check("use calls 3 id=1|use calls 3 id=1", expect!["the event was counted before"]);
    check("use calls 3 id=1|use credits 1 id=1", expect!["the event was counted before"]);
    check(
        "use calls 3 id=1|wait 3023999|use calls 3 id=1",
        expect!["the event was counted before"],
    );
    check(
        "use calls 3 id=1|wait 3024000|use calls 3 id=1",
        expect!["3: 3+0 of 10, 7 left, 3110400"],
    );
    check("use calls 11 id=1|use calls 3 id=1", expect!["3: 3+0 of 10, 7 left, 86400"]);
}

#[test]
fn each_item_of_a_batch_is_counted_or_refused() {
    check(
        "batch calls:6:1 calls:6:2 calls:4:3 pro:1:4 calls:1:1",
        expect![
            "6: 6+0 of 10, 4 left, 86400; the account has 4 of the feature calls left; 4: 10+0 of 10, 0 left, 86400; feature: is no limit; the event was counted before; calls reached 10 of 10"
        ],
    );
    check("batch calls:6:1 calls:0:2|use calls 1", expect!["1: 7+0 of 10, 3 left, 86400"]);
    check(
        "batch calls:6:1|batch calls:6:1 calls:1:2",
        expect!["the event was counted before; 1: 7+0 of 10, 3 left, 86400"],
    );
}

#[test]
fn what_is_reserved_counts_as_used_until_it_ends() {
    check("reserve calls 6|use calls 5", expect!["the account has 4 of the feature calls left"]);
    check("reserve calls 6|use calls 4", expect!["4: 4+6 of 10, 0 left, 86400"]);
    check(
        "reserve calls 6|reserve calls 5",
        expect!["the account has 4 of the feature calls left"],
    );
    check(
        "reserve calls 6|wait 59|use calls 5",
        expect!["the account has 4 of the feature calls left"],
    );
    check("reserve calls 6|wait 60|use calls 5", expect!["5: 5+0 of 10, 5 left, 86400"]);
    check(
        "reserve calls 6 ttl=2678401",
        expect!["ttlSeconds: should be in the future, and within 31 days"],
    );
    check(
        "reserve calls 6 until=1000",
        expect!["until: should be in the future, and within 31 days"],
    );
}

#[test]
fn what_is_reserved_is_confirmed_or_released() {
    check("reserve calls 6|confirm 1", expect!["6: 6+0 of 10, 4 left, 86400"]);
    check("reserve calls 6|confirm 1 2", expect!["2: 2+0 of 10, 8 left, 86400"]);
    check("reserve calls 6|confirm 1 7", expect!["quantity: is more than was reserved"]);
    check(
        "reserve calls 6|confirm 1 0",
        expect!["quantity: is not between 1 and 9007199254740991"],
    );
    check("reserve calls 6|release 1", expect!["0: 0+0 of 10, 10 left, 86400"]);
    check("reserve calls 6|reserve calls 2|release 1", expect!["0: 0+2 of 10, 8 left, 86400"]);
    check(
        "reserve calls 10|confirm 1",
        expect!["10: 10+0 of 10, 0 left, 86400; calls reached 10 of 10"],
    );
}

#[test]
fn a_reservation_ends_once() {
    let ended = |how: &str| format!("the reservation 0192{{}} is {how}");
    let check = |script: &str, how: &str| {
        let shown = World::new().run(script);
        let (start, end) =
            ended(how).split_once("{}").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert!(shown.starts_with(&start) && shown.ends_with(&end), "{script}: {shown}");
    };
    check("reserve calls 6|confirm 1|confirm 1", "confirmed");
    check("reserve calls 6|confirm 1|release 1", "confirmed");
    check("reserve calls 6|release 1|confirm 1", "released");
    check("reserve calls 6|release 1|release 1", "released");
    check("reserve calls 6|wait 60|confirm 1", "expired");
    check("reserve calls 6|wait 60|use calls 1|confirm 1", "expired");
    check("reserve calls 6|close|open|grant calls 10|confirm 1", "expired");
    check("reserve calls 6|close|open|grant calls 10|reserve calls 6|confirm 1", "expired");
}

#[test]
fn a_clock_that_is_set_back_brings_back_nothing_that_was_over() {
    let expired = World::new().run("reserve calls 6|wait 60|use calls 1|wait -30|confirm 1");
    assert!(expired.ends_with("is expired"), "{expired}");
    check(
        "wait 60|use calls 1|wait -60|reserve calls 6 ttl=1",
        expect!["6: 1+6 of 10, 3 left, 86400"],
    );
    check(
        "wait 60|use calls 1|wait -60|reserve calls 6 until=1030",
        expect!["until: should be in the future, and within 31 days"],
    );
}

/// A clock that is ahead of real time, as a test clock is, may be set back: what was reserved is reserved again then.
#[test]
fn what_ended_only_because_the_clock_was_ahead_comes_back_with_it() {
    let there = "reserve calls 6 ttl=60|ahead 120|use calls 1";
    check(there, expect!["1: 1+0 of 10, 9 left, 86400"]);
    check(&format!("{there}|ahead -120|use calls 1"), expect!["1: 2+6 of 10, 2 left, 86400"]);
    check(&format!("{there}|ahead -120|confirm 1"), expect!["6: 7+0 of 10, 3 left, 86400"]);
    check(&format!("{there}|ahead -120|release 1"), expect!["0: 1+0 of 10, 9 left, 86400"]);
    let over = World::new().run(&format!("{there}|wait 60|use calls 1|ahead -120|confirm 1"));
    assert!(over.ends_with("is expired"), "{over}");
}

/// A command sees the newest periods only: before these it counts in the oldest of them, and no count begins anew.
#[test]
fn a_clock_that_is_set_back_far_counts_in_the_oldest_period_that_is_seen() {
    let days: Vec<String> =
        (0..12).map(|day| format!("use calls {}|wait 86400", day % 10)).collect();
    let days = days.join("|").replace("use calls 0", "use calls 9");
    let back = |to: i64| format!("{days}|wait {}|use calls 1", (to - 12) * 86_400);
    check(&back(11), expect!["1: 2+0 of 10, 8 left, 1036800"]);
    check(&back(3), expect!["1: 4+0 of 10, 6 left, 345600"]);
    check(&back(2), expect!["1: 3+0 of 10, 7 left, 259200"]);
    check(&back(0), expect!["1: 3+0 of 10, 7 left, 259200"]);
}

#[test]
fn a_reservation_is_counted_in_its_period() {
    check(
        "wait 85000|reserve calls 6 ttl=3600|wait 1000|confirm 1",
        expect!["6: 6+0 of 10, 4 left, 86400"],
    );
    check(
        "wait 85000|reserve calls 6 ttl=3600|wait 1000|use calls 10",
        expect!["10: 10+0 of 10, 0 left, 172800; calls reached 10 of 10"],
    );
}

#[test]
fn what_was_used_stays_used() {
    check(
        "use calls 8|revoke 1|use calls 1",
        expect!["the account has nothing of the feature calls"],
    );
    check(
        "use calls 8|revoke 1|grant calls 10|use calls 3",
        expect!["the account has 2 of the feature calls left"],
    );
    check("reserve calls 8|revoke 1|confirm 1", expect!["8: 8+0 of 0, 0 left, 86400"]);
    check(
        "use calls 8|grant calls 5|use calls 1",
        expect!["the account has 0 of the feature calls left"],
    );
}

#[test]
fn a_feature_that_resets_otherwise_counts_anew() {
    check(
        "use calls 8|put calls week|use calls 3",
        expect!["the account has 2 of the feature calls left"],
    );
    check(
        "use calls 8|put calls never|grant calls 10|use calls 3",
        expect!["3: 3+0 of 10, 7 left, never"],
    );
}

#[test]
fn what_cannot_be_counted_is_refused() {
    check("use nothing 1", expect!["there is no feature nothing"]);
    check("use pro 1", expect!["feature: is no limit"]);
    check("use calls 0", expect!["quantity: is not between 1 and 9007199254740991"]);
    check("use calls 9007199254740992", expect!["quantity: is not between 1 and 9007199254740991"]);
    check(
        "use calls 1 to=nobody",
        expect!["there is no account 00000000-0000-0000-0000-000000000007"],
    );
    check("confirm 1", expect!["there is no reservation 00000000-0000-0000-0000-000000000009"]);
    check("reserve nothing 1", expect!["there is no feature nothing"]);
    check("reserve pro 1", expect!["feature: is no limit"]);
    check("reserve calls 0", expect!["quantity: is not between 1 and 9007199254740991"]);
}

#[test]
fn a_closed_account_uses_nothing() {
    let closed = |script: &str| {
        let shown = World::new().run(script);
        assert!(shown.ends_with("is closed to RECORD_USAGE"), "{script}: {shown}");
    };
    closed("close|use calls 1");
    closed("close|batch calls:1:1");
    closed("close|reserve calls 1");
    closed("reserve calls 1|close|confirm 1");
    closed("reserve calls 1|close|release 1");
    check(
        "reserve calls 6|close|open|grant calls 10|use calls 9",
        expect!["9: 9+0 of 10, 1 left, 86400"],
    );
}

#[test]
fn reservations_end_at_a_bounded_number_of_times() {
    let mut world = World::new();
    world.run("grant calls 5000");
    for n in 1..=1_000 {
        world.run(&format!("reserve calls 1 ttl={n}"));
    }
    let refused = world.run("reserve calls 1 ttl=1001");
    assert_eq!(refused, "the account has 1000 reservations that end at different times already");
    expect!["1: 0+1001 of 5000, 3999 left, 86400"].assert_eq(&world.run("reserve calls 1 ttl=7"));
    expect!["1: 0+1001 of 5000, 3999 left, 86400"]
        .assert_eq(&world.run("wait 1|reserve calls 1 ttl=1001"));
    assert_eq!(TENANT.0, 1);
}
