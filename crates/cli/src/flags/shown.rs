//! How commands show what a flag gives its users.

use evaluation::{Condition, Flag, RolloutVariation, Rule};

use crate::output::plain;

/// How much of a value is shown, in characters.
const VALUE_CHARS_MAX: usize = 32;

/// A flag's state.
pub(super) const fn state(is_enabled: bool) -> &'static str {
    if is_enabled { "on" } else { "off" }
}

/// The value of a variation; `?` where the flag has no such variation.
pub(super) fn value(flag: &Flag, id: &str) -> String {
    let found = flag.variations.iter().find(|it| it.id == id);
    found.map_or_else(|| "?".to_owned(), |it| cut(&plain(&it.value)))
}

/// The values of users whom no target and no rule names: `false`, or `10 % true, 90 % false`.
pub(super) fn default_value(flag: &Flag) -> String {
    match flag.is_enabled {
        true => rollout(flag, &flag.fallthrough.variations),
        false => value(flag, &flag.disabled_variation_id),
    }
}

/// [`default_value`] with a word where the flag is off, and one where targets or rules come first.
pub(super) fn served(flag: &Flag) -> String {
    let default = default_value(flag);
    match (flag.is_enabled, has_exceptions(flag)) {
        (false, _) => format!("off: {default}"),
        (true, false) => default,
        (true, true) => format!("{default}, but for targets and rules"),
    }
}

/// Whether some users get something else than [`default_value`] while the flag is on.
pub(super) fn has_exceptions(flag: &Flag) -> bool {
    !flag.rules.is_empty() || flag.target_users.iter().any(|it| !it.key_ids.is_empty())
}

/// The values of a rollout with their parts.
fn rollout(flag: &Flag, parts: &[RolloutVariation]) -> String {
    let size = |part: &RolloutVariation| part.rollout[1] - part.rollout[0];
    let parts: Vec<_> = parts.iter().filter(|part| size(part) > 0.0).collect();
    match parts.as_slice() {
        [all] => value(flag, &all.id),
        several => {
            let shares = several.iter().map(|part| {
                // 1.0 - 0.7 is not exactly 0.3.
                let percent = (size(part) * 1e6).round() / 1e4;
                format!("{percent} % {}", value(flag, &part.id))
            });
            shares.collect::<Vec<_>>().join(", ")
        }
    }
}

/// A rule with its name, what it gives and when.
pub(super) fn rule(flag: &Flag, rule: &Rule) -> String {
    let when = |it: &Condition| match it.op.as_str() {
        "" => format!("{}: {}", it.property, it.value),
        op => format!("{} {op} {}", it.property, it.value),
    };
    let when = rule.conditions.iter().map(when).collect::<Vec<_>>().join(" and ");
    let given = rollout(flag, &rule.variations);
    plain(&format!("{}: {given} where {when}", rule.name))
}

/// A text, shortened.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
