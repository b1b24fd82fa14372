//! The gate of a flag: only users who are entitled to a feature get more than the disabled variation.
//!
//! It is evaluated as a rule before all others, which every SDK understands; users that the flag
//! targets pass it.

use evaluation::{Condition, ENTITLED_SEGMENT, Flag, NOT_IN_SEGMENT, RolloutVariation, Rule};
use serde_json::json;

/// The id and the name of the rule that a gate becomes.
const RULE: &str = "gate";

/// The flag with its gate as a rule.
#[must_use]
pub fn as_rule(mut flag: Flag) -> Flag {
    if let Some(feature) = &flag.gate {
        let segments = json!([format!("{ENTITLED_SEGMENT}{feature}")]);
        let property = NOT_IN_SEGMENT.to_owned();
        let condition = Condition { property, value: segments.to_string(), ..Condition::default() };
        let all = [0.0, 1.0];
        let disabled = RolloutVariation {
            id: flag.disabled_variation_id.clone(),
            rollout: all,
            expt_rollout: 1.0,
        };
        let rule = Rule {
            id: RULE.to_owned(),
            name: RULE.to_owned(),
            conditions: vec![condition],
            variations: vec![disabled],
            ..Rule::default()
        };
        flag.rules.insert(0, rule);
    }
    flag
}

#[cfg(test)]
mod tests {
    use evaluation::{Entitled, Fallthrough, MissingAttribute, Snapshot, User, Variation};

    use super::*;

    #[test]
    fn only_the_entitled_pass_a_gate() {
        let variation = |id: &str| Variation { id: id.to_owned(), ..Variation::default() };
        let (rollout, expt_rollout) = ([0.0, 1.0], 1.0);
        let on = RolloutVariation { id: "on".to_owned(), rollout, expt_rollout };
        let flag = Flag {
            key: "sso".to_owned(),
            is_enabled: true,
            variations: vec![variation("on"), variation("off")],
            disabled_variation_id: "off".to_owned(),
            fallthrough: Fallthrough { variations: vec![on], ..Fallthrough::default() },
            gate: Some("saml".to_owned()),
            ..Flag::default()
        };
        let snapshot = Snapshot::new(MissingAttribute::Empty).with([as_rule(flag.clone())], []);
        assert!(snapshot.depends_on_entitled(snapshot.flag("sso").unwrap()));
        let value = |entitled: Entitled| {
            let user = User { entitled, ..User::new("ann") };
            let evaluation = snapshot.evaluate("sso", &user).unwrap();
            (evaluation.variation.unwrap().id.clone(), evaluation.reason.text().to_owned())
        };
        assert_eq!(value(Entitled::default()), ("off".to_owned(), "gate".to_owned()));
        assert_eq!(value([("scim", "true")].into_iter().collect()).0, "off");
        assert_eq!(value([("saml", "true")].into_iter().collect()).0, "on");
        let ungated = Flag { gate: None, ..flag };
        assert_eq!(as_rule(ungated.clone()), ungated);
    }
}
