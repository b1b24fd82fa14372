//! Which routing rules, and which lists of gateways, are refused.

use std::collections::BTreeSet;

use crate::Rejection;
use crate::context::Settings;
use crate::tenant::routing_rules::{RULES_MAX, RoutingRules, TRIES_MAX, Targets};

/// Refuses rules that cannot be carried out.
///
/// # Errors
/// The field, and what is wrong with it.
pub(crate) fn check(rules: &RoutingRules, settings: &Settings) -> Result<(), Rejection> {
    if rules.rules.len() > RULES_MAX {
        return Err(invalid("rules", format!("has more than {RULES_MAX} rules")));
    }
    let mut names = BTreeSet::new();
    for (at, rule) in rules.rules.iter().enumerate() {
        if !names.insert(&rule.name) {
            let reason = format!("is the name of another rule: {}", rule.name);
            return Err(invalid(&format!("rules[{at}].name"), reason));
        }
        for (field, gateway) in rule.when.healthy.iter().map(|it| ("when.healthy", it)) {
            refuse_unknown(&format!("rules[{at}].{field}"), gateway, settings)?;
        }
        check_targets(at, &rule.to, settings)?;
    }
    for gateway in rules.cascade.codes.keys() {
        refuse_unknown("cascade.codes", gateway, settings)?;
    }
    Ok(())
}

fn check_targets(at: usize, to: &Targets, settings: &Settings) -> Result<(), Rejection> {
    let field = |of: &str| format!("rules[{at}].{of}");
    if let Targets::Split(shares) = to {
        let sum: u32 = shares.iter().map(|it| u32::from(it.percent)).sum();
        if sum != 100 {
            let reason = format!("has shares of {sum} % together, which should be 100 %");
            return Err(invalid(&field("split"), reason));
        }
    }
    for gateways in to.lists() {
        if gateways.is_empty() || gateways.len() > TRIES_MAX {
            let reason = format!("should name 1 to {TRIES_MAX} gateways");
            return Err(invalid(&field("gateways"), reason));
        }
        check_gateways(&field("gateways"), gateways, settings)?;
    }
    Ok(())
}

/// Refuses gateways that are not there, and one that comes twice.
pub(crate) fn check_gateways(
    field: &str,
    gateways: &[String],
    settings: &Settings,
) -> Result<(), Rejection> {
    let mut seen = BTreeSet::new();
    for gateway in gateways {
        refuse_unknown(field, gateway, settings)?;
        if !seen.insert(gateway) {
            return Err(invalid(field, format!("names the gateway {gateway} twice")));
        }
    }
    Ok(())
}

fn refuse_unknown(field: &str, gateway: &str, settings: &Settings) -> Result<(), Rejection> {
    match settings.gateway(gateway) {
        Some(it) if it.settles_at_once => {
            Err(invalid(field, format!("names {gateway}, which is not called")))
        }
        Some(_) => Ok(()),
        None => Err(invalid(field, format!("names a gateway that is not there: {gateway}"))),
    }
}

fn invalid(field: &str, reason: String) -> Rejection {
    Rejection::InvalidParameter { field: field.to_owned(), reason }
}
