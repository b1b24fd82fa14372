//! Figures that carry a scenario's name were recorded from Kill Bill 0.24.19 (`conformance/vectors/subscriptions`).

use std::sync::Arc;

use expect_test::{Expect, expect};

use super::*;
use crate::Seq;
use crate::billing::overrides::PhasePrices;
use crate::catalog::price::Price;
use crate::catalog::rules::{Case, Criteria, Rules};
use crate::catalog::{
    BillingMode, Catalog, Duration, DurationUnit, Plan, Prices, Product, ProductCategory, Recurring,
};

fn at(text: &str) -> Timestamp {
    Timestamp(format!("{text}:00Z").parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

fn usd(price: &str) -> Prices {
    Prices::In(vec![(Currency::parse("USD").unwrap(), Price::parse(price))])
}

fn phase(phase: PhaseType, days: Option<u32>, fixed: Option<&str>, recurring: &str) -> Phase {
    let period = BillingPeriod::Monthly;
    Phase {
        phase,
        duration: days.map(|number| Duration { unit: DurationUnit::Days, number }),
        fixed: fixed.map(usd),
        recurring: (!recurring.is_empty()).then(|| Recurring { period, prices: usd(recurring) }),
        usages: vec![],
    }
}

fn plan(name: &str, phases: Vec<Phase>) -> Plan {
    Plan {
        name: name.to_owned(),
        pretty_name: None,
        effective_for_existing_at: None,
        product: "Alpha".to_owned(),
        mode: BillingMode::InAdvance,
        phases,
        allowed_in_bundle: None,
    }
}

fn catalog(effective: &str, alignment: BillingAlignment, plans: Vec<Plan>) -> Catalog {
    let product = Product {
        name: "Alpha".to_owned(),
        pretty_name: None,
        category: ProductCategory::Base,
        included: vec![],
        available: vec![],
        limits: vec![],
    };
    let case = Case { phase: None, plan: Criteria::default(), decides: alignment };
    Catalog {
        name: "core".to_owned(),
        effective_at: at(effective),
        currencies: vec![],
        units: vec![],
        products: vec![product],
        plans,
        price_lists: vec![],
        rules: Rules { billing_alignment: vec![case], ..Rules::default() },
    }
}

/// A plan with a trial that costs 5 and a setup fee of 25, and one without.
fn plans() -> Vec<Plan> {
    let evergreen = |fixed, price| phase(PhaseType::Evergreen, None, fixed, price);
    let trial = phase(PhaseType::Trial, Some(14), Some("5"), "");
    vec![
        plan("setup", vec![trial, evergreen(Some("25"), "30")]),
        plan("beta", vec![evergreen(None, "60")]),
    ]
}

fn to_plan(by: PlanChange, plan: &str, phase: PhaseType) -> To {
    let (plan, price_list) = (plan.to_owned(), "DEFAULT".to_owned());
    To::Plan { by, plan, price_list, phase, until: None, overrides: None }
}

struct World {
    versions: Versions,
    transitions: Vec<Transition>,
    blocked: Vec<Blocked>,
    days: BillCycleDays,
}

impl World {
    /// A subscription of the plan with a trial, from January 5 on.
    fn new(alignment: BillingAlignment) -> Self {
        Self {
            versions: Versions::new(vec![Arc::new(catalog(
                "2023-01-01T00:00",
                alignment,
                plans(),
            ))]),
            transitions: vec![],
            blocked: vec![],
            days: BillCycleDays::default(),
        }
        .to("2024-01-05T06:00", to_plan(PlanChange::Create, "setup", PhaseType::Trial))
        .to("2024-01-19T06:00", to_plan(PlanChange::Phase, "setup", PhaseType::Evergreen))
    }

    fn to(mut self, on: &str, to: To) -> Self {
        self.transitions.push(Transition { at: at(on), to });
        self.transitions.sort_by_key(|it| it.at);
        self
    }

    fn blocked(mut self, from: &str, until: Option<&str>) -> Self {
        self.blocked.push(Blocked { from: at(from), until: until.map(at) });
        self
    }

    fn check(&self, expected: Expect) {
        let it = Basis {
            transitions: &self.transitions,
            blocked: &self.blocked,
            versions: &self.versions,
            calendar: AccountCalendar::new("UTC", at("2024-01-05T06:00")),
            currency: Currency::parse("USD").unwrap(),
            days: self.days,
        };
        let lines: Vec<_> = timeline(&it).unwrap().iter().map(shown).collect();
        expected.assert_eq(&lines.join("\n"));
    }
}

fn shown(event: &BillingEvent) -> String {
    let BillingEvent { date, kind, terms } = event;
    let Some(terms) = terms else { return format!("{date} {kind:?}") };
    let fixed = terms.fixed.map(|it| {
        let until = it.until.map_or_else(String::new, |until| format!(" until {until}"));
        format!(" fixed {}{until}", it.price)
    });
    let recurring = terms.recurring.map(|it| format!(" {it} on {}", terms.bill_cycle_day));
    let times = if terms.quantity == 1 { String::new() } else { format!(" x {}", terms.quantity) };
    let parts = [fixed.unwrap_or_default(), recurring.unwrap_or_default(), times];
    format!("{date} {kind:?} {}{}", terms.phase, parts.concat())
}

#[test]
fn phases_have_their_prices_and_a_trial_ends_with_the_next_one() {
    World::new(BillingAlignment::Subscription).check(expect![[r"
        2024-01-05 Create setup-trial fixed 5 until 2024-01-19
        2024-01-19 Phase setup-evergreen fixed 25 30 on 19"]]);
}

#[test]
fn the_bill_cycle_day_is_the_accounts_or_the_first_plans_or_the_one_it_was_given() {
    let mut of_account = World::new(BillingAlignment::Account);
    of_account.days.account = Some(1);
    of_account
        .to("2024-02-10T06:00", To::BillCycleDay(10))
        .to("2024-02-20T06:00", to_plan(PlanChange::Change, "beta", PhaseType::Evergreen))
        .check(expect![[r"
            2024-01-05 Create setup-trial fixed 5 until 2024-01-19
            2024-01-19 Phase setup-evergreen fixed 25 30 on 1
            2024-02-10 BcdChange setup-evergreen 30 on 10
            2024-02-20 Change beta-evergreen 60 on 10"]]);
    // align-change-of-plan: a later plan does not move the day.
    World::new(BillingAlignment::Subscription)
        .to("2024-02-20T06:00", to_plan(PlanChange::Change, "beta", PhaseType::Evergreen))
        .check(expect![[r"
            2024-01-05 Create setup-trial fixed 5 until 2024-01-19
            2024-01-19 Phase setup-evergreen fixed 25 30 on 19
            2024-02-20 Change beta-evergreen 60 on 19"]]);
}

#[test]
fn a_quantity_holds_from_its_day_on_and_charges_no_fixed_price_again() {
    World::new(BillingAlignment::Subscription)
        .to("2024-01-25T06:20", To::Quantity(2))
        .to("2024-02-25T06:20", To::Cancelled { with_base: false })
        .check(expect![[r"
            2024-01-05 Create setup-trial fixed 5 until 2024-01-19
            2024-01-19 Phase setup-evergreen fixed 25 30 on 19
            2024-01-25 Quantity setup-evergreen 30 on 19 x 2
            2024-02-25 Cancel"]]);
}

#[test]
fn a_pause_charges_nothing_and_what_was_charged_before_it_not_again() {
    // pause-resume-after-setup-fee; Kill Bill charges the setup fee again.
    World::new(BillingAlignment::Subscription)
        .blocked("2024-01-25T06:20", Some("2024-02-01T06:20"))
        .check(expect![[r"
            2024-01-05 Create setup-trial fixed 5 until 2024-01-19
            2024-01-19 Phase setup-evergreen fixed 25 30 on 19
            2024-01-25 Disabled
            2024-02-01 Enabled setup-evergreen 30 on 19"]]);
}

#[test]
fn a_fixed_price_that_fell_due_in_a_pause_is_charged_when_billing_goes_on() {
    World::new(BillingAlignment::Subscription)
        .to("2024-01-21T06:20", To::Quantity(2))
        .blocked("2024-01-10T06:20", Some("2024-01-25T06:20"))
        .check(expect![[r"
            2024-01-05 Create setup-trial fixed 5 until 2024-01-19
            2024-01-10 Disabled
            2024-01-25 Enabled setup-evergreen fixed 25 30 on 19 x 2"]]);
}

#[test]
fn what_ended_in_a_pause_does_not_go_on_and_later_pauses_are_nothing() {
    World::new(BillingAlignment::Subscription)
        .to("2024-01-21T06:20", To::Cancelled { with_base: false })
        .blocked("2024-01-20T06:20", Some("2024-01-25T06:20"))
        .blocked("2024-02-20T06:20", Some("2024-02-25T06:20"))
        .check(expect![[r"
            2024-01-05 Create setup-trial fixed 5 until 2024-01-19
            2024-01-19 Phase setup-evergreen fixed 25 30 on 19
            2024-01-20 Disabled
            2024-01-25 Enabled"]]);
    World::new(BillingAlignment::Subscription).blocked("2024-01-20T06:20", None).check(expect![[
        r"
        2024-01-05 Create setup-trial fixed 5 until 2024-01-19
        2024-01-19 Phase setup-evergreen fixed 25 30 on 19
        2024-01-20 Disabled"
    ]]);
}

#[test]
fn a_subscription_that_is_blocked_from_the_beginning_begins_when_it_is_not() {
    World::new(BillingAlignment::Subscription)
        .blocked("2024-01-01T00:00", Some("2024-01-10T00:00"))
        .check(expect![[r"
            2024-01-10 Enabled setup-trial fixed 5 until 2024-01-19
            2024-01-19 Phase setup-evergreen fixed 25 30 on 19"]]);
}

/// A second version, with other prices, which is for existing subscriptions from a time on.
fn second(from: Option<&str>) -> Arc<Catalog> {
    let mut plans = plans();
    plans[0].phases[1].recurring.as_mut().unwrap().prices = usd("35");
    plans[0].effective_for_existing_at = from.map(at);
    Arc::new(catalog("2024-02-15T00:00", BillingAlignment::Subscription, plans))
}

#[test]
fn a_version_is_for_existing_subscriptions_only_where_it_says_so() {
    let versions = |from| {
        let first = catalog("2023-01-01T00:00", BillingAlignment::Subscription, plans());
        Versions::new(vec![second(from), Arc::new(first)])
    };
    let mut world = World::new(BillingAlignment::Subscription);
    world.versions = versions(Some("2024-03-10T00:00"));
    // ver-existing-switch: the cycle is cut on that day.
    world.check(expect![[r"
        2024-01-05 Create setup-trial fixed 5 until 2024-01-19
        2024-01-19 Phase setup-evergreen fixed 25 30 on 19
        2024-03-10 Change setup-evergreen 35 on 19"]]);
    world.versions = versions(None);
    world.check(expect![[r"
        2024-01-05 Create setup-trial fixed 5 until 2024-01-19
        2024-01-19 Phase setup-evergreen fixed 25 30 on 19"]]);
    // ver-change-same-plan-product: a plan that is chosen anew is of the version then.
    world
        .to("2024-03-05T06:20", to_plan(PlanChange::Change, "beta", PhaseType::Evergreen))
        .to("2024-03-20T06:20", to_plan(PlanChange::Change, "setup", PhaseType::Evergreen))
        .check(expect![[r"
            2024-01-05 Create setup-trial fixed 5 until 2024-01-19
            2024-01-19 Phase setup-evergreen fixed 25 30 on 19
            2024-03-05 Change beta-evergreen 60 on 19
            2024-03-20 Change setup-evergreen fixed 25 35 on 19"]]);
}

/// `to_plan` with prices in place of its trial's and its last phase's.
fn to_own(by: PlanChange, plan: &str, phase: PhaseType) -> To {
    let prices = |phase, fixed: Option<&str>, recurring: Option<&str>| PhasePrices {
        phase,
        fixed: fixed.and_then(Price::parse),
        recurring: recurring.and_then(Price::parse),
    };
    let phases = vec![
        prices(PhaseType::Trial, Some("3"), None),
        prices(PhaseType::Evergreen, None, Some("20")),
    ];
    let (plan, price_list) = (plan.to_owned(), "DEFAULT".to_owned());
    let overrides = Some(Overrides { number: Seq(7), phases });
    To::Plan { by, plan, price_list, phase, until: None, overrides }
}

#[test]
fn overrides_replace_prices_keep_the_version_and_name_the_plan() {
    let mut world = World::new(BillingAlignment::Subscription);
    let first = catalog("2023-01-01T00:00", BillingAlignment::Subscription, plans());
    world.versions = Versions::new(vec![second(Some("2024-03-10T00:00")), Arc::new(first)]);
    world.transitions = vec![];
    world
        .to("2024-01-05T06:00", to_own(PlanChange::Create, "setup", PhaseType::Trial))
        .to("2024-01-19T06:00", to_own(PlanChange::Phase, "setup", PhaseType::Evergreen))
        .to("2024-04-20T06:20", to_plan(PlanChange::Change, "setup", PhaseType::Evergreen))
        .check(expect![[r"
            2024-01-05 Create setup-7-trial fixed 3 until 2024-01-19
            2024-01-19 Phase setup-7-evergreen fixed 25 20 on 19
            2024-04-20 Change setup-evergreen fixed 25 35 on 19"]]);
}

#[test]
fn a_plan_that_no_version_has_and_a_currency_without_price_are_refused() {
    let world = World::new(BillingAlignment::Subscription);
    let calendar = AccountCalendar::new("UTC", Timestamp(0));
    let of = |transitions: &[Transition], currency: &str| {
        timeline(&Basis {
            transitions,
            blocked: &[],
            versions: &world.versions,
            calendar,
            currency: Currency::parse(currency).unwrap(),
            days: BillCycleDays::default(),
        })
    };
    let gone = to_plan(PlanChange::Create, "gone", PhaseType::Trial);
    let gone = [Transition { at: at("2024-01-05T06:00"), to: gone }];
    assert_eq!(of(&gone, "USD"), Err(NoTimeline::NoPlan));
    assert_eq!(of(&world.transitions, "EUR"), Err(NoTimeline::NoPrice(NoPrice::Missing)));
}

#[test]
fn phases_end_in_utc_and_the_day_is_the_accounts() {
    // A month from January 31 in UTC is February 29, which is March 1 in Auckland.
    let discount = Duration { unit: DurationUnit::Months, number: 1 };
    let mut plans = plans();
    plans[0].phases[0].duration = Some(discount);
    let first = catalog("2023-01-01T00:00", BillingAlignment::Subscription, plans);
    let created = to_plan(PlanChange::Create, "setup", PhaseType::Trial);
    let it = Basis {
        transitions: &[Transition { at: at("2024-01-31T12:30"), to: created }],
        blocked: &[],
        versions: &Versions::new(vec![Arc::new(first)]),
        calendar: AccountCalendar::new("Pacific/Auckland", at("2024-01-31T12:30")),
        currency: Currency::parse("USD").unwrap(),
        days: BillCycleDays::default(),
    };
    assert_eq!(own_day(&it), Ok(1));
    let lines: Vec<_> = timeline(&it).unwrap().iter().map(shown).collect();
    assert_eq!(lines, ["2024-02-01 Create setup-trial fixed 5 until 2024-03-01"]);
}
