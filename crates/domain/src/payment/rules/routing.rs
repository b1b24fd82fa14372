//! Routing of a payment that starts: what rules look at comes from the rows, and what they choose is written.

use std::collections::BTreeSet;

use super::control::Control;
use crate::account::tag::{DefinitionRef, TagKey};
use crate::context::Context;
use crate::object::Object;
use crate::payment::routed::{PassedOver, Routed, Tries};
use crate::payment::routing::{Candidate, Decision, Facts, Gateways, decide};
use crate::payment::{Initiate, PaymentFile};
use crate::state::State;
use crate::tenant::routing_rules::{ROUTER, RoutingRules, TRIES_MAX};
use crate::tenant::rules::routing_rules::check_gateways;
use crate::{Account, AmountMinor, Currency, PaymentMethod, Person, Rejection, Revision};

/// A payment that is about to start: its account, with the person where the command makes the account; its method;
/// and its amount.
type About<'a> = ((&'a Account, Option<&'a Person>), &'a PaymentMethod, (AmountMinor, Currency));

/// The gateway that a payment is sent to, and where it may go on.
pub(super) struct Chosen {
    pub(super) gateway: String,
    routed: Routed,
    left: Vec<String>,
}

/// Chooses the gateway of a payment; `None` where its method says it.
///
/// # Errors
/// The refusal where no rule matches, and where none of the gateways can be called. Nothing is written.
pub(super) fn choose(
    state: &State,
    it: &Initiate,
    (((account, person), method, of), control): (About, Option<&Control>),
    cx: &Context,
) -> Result<Option<Chosen>, Rejection> {
    if method.gateway != ROUTER {
        return match it.gateways.is_empty() {
            true => Ok(None),
            false => Err(Rejection::invalid("gateways", "is for methods of faregate-router only")),
        };
    }
    if it.gateways.len() > TRIES_MAX {
        let reason = format!("should name at most {TRIES_MAX}");
        return Err(Rejection::InvalidParameter { field: "gateways".to_owned(), reason });
    }
    check_gateways("gateways", &it.gateways, cx.settings)?;
    let rules = state.payment_rules(cx.tenant);
    let routing = rules.and_then(|rules| rules.routing.as_ref());
    let country = match person {
        Some(person) => person.country.clone(),
        None => state.person(cx.tenant, account.id).country,
    };
    let facts = Facts {
        account: account.id,
        country: country.as_deref(),
        amount: of.0,
        currency: of.1,
        method,
        properties: &it.properties,
        tags: tags(state, account, routing, cx),
        fields: fields(state, account, routing, cx),
        named: &it.gateways,
        allowed: control.and_then(Control::allowed),
    };
    let known = Gateways { settings: cx.settings, health: cx.health };
    chosen(decide(rules, &facts, known)).map(Some)
}

fn chosen(decision: Decision) -> Result<Chosen, Rejection> {
    let first = decision.first();
    let Some(by) = decision.chosen_by else {
        return Err(Rejection::invalid("paymentMethodId", "no rule of faregate-router matches"));
    };
    let Some(first) = first else {
        let reason = format!("no gateway can be called: {}", unusable(&decision.candidates));
        return Err(Rejection::InvalidParameter { field: "paymentMethodId".to_owned(), reason });
    };
    let mut candidates = decision.candidates.into_iter();
    let before = candidates.by_ref().take(first);
    let passed_over = before.filter_map(|it| it.passed_over.map(|why| (it.gateway, why))).collect();
    let gateway = candidates.next().expect("it is one of them").gateway;
    // What takes no calls now may take them by the time of its try.
    let may_follow = |it: &Candidate| match it.passed_over {
        None | Some(PassedOver::Unready(_)) => true,
        Some(
            PassedOver::Gone
            | PassedOver::NoMethod
            | PassedOver::NoMerchantAccount
            | PassedOver::NotAllowed,
        ) => false,
    };
    let left = candidates.filter(may_follow).map(|it| it.gateway).collect();
    Ok(Chosen { gateway, routed: Routed { number: 1, by, first: None, passed_over }, left })
}

/// Why none of the gateways can be called.
fn unusable(candidates: &[Candidate]) -> String {
    let why = |it: &Candidate| {
        let reason = it.passed_over.map_or("", PassedOver::reason);
        format!("{}: {reason}", it.gateway)
    };
    candidates.iter().map(why).collect::<Vec<_>>().join("; ")
}

impl Chosen {
    /// Sends the last transaction of a payment to the gateway, and returns where it may go on.
    pub(super) fn take(self, file: &mut PaymentFile, it: &Initiate, cx: &Context) -> Box<Tries> {
        let tries = Tries {
            number: self.routed.number,
            by: self.routed.by.clone(),
            first: None,
            left: self.left,
            deadline: cx.real_now.plus_us(cx.settings.routing.deadline_us),
            transaction_key: it.transaction_key.clone(),
            properties: it.properties.clone(),
        };
        send_as(file, self.routed);
        Box::new(tries)
    }
}

/// Notes why the last transaction of a payment, which is in flight, goes to its gateway.
pub(super) fn send_as(file: &mut PaymentFile, routed: Routed) {
    let transaction = file.transactions.last_mut().expect("one is in flight");
    transaction.routed = Some(routed);
}

/// Whether the account is made by this command: it has no tags and no fields.
fn is_new(account: &Account, cx: &Context) -> bool {
    account.revision == Revision::first(cx.seq)
}

fn tags(
    state: &State,
    account: &Account,
    routing: Option<&RoutingRules>,
    cx: &Context,
) -> BTreeSet<DefinitionRef> {
    let named = routing.into_iter().flat_map(RoutingRules::tags).filter(|_| !is_new(account, cx));
    let has = |definition: &DefinitionRef| {
        let key = TagKey::new(account.id, Object::Account(account.id), *definition);
        state.tag(cx.tenant, key).is_some_and(|it| it.active)
    };
    named.filter(has).collect()
}

fn fields<'s>(
    state: &'s State,
    account: &Account,
    routing: Option<&RoutingRules>,
    cx: &Context,
) -> Vec<(&'s str, &'s str)> {
    if is_new(account, cx) || !routing.is_some_and(RoutingRules::has_fields) {
        return vec![];
    }
    let all = state.custom_fields(cx.tenant, Object::Account(account.id)).values();
    all.filter(|it| it.active).map(|it| (it.name.as_str(), it.value.as_str())).collect()
}
