//! The validation of flags and segments.

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

fn problems_of(flags: &[Value], segments: &Value) -> Vec<String> {
    let read = |flag: &Value| Flag::deserialize(flag).expect("the value is a flag");
    let flags: Vec<Flag> = flags.iter().map(read).collect();
    let segments = Vec::<Segment>::deserialize(segments).expect("the value is a list of segments");
    problems(&flags, &segments).iter().map(ToString::to_string).collect()
}

#[test]
fn valid_definitions_have_no_problems() {
    assert_eq!(problems_of(&[flag()], &segments()), Vec::<String>::new());
}

#[test]
fn each_field_of_a_flag_is_validated() {
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

/// FeatBit's SDKs evaluate by themselves, and know no such property.
#[test]
fn the_users_key_has_one_name() {
    let text =
        "the user's key is `keyId` in a flag, also where OFREP's clients send `targetingKey`";
    let name = json!("targetingKey");
    for path in
        ["/rules/0/conditions/0/property", "/rules/0/dispatchKey", "/fallthrough/dispatchKey"]
    {
        let mut flag = flag();
        flag["fallthrough"]["dispatchKey"] = json!("keyId");
        flag["rules"][0]["dispatchKey"] = json!("keyId");
        assert_eq!(problems_of(&[flag.clone()], &segments()), Vec::<String>::new());
        *flag.pointer_mut(path).unwrap() = name.clone();
        let field = path[1..].replace("/0", "[0]").replace('/', ".");
        let expected = vec![format!("featureFlags[0].{field}: {text}")];
        assert_eq!(problems_of(&[flag], &segments()), expected);
    }
    let mut segments = segments();
    segments[0]["rules"][0]["conditions"][0]["property"] = name;
    let expected = vec![format!("segments[0].rules[0].conditions[0].property: {text}")];
    assert_eq!(problems_of(&[flag()], &segments), expected);
}

#[test]
fn each_field_of_a_rule_is_validated() {
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
            json!("[\"absent\"]"),
            "featureFlags[0].rules[0].conditions[1].value: there is no segment \"absent\"",
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
fn each_part_of_a_rollout_is_validated() {
    let mut flag = flag();
    flag["fallthrough"]["variations"] = json!([
        { "id": "no", "rollout": [0, 2], "exptRollout": 3 },
        { "id": "none", "rollout": [0.7, 0.2], "exptRollout": 3 },
        { "id": "on", "rollout": [0.5, 0.6], "exptRollout": 1 },
    ]);
    let of =
        |part: usize, rest: &str| format!("featureFlags[0].fallthrough.variations[{part}].{rest}");
    let between = "from and to are between 0 and 1, from before to";
    let expected = [
        of(0, "id: there is no variation \"no\""),
        of(0, &format!("rollout: {between}")),
        of(0, &format!("exptRollout: {between}")),
        of(1, "id: there is no variation \"none\""),
        of(1, &format!("rollout: {between}")),
        of(1, &format!("exptRollout: {between}")),
    ];
    assert_eq!(problems_of(&[flag], &segments()), expected);
}

fn check_each(cases: &[(&str, Value, &str)]) {
    for (field, value, expected) in cases {
        let mut flag = flag();
        *flag.pointer_mut(field).expect("the field exists") = value.clone();
        let problems = problems_of(&[flag], &segments());
        assert!(problems.iter().any(|it| it == expected), "{field}: {problems:?}");
    }
}

#[test]
fn invalid_and_expensive_patterns_are_refused() {
    let long = "a".repeat(2_000);
    for (pattern, expected) in [
        ("(a+)+$", None),
        ("(?:a{1000}){1000}", Some("it takes too much memory")),
        ("(", Some("it is invalid or uses an unsupported feature")),
        ("(a)\\1", Some("it is invalid or uses an unsupported feature")),
        (long.as_str(), Some("it is longer than 1024 bytes")),
    ] {
        let mut segments = segments();
        segments[0]["rules"][0]["conditions"][0]["value"] = json!(pattern);
        let problems = problems_of(&[], &segments);
        let path = "segments[0].rules[0].conditions[0].value";
        let expected: Vec<String> = expected
            .into_iter()
            .map(|it| format!("{path}: the regular expression cannot be used: {it}"))
            .collect();
        assert_eq!(problems, expected, "{pattern:.20}");
    }
}

#[test]
fn segments_that_refer_to_each_other_are_refused() {
    let referring = |id: &str, others: &[&str]| {
        let value = serde_json::to_string(others).expect("strings are valid JSON");
        json!({"id": id, "rules": [{"conditions": [
            {"property": "User is not in segment", "value": value}]}]})
    };
    let of_segments = |segments: &[Value]| problems_of(&[], &json!(segments));
    let acyclic = [referring("a", &["b", "c"]), referring("b", &["c"]), referring("c", &[])];
    assert_eq!(of_segments(&acyclic), Vec::<String>::new());
    let own = [referring("a", &["a"])];
    assert_eq!(of_segments(&own), ["segments[0].rules: the segment asks about itself: a"]);
    let three = [referring("a", &["b"]), referring("b", &["c"]), referring("c", &["a"])];
    let problems = of_segments(&three);
    assert_eq!(problems[0], "segments[0].rules: the segment asks about itself: b > c > a");
    assert_eq!(problems.len(), 3);
    // A segment that refers to a cycle is not on it.
    let beside = [
        referring("d", &["a"]),
        referring("a", &["b", "e"]),
        referring("b", &["a"]),
        referring("e", &[]),
    ];
    let expected = [
        "segments[1].rules: the segment asks about itself: b > a",
        "segments[2].rules: the segment asks about itself: a > b",
    ];
    assert_eq!(of_segments(&beside), expected);
}

/// A search from each of the segments would visit twelve million. An environment may have as many.
#[test]
fn long_chains_of_segments_are_validated_in_linear_time() {
    const SEGMENTS: usize = 5_000;
    let chain = |last_reference: &str| {
        let segment = |n: usize| {
            let next =
                if n + 1 < SEGMENTS { format!("s{}", n + 1) } else { last_reference.to_owned() };
            let value = serde_json::to_string(&[next]).expect("strings are valid JSON");
            json!({"id": format!("s{n}"), "rules": [{"conditions": [
                {"property": "User is in segment", "value": value}]}]})
        };
        json!((0..SEGMENTS).map(segment).collect::<Vec<_>>())
    };
    let last = SEGMENTS - 1;
    let unknown = problems_of(&[], &chain("absent"));
    let path = format!("segments[{last}].rules[0].conditions[0].value");
    assert_eq!(unknown, [format!("{path}: there is no segment \"absent\"")]);
    let cycle = problems_of(&[], &chain("s0"));
    assert_eq!(cycle.len(), SEGMENTS);
    assert_eq!(cycle[7], "segments[7].rules: the segment asks about itself: ... > s7");
    // A cycle of the last two segments.
    let pair = problems_of(&[], &chain(&format!("s{}", last - 1)));
    assert_eq!(pair.len(), 2);
    let expected = format!("the segment asks about itself: s{last} > s{}", last - 1);
    assert_eq!(pair[0], format!("segments[{}].rules: {expected}", last - 1));
}

#[test]
fn two_flags_with_the_same_key_are_refused() {
    let problems = problems_of(&[flag(), flag()], &segments());
    assert_eq!(problems, ["featureFlags[1].key: \"beta\" is there twice"]);
}
