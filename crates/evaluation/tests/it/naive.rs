//! A second, naive evaluator without compilation. The compiled one must agree with it on random flags
//! and users.

use evaluation::{
    Condition, Fallthrough, Flag, IN_SEGMENT, MissingAttribute, NOT_IN_SEGMENT, Property,
    RolloutVariation, Rule, Segment, SegmentRule, Snapshot, TargetUsers, User, Variation,
};
use md5::{Digest as _, Md5};
use proptest::prelude::*;

const OPERATORS: [&str; 18] = [
    "LessThan",
    "LessEqualThan",
    "BiggerThan",
    "BiggerEqualThan",
    "Equal",
    "NotEqual",
    "Contains",
    "NotContain",
    "StartsWith",
    "EndsWith",
    "MatchRegex",
    "NotMatchRegex",
    "IsOneOf",
    "NotOneOf",
    "IsTrue",
    "IsFalse",
    "",
    "Resembles",
];
const PROPERTIES: [&str; 7] = ["keyId", "name", "age", "plan", " ", IN_SEGMENT, NOT_IN_SEGMENT];
const VALUES: [&str; 16] = [
    "",
    "1",
    "-1.5",
    "1,000",
    "abc",
    "a",
    "true",
    "FALSE",
    "[\"a\",\"abc\"]",
    "[]",
    "[\"s0\",\"s1\"]",
    "[\"s2\"]",
    "^a",
    "(",
    "user-1",
    " 1 ",
];

fn value_of<'u>(user: &'u User, property: &str) -> Result<&'u str, &'static str> {
    match property {
        "keyId" => Ok(&user.key_id),
        "name" => user.name.as_deref().ok_or("no name"),
        _ if property.trim().is_empty() => Ok(""),
        _ => match user.customized_properties.iter().find(|it| it.name == property) {
            Some(found) => Ok(found.value.as_deref().unwrap_or("")),
            None => Err("absent"),
        },
    }
}

struct Naive<'a> {
    segments: &'a [Segment],
    missing: MissingAttribute,
}

impl Naive<'_> {
    fn holds(&self, condition: &Condition, user: &User, depth: u8) -> bool {
        let (op, value) = (condition.op.as_str(), condition.value.as_str());
        let list: Option<Vec<String>> = serde_json::from_str(value).ok();
        if [IN_SEGMENT, NOT_IN_SEGMENT].contains(&condition.property.as_str()) {
            let Some(ids) = list else { return false };
            let belongs = ids.iter().any(|id| self.belongs(id, user, depth));
            return belongs == (condition.property == IN_SEGMENT);
        }
        let found = match value_of(user, &condition.property) {
            Ok(found) => found,
            Err("absent") if self.missing == MissingAttribute::Empty => "",
            Err(_) => return false,
        };
        // This is enough for the numbers in `VALUES`.
        let number = |text: &str| text.trim().replace(',', "").parse::<f64>().ok();
        let compare = |is: fn(f64, f64) -> bool| {
            number(found).zip(number(value)).is_some_and(|(one, other)| is(one, other))
        };
        let matches = || regex::Regex::new(value).ok().map(|it| it.is_match(found));
        match op {
            "LessThan" => compare(|one, other| one < other),
            "LessEqualThan" => compare(|one, other| one <= other),
            "BiggerThan" => compare(|one, other| one > other),
            "BiggerEqualThan" => compare(|one, other| one >= other),
            "Equal" => found == value,
            "NotEqual" => found != value,
            "Contains" => found.contains(value),
            "NotContain" => !found.contains(value),
            "StartsWith" => found.starts_with(value),
            "EndsWith" => found.ends_with(value),
            "MatchRegex" => matches() == Some(true),
            "NotMatchRegex" => matches() == Some(false),
            "IsOneOf" => list.is_some_and(|list| list.iter().any(|it| it == found)),
            "NotOneOf" => list.is_some_and(|list| list.iter().all(|it| it != found)),
            "IsTrue" => found.to_lowercase() == "true",
            "IsFalse" => found.to_lowercase() == "false",
            _ => false,
        }
    }

    fn belongs(&self, id: &str, user: &User, depth: u8) -> bool {
        let Some(segment) = self.segments.iter().find(|it| it.id == id) else { return false };
        let all =
            |rule: &SegmentRule| rule.conditions.iter().all(|it| self.holds(it, user, depth + 1));
        depth < evaluation::SEGMENT_DEPTH_MAX
            && !segment.excluded.contains(&user.key_id)
            && (segment.included.contains(&user.key_id) || segment.rules.iter().any(all))
    }

    /// The variation's id, the reason, and whether the evaluation counts for experiments.
    fn evaluate(&self, flag: &Flag, user: &User) -> (Option<String>, String, bool) {
        let known = |id: &str| flag.variations.iter().any(|it| it.id == id);
        let variation = |id: &str| Some(if known(id) { id.to_owned() } else { String::new() });
        let all = flag.expt_include_all_targets;
        if flag.is_archived {
            return (None, "flag archived".to_owned(), false);
        }
        if !flag.is_enabled {
            let disabled = variation(&flag.disabled_variation_id);
            return (disabled, "flag disabled".to_owned(), false);
        }
        if let Some(it) = flag.target_users.iter().find(|it| it.key_ids.contains(&user.key_id)) {
            return (variation(&it.variation_id), "targeted".to_owned(), all);
        }
        for rule in &flag.rules {
            if rule.conditions.iter().all(|it| self.holds(it, user, 0)) {
                let by = rule.dispatch_key.as_deref();
                let (id, counts) =
                    rollout(flag, user, by, (&rule.variations, rule.included_in_expt));
                return (variation(id), rule.name.clone(), all || counts);
            }
        }
        let fallthrough = &flag.fallthrough;
        let by = fallthrough.dispatch_key.as_deref();
        let (id, counts) =
            rollout(flag, user, by, (&fallthrough.variations, fallthrough.included_in_expt));
        (variation(id), "default".to_owned(), all || counts)
    }
}

fn rollout<'f>(
    flag: &Flag,
    user: &User,
    by: Option<&str>,
    (parts, is_included): (&'f [RolloutVariation], bool),
) -> (&'f str, bool) {
    let by = by.filter(|by| !by.trim().is_empty()).unwrap_or("keyId");
    let key = format!("{}{}", flag.key, value_of(user, by).unwrap_or(""));
    for part in parts {
        let [low, high] = part.rollout;
        if belongs(&key, low, high) {
            let width = high - low;
            let counts = is_included
                && width.abs() > 0.0
                && part.expt_rollout > 0.0
                && belongs(&format!("expt{key}"), 0.0, (part.expt_rollout / width).min(1.0));
            return (&part.id, counts);
        }
    }
    ("", false)
}

fn belongs(key: &str, low: f64, high: f64) -> bool {
    if low <= 0.0 && 1.0 - high < 1e-5 {
        return true;
    }
    if low <= 0.0 && high <= 0.0 {
        return false;
    }
    let digest = Md5::digest(key.as_bytes());
    let number = i32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
    let bucket = (f64::from(number) / f64::from(i32::MIN)).abs();
    low <= bucket && bucket <= high
}

fn condition() -> impl Strategy<Value = Condition> {
    let value = prop::sample::select(VALUES.to_vec());
    (prop::sample::select(PROPERTIES.to_vec()), prop::sample::select(OPERATORS.to_vec()), value)
        .prop_map(|(property, op, value)| Condition {
            id: None,
            property: property.to_owned(),
            op: op.to_owned(),
            value: value.to_owned(),
        })
}

fn parts() -> impl Strategy<Value = Vec<RolloutVariation>> {
    let part = ("v[0-3]", 0_u8..=10, 0_u8..=10, 0_u8..=10);
    prop::collection::vec(part, 0..4).prop_map(|parts| {
        let tenth = |number: u8| f64::from(number) / 10.0;
        let part = |(id, low, high, expt): (String, u8, u8, u8)| RolloutVariation {
            id,
            rollout: [tenth(low.min(high)), tenth(low.max(high))],
            expt_rollout: tenth(expt),
        };
        parts.into_iter().map(part).collect()
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let conditions = prop::collection::vec(condition(), 0..3);
    let by = prop::option::of(prop::sample::select(vec!["plan", "name", "keyId", " "]));
    ("[a-z]", by, any::<bool>(), conditions, parts()).prop_map(
        |(name, by, included_in_expt, conditions, variations)| Rule {
            id: String::new(),
            name,
            dispatch_key: by.map(str::to_owned),
            included_in_expt,
            conditions,
            variations,
        },
    )
}

fn flag() -> impl Strategy<Value = Flag> {
    let targets = prop::collection::vec(("user-[0-3]", "v[0-3]"), 0..3);
    let states = (prop::bool::weighted(0.9), prop::bool::weighted(0.1), any::<bool>());
    (prop::collection::vec(rule(), 0..4), parts(), targets, states).prop_map(
        |(rules, variations, targets, (is_enabled, is_archived, all))| {
            let variation = |id: &str| Variation { id: id.to_owned(), ..Variation::default() };
            let target = |(key, variation_id)| TargetUsers { key_ids: vec![key], variation_id };
            Flag {
                key: "flag".to_owned(),
                variations: vec![variation("v0"), variation("v1"), variation("v2")],
                target_users: targets.into_iter().map(target).collect(),
                rules,
                is_enabled,
                disabled_variation_id: "v1".to_owned(),
                fallthrough: Fallthrough {
                    included_in_expt: true,
                    variations,
                    ..Fallthrough::default()
                },
                expt_include_all_targets: all,
                is_archived,
                ..Flag::default()
            }
        },
    )
}

fn segments() -> impl Strategy<Value = Vec<Segment>> {
    let keys = || prop::collection::vec("user-[0-3]", 0..3);
    let rules = prop::collection::vec(prop::collection::vec(condition(), 0..3), 0..3);
    prop::collection::vec((keys(), keys(), rules), 3).prop_map(|drawn| {
        let rule = |conditions| SegmentRule { conditions, ..SegmentRule::default() };
        let segment = |(number, (included, excluded, rules)): (usize, (_, _, Vec<_>))| Segment {
            id: format!("s{number}"),
            included,
            excluded,
            rules: rules.into_iter().map(rule).collect(),
            ..Segment::default()
        };
        drawn.into_iter().enumerate().map(segment).collect()
    })
}

fn user() -> impl Strategy<Value = User> {
    let text = || prop::option::of(prop::sample::select(VALUES.to_vec()));
    let property = (prop::sample::select(vec!["age", "plan"]), text());
    ("user-[0-5]", text(), prop::collection::vec(property, 0..4)).prop_map(
        |(key_id, name, properties)| {
            let property = |(name, value): (&str, Option<&str>)| Property {
                name: name.to_owned(),
                value: value.map(str::to_owned),
            };
            let customized_properties = properties.into_iter().map(property).collect();
            User { name: name.map(str::to_owned), customized_properties, ..User::new(key_id) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn compiled_and_naive_evaluation_agree(
        flag in flag(), segments in segments(), user in user(), is_absent in any::<bool>(),
    ) {
        let missing = if is_absent { MissingAttribute::Absent } else { MissingAttribute::Empty };
        let snapshot = Snapshot::new(missing).with([flag.clone()], segments.clone());
        let compiled = snapshot.flag("flag").expect("the flag exists");
        let it = snapshot.evaluate_flag(compiled, &user);
        let found =
            (it.variation.map(|it| it.id.clone()), it.reason.text().to_owned(), it.send_to_experiment);
        let naive = Naive { segments: &segments, missing };
        prop_assert_eq!(&found, &naive.evaluate(&flag, &user));
        let explanation = snapshot.explain(compiled, &user);
        prop_assert_eq!(explanation.evaluation.reason.text(), found.1.as_str());
        let is_met = explanation.rules.last().is_some_and(|rule| rule.is_met);
        let is_by_rule = matches!(explanation.evaluation.reason, evaluation::Reason::Rule(_));
        prop_assert_eq!(is_met, is_by_rule);
    }
}
