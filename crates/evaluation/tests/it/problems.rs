//! What is refused before it is taken in, and how it is named.

use evaluation::{Flag, Segment, problems};
use serde::Deserialize as _;
use serde_json::{Value, json};

fn flag() -> Value {
    json!({
        "key": "beta", "variationType": "boolean", "isEnabled": true,
        "variations": [{"id": "on", "value": "true"}, {"id": "off", "value": "false"}],
        "disabledVariationId": "off",
        "targetUsers": [{"keyIds": ["ann"], "variationId": "on"}],
        "rules": [{
            "name": "adults",
            "conditions": [{"property": "age", "op": "BiggerEqualThan", "value": "18"},
                           {"property": "User is in segment", "op": null, "value": "[\"staff\"]"}],
            "variations": [{"id": "on", "rollout": [0, 0.4], "exptRollout": 1},
                           {"id": "off", "rollout": [0.4, 1], "exptRollout": 1}],
        }],
        "fallthrough": {"variations": [{"id": "off", "rollout": [0, 1], "exptRollout": 1}]},
    })
}

fn segments() -> Value {
    json!([{"id": "staff", "rules": [{"conditions": [
        {"property": "email", "op": "MatchRegex", "value": "@example\\.com$"}]}]}])
}

fn told(flags: &[Value], segments: &Value) -> Vec<String> {
    let read = |flag: &Value| Flag::deserialize(flag).expect("it is a flag");
    let flags: Vec<Flag> = flags.iter().map(read).collect();
    let segments = Vec::<Segment>::deserialize(segments).expect("they are segments");
    problems(&flags, &segments).iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_is_wrong_with_these() {
    assert_eq!(told(&[flag()], &segments()), Vec::<String>::new());
}

#[test]
fn each_place_of_a_flag_is_looked_at() {
    check_each(&[
        ("/key", json!(""), "featureFlags[0].key: may not be empty"),
        (
            "/variationType",
            json!("colour"),
            "featureFlags[0].variationType: boolean, string, number or json was expected",
        ),
        (
            "/variations/1/id",
            json!("on"),
            "featureFlags[0].variations[1].id: \"on\" is there twice",
        ),
        (
            "/variations/0/value",
            json!("yes"),
            "featureFlags[0].variations[0].value: a value of the kind boolean was expected",
        ),
        (
            "/disabledVariationId",
            json!("none"),
            "featureFlags[0].disabledVariationId: there is no variation \"none\"",
        ),
        (
            "/targetUsers/0/variationId",
            json!("x"),
            "featureFlags[0].targetUsers[0].variationId: there is no variation \"x\"",
        ),
    ]);
}

#[test]
fn each_place_of_a_rule_is_looked_at() {
    check_each(&[
        (
            "/rules/0/conditions/0/value",
            json!("old"),
            "featureFlags[0].rules[0].conditions[0].value: a number was expected",
        ),
        (
            "/rules/0/conditions/0/op",
            json!("Resembles"),
            "featureFlags[0].rules[0].conditions[0].op: there is no operator \"Resembles\"",
        ),
        (
            "/rules/0/conditions/1/value",
            json!("[\"nobody\"]"),
            "featureFlags[0].rules[0].conditions[1].value: there is no segment \"nobody\"",
        ),
        (
            "/rules/0/conditions/1/value",
            json!("staff"),
            "featureFlags[0].rules[0].conditions[1].value: a JSON array of strings was expected",
        ),
        (
            "/rules/0/variations/1/rollout",
            json!([0.5, 1]),
            "featureFlags[0].rules[0].variations[1].rollout: the parts follow one another and end \
             at 1; this one begins at 0.5, 0.4 was expected",
        ),
        (
            "/rules/0/variations/1/rollout",
            json!([0.4, 0.9]),
            "featureFlags[0].rules[0].variations: the parts end at 0.9, 1 was expected",
        ),
        (
            "/rules/0/variations/1/rollout",
            json!([0.4, 1.5]),
            "featureFlags[0].rules[0].variations[1].rollout: from and to are between 0 and 1, from \
             before to",
        ),
        (
            "/fallthrough/variations",
            json!([]),
            "featureFlags[0].fallthrough.variations: may not be empty",
        ),
    ]);
}

#[test]
fn each_part_of_a_rollout_is_looked_at() {
    let mut flag = flag();
    flag["fallthrough"]["variations"] = json!([
        { "id": "no", "rollout": [0, 2], "exptRollout": 3 },
        { "id": "none", "rollout": [0.7, 0.2], "exptRollout": 3 },
        { "id": "on", "rollout": [0.5, 0.6], "exptRollout": 1 },
    ]);
    let of =
        |part: usize, said: &str| format!("featureFlags[0].fallthrough.variations[{part}].{said}");
    let between = "from and to are between 0 and 1, from before to";
    let expected = [
        of(0, "id: there is no variation \"no\""),
        of(0, &format!("rollout: {between}")),
        of(0, &format!("exptRollout: {between}")),
        of(1, "id: there is no variation \"none\""),
        of(1, &format!("rollout: {between}")),
        of(1, &format!("exptRollout: {between}")),
    ];
    assert_eq!(told(&[flag], &segments()), expected);
}

fn check_each(cases: &[(&str, Value, &str)]) {
    for (place, value, expected) in cases {
        let mut flag = flag();
        *flag.pointer_mut(place).expect("the place is there") = value.clone();
        let told = told(&[flag], &segments());
        assert!(told.iter().any(|it| it == expected), "{place}: {told:?}");
    }
}

#[test]
fn patterns_that_would_take_too_much() {
    let long = "a".repeat(2_000);
    for (pattern, expected) in [
        ("(a+)+$", None),
        ("(?:a{1000}){1000}", Some("it takes too much memory")),
        ("(", Some("it is wrong, or not of the kinds known here")),
        ("(a)\\1", Some("it is wrong, or not of the kinds known here")),
        (long.as_str(), Some("it is longer than 1024 bytes")),
    ] {
        let mut segments = segments();
        segments[0]["rules"][0]["conditions"][0]["value"] = json!(pattern);
        let told = told(&[], &segments);
        let path = "segments[0].rules[0].conditions[0].value";
        let expected: Vec<String> = expected
            .into_iter()
            .map(|it| format!("{path}: the regular expression cannot be used: {it}"))
            .collect();
        assert_eq!(told, expected, "{pattern:.20}");
    }
}

#[test]
fn segments_that_ask_about_each_other() {
    let asks = |id: &str, others: &[&str]| {
        let value = serde_json::to_string(others).expect("it is JSON");
        json!({"id": id, "rules": [{"conditions": [
            {"property": "User is not in segment", "value": value}]}]})
    };
    let told_of = |segments: &[Value]| told(&[], &json!(segments));
    let fine = [asks("a", &["b", "c"]), asks("b", &["c"]), asks("c", &[])];
    assert_eq!(told_of(&fine), Vec::<String>::new());
    let itself = [asks("a", &["a"])];
    assert_eq!(told_of(&itself), ["segments[0].rules: the segment asks about itself: a"]);
    let three = [asks("a", &["b"]), asks("b", &["c"]), asks("c", &["a"])];
    let told = told_of(&three);
    assert_eq!(told[0], "segments[0].rules: the segment asks about itself: b > c > a");
    assert_eq!(told.len(), 3);
    // Who asks about those is not one of them.
    let beside = [asks("d", &["a"]), asks("a", &["b", "e"]), asks("b", &["a"]), asks("e", &[])];
    let expected = [
        "segments[1].rules: the segment asks about itself: b > a",
        "segments[2].rules: the segment asks about itself: a > b",
    ];
    assert_eq!(told_of(&beside), expected);
}

/// As many as an environment may have, each asking about the next: a look from each at all behind it
/// would be twelve million.
#[test]
fn thousands_of_segments_one_behind_another() {
    const SEGMENTS: usize = 5_000;
    let chain = |last_asks: &str| {
        let segment = |n: usize| {
            let next = if n + 1 < SEGMENTS { format!("s{}", n + 1) } else { last_asks.to_owned() };
            let value = serde_json::to_string(&[next]).expect("it is JSON");
            json!({"id": format!("s{n}"), "rules": [{"conditions": [
                {"property": "User is in segment", "value": value}]}]})
        };
        json!((0..SEGMENTS).map(segment).collect::<Vec<_>>())
    };
    let last = SEGMENTS - 1;
    let unknown = told(&[], &chain("nobody"));
    let path = format!("segments[{last}].rules[0].conditions[0].value");
    assert_eq!(unknown, [format!("{path}: there is no segment \"nobody\"")]);
    let ring = told(&[], &chain("s0"));
    assert_eq!(ring.len(), SEGMENTS);
    assert_eq!(ring[7], "segments[7].rules: the segment asks about itself: ... > s7");
    // The two at the end.
    let pair = told(&[], &chain(&format!("s{}", last - 1)));
    assert_eq!(pair.len(), 2);
    let expected = format!("the segment asks about itself: s{last} > s{}", last - 1);
    assert_eq!(pair[0], format!("segments[{}].rules: {expected}", last - 1));
}

#[test]
fn flags_with_the_same_key() {
    let told = told(&[flag(), flag()], &segments());
    assert_eq!(told, ["featureFlags[1].key: \"beta\" is there twice"]);
}
