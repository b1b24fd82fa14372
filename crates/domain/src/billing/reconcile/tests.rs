//! Figures that carry a scenario's name were recorded from Kill Bill 0.24.19 (`conformance/vectors/subscriptions`).

use std::collections::BTreeMap;

use expect_test::{Expect, expect};

use super::*;
use crate::billing::testing::{Subscription, date, run, usd};
use crate::catalog::period::{BillingPeriod, Step};

/// A subscription with what was invoiced of it.
#[derive(Clone)]
struct Account {
    billed: Billed,
    settled: Date,
}

impl Account {
    fn new() -> Self {
        Self { billed: Billed::default(), settled: Date::MIN }
    }

    /// Runs, puts what is due among what was billed, and shows it, a line each.
    fn bill(&mut self, it: &Subscription, run: &Run) -> String {
        let due = reconcile(&self.billed, it.proposal(run), run).unwrap();
        self.settled = due.settled;
        let mut lines = vec![];
        for it in &due.fixed {
            lines.push(format!("{} {} fixed {}", it.terms.plan, it.start, usd(it.amount)));
            self.billed.fixed.push(BilledFixed { start: it.start, amount: it.amount });
        }
        for it in &due.repairs {
            let of = &mut self.billed.periods[it.of];
            lines.push(format!("{} {} > {} -{}", of.plan, it.start, it.end, usd(it.amount)));
            of.repairs.push(Repaired { start: it.start, end: it.end, amount: it.amount });
        }
        for it in &due.recurring {
            let amount = usd(it.amount);
            lines.push(format!("{} {} > {} {amount}", it.terms.plan, it.start, it.end));
            self.billed.periods.push(BilledPeriod {
                plan: it.terms.plan.clone(),
                phase: it.terms.phase.clone(),
                start: it.start,
                end: it.end,
                amount: it.amount,
                rate: it.rate,
                adjusted: AmountMinor::ZERO,
                repairs: vec![],
            });
        }
        lines.join("\n")
    }

    fn check(&mut self, it: &Subscription, target: &str, expected: Expect) {
        expected.assert_eq(&self.bill(it, &run(target)));
        assert_eq!(self.bill(it, &run(target)), "", "running again gives nothing");
    }
}

fn alpha() -> Subscription {
    Subscription::of("alpha", BillingPeriod::Monthly, "29.99").day(1).create("2024-01-01")
}

#[test]
fn what_was_invoiced_is_not_charged_again() {
    let mut account = Account::new();
    account.check(&alpha(), "2024-01-01", expect!["alpha 2024-01-01 > 2024-02-01 29.99"]);
    account.check(&alpha(), "2024-02-01", expect!["alpha 2024-02-01 > 2024-03-01 29.99"]);
}

#[test]
fn a_change_within_a_period_credits_the_rest_of_it() {
    let mut account = Account::new();
    account.check(&alpha(), "2024-01-01", expect!["alpha 2024-01-01 > 2024-02-01 29.99"]);
    let once = alpha().change("2024-01-11", "beta", "59.99");
    // change-twice
    account.check(
        &once,
        "2024-01-11",
        expect![[r"
            alpha 2024-01-11 > 2024-02-01 -20.32
            beta 2024-01-11 > 2024-02-01 40.64"]],
    );
    let twice = once.change("2024-01-21", "alpha", "29.99");
    account.check(
        &twice,
        "2024-01-21",
        expect![[r"
            beta 2024-01-21 > 2024-02-01 -21.29
            alpha 2024-01-21 > 2024-02-01 10.64"]],
    );
    account.check(&twice, "2024-02-01", expect!["alpha 2024-02-01 > 2024-03-01 29.99"]);
}

#[test]
fn a_cancelled_period_is_credited_by_its_days() {
    let mut account = Account::new();
    account.check(&alpha(), "2024-01-01", expect!["alpha 2024-01-01 > 2024-02-01 29.99"]);
    let cancelled = alpha().cancel("2024-01-16");
    account.check(&cancelled, "2024-01-16", expect!["alpha 2024-01-16 > 2024-02-01 -15.48"]);
    account.check(&cancelled, "2024-06-01", expect![""]);
}

#[test]
fn a_pause_is_credited_and_the_days_after_it_are_charged_again() {
    let mut account = Account::new();
    account.check(&alpha(), "2024-01-01", expect!["alpha 2024-01-01 > 2024-02-01 29.99"]);
    let paused = alpha().pause("2024-01-11");
    account.check(&paused, "2024-01-11", expect!["alpha 2024-01-11 > 2024-02-01 -20.32"]);
    let resumed = paused.resume("2024-01-21");
    account.check(&resumed, "2024-01-21", expect!["alpha 2024-01-21 > 2024-02-01 10.64"]);
    // Known beforehand, the days between are the only ones that are credited.
    let mut account = Account::new();
    account.check(&alpha(), "2024-01-01", expect!["alpha 2024-01-01 > 2024-02-01 29.99"]);
    account.check(&resumed, "2024-01-21", expect!["alpha 2024-01-11 > 2024-01-21 -9.67"]);
}

#[test]
fn a_year_that_begins_anew_after_a_pause_keeps_what_was_invoiced_of_it() {
    let mut account = Account::new();
    let year = Subscription::of("year", BillingPeriod::Annual, "600").day(6).create("2027-06-27");
    account.check(&year, "2027-06-27", expect!["year 2027-06-27 > 2028-06-06 565.57"]);
    let paused = year.pause("2027-08-13").resume("2027-08-17");
    account.check(
        &paused,
        "2027-10-09",
        expect![[r#"
        year 2027-08-13 > 2027-08-17 -6.56
        year 2028-06-06 > 2028-08-06 100.00"#]],
    );
    account.check(&paused, "2028-06-06", expect![]);
}

#[test]
fn what_was_invoiced_is_kept_in_whatever_order_its_items_are_read() {
    let counted = alpha().quantity("2024-01-11", 1);
    let mut account = Account::new();
    account.check(&alpha(), "2024-01-01", expect!["alpha 2024-01-01 > 2024-02-01 29.99"]);
    let paused = counted.clone().pause("2024-01-21");
    account.check(&paused, "2024-01-21", expect!["alpha 2024-01-21 > 2024-02-01 -10.64"]);
    // Paused and resumed on one day: the charge from the 11th on has some days of the first item and all of the second.
    account.check(&counted, "2024-01-21", expect!["alpha 2024-01-21 > 2024-02-01 10.64"]);
    account.billed.periods.reverse();
    assert_eq!(account.bill(&counted, &run("2024-01-21")), "");
}

#[test]
fn a_repair_is_at_most_what_adjustments_left() {
    let cancelled = alpha().cancel("2024-01-16");
    for (adjusted, expected) in [(1_000, "15.48"), (2_000, "9.99"), (2_999, "0.00")] {
        let mut account = Account::new();
        account.bill(&alpha(), &run("2024-01-01"));
        account.billed.periods[0].adjusted = AmountMinor(adjusted);
        let line = account.bill(&cancelled, &run("2024-01-16"));
        assert_eq!(line, format!("alpha 2024-01-16 > 2024-02-01 -{expected}"));
    }
}

#[test]
fn another_bill_cycle_day_charges_the_days_between_and_nothing_twice() {
    let it = Subscription::of("alpha", BillingPeriod::Monthly, "29.99").day(10);
    let it = it.create("2024-01-10");
    let mut account = Account::new();
    account.check(&it, "2024-01-10", expect!["alpha 2024-01-10 > 2024-02-10 29.99"]);
    // bcd-change-31
    let moved = it.bill_cycle_day("2024-01-31", 31);
    account.check(&moved, "2024-01-31", expect!["alpha 2024-02-10 > 2024-02-29 19.65"]);
    account.check(&moved, "2024-02-29", expect!["alpha 2024-02-29 > 2024-03-31 29.99"]);
}

#[test]
fn a_period_of_nothing_is_charged_again_where_its_days_change() {
    let free = Subscription::of("free", BillingPeriod::Monthly, "0").day(10).create("2024-01-10");
    let mut account = Account::new();
    account.check(&free, "2024-01-10", expect!["free 2024-01-10 > 2024-02-10 0.00"]);
    // align-discount-free-then-paid
    account.check(
        &free.change("2024-01-25", "beta", "59.99"),
        "2024-01-25",
        expect![[r"
            free 2024-01-10 > 2024-01-25 0.00
            beta 2024-01-25 > 2024-02-10 30.96"]],
    );
}

#[test]
fn a_day_that_a_proposal_has_twice_is_unbillable() {
    let it = alpha();
    let mut proposal = it.proposal(&run("2024-01-01"));
    proposal.recurring.push(RecurringCharge { start: date("2024-01-31"), ..proposal.recurring[0] });
    let refused = reconcile(&Billed::default(), proposal, &run("2024-01-01"));
    assert_eq!(refused, Err(Unbillable::Overlap(date("2024-01-31"))));
}

/// A history of changes, pauses and cancellations from a seed, and the days on which it was billed.
fn history(seed: u64) -> (Vec<Subscription>, Vec<Date>) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let periods = [BillingPeriod::Monthly, BillingPeriod::Quarterly, BillingPeriod::Weekly];
    let period = periods[usize::try_from(draw(3)).unwrap()];
    let day = u8::try_from(1 + draw(31)).unwrap();
    let mut today =
        Step::Days(1).after(date("2024-01-01"), i32::try_from(draw(60)).unwrap()).unwrap();
    let mut it = Subscription::of("alpha", period, "29.99").day(day).create(&today.to_string());
    let (mut versions, mut runs) = (vec![it.clone()], vec![today]);
    let mut is_paused = false;
    for _ in 0..1 + draw(12) {
        today = Step::Days(1).after(today, 1 + i32::try_from(draw(45)).unwrap()).unwrap();
        let on = today.to_string();
        it = match draw(7) {
            0 if is_paused => it.resume(&on),
            0 => it.pause(&on),
            _ if is_paused => it,
            1 => it.change(&on, "beta", "59.99"),
            2 => it.change(&on, "alpha", "29.99"),
            3 => it.quantity(&on, u32::try_from(1 + draw(4)).unwrap()),
            4 => it.bill_cycle_day(&on, u8::try_from(1 + draw(31)).unwrap()),
            _ => it,
        };
        is_paused = it.events.last().is_some_and(|it| it.terms.is_none());
        versions.push(it.clone());
        runs.push(today);
    }
    (versions, runs)
}

/// The days on which the number of times that a day is charged changes, each with the number from there on.
fn counted(spans: impl IntoIterator<Item = (Date, Date, i32)>) -> Vec<(Date, i32)> {
    let mut changes = BTreeMap::new();
    for (start, end, times) in spans {
        *changes.entry(start).or_insert(0) += times;
        *changes.entry(end).or_insert(0) -= times;
    }
    let mut now = 0;
    let levels = changes.into_iter().filter(|(_, by)| *by != 0).map(|(day, by)| {
        now += by;
        (day, now)
    });
    levels.collect()
}

/// All billed spans, and credited ones as negative.
fn spans(billed: &Billed) -> Vec<(Date, Date, i32)> {
    let repairs = billed.periods.iter().flat_map(|it| &it.repairs);
    let repairs = repairs.map(|it| (it.start, it.end, -1));
    billed.periods.iter().map(|it| (it.start, it.end, 1)).chain(repairs).collect()
}

#[test]
fn no_day_is_charged_twice_or_left_free_and_no_item_falls_below_nothing() {
    for seed in 1..=10_000 {
        let (versions, runs) = history(seed);
        let mut account = Account::new();
        for (it, target) in versions.iter().zip(&runs) {
            let run = Run { target: *target, ..run("2024-01-01") };
            account.bill(it, &run);
            assert_eq!(account.bill(it, &run), "", "seed {seed}: running again gives nothing");
            let proposed = it.proposal(&run).recurring;
            let expected = counted(proposed.iter().map(|it| (it.start, it.end, 1)));
            let charged = counted(spans(&account.billed));
            assert_eq!(charged, expected, "seed {seed} until {target}");
            assert!(charged.iter().all(|(_, times)| *times <= 1), "seed {seed} until {target}");
            assert!(account.billed.periods.iter().all(|it| {
                let repaired: i64 = it.repairs.iter().map(|it| it.amount.0).sum();
                repaired <= it.amount.0
            }));
        }
    }
}

#[test]
fn from_a_horizon_a_run_gives_what_it_gives_from_the_beginning() {
    for seed in 1..=2_000 {
        let (versions, runs) = history(seed);
        let mut account = Account::new();
        let mut horizon = Date::MIN;
        for (it, target) in versions.iter().zip(&runs) {
            let all = Run { target: *target, ..run("2024-01-01") };
            let mut recent = account.clone();
            recent.billed.periods.retain(|it| it.end > horizon);
            recent.billed.fixed.retain(|it| it.start >= horizon);
            let line = recent.bill(it, &Run { horizon, ..all });
            assert_eq!(line, account.bill(it, &all), "seed {seed} until {target}");
            assert_eq!(recent.settled, account.settled, "seed {seed} until {target}");
            assert!(horizon <= account.settled && account.settled <= *target);
            // Whatever comes next comes on a later day.
            horizon = account.settled;
        }
    }
}
