//! Accepted and refused features and offers, one line each.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};

use crate::account::tag::{ControlTag, DefinitionRef};
use crate::command::EntitlementCommand;
use crate::entitlement::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset, ValueType,
};
use crate::entitlement::offer::{Again, Lasts, OfferTerms, Price, PutOffer, Revocation};
use crate::flag::definition::Expected;
use crate::reply::EntitlementReply;
use crate::testing::Rows;
use crate::{AmountMinor, Command, Currency, Reply};

fn pro() -> PutFeature {
    PutFeature {
        key: "pro".to_owned(),
        name: "Pro".to_owned(),
        terms: FeatureTerms { kind: FeatureKind::Switch, combine: Combine::Latest },
        archived: false,
        expected: Expected::Anything,
    }
}

fn monthly() -> PutOffer {
    let price = Price { amount: AmountMinor(900), currency: Currency::parse("EUR").unwrap() };
    PutOffer {
        key: "monthly".to_owned(),
        terms: OfferTerms {
            price: Some(price),
            lasts: Lasts::Months(1),
            again: Again::Extend,
            ..OfferTerms::free("Monthly", &[("pro", FeatureValue::On)])
        },
        expected: Expected::Anything,
    }
}

fn run(rows: &mut Rows, command: EntitlementCommand) -> String {
    match rows.run(Command::Entitlement(command)) {
        Ok(executed) => match executed.reply {
            Some(Reply::Entitlement(EntitlementReply::Put { version })) => format!("v{version}"),
            other => panic!("{other:?}"),
        },
        Err(rejection) => rejection.to_string(),
    }
}

/// Compares the result of putting [`pro`] as `change` makes it, where it is there already.
fn feature(change: impl FnOnce(&mut PutFeature), expected: Expect) {
    let mut rows = Rows::new();
    run(&mut rows, EntitlementCommand::PutFeature(Box::new(pro())));
    let mut it = pro();
    change(&mut it);
    expected.assert_eq(&run(&mut rows, EntitlementCommand::PutFeature(Box::new(it))));
}

/// Compares the result of putting [`monthly`] as `change` makes it, where it is there already.
fn offer(change: impl FnOnce(&mut PutOffer), expected: Expect) {
    let mut rows = Rows::new();
    run(&mut rows, EntitlementCommand::PutFeature(Box::new(pro())));
    run(&mut rows, EntitlementCommand::PutOffer(Box::new(monthly())));
    let mut it = monthly();
    change(&mut it);
    expected.assert_eq(&run(&mut rows, EntitlementCommand::PutOffer(Box::new(it))));
}

fn limit(unit: &str) -> FeatureKind {
    let (resets, overdraft) = (Reset::Month, false);
    FeatureKind::Limit(LimitTerms { unit: unit.to_owned(), resets, overdraft })
}

#[test]
fn features() {
    feature(|it| it.name = "Professional".to_owned(), expect!["v2"]);
    feature(|it| it.key = "a.b-c_9".to_owned(), expect!["v1"]);
    feature(
        |it| it.key = "Pro".to_owned(),
        expect![
            "key: should be 1 to 64 of a-z, 0-9, '.', '-' and '_', and begin with a letter or a digit"
        ],
    );
    feature(
        |it| it.key = String::new(),
        expect![
            "key: should be 1 to 64 of a-z, 0-9, '.', '-' and '_', and begin with a letter or a digit"
        ],
    );
    feature(
        |it| it.key = "a".repeat(65),
        expect![
            "key: should be 1 to 64 of a-z, 0-9, '.', '-' and '_', and begin with a letter or a digit"
        ],
    );
    feature(|it| it.name = String::new(), expect!["name: should have 1 to 255 characters"]);
    feature(
        |it| it.terms.kind = FeatureKind::Value(ValueType::String),
        expect!["kind: stays what it was when the feature was made"],
    );
    feature(
        |it| it.terms.combine = Combine::Sum,
        expect!["combine: is latest for what is no limit"],
    );
    feature(|it| it.expected = Expected::Nothing, expect!["the feature pro is in the version 1"]);
    feature(|it| it.expected = Expected::Version(1), expect!["v2"]);
    feature(
        |it| it.expected = Expected::Version(2),
        expect!["the feature pro is in the version 1"],
    );
    let other = |kind: FeatureKind, combine| {
        move |it: &mut PutFeature| {
            it.key = "other".to_owned();
            it.terms = FeatureTerms { kind, combine };
        }
    };
    feature(other(limit("seats"), Combine::Sum), expect!["v1"]);
    feature(other(limit(""), Combine::Sum), expect!["unit: should have 1 to 255 characters"]);
}

#[test]
fn offers() {
    offer(|it| it.terms.lasts = Lasts::Forever, expect!["v2"]);
    offer(
        |it| it.key = "Monthly!".to_owned(),
        expect![
            "key: should be 1 to 64 of a-z, 0-9, '.', '-' and '_', and begin with a letter or a digit"
        ],
    );
    offer(
        |it| it.terms.lasts = Lasts::Days(0),
        expect!["lasts: should be 1 to 36525 days or 1 to 1200 months"],
    );
    offer(
        |it| it.terms.lasts = Lasts::Months(1_201),
        expect!["lasts: should be 1 to 36525 days or 1 to 1200 months"],
    );
    offer(|it| it.terms.features.clear(), expect!["features: should be 1 to 100"]);
    offer(
        |it| {
            let many = (0..1_000).map(|n| (format!("f{n}"), FeatureValue::On));
            it.terms.features = many.collect();
        },
        expect!["features: should be 1 to 100"],
    );
    let gives = |key: &str, value| {
        let features = BTreeMap::from([(key.to_owned(), value)]);
        move |it: &mut PutOffer| it.terms.features = features
    };
    offer(gives("none", FeatureValue::On), expect!["features.none: there is no such feature"]);
    offer(
        gives("pro", FeatureValue::Limit(5)),
        expect!["features.pro: is not of the feature's kind"],
    );
    let price = |amount| {
        let currency = Currency::parse("EUR").unwrap();
        Some(Price { amount: AmountMinor(amount), currency })
    };
    let levs = Price { amount: AmountMinor(900), currency: Currency::parse("BGN").unwrap() };
    offer(|it| it.terms.price = Some(levs), expect!["price: BGN is retired: EUR is its successor"]);
    offer(|it| (it.terms.price, it.terms.withdrawn) = (Some(levs), true), expect!["v2"]);
    offer(
        |it| it.terms.price = price(0),
        expect!["price: should be greater than 0; a free offer has none"],
    );
    offer(
        |it| it.terms.price = price(-1),
        expect!["price: should be greater than 0; a free offer has none"],
    );
    offer(
        |it| {
            it.terms.lasts = Lasts::Forever;
            it.terms.on_refund = Revocation::AtEnd;
        },
        expect!["onRefund: cannot be at-end for what lasts for ever"],
    );
    offer(|it| it.terms.for_newcomers = true, expect!["forNewcomers: is for free offers only"]);
    offer(
        |it| {
            (it.terms.for_newcomers, it.terms.price) = (true, None);
            it.terms.buyers.tags.insert(DefinitionRef::Control(ControlTag::AutoPayOff));
        },
        expect!["forNewcomers: is for offers without tags: a new account has none of them"],
    );
    offer(
        |it| it.expected = Expected::Version(2),
        expect!["the offer monthly is in the version 1"],
    );
}

#[test]
fn one_offer_is_for_newcomers() {
    let mut rows = Rows::new();
    run(&mut rows, EntitlementCommand::PutFeature(Box::new(pro())));
    let free = |key: &str, for_newcomers| {
        let mut it = monthly();
        it.key = key.to_owned();
        it.terms.price = None;
        it.terms.for_newcomers = for_newcomers;
        EntitlementCommand::PutOffer(Box::new(it))
    };
    assert_eq!(run(&mut rows, free("a", true)), "v1");
    assert_eq!(run(&mut rows, free("a", true)), "v2");
    assert_eq!(run(&mut rows, free("b", true)), "the offer a is for newcomers already");
    assert_eq!(run(&mut rows, free("a", false)), "v3");
    assert_eq!(run(&mut rows, free("b", true)), "v1");
}
