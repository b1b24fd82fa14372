//! Routing: which gateways a payment tries, and why. The rules decide and explain with the same function.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::account::tag::DefinitionRef;
use crate::context::Settings;
use crate::payment::health::Health;
use crate::payment::routed::{ChosenBy, PassedOver};
use crate::tenant::payment_rules::PaymentRules;
use crate::tenant::routing_rules::{
    BIN_DIGITS_MAX, BIN_DIGITS_MIN, Conditions, ROUTER, RoutingRule,
};
use crate::{AccountId, AmountMinor, Currency, PaymentMethod, Properties, Rejection};

/// The property of a method with the first digits of its card, 6 to 8.
const BIN: &str = "bin";

/// The property of a method with its kind, such as `card`.
const KIND: &str = "kind";

/// The property with what a gateway calls a payment method, in the spelling of Kill Bill's plugins.
pub(crate) const EXTERNAL_ID: &str = "externalPaymentMethodId";

/// The facts about a payment that the rules look at.
pub struct Facts<'a> {
    pub account: AccountId,
    /// The account's country.
    pub country: Option<&'a str>,
    pub amount: AmountMinor,
    pub currency: Currency,
    pub method: &'a PaymentMethod,
    /// The properties of the request.
    pub properties: &'a Properties,
    /// The account's tags, of the definitions that rules name.
    pub tags: BTreeSet<DefinitionRef>,
    /// The account's custom fields: names and values.
    pub fields: Vec<(&'a str, &'a str)>,
    /// The gateways that the caller names, in order; rules decide where there are none.
    pub named: &'a [String],
    /// The gateways that control plugins allow; `None`: all.
    pub allowed: Option<&'a BTreeSet<String>>,
}

/// The settings and the health of the gateways.
#[derive(Clone, Copy)]
pub struct Gateways<'a> {
    pub settings: &'a Settings,
    pub health: &'a Health,
}

/// A condition that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    Currency,
    Amount,
    Country,
    Bin,
    Kind,
    Tag,
    Field,
    Health,
}

impl Mismatch {
    /// The condition's name in rules.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Currency => "currencies",
            Self::Amount => "amounts",
            Self::Country => "countries",
            Self::Bin => "bins",
            Self::Kind => "kinds",
            Self::Tag => "tags",
            Self::Field => "fields",
            Self::Health => "healthy",
        }
    }
}

/// A gateway of the list, and why it is passed over where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub gateway: String,
    pub passed_over: Option<PassedOver>,
}

/// The decision of the rules, and the reasons for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The rules before the one that matched, in their order, each with the condition that does not hold.
    pub mismatches: Vec<Mismatch>,
    /// `None` where no rule matches.
    pub chosen_by: Option<ChosenBy>,
    /// The gateways in order.
    pub candidates: Vec<Candidate>,
}

impl Decision {
    /// The place of the gateway that is called: the first that takes calls. Where none does now, the first
    /// that may: its call will be refused for now.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        let of = |is_fit: fn(PassedOver) -> bool| {
            self.candidates.iter().position(|it| it.passed_over.is_none_or(is_fit))
        };
        let not_allowed = |it| it == PassedOver::NotAllowed;
        of(|_| false).or_else(|| of(PassedOver::is_passing)).or_else(|| of(not_allowed))
    }
}

/// Decides which gateways a payment tries.
#[must_use]
pub fn decide(rules: Option<&PaymentRules>, facts: &Facts, known: Gateways) -> Decision {
    let (mut mismatches, mut chosen_by, mut gateways) = (vec![], None, facts.named);
    if !facts.named.is_empty() {
        chosen_by = Some(ChosenBy::Caller);
    } else if let Some((rules, routing)) = rules.and_then(|it| Some((it, it.routing.as_ref()?))) {
        for rule in &routing.rules {
            match mismatch(&rule.when, facts, known.health) {
                Some(mismatch) => mismatches.push(mismatch),
                None => {
                    chosen_by = Some(by(rule, rules));
                    gateways = rule.to.of(facts.account);
                    break;
                }
            }
        }
    }
    let candidate = |gateway: &String| Candidate {
        gateway: gateway.clone(),
        passed_over: passed_over(gateway, rules, facts, known),
    };
    Decision { mismatches, chosen_by, candidates: gateways.iter().map(candidate).collect() }
}

fn by(rule: &RoutingRule, rules: &PaymentRules) -> ChosenBy {
    ChosenBy::Rule { name: rule.name.clone(), revision: rules.revision.seq }
}

/// The first condition that does not hold.
fn mismatch(when: &Conditions, facts: &Facts, health: &Health) -> Option<Mismatch> {
    let property = |name: &str| {
        let found = facts.method.properties.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    let has_field =
        |(name, value): (&String, &String)| facts.fields.contains(&(name.as_str(), value.as_str()));
    let in_range =
        || when.amounts.get(&facts.currency).is_some_and(|range| range.has(facts.amount));
    let checks = [
        (
            Mismatch::Currency,
            when.currencies.is_empty() || when.currencies.contains(&facts.currency),
        ),
        (Mismatch::Amount, when.amounts.is_empty() || in_range()),
        (
            Mismatch::Country,
            when.countries.is_empty()
                || facts.country.is_some_and(|it| when.countries.contains(it)),
        ),
        (
            Mismatch::Bin,
            when.bins.is_empty()
                || property(BIN).is_some_and(|bin| when.bins.iter().any(|range| range.has(bin))),
        ),
        (
            Mismatch::Kind,
            when.kinds.is_empty() || property(KIND).is_some_and(|it| when.kinds.contains(it)),
        ),
        (Mismatch::Tag, when.tags.is_empty() || !when.tags.is_disjoint(&facts.tags)),
        (Mismatch::Field, when.fields.iter().all(has_field)),
        (Mismatch::Health, when.healthy.iter().all(|it| health.unready(it).is_none())),
    ];
    checks.into_iter().find(|(_, holds)| !holds).map(|(mismatch, _)| mismatch)
}

fn passed_over(
    gateway: &str,
    rules: Option<&PaymentRules>,
    facts: &Facts,
    known: Gateways,
) -> Option<PassedOver> {
    let Some(settings) = known.settings.gateway(gateway) else {
        return Some(PassedOver::Gone);
    };
    let mut all = facts.method.properties.iter().chain(facts.properties);
    if !all.any(|(key, _)| own_key(key, gateway).is_some()) {
        return Some(PassedOver::NoMethod);
    }
    let has_account = || rules.is_some_and(|it| it.merchant_accounts.contains_key(gateway));
    if settings.needs_merchant_account && !has_account() {
        return Some(PassedOver::NoMerchantAccount);
    }
    if facts.allowed.is_some_and(|it| !it.contains(gateway)) {
        return Some(PassedOver::NotAllowed);
    }
    known.health.unready(gateway).map(PassedOver::Unready)
}

/// The key that a gateway gets of a property that is its own: `GATEWAY.KEY`.
fn own_key<'k>(key: &'k str, gateway: &str) -> Option<&'k str> {
    key.strip_prefix(gateway)?.strip_prefix('.').filter(|it| !it.is_empty())
}

/// Properties as a gateway gets them: its own without its name before them, and those that are no gateway's.
fn properties_for(all: &Properties, gateway: &str, settings: &Settings) -> Properties {
    let of = |(key, value): &(String, String)| {
        let is_of_another = || settings.gateways.keys().any(|it| own_key(key, it).is_some());
        match own_key(key, gateway) {
            Some(own) => Some((own.to_owned(), value.clone())),
            None => (!is_of_another()).then(|| (key.clone(), value.clone())),
        }
    };
    all.iter().filter_map(of).collect()
}

/// The property `key` of a method as `gateway` gets it: of a routed method its own part.
#[must_use]
pub fn property_of<'m>(method: &'m PaymentMethod, gateway: &str, key: &str) -> Option<&'m str> {
    let is_routed = method.gateway == ROUTER;
    let is_it = |name: &str| match is_routed {
        true => own_key(name, gateway) == Some(key),
        false => method.gateway == gateway && name == key,
    };
    method.properties.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value.as_str())
}

/// The parts of a method and of a request's properties that a gateway gets.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) external_payment_method_id: Option<String>,
    pub(crate) payment_method_properties: Properties,
    pub(crate) properties: Properties,
}

/// The parts that a gateway gets: with a routed method its own, else all.
pub(crate) fn sent_to(
    gateway: &str,
    method: Option<&PaymentMethod>,
    properties: &Properties,
    settings: &Settings,
) -> Sent {
    let Some(method) = method.filter(|it| it.gateway == ROUTER) else {
        return Sent {
            external_payment_method_id: method.and_then(|it| it.external_payment_method_id.clone()),
            payment_method_properties: method.map(|it| it.properties.clone()).unwrap_or_default(),
            properties: properties.clone(),
        };
    };
    let mut own = properties_for(&method.properties, gateway, settings);
    let at = own.iter().position(|(key, _)| key == EXTERNAL_ID);
    Sent {
        external_payment_method_id: at.map(|at| own.remove(at).1),
        payment_method_properties: own,
        properties: properties_for(properties, gateway, settings),
    }
}

/// Refuses properties of a routed method that are not what rules look at.
pub(crate) fn check_method(properties: &Properties) -> Result<(), Rejection> {
    let lengths = usize::from(BIN_DIGITS_MIN)..=usize::from(BIN_DIGITS_MAX);
    let is_bin =
        |it: &str| lengths.contains(&it.len()) && it.bytes().all(|byte| byte.is_ascii_digit());
    match properties.iter().find(|(key, value)| key == BIN && !is_bin(value)) {
        None => Ok(()),
        Some(_) => {
            let reason = format!("should be the first {BIN_DIGITS_MIN} to {BIN_DIGITS_MAX} digits");
            Err(Rejection::InvalidParameter { field: BIN.to_owned(), reason })
        }
    }
}
