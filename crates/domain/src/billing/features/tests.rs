//! What subscriptions should have, by their transitions.

use expect_test::{Expect, expect};

use super::*;
use crate::billing::timeline::{PlanChange, Transition};
use crate::catalog::ProductCategory;
use crate::entitlement::plan_features::FeaturesOf;
use crate::{AccountId, BundleId, Revision, Seq, SubscriptionId, TenantNo};

/// Features as `key=value`, separated by blanks: `5` for five, `5*` for five of each, `-` for none, `T5` for five in the
/// trial alone, `5!` once the first invoice is paid.
fn features(of: FeaturesOf, text: &str) -> PlanFeatures {
    let entry = |text: &str| {
        let (key, value) = text.split_once('=').unwrap();
        let limit = value.trim_matches(['*', 'T', '!', '-']).parse().ok().map(FeatureValue::Limit);
        let in_trial = value.starts_with('T');
        let phases = limit.clone().filter(|_| in_trial).map(|it| (PhaseType::Trial, it));
        let entry = PlanFeature {
            value: limit.filter(|_| !in_trial),
            phases: phases.into_iter().collect(),
            times_quantity: value.contains('*'),
            starts: if value.contains('!') { Starts::Paid } else { Starts::Start },
        };
        (key.to_owned(), entry)
    };
    PlanFeatures {
        tenant: TenantNo(1),
        of,
        version: 1,
        features: text.split_whitespace().map(entry).collect(),
        created_at: Timestamp(0),
        revision: Revision::first(Seq(1)),
    }
}

/// A subscription by its transitions, as `time:transition`: `T` and `E` for its trial and its last phase, `M` for the
/// plan `max`, `X` for its end and `Q3` for three of it. Those until 10 have taken effect.
fn subscription(text: &str) -> Subscription {
    let transition = |text: &str| {
        let (at, to) = text.split_once(':').unwrap();
        let plan = |plan: &str, by, phase| To::Plan {
            by,
            plan: plan.to_owned(),
            price_list: "DEFAULT".to_owned(),
            phase,
            until: None,
            overrides: None,
        };
        let to = match to {
            "T" => plan("pro", PlanChange::Create, PhaseType::Trial),
            "E" => plan("pro", PlanChange::Phase, PhaseType::Evergreen),
            "M" => plan("max", PlanChange::Change, PhaseType::Evergreen),
            "X" => To::Expired,
            "C" => To::Cancelled { with_base: false },
            quantity => To::Quantity(quantity.trim_start_matches('Q').parse().unwrap()),
        };
        Transition { at: Timestamp(at.parse().unwrap()), to }
    };
    let transitions: Vec<_> = text.split_whitespace().map(transition).collect();
    let nil = uuid::Uuid::nil();
    Subscription {
        tenant: TenantNo(1),
        id: SubscriptionId::new(nil),
        account_id: AccountId::new(nil),
        bundle_id: BundleId::new(nil),
        external_key: None,
        category: ProductCategory::Base,
        in_effect: transitions.iter().filter(|it| it.at.0 <= 10).count(),
        entitled_from: transitions[0].at,
        transitions,
        entitled_until: None,
        entitlement_ended: false,
        charged_through: None,
        settled: jiff::civil::Date::MIN,
        next_due: None,
        first_charged: None,
        given: None,
        is_over: false,
        created_at: Timestamp(0),
        revision: Revision::first(Seq(1)),
    }
}

/// Compares what a subscription should have at 10, as `key=limit@phase from..until`. The plan `max` gives 9 of `a`.
fn check(
    [transitions, plan, product]: [&str; 3],
    change: impl FnOnce(&mut Subscription, &mut (Blocks, bool)),
    expected: Expect,
) {
    let (mut of, mut around) = (subscription(transitions), (Blocks::default(), false));
    change(&mut of, &mut around);
    let plan = features(FeaturesOf::plan("pro"), plan);
    let product = features(FeaturesOf::product("Pro"), product);
    let max = features(FeaturesOf::plan("max"), "a=9");
    let mapping = |it: Current<'_>| Mapping {
        plan: Some(if it.plan == "max" { &max } else { &plan }),
        product: Some(&product),
    };
    let Some(active) = active(&of, around.0, around.1, Timestamp(10)) else {
        return expected.assert_eq("not active");
    };
    let shown = |it: Wanted<'_>| {
        let FeatureValue::Limit(limit) = it.value else { panic!() };
        let until = it.until.map(|it| it.0.to_string()).unwrap_or_default();
        let by = it.given_by.of.kind.name();
        let phase = it.phase.name();
        format!("{}={limit} by {by} in {phase} {}..{until}", it.feature, it.from.0)
    };
    let wanted = wanted(&stages(&of, mapping), active).into_iter().map(shown);
    expected.assert_eq(&wanted.collect::<Vec<_>>().join(", "));
}

const fn as_it_is(_: &mut Subscription, _: &mut (Blocks, bool)) {}

#[test]
fn a_plans_entry_wins_over_its_products() {
    check(["5:E", "a=2", "a=1"], as_it_is, expect!["a=2 by plan in EVERGREEN 10.."]);
    check(
        ["5:E", "a=2", "b=1"],
        as_it_is,
        expect!["a=2 by plan in EVERGREEN 10.., b=1 by product in EVERGREEN 10.."],
    );
    check(["5:E", "a=-", "a=1 b=1"], as_it_is, expect!["b=1 by product in EVERGREEN 10.."]);
    check(["5:E", "", ""], as_it_is, expect![[""]]);
}

#[test]
fn a_feature_ends_with_the_last_phase_or_plan_that_gives_it() {
    check(["5:T 20:E", "a=2", ""], as_it_is, expect!["a=2 by plan in TRIAL 10.."]);
    check(["5:T 20:E", "a=T2", ""], as_it_is, expect!["a=2 by plan in TRIAL 10..20"]);
    check(["5:T 9:E", "a=T2", ""], as_it_is, expect![[""]]);
    check(
        ["5:T 20:M", "a=2 b=1", ""],
        as_it_is,
        expect!["a=2 by plan in TRIAL 10.., b=1 by plan in TRIAL 10..20"],
    );
    check(["5:T 9:M", "a=2 b=1", ""], as_it_is, expect!["a=9 by plan in EVERGREEN 10.."]);
    check(["5:T 20:X", "a=2", ""], as_it_is, expect!["a=2 by plan in TRIAL 10..20"]);
}

#[test]
fn what_is_over_or_blocked_has_nothing() {
    check(["5:T 9:X", "a=2", ""], as_it_is, expect!["not active"]);
    check(["5:T 9:C", "a=2", ""], as_it_is, expect!["not active"]);
    let until =
        |at| move |it: &mut Subscription, _: &mut _| it.entitled_until = Some(Timestamp(at));
    check(["5:T 30:C", "a=2", ""], until(20), expect!["a=2 by plan in TRIAL 10..20"]);
    check(["5:T 30:C", "a=2", ""], until(10), expect!["not active"]);
    // It may be used for longer than it is billed, but not for longer than its phases last.
    check(["5:T 9:C", "a=2", ""], until(20), expect!["a=2 by plan in TRIAL 10..20"]);
    check(["5:T 15:X 30:C", "a=2", ""], until(20), expect!["a=2 by plan in TRIAL 10..15"]);
    check(["5:T", "a=2", ""], |_, it| it.0.entitlement = true, expect!["not active"]);
    let others = |_: &mut Subscription, it: &mut (Blocks, bool)| {
        (it.0.billing, it.0.change) = (true, true);
    };
    check(["5:T", "a=2", ""], others, expect!["a=2 by plan in TRIAL 10.."]);
}

#[test]
fn what_begins_later_is_granted_from_then_on() {
    check(["15:T", "a=2", ""], as_it_is, expect!["a=2 by plan in TRIAL 15.."]);
    let later = |it: &mut Subscription, _: &mut _| it.entitled_from = Timestamp(18);
    check(["5:T", "a=2", ""], later, expect!["a=2 by plan in TRIAL 18.."]);
    check(["5:T 17:E", "a=T2", ""], later, expect![[""]]);
}

#[test]
fn a_limit_is_multiplied_by_the_quantity_that_is_in_effect() {
    check(["5:E 5:Q3", "a=2*", ""], as_it_is, expect!["a=6 by plan in EVERGREEN 10.."]);
    check(["5:E 5:Q3", "a=2", ""], as_it_is, expect!["a=2 by plan in EVERGREEN 10.."]);
    check(["5:E 5:Q3 12:Q9", "a=2*", ""], as_it_is, expect!["a=6 by plan in EVERGREEN 10.."]);
    check(["15:E 15:Q3 20:Q9", "a=2*", ""], as_it_is, expect!["a=6 by plan in EVERGREEN 15.."]);
    check(
        ["5:E 5:Q2000000", "a=9007199254740*", ""],
        as_it_is,
        expect!["a=9007199254740991 by plan in EVERGREEN 10.."],
    );
}

#[test]
fn what_waits_for_a_payment_comes_with_it() {
    let paid = |_: &mut Subscription, it: &mut (Blocks, bool)| it.1 = true;
    check(["5:E", "a=2! b=1", ""], as_it_is, expect!["b=1 by plan in EVERGREEN 10.."]);
    check(
        ["5:E", "a=2! b=1", ""],
        paid,
        expect!["a=2 by plan in EVERGREEN 10.., b=1 by plan in EVERGREEN 10.."],
    );
}
