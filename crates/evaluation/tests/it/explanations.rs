//! Explanations of evaluations.

use evaluation::{Flag, MissingAttribute, Property, Segment, Snapshot, User};

const FLAG: &str = r#"{
    "key": "beta", "isEnabled": true, "variationType": "string", "disabledVariationId": "off",
    "variations": [{"id": "on", "value": "1"}, {"id": "off", "value": "0"}],
    "rules": [
        {"name": "staff", "variations": [{"id": "on", "rollout": [0, 1], "exptRollout": 1}],
         "conditions": [{"property": "User is in segment", "value": "[\"staff\"]"},
                        {"property": "age", "op": "BiggerThan", "value": "40"}]},
        {"name": "half", "variations": [{"id": "on", "rollout": [0, 0.5], "exptRollout": 1},
                                        {"id": "off", "rollout": [0.5, 1], "exptRollout": 1}],
         "conditions": []}],
    "fallthrough": {"variations": [{"id": "off", "rollout": [0, 1], "exptRollout": 1}]}}"#;

fn snapshot() -> Snapshot {
    let flag: Flag = serde_json::from_str(FLAG).expect("the text is a flag");
    let segment = Segment {
        id: "staff".to_owned(),
        included: vec!["ann".to_owned(), "bob".to_owned()],
        ..Segment::default()
    };
    Snapshot::new(MissingAttribute::Empty).with([flag], [segment])
}

fn aged(key: &str, age: &str) -> User {
    let age = Property { name: "age".to_owned(), value: Some(age.to_owned()) };
    User { customized_properties: vec![age], ..User::new(key) }
}

#[test]
fn a_rule_that_is_met_ends_the_explanation() {
    let snapshot = snapshot();
    let flag = snapshot.flag("beta").expect("the flag exists");
    let explanation = snapshot.explain(flag, &aged("ann", "41"));
    assert_eq!(explanation.evaluation.reason.text(), "staff");
    assert_eq!(explanation.rules.len(), 1);
    let [in_segment, older] = explanation.rules[0].conditions.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!(
        (in_segment.segments.as_slice(), in_segment.holds),
        (["staff".to_owned()].as_slice(), true)
    );
    assert_eq!((older.found.as_deref(), older.holds), (Some("41"), true));
    assert_eq!(explanation.dispatch.map(|it| it.key).as_deref(), Some("betaann"));
}

#[test]
fn the_first_condition_that_does_not_hold_ends_its_rule() {
    let snapshot = snapshot();
    let flag = snapshot.flag("beta").expect("the flag exists");
    for (user, conditions, found) in [
        (aged("bob", "40"), 2, Some("40")),
        (User::new("bob"), 2, None),
        (aged("eve", "50"), 1, None),
    ] {
        let explanation = snapshot.explain(flag, &user);
        assert_eq!(explanation.evaluation.reason.text(), "half");
        let (first, second) = (&explanation.rules[0], &explanation.rules[1]);
        assert!(!first.is_met && second.is_met);
        assert_eq!(first.conditions.len(), conditions, "{user:?}");
        assert_eq!(first.conditions[conditions - 1].found.as_deref(), found);
        let dispatch = explanation.dispatch.expect("the rule has a rollout");
        let variation = explanation.evaluation.variation.expect("the rollout covers all users");
        assert_eq!(variation.id, if dispatch.bucket <= 0.5 { "on" } else { "off" });
    }
}
