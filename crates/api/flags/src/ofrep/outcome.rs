//! Evaluations in OFREP's JSON.

use evaluation::{Evaluation, Reason, RolloutVariation};
use feature_flags::message::write_json;
use serde_json::value::RawValue;

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
    let Evaluation { flag, variation, .. } = *evaluation;
    let from = out.len();
    out.extend_from_slice(br#"{"key":"#);
    write_json(out, &flag.key);
    match variation.filter(|it| !it.id.is_empty()) {
        Some(variation) => {
            out.extend_from_slice(br#","value":"#);
            if let Err(unusable) = write_value(out, &flag.variation_type, &variation.value) {
                out.truncate(from);
                return Err(unusable);
            }
            out.extend_from_slice(br#","reason":""#);
            out.extend_from_slice(reason(evaluation).as_bytes());
            out.extend_from_slice(br#"","variant":"#);
            write_json(out, &variation.id);
        }
        None => out.extend_from_slice(br#","reason":"DEFAULT""#),
    }
    out.push(b'}');
    Ok(())
}

/// Appends a text as a value of a type.
fn write_value(out: &mut Vec<u8>, kind: &str, text: &str) -> Result<(), Unusable> {
    match kind {
        "boolean" => {
            let value = text.parse::<bool>().map_err(|_| Unusable)?;
            write_json(out, &value);
        }
        "number" => {
            // A JSON number is copied as it is written, so that no digit is lost.
            if serde_json::from_str::<serde_json::Number>(text).is_ok() {
                out.extend_from_slice(text.trim().as_bytes());
                return Ok(());
            }
            let value = text.parse::<f64>().ok().filter(|it| it.is_finite()).ok_or(Unusable)?;
            write_json(out, &value);
        }
        "json" => {
            let value = serde_json::from_str::<&RawValue>(text).map_err(|_| Unusable)?;
            out.extend_from_slice(value.get().as_bytes());
        }
        _ => write_json(out, text),
    }
    Ok(())
}

/// OpenFeature's reason. Only a value that is the same for all users is `STATIC`: clients cache it.
fn reason(evaluation: &Evaluation<'_>) -> &'static str {
    let flag = evaluation.flag;
    match evaluation.reason {
        Reason::Archived => "UNKNOWN",
        Reason::Disabled => "DISABLED",
        Reason::Targeted => "TARGETING_MATCH",
        Reason::Rule(name) => {
            let rule = flag.rules.iter().find(|it| std::ptr::eq(it.name.as_str(), name));
            let is_split = rule.is_some_and(|it| is_split(&it.variations));
            if is_split { "SPLIT" } else { "TARGETING_MATCH" }
        }
        Reason::Fallthrough if is_split(&flag.fallthrough.variations) => "SPLIT",
        Reason::Fallthrough if flag.rules.is_empty() && flag.target_users.is_empty() => "STATIC",
        Reason::Fallthrough => "TARGETING_MATCH",
    }
}

/// Whether users are spread over several variations.
fn is_split(parts: &[RolloutVariation]) -> bool {
    parts.iter().filter(|it| it.rollout[1] > it.rollout[0]).count() > 1
}

#[cfg(test)]
mod tests {
    use evaluation::{
        Condition, Fallthrough, Flag, MissingAttribute, Rule, Snapshot, TargetUsers, User,
        Variation,
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
            ("number", "+5.", Some("5.0")),
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
        check(&|_| (), "STATIC");
        check(&|it| it.is_enabled = false, "DISABLED");
        check(&|it| it.fallthrough.variations = halves(), "SPLIT");
        check(&|it| it.fallthrough.variations.push(part(0.0, 0.0)), "STATIC");
        check(&|it| it.rules = vec![rule("a", never(), vec![])], "TARGETING_MATCH");
        let named = |key: &str| TargetUsers { key_ids: vec![key.into()], variation_id: "v".into() };
        check(&|it| it.target_users = vec![named("ann")], "TARGETING_MATCH");
        check(&|it| it.target_users = vec![named("bob")], "TARGETING_MATCH");
        check(&|it| it.rules = vec![rule("a", vec![], vec![part(0.0, 1.0)])], "TARGETING_MATCH");
        check(&|it| it.rules = vec![rule("a", vec![], halves())], "SPLIT");
        let split_first =
            || vec![rule("a", never(), halves()), rule("a", vec![], vec![part(0.0, 1.0)])];
        check(&|it| it.rules = split_first(), "TARGETING_MATCH");
        check(&|it| it.fallthrough.variations = vec![part(0.0, 0.0)], "DEFAULT");
    }

    #[test]
    fn whom_no_part_is_for_gets_no_value() {
        let mut flag = flag("string", "x");
        flag.fallthrough.variations.clear();
        assert_eq!(written(flag).unwrap(), r#"{"key":"f","reason":"DEFAULT"}"#);
    }
}
