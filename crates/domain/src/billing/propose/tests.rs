//! Figures that carry a scenario's name were recorded from Kill Bill 0.24.19 (`conformance/vectors/subscriptions`).

use expect_test::{Expect, expect};

use super::*;
use crate::billing::testing::{Subscription, date, run};
use crate::catalog::period::BillingPeriod;

/// The charges until `target`, a line each, and when the next period is due.
fn check(it: &Subscription, target: &str, expected: Expect) {
    expected.assert_eq(&it.proposed(&run(target)));
}

fn monthly(start: &str, day: u8) -> Subscription {
    Subscription::of("alpha", BillingPeriod::Monthly, "29.99").day(day).create(start)
}

#[test]
fn whole_periods_are_charged_in_advance() {
    check(
        &monthly("2024-01-10", 10),
        "2024-02-10",
        expect![[r"
            alpha 2024-01-10 > 2024-02-10 29.99
            alpha 2024-02-10 > 2024-03-10 29.99
            next 2024-03-10"]],
    );
}

#[test]
fn the_days_before_the_bill_cycle_day_are_a_part_of_the_period_that_ends_with_it() {
    check(
        &Subscription::of("quarterly", BillingPeriod::Quarterly, "88.88")
            .day(15)
            .create("2024-01-20"),
        "2024-01-20",
        // bcd15-quarterly-start20
        expect![[r"
            quarterly 2024-01-20 > 2024-04-15 84.00
            next 2024-04-15"]],
    );
    check(
        &Subscription::of("alpha", BillingPeriod::Monthly, "30").day(31).create("2024-02-19"),
        "2024-02-29",
        // bcd31-trial-start20
        expect![[r"
            alpha 2024-02-19 > 2024-02-29 9.68
            alpha 2024-02-29 > 2024-03-31 30.00
            next 2024-03-31"]],
    );
}

#[test]
fn a_part_within_a_cycle_is_measured_by_the_period_that_ends_with_it() {
    let twice = monthly("2024-01-01", 1).change("2024-01-11", "beta", "59.99").change(
        "2024-01-21",
        "alpha",
        "29.99",
    );
    check(
        &twice,
        "2024-01-21",
        // change-twice
        expect![[r"
            alpha 2024-01-01 > 2024-01-11 9.67
            beta 2024-01-11 > 2024-01-21 19.35
            alpha 2024-01-21 > 2024-02-01 10.64
            next 2024-02-01"]],
    );
}

#[test]
fn in_arrear_a_period_is_charged_when_it_has_ended_and_its_rest_at_the_end() {
    let arrear = Subscription::of("arrear", BillingPeriod::Monthly, "40").day(1).in_arrear();
    let running = arrear.clone().create("2024-01-01");
    check(&running, "2024-01-31", expect!["next 2024-02-01"]);
    check(
        &running,
        "2024-02-01",
        expect![[r"
            arrear 2024-01-01 > 2024-02-01 40.00
            next 2024-03-01"]],
    );
    check(
        &running.cancel("2024-02-11"),
        "2024-02-11",
        // greedy-arrear
        expect![[r"
            arrear 2024-01-01 > 2024-02-01 40.00
            arrear 2024-02-01 > 2024-02-11 13.79"]],
    );
}

#[test]
fn a_part_from_the_end_of_february_may_cost_more_than_the_month() {
    let arrear = Subscription::of("arrear", BillingPeriod::Monthly, "9").day(31).in_arrear();
    check(
        &arrear.create("2027-02-28").cancel("2027-03-29"),
        "2027-03-29",
        // 29/28, as findings/killbill-part-of-march-costs-more-than-the-month.sh
        expect!["arrear 2027-02-28 > 2027-03-29 9.32"],
    );
}

#[test]
fn greedily_the_period_that_the_target_is_in_is_charged() {
    let arrear = Subscription::of("arrear", BillingPeriod::Monthly, "40").day(10).in_arrear();
    let running = arrear.create("2024-01-10");
    let greedy = |target: &str| {
        let mut run = run(target);
        run.settings.greedy = true;
        running.proposed(&run)
    };
    expect!["next 2024-02-10"].assert_eq(&greedy("2024-01-10"));
    // greedy-arrear-trigger
    expect![[r"
        arrear 2024-01-10 > 2024-02-10 40.00
        next 2024-02-10"]]
    .assert_eq(&greedy("2024-01-12"));
}

#[test]
fn periods_may_have_a_fixed_number_of_days() {
    let mut run = run("2024-02-01");
    run.settings.fixed_days = 30;
    // fixed30-bcd1-start10
    expect![[r"
        alpha 2024-01-10 > 2024-02-01 20.99
        alpha 2024-02-01 > 2024-03-01 29.99
        next 2024-03-01"]]
    .assert_eq(&monthly("2024-01-10", 1).proposed(&run));
}

#[test]
fn a_fixed_price_is_charged_once_for_its_quantity_and_not_again_for_another() {
    let it = Subscription::of("setup", BillingPeriod::Monthly, "30").day(19).fixed("25");
    let it = it.create("2024-01-19").quantity("2024-01-25", 2);
    check(
        &it,
        "2024-01-25",
        expect![[r"
            setup 2024-01-19 fixed 25.00
            setup 2024-01-19 > 2024-01-25 5.81
            setup 2024-01-25 > 2024-02-19 48.39
            next 2024-02-19"]],
    );
}

#[test]
fn a_change_on_the_same_day_replaces_the_fixed_price() {
    let it = Subscription::of("setup", BillingPeriod::Monthly, "30").day(19).fixed("25");
    let changed = it.clone().create("2024-01-19").change("2024-01-19", "beta", "60");
    check(
        &changed,
        "2024-01-19",
        expect![[r"
            beta 2024-01-19 fixed 25.00
            beta 2024-01-19 > 2024-02-19 60.00
            next 2024-02-19"]],
    );
    check(&it.create("2024-01-19").cancel("2024-01-19"), "2024-01-19", expect![""]);
}

#[test]
fn nothing_is_charged_before_a_start_or_after_an_end() {
    check(&monthly("2024-01-10", 10), "2024-01-09", expect![""]);
    check(
        &monthly("2024-01-10", 10).cancel("2024-02-10"),
        "2024-06-01",
        expect!["alpha 2024-01-10 > 2024-02-10 29.99"],
    );
}

#[test]
fn what_ended_at_the_horizon_is_left_out_and_the_rest_is_as_before() {
    let it = Subscription::of("alpha", BillingPeriod::Monthly, "29.99").day(1).fixed("5");
    let it = it.create("2023-11-20").change("2024-02-11", "beta", "59.99");
    let all = it.proposed(&run("2024-03-05"));
    let from = |horizon| it.proposed(&Run { horizon: date(horizon), ..run("2024-03-05") });
    assert_eq!(from("2023-11-20"), all);
    expect![[r"
        beta 2024-02-11 fixed 5.00
        alpha 2024-01-01 > 2024-02-01 29.99
        alpha 2024-02-01 > 2024-02-11 10.34
        beta 2024-02-11 > 2024-03-01 39.30
        beta 2024-03-01 > 2024-04-01 59.99
        next 2024-04-01"]]
    .assert_eq(&from("2024-01-01"));
    expect![[r"
        beta 2024-02-11 fixed 5.00
        beta 2024-02-11 > 2024-03-01 39.30
        beta 2024-03-01 > 2024-04-01 59.99
        next 2024-04-01"]]
    .assert_eq(&from("2024-02-11"));
    expect![[r"
        beta 2024-03-01 > 2024-04-01 59.99
        next 2024-04-01"]]
    .assert_eq(&from("2024-03-04"));
}

#[test]
fn an_amount_beyond_64_bits_is_unbillable() {
    let huge = Subscription::of("huge", BillingPeriod::Monthly, "1000000000000000").day(1);
    let huge = huge.quantities(u32::MAX).create("2024-01-01");
    let refused = propose(&huge.events, &run("2024-01-01"));
    assert_eq!(refused, Err(Unbillable::TooLarge));
}
