//! Evaluations in OFREP's JSON.

use evaluation::{Evaluation, TypedValue};
use feature_flags::message::write_json;

/// A value that is not of its flag's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unusable;

impl Unusable {
    pub(crate) const fn code_and_details(self) -> (&'static str, &'static str) {
        ("PARSE_ERROR", "the flag's value is not of its kind")
    }
}

/// Appends an evaluation; nothing where the value is not of the flag's type.
pub(crate) fn write(out: &mut Vec<u8>, evaluation: &Evaluation<'_>) -> Result<(), Unusable> {
    let variation = evaluation.value_variation();
    let value = variation.map(|it| evaluation.flag.typed(&it.value).ok_or(Unusable)).transpose()?;
    out.extend_from_slice(br#"{"key":"#);
    write_json(out, &evaluation.flag.key);
    if let Some(value) = value {
        out.extend_from_slice(br#","value":"#);
        write_value(out, &value);
    }
    out.extend_from_slice(br#","reason":""#);
    out.extend_from_slice(evaluation.resolution_reason().text().as_bytes());
    out.push(b'"');
    if let Some(variation) = variation {
        out.extend_from_slice(br#","variant":"#);
        write_json(out, &variation.id);
    }
    out.push(b'}');
    Ok(())
}

/// Appends a value.
fn write_value(out: &mut Vec<u8>, value: &TypedValue<'_>) {
    match value {
        TypedValue::Boolean(value) => write_json(out, value),
        // As it is written, so that no digit is lost.
        TypedValue::Number(number) => out.extend_from_slice(number.as_bytes()),
        TypedValue::Json(json) => out.extend_from_slice(json.as_bytes()),
        TypedValue::Text(text) => write_json(out, text),
    }
}

#[cfg(test)]
mod tests {
    use evaluation::{
        Condition, Fallthrough, Flag, MissingAttribute, RolloutVariation, Rule, Snapshot,
        TargetUsers, User, Variation,
    };

    use super::*;

    fn flag(kind: &str, value: &str) -> Flag {
        let part = RolloutVariation { id: "v".into(), rollout: [0.0, 1.0], expt_rollout: 1.0 };
        Flag {
            key: "f".to_owned(),
            is_enabled: true,
            variation_type: kind.to_owned(),
            variations: vec![Variation { id: "v".into(), value: value.into(), name: None }],
            disabled_variation_id: "v".to_owned(),
            fallthrough: Fallthrough { variations: vec![part], ..Fallthrough::default() },
            ..Flag::default()
        }
    }

    fn written(flag: Flag) -> Result<String, Unusable> {
        let snapshot = Snapshot::new(MissingAttribute::Empty).with([flag], []);
        let evaluation = snapshot.evaluate("f", &User::new("ann")).unwrap();
        let mut out = b"before".to_vec();
        let result = write(&mut out, &evaluation);
        let text = String::from_utf8(out).unwrap();
        let text = text.strip_prefix("before").unwrap();
        result.map(|()| text.to_owned()).inspect_err(|_| assert_eq!(text, ""))
    }

    #[test]
    fn values_of_each_kind() {
        for (kind, text, expected) in [
            ("boolean", "true", Some("true")),
            ("boolean", "false", Some("false")),
            ("boolean", "yes", None),
            ("number", "20", Some("20")),
            ("number", "-0.50", Some("-0.50")),
            ("number", "12345678901234567890.5", Some("12345678901234567890.5")),
            ("number", " 7 ", Some("7")),
            ("number", "+5.", Some("5")),
            ("number", ".5", Some("0.5")),
            ("number", "007", Some("7")),
            ("number", "inf", None),
            ("number", "many", None),
            ("json", "{\"a\": [1]}", Some("{\"a\": [1]}")),
            ("json", " null ", Some("null")),
            ("json", "{", None),
            ("string", "a \"b\"", Some("\"a \\\"b\\\"\"")),
            ("", "x", Some("\"x\"")),
        ] {
            let expected = expected.map(|value| {
                format!(
                    "{{\"key\":\"f\",\"value\":{value},\"reason\":\"STATIC\",\"variant\":\"v\"}}"
                )
            });
            assert_eq!(written(flag(kind, text)).ok(), expected, "{kind} {text}");
        }
    }

    #[test]
    fn reasons() {
        let part = |low: f64, high: f64| RolloutVariation {
            id: "v".into(),
            rollout: [low, high],
            expt_rollout: 1.0,
        };
        let halves = || vec![part(0.0, 0.5), part(0.5, 1.0)];
        let rule = |name: &str, conditions, variations| Rule {
            name: name.to_owned(),
            conditions,
            variations,
            ..Rule::default()
        };
        let never = || vec![Condition { op: "Never".to_owned(), ..Condition::default() }];
        let check = |change: &dyn Fn(&mut Flag), expected: &str| {
            let mut flag = flag("string", "x");
            change(&mut flag);
            let written = written(flag).unwrap();
            assert!(written.contains(&format!("\"reason\":\"{expected}\"")), "{written}");
        };
        let named = |key: &str| TargetUsers { key_ids: vec![key.into()], variation_id: "v".into() };
        let all = || vec![part(0.0, 1.0)];
        check(&|_| (), "STATIC");
        check(&|it| it.is_enabled = false, "DISABLED");
        check(&|it| it.fallthrough.variations = halves(), "SPLIT");
        check(&|it| it.fallthrough.variations.push(part(0.0, 0.0)), "STATIC");
        check(&|it| it.target_users = vec![named("ann")], "TARGETING_MATCH");
        check(&|it| it.rules = vec![rule("a", vec![], all())], "TARGETING_MATCH");
        check(&|it| it.rules = vec![rule("a", vec![], halves())], "SPLIT");
        // Nothing of it is the user's: the value is that of the others.
        check(&|it| it.target_users = vec![named("bob")], "DEFAULT");
        check(&|it| it.rules = vec![rule("a", never(), all())], "DEFAULT");
        check(&|it| it.rules = vec![rule("a", never(), halves())], "DEFAULT");
        let splits = |it: &mut Flag| {
            it.target_users = vec![named("bob")];
            it.rules = vec![rule("a", never(), all())];
            it.fallthrough.variations = halves();
        };
        check(&splits, "SPLIT");
        // Rules may have the same name, or none.
        for name in ["a", ""] {
            let split_first = |it: &mut Flag| {
                it.rules = vec![rule(name, never(), halves()), rule(name, vec![], all())];
            };
            check(&split_first, "TARGETING_MATCH");
            let split_last = |it: &mut Flag| {
                it.rules = vec![rule(name, never(), all()), rule(name, vec![], halves())];
            };
            check(&split_last, "SPLIT");
        }
        // The client takes the value in its code.
        check(&|it| it.fallthrough.variations = vec![part(0.0, 0.0)], "DEFAULT");
        check(&|it| it.rules = vec![rule("a", vec![], vec![])], "DEFAULT");
        let unknown = |it: &mut Flag| it.disabled_variation_id = "gone".to_owned();
        check(&unknown, "STATIC");
        let off = |it: &mut Flag| {
            unknown(it);
            it.is_enabled = false;
        };
        check(&off, "DISABLED");
    }

    #[test]
    fn whom_no_part_is_for_gets_no_value() {
        let mut flag = flag("string", "x");
        flag.fallthrough.variations.clear();
        assert_eq!(written(flag).unwrap(), r#"{"key":"f","reason":"DEFAULT"}"#);
    }
}
