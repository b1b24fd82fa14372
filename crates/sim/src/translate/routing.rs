//! Routing: a tenant's rules, and the properties of routed methods.

use domain::Properties;
use domain::tenant::payment_rules::RulesPart;
use domain::tenant::routing_rules::{CascadeRules, Conditions, RoutingRule, RoutingRules, Targets};
use domain::tenant::{PLUGIN_CONFIGURATION, SetTenantValue};

use super::currency_of;
use crate::ask::{LIMITED, Orders, ROUTER};
use crate::workload::{BANK, CARD, WALLET};

/// Stores where routed payments go.
pub(super) fn set_routing(orders: Orders) -> SetTenantValue {
    let rule = |name: &str, when, order: [&str; 3]| RoutingRule {
        name: name.to_owned(),
        when,
        to: Targets::Gateways(order.map(str::to_owned).into()),
    };
    let limited = Conditions { currencies: [currency_of(LIMITED)].into(), ..Conditions::default() };
    // Without an order for them, others match no rule.
    let mut rules = vec![rule("limited", limited, orders.limited)];
    rules.extend(orders.others.map(|order| rule("others", Conditions::default(), order)));
    let defaults = CascadeRules::default();
    let after = if orders.goes_on { defaults.after.clone() } else { [].into() };
    let routing = RoutingRules { rules, cascade: CascadeRules { after, ..defaults } };
    SetTenantValue {
        key: format!("{PLUGIN_CONFIGURATION}{ROUTER}"),
        value: Some("rules".to_owned()),
        rules: Some(RulesPart::Routing(routing)),
    }
}

/// The properties of a new method of a gateway: a routed one has a part for each that may be called.
pub(super) fn properties_of(gateway: &str) -> Properties {
    let all =
        [CARD, WALLET, BANK].map(|it| (format!("{it}.externalPaymentMethodId"), "x".to_owned()));
    if gateway == ROUTER { all.into() } else { vec![] }
}
