//! The rules of a catalog, as elements.

use std::collections::BTreeSet;

use domain::catalog::rules::{
    Alignment, BillingAlignment, Case, ChangeCase, Criteria, Policy, Rules,
};

use super::reading::{Reading, Sequence, all};
use crate::xml::Element;

pub(super) const POLICIES: [(&str, Policy); 4] = [
    ("IMMEDIATE", Policy::Immediate),
    ("END_OF_TERM", Policy::EndOfTerm),
    ("START_OF_TERM", Policy::StartOfTerm),
    ("ILLEGAL", Policy::Illegal),
];

const CREATE_ALIGNMENTS: [(&str, Alignment); 2] = [
    ("START_OF_BUNDLE", Alignment::StartOfBundle),
    ("START_OF_SUBSCRIPTION", Alignment::StartOfSubscription),
];

pub(super) const CHANGE_ALIGNMENTS: [(&str, Alignment); 3] =
    [CREATE_ALIGNMENTS[0], CREATE_ALIGNMENTS[1], ("CHANGE_OF_PLAN", Alignment::ChangeOfPlan)];

pub(super) const BILLING_ALIGNMENTS: [(&str, BillingAlignment); 3] = [
    ("ACCOUNT", BillingAlignment::Account),
    ("BUNDLE", BillingAlignment::Bundle),
    ("SUBSCRIPTION", BillingAlignment::Subscription),
];

/// Reads all rules.
pub(super) fn rules(reading: &mut Reading, of: &Element) -> Rules {
    let mut parts = Sequence::of(of);
    let mut section = |name: &str| (parts.optional(name), format!("{name}Case"));
    let sections = [
        section("changePolicy"),
        section("changeAlignment"),
        section("cancelPolicy"),
        section("createAlignment"),
        section("billingAlignment"),
        section("priceList"),
    ];
    parts.end(reading);
    let cases = sections
        .map(|(section, case)| section.map(|it| all(reading, it, &case)).unwrap_or_default());
    let [change_policy, change_alignment, cancel_policy, create, billing, price_list] = cases;
    let rules = Rules {
        change_policy: changes(reading, &change_policy, "policy", &POLICIES),
        change_alignment: changes(reading, &change_alignment, "alignment", &CHANGE_ALIGNMENTS),
        cancel_policy: of_plans(reading, &cancel_policy, "policy", &POLICIES),
        create_alignment: of_plans(reading, &create, "alignment", &CREATE_ALIGNMENTS),
        billing_alignment: of_plans(reading, &billing, "alignment", &BILLING_ALIGNMENTS),
        price_list: price_list.iter().filter_map(|it| to_price_list(reading, it)).collect(),
    };
    object(reading, of, &rules);
    for at in cancel_policy.iter().filter(|it| has_policy(it, "START_OF_TERM")) {
        let text = "Default catalog START_OF_TERM has not been implemented, such policy can be used during \
                    cancellation by overriding policy";
        reading.objection(at, text);
    }
    rules
}

fn has_policy(case: &Element, name: &str) -> bool {
    case.elements.iter().any(|it| it.name == "policy" && it.text == name)
}

/// Kill Bill's objections to rules as a whole.
fn object(reading: &mut Reading, of: &Element, rules: &Rules) {
    let none = Criteria::default();
    let is_catch_all =
        |it: &ChangeCase<Policy>| it.phase.is_none() && it.from == none && it.to == none;
    if !rules.change_policy.iter().any(is_catch_all) {
        reading.objection(of, "Missing default rule case for plan change");
    }
    if has_repetition(&rules.change_policy, |it| (it.phase, &it.from, &it.to)) {
        reading.objection(of, "Duplicate rule for change plan: two cases have the same criteria");
    }
    if !rules.cancel_policy.iter().any(|it| it.phase.is_none() && it.plan == none) {
        reading.objection(of, "Missing default rule case for plan cancellation");
    }
    if has_repetition(&rules.cancel_policy, |it| (it.phase, &it.plan)) {
        reading.objection(
            of,
            "Duplicate rule for plan cancellation: two cases have the same criteria",
        );
    }
}

fn has_repetition<'a, T, K: Ord>(cases: &'a [T], criteria: impl Fn(&'a T) -> K) -> bool {
    cases.iter().map(criteria).collect::<BTreeSet<_>>().len() < cases.len()
}

fn of_plans<T: Copy>(
    reading: &mut Reading,
    cases: &[&Element],
    decides: &str,
    words: &[(&str, T)],
) -> Vec<Case<T>> {
    let read = |it: &&Element| {
        let mut parts = Sequence::of(it);
        let phase = parts.optional("phaseType").and_then(|it| reading.phase_type(it));
        let plan = criteria(reading, &mut parts, "");
        let decides = parts.required(reading, decides).and_then(|it| reading.word(it, words));
        parts.end(reading);
        Some(Case { phase, plan, decides: decides? })
    };
    cases.iter().filter_map(read).collect()
}

fn changes<T: Copy>(
    reading: &mut Reading,
    cases: &[&Element],
    decides: &str,
    words: &[(&str, T)],
) -> Vec<ChangeCase<T>> {
    let read = |it: &&Element| {
        let mut parts = Sequence::of(it);
        let phase = parts.optional("phaseType").and_then(|it| reading.phase_type(it));
        let from = criteria(reading, &mut parts, "from");
        let to = criteria(reading, &mut parts, "to");
        let decides = parts.required(reading, decides).and_then(|it| reading.word(it, words));
        parts.end(reading);
        Some(ChangeCase { phase, from, to, decides: decides? })
    };
    cases.iter().filter_map(read).collect()
}

fn to_price_list(reading: &mut Reading, it: &Element) -> Option<Case<String>> {
    let mut parts = Sequence::of(it);
    let plan = criteria(reading, &mut parts, "from");
    let list = parts.required(reading, "toPriceList").map(|it| reading.reference(it));
    parts.end(reading);
    Some(Case { phase: None, plan, decides: list? })
}

/// The criteria whose elements begin with a word.
fn criteria(reading: &mut Reading, parts: &mut Sequence<'_>, prefix: &str) -> Criteria {
    let mut part = |name: &str| parts.optional(&criterion(prefix, name));
    let product = part("Product");
    let category = part("ProductCategory");
    let period = part("BillingPeriod");
    let price_list = part("PriceList");
    Criteria {
        product: product.map(|it| reading.reference(it)),
        category: category.and_then(|it| reading.category(it)),
        period: period.and_then(|it| reading.period(it)),
        price_list: price_list.map(|it| reading.reference(it)),
    }
}

/// The element of a criterion, whose name begins with a word.
pub(super) fn criterion(prefix: &str, name: &str) -> String {
    match prefix {
        "" => format!("{}{}", name[..1].to_ascii_lowercase(), &name[1..]),
        prefix => format!("{prefix}{name}"),
    }
}
