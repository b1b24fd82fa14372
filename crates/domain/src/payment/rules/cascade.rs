//! Cascade: after a decline, the next gateway is tried within the same payment and the same request.

use super::control;
use super::initiate::{append, refuse_used_key};
use super::outcome::{self, CallOptions};
use super::routing::send_as;
use crate::PaymentMethod;
use crate::account::blocking_state::ClosedTo;
use crate::account::rules::closed::refuse_closed;
use crate::change::PaymentChange;
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::payment::decline::DeclineClass;
use crate::payment::routed::{Destination, PassedOver, Routed, Tries};
use crate::payment::rules::merchant_account::merchant_account;
use crate::payment::{
    GatewayAnswer, GatewayReplied, GatewayStatus, Outstanding, PaymentFile, Transaction,
};
use crate::reply::Outcome;
use crate::state::State;
use crate::tenant::routing_rules::{CascadeRules, TRIES_MAX};

/// The try that follows on a declined one.
pub(super) struct NextTry<'s> {
    method: &'s PaymentMethod,
    destination: Destination,
    routed: Routed,
    tries: Tries,
    waiting: Outstanding,
}

/// The next try of a payment whose gateway has just declined it; `None` where the decline is the answer. It is
/// decided at the call's own answer only, whatever was heard before, and only while nothing else happened to the
/// payment. `file` has the decline.
pub(super) fn next_try<'s>(
    state: &'s State,
    it: &GatewayReplied,
    (file, waiting): (&PaymentFile, Option<&Outstanding>),
    cx: &Context,
) -> Option<NextTry<'s>> {
    let tries = it.tries.as_deref()?;
    let waiting = waiting.filter(|it| it.asked == 0 && it.ask_at.is_none())?;
    let declined = file.transactions.last().filter(|last| last.id == it.transaction)?;
    let is_final = file.transactions.iter().all(|it| it.status.is_failed()) && !declined.overruled;
    if !is_final || !is_allowed(state, declined, &it.answer, cx) {
        return None;
    }
    let has_room = file.transactions.len() < cx.settings.transactions_per_payment_max
        && control::has_room(state, declined, cx);
    let has_tries = usize::from(tries.number) < TRIES_MAX;
    let left_us = cx.real_now.until_us(tries.deadline);
    if !has_room || !has_tries || left_us < cx.settings.routing.next_try_min_us {
        return None;
    }
    let method = method(state, declined, tries, cx)?;
    let passed_over = |gateway: &String| match cx.settings.gateway(gateway) {
        None => Some(PassedOver::Gone),
        Some(_) if merchant_account(state, gateway, cx).is_err() => {
            Some(PassedOver::NoMerchantAccount)
        }
        Some(_) => cx.health.unready(gateway).map(PassedOver::Unready),
    };
    let at = tries.left.iter().position(|gateway| passed_over(gateway).is_none())?;
    let before = tries.left[..at].iter();
    let before = before.filter_map(|it| Some((it.clone(), passed_over(it)?))).collect();
    let number = tries.number + 1;
    let first = Some(tries.first.unwrap_or(declined.id));
    Some(NextTry {
        method,
        destination: Destination {
            gateway: tries.left[at].clone(),
            merchant_account: merchant_account(state, &tries.left[at], cx).ok()?,
            payment_method: method.id,
        },
        routed: Routed { number, by: tries.by.clone(), first, passed_over: before },
        tries: Tries { number, first, left: tries.left[at + 1..].to_vec(), ..tries.clone() },
        waiting: waiting.clone(),
    })
}

/// Whether the answer is a decline of a class after which the tenant allows another try.
fn is_allowed(state: &State, declined: &Transaction, answer: &GatewayAnswer, cx: &Context) -> bool {
    let code = match answer {
        GatewayAnswer::Outcome(outcome) if outcome.status == GatewayStatus::Error => {
            outcome.error_code.as_deref()
        }
        GatewayAnswer::Outcome(_)
        | GatewayAnswer::Failed { .. }
        | GatewayAnswer::Nothing
        | GatewayAnswer::TimedOut
        | GatewayAnswer::NotSent { .. } => return false,
    };
    let defaults = CascadeRules::default();
    let rules = state.payment_rules(cx.tenant).and_then(|it| it.routing.as_ref());
    let rules = rules.map_or(&defaults, |it| &it.cascade);
    let class = DeclineClass::of(code, rules.codes.get(&declined.gateway));
    declined.kind.charges() && rules.after.contains(&class)
}

/// The method of the payment, where it may still be charged under the request's key.
fn method<'s>(
    state: &'s State,
    declined: &Transaction,
    tries: &Tries,
    cx: &Context,
) -> Option<&'s PaymentMethod> {
    let account = state.account(cx.tenant, declined.account_id)?;
    let is_closed = refuse_closed(state, account.id, ClosedTo::Payment(declined.kind), cx).is_err();
    if is_closed || account.erased_at.is_some() {
        return None;
    }
    // Where the decline was booked before the call answered, another payment may have taken the key.
    if let Some(key) = &tries.transaction_key
        && !is_own_key(state, key, declined, cx)
    {
        refuse_used_key(state, account, (key, Some(declined.payment_id)), cx).ok()?;
    }
    state.payment_method(cx.tenant, declined.payment_method_id).filter(|it| it.active)
}

fn is_own_key(state: &State, key: &str, declined: &Transaction, cx: &Context) -> bool {
    let claim = state.claim(&ClaimKey::new(cx.tenant, ClaimKind::Transaction, key));
    claim.is_some_and(|it| it.owner == declined.payment_id.uuid())
}

/// Records the decline and puts the next try in flight. The request's reply is that of the last try.
pub(super) fn begin(
    state: &State,
    next: NextTry,
    (mut file, is_controlled): (PaymentFile, bool),
    cx: &mut Context,
) -> Outcome {
    let NextTry { method, destination, routed, tries, waiting } = next;
    let declined = file.transactions.last().expect("it was declined").clone();
    if declined.revision.seq == cx.seq {
        cx.change(PaymentChange::Transaction(declined.clone()));
    }
    cx.change(PaymentChange::OutstandingClosed { transaction: declined.id });
    cx.reply_key = waiting.reply;
    let amount = declined.amount.zip(declined.currency);
    file.payment.gateway.clone_from(&destination.gateway);
    append(&mut file, (declined.kind, declined.external_key.clone()), destination, amount, cx);
    send_as(&mut file, routed);
    let try_id = file.transactions.last().expect("it was appended").id;
    let properties = tries.properties.clone();
    let tries = Some(Box::new(tries));
    let asked =
        CallOptions { tries, ..CallOptions::of(declined.amount, &properties, is_controlled) };
    let accepted = outcome::submit(Some(method), file, asked, cx)?;
    if is_controlled {
        control::moved_on(state, &declined, try_id, cx);
    }
    Ok(accepted)
}
