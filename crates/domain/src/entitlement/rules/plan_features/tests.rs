//! Accepted and refused features of plans, one line each.

use expect_test::{Expect, expect};

use crate::catalog::PhaseType;
use crate::command::EntitlementCommand;
use crate::entitlement::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset,
};
use crate::entitlement::plan_features::{FeaturesOf, PlanFeature, PutPlanFeatures, Starts};
use crate::flag::definition::Expected;
use crate::reply::EntitlementReply;
use crate::testing::Rows;
use crate::{Command, Reply};

fn put_feature(rows: &mut Rows, key: &str, kind: FeatureKind, archived: bool) {
    let it = PutFeature {
        key: key.to_owned(),
        name: key.to_owned(),
        terms: FeatureTerms { kind, combine: Combine::Latest },
        archived,
        expected: Expected::Anything,
    };
    rows.run(Command::Entitlement(EntitlementCommand::PutFeature(Box::new(it)))).unwrap();
}

fn entry(value: Option<FeatureValue>) -> PlanFeature {
    PlanFeature { value, phases: [].into(), times_quantity: false, starts: Starts::Start }
}

/// The switch `pro` and ten seats of the plan `gold`.
fn gold() -> PutPlanFeatures {
    let features = [
        ("pro".to_owned(), entry(Some(FeatureValue::On))),
        ("seats".to_owned(), entry(Some(FeatureValue::Limit(10)))),
    ];
    let (of, features) = (FeaturesOf::plan("gold"), features.into());
    PutPlanFeatures { of, features, expected: Expected::Anything }
}

/// Compares the result of putting [`gold`] as `change` makes it, where it is there already.
fn check(change: impl FnOnce(&mut PutPlanFeatures), expected: Expect) {
    let mut rows = Rows::new();
    let unit = "seats".to_owned();
    let limit = LimitTerms { unit, resets: Reset::Never, overdraft: false };
    put_feature(&mut rows, "pro", FeatureKind::Switch, false);
    put_feature(&mut rows, "seats", FeatureKind::Limit(limit), false);
    put_feature(&mut rows, "old", FeatureKind::Switch, true);
    let mut put = |it| {
        let command = EntitlementCommand::PutPlanFeatures(Box::new(it));
        match rows.run(Command::Entitlement(command)).map(|it| it.reply) {
            Ok(Some(Reply::Entitlement(EntitlementReply::Put { version }))) => {
                format!("v{version}")
            }
            Ok(other) => panic!("{other:?}"),
            Err(rejection) => rejection.to_string(),
        }
    };
    put(gold());
    let mut it = gold();
    change(&mut it);
    expected.assert_eq(&put(it));
}

#[test]
fn a_plan_and_a_product_have_versions_of_their_own() {
    check(|_| {}, expect!["v2"]);
    check(|it| it.of = FeaturesOf::product("gold"), expect!["v1"]);
    check(|it| it.of = FeaturesOf::plan("silver"), expect!["v1"]);
    check(|it| it.features.clear(), expect!["v2"]);
    check(|it| it.expected = Expected::Version(1), expect!["v2"]);
    check(
        |it| it.expected = Expected::Version(2),
        expect!["the feature list of plan gold is in the version 1"],
    );
    check(
        |it| it.expected = Expected::Nothing,
        expect!["the feature list of plan gold is in the version 1"],
    );
}

#[test]
fn names_of_plans_are_bounded() {
    check(
        |it| it.of.name.clear(),
        expect!["plan: should have 1 to 255 characters, none of them a control character"],
    );
    check(
        |it| it.of = FeaturesOf::product(&"a".repeat(256)),
        expect!["product: should have 1 to 255 characters, none of them a control character"],
    );
    check(
        |it| it.of.name.push('\n'),
        expect!["plan: should have 1 to 255 characters, none of them a control character"],
    );
}

#[test]
fn an_entry_fits_its_feature() {
    let seats = |it: &mut PutPlanFeatures| it.features["seats"].clone();
    let set = |key: &str, entry: PlanFeature| {
        let key = key.to_owned();
        move |it: &mut PutPlanFeatures| drop(it.features.insert(key, entry))
    };
    check(
        set("none", entry(Some(FeatureValue::On))),
        expect!["features.none: there is no such feature"],
    );
    check(
        set("old", entry(Some(FeatureValue::On))),
        expect!["features.old: there is no such feature"],
    );
    check(
        set("seats", entry(Some(FeatureValue::On))),
        expect!["features.seats.value: is not of the feature's kind"],
    );
    let mut by_phase = entry(None);
    by_phase.phases.insert(PhaseType::FixedTerm, FeatureValue::Limit(-1));
    check(
        set("seats", by_phase),
        expect!["features.seats.phases.FIXEDTERM: is not between 0 and 9007199254740991"],
    );
    check(
        |it| {
            let entry = PlanFeature { times_quantity: true, ..seats(it) };
            it.features.insert("seats".to_owned(), entry);
        },
        expect!["v2"],
    );
    check(
        set("pro", PlanFeature { times_quantity: true, ..entry(Some(FeatureValue::On)) }),
        expect!["features.pro.timesQuantity: is for limits only"],
    );
    check(set("pro", entry(None)), expect!["v2"]);
    check(
        |it| {
            it.of = FeaturesOf::product("Gold");
            it.features.insert("pro".to_owned(), entry(None));
        },
        expect!["features.pro: should have a value, for all phases or for some"],
    );
    check(
        |it| {
            let more = (0..99).map(|n| (format!("f{n}"), entry(None)));
            it.features.extend(more);
        },
        expect!["features: should be at most 100"],
    );
}
