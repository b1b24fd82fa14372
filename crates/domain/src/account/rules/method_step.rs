//! Steps of payment methods at their gateways: a method is attached before it is active, and detached once it was
//! deleted. A request without an answer is asked about, and never sent again blindly.

use crate::account::payment_method::{
    ContinueMethod, MethodAnswer, MethodAnswered, MethodRefused, MethodRequest, MethodStep,
    MethodTask, RefusalCause,
};
use crate::account::rules::default_method;
use crate::change::{AccountChange, TimerChange};
use crate::context::Context;
use crate::payment::routing::EXTERNAL_ID;
use crate::payment::rules::gateway_text::gateway_text;
use crate::payment::{GatewayOutcome, GatewayStatus, MethodAtGateway, NotSentCause, ReplyKey};
use crate::reply::{AccountReply, Outcome};
use crate::state::State;
use crate::tenant::routing_rules::ROUTER;
use crate::timer::rules as timer;
use crate::timer::{TimerKey, TimerKind};
use crate::{Accepted, AccountRejection, Effect, PaymentMethod, PaymentMethodId, Reply, Timestamp};

/// How long the first question waits for a gateway that is there no more, in microseconds.
const NO_GATEWAY_US: i64 = 60 * Timestamp::SECOND_US;

const fn key_of(method: PaymentMethodId) -> TimerKey {
    TimerKey { kind: TimerKind::MethodStep, object: method.uuid() }
}

/// Whether methods of a gateway are attached before they are active.
pub(crate) fn attaches(gateway: &str, cx: &Context) -> bool {
    cx.settings.gateway(gateway).is_some_and(|it| it.attaches_methods)
}

/// Whether a method was never attached, so that its key is free.
pub(crate) const fn was_refused(method: &PaymentMethod) -> bool {
    matches!(method.step, Some(MethodStep::Refused | MethodStep::Detach { was_refused: true, .. }))
}

/// Has a new method wait until its gateway has attached it. The caller writes it, and has the gateway called.
pub(crate) fn begin_attaching(method: &mut PaymentMethod, is_default: bool, cx: &mut Context) {
    let timeout_us = timeout_us(method, cx);
    let deadline = cx.real_now.plus_us(timeout_us);
    let (asked, reply) = (0, cx.reply_key);
    method.active = false;
    method.step = Some(MethodStep::Attach { is_default, deadline, asked, reply });
    set_timer(method, timeout_us, cx);
}

/// Has a method detached that was deleted. The caller writes it.
pub(crate) fn begin_detaching(method: &mut PaymentMethod, cx: &mut Context) {
    let was_refused = was_refused(method);
    method.step = Some(MethodStep::Detach { deadline: None, asked: 0, was_refused });
    set_timer(method, 0, cx);
}

fn timeout_us(method: &PaymentMethod, cx: &Context) -> i64 {
    cx.settings.gateway(&method.gateway).map_or(NO_GATEWAY_US, |it| it.timeout_us)
}

fn set_timer(method: &PaymentMethod, delay_us: i64, cx: &mut Context) {
    timer::set((key_of(method.id), method.account_id), cx.now.plus_us(delay_us), cx);
}

/// Has the gateway of a method asked, or called, once this is committed.
pub(crate) fn request(method: &PaymentMethod, task: MethodTask, cx: &mut Context) {
    cx.effect(Effect::AskAboutMethod(Box::new(MethodRequest {
        tenant: method.tenant,
        account: method.account_id,
        payment_method: method.id,
        gateway: method.gateway.clone(),
        merchant_account: method.merchant_account.clone(),
        task,
        external_payment_method_id: method.external_payment_method_id.clone(),
        properties: method.properties.clone(),
        timeout_us: timeout_us(method, cx),
    })));
}

/// A method with what `gateway` calls it.
pub(crate) fn named(
    method: &PaymentMethod,
    gateway: &str,
    said: &MethodAtGateway,
) -> PaymentMethod {
    let mut named = method.clone();
    let external_id = gateway_text(&said.external_id);
    let mut properties = said.properties.clone();
    if method.gateway == ROUTER {
        properties.push((EXTERNAL_ID.to_owned(), external_id));
        properties.iter_mut().for_each(|it| it.0 = format!("{gateway}.{}", it.0));
    } else {
        named.external_payment_method_id = Some(external_id);
    }
    for (key, value) in &properties {
        named.properties.retain(|(own, _)| own != key);
        named.properties.push((gateway_text(key), gateway_text(value)));
    }
    named
}

/// The step of a method that is being attached.
#[derive(Clone, Copy)]
struct Attaching {
    is_default: bool,
    deadline: Timestamp,
    asked: u32,
    reply: Option<ReplyKey>,
}

/// The step of a method that is being detached.
#[derive(Clone, Copy)]
struct Detaching {
    asked: u32,
    was_refused: bool,
}

/// Books what a gateway answered about a method. Its caller, where one waits, gets the outcome.
pub(crate) fn answered(state: &State, it: &MethodAnswered, cx: &mut Context) -> Outcome {
    let Some(method) = own(state, (it.account, it.payment_method), cx) else {
        return Err(AccountRejection::PaymentMethodNotFound { id: it.payment_method }.into());
    };
    let reply = match method.step {
        Some(MethodStep::Attach { is_default, deadline, asked, reply }) => attach_answered(
            state,
            (method, Attaching { is_default, deadline, asked, reply }),
            it,
            cx,
        ),
        Some(MethodStep::Detach { asked, was_refused, .. }) => {
            detach_answered((method, Detaching { asked, was_refused }), &it.answer, cx);
            outcome_of(method)
        }
        Some(MethodStep::Refused) | None => {
            // It was given up, and is there after all.
            if let (MethodAnswer::Attached(said), false) = (&it.answer, method.active) {
                let mut late = named_unless_erased(state, method, said, cx);
                begin_detaching(&mut late, cx);
                write(late, cx);
            }
            outcome_of(method)
        }
    };
    Ok(Accepted::now(Reply::Account(reply)))
}

/// The method of an account.
fn own<'s>(
    state: &'s State,
    (account, id): (crate::AccountId, PaymentMethodId),
    cx: &Context,
) -> Option<&'s PaymentMethod> {
    state.payment_method(cx.tenant, id).filter(|it| it.account_id == account)
}

/// The answer about a method whose step has ended before.
fn outcome_of(method: &PaymentMethod) -> AccountReply {
    match was_refused(method) {
        true => AccountReply::PaymentMethodRefused(MethodRefused {
            payment_method: method.id,
            cause: RefusalCause::NotReached,
            message: "it was not attached".to_owned(),
        }),
        false => AccountReply::PaymentMethodCreated(method.id),
    }
}

fn attach_answered(
    state: &State,
    (method, step): (&PaymentMethod, Attaching),
    it: &MethodAnswered,
    cx: &mut Context,
) -> AccountReply {
    let is_call = it.task == MethodTask::Attach;
    let settle_after_us = cx.settings.gateway(&method.gateway).map_or(0, |it| it.settle_after_us);
    let is_final = it.asked_at >= step.deadline.plus_us(settle_after_us);
    let refused = |cause, message| MethodRefused { payment_method: method.id, cause, message };
    match &it.answer {
        MethodAnswer::Attached(said) => {
            let named = named_unless_erased(state, method, said, cx);
            activate(state, named, step, cx)
        }
        MethodAnswer::Refused { code, message } if is_call => {
            let cause = RefusalCause::Gateway { code: code.as_deref().map(gateway_text) };
            refuse((method, step), refused(cause, gateway_text(message)), cx)
        }
        MethodAnswer::NotSent { message, cause } if is_call => {
            let cause = match cause {
                NotSentCause::Call => RefusalCause::Method,
                NotSentCause::Gateway => RefusalCause::NotReached,
            };
            refuse((method, step), refused(cause, gateway_text(message)), cx)
        }
        MethodAnswer::Absent if is_final && !is_call => {
            let message = "the gateway has no record of it".to_owned();
            refuse((method, step), refused(RefusalCause::NotReached, message), cx)
        }
        MethodAnswer::Absent
        | MethodAnswer::Refused { .. }
        | MethodAnswer::NotSent { .. }
        | MethodAnswer::Unknown { .. } => {
            if is_call {
                sent_until_now((method, step), cx);
            }
            AccountReply::PaymentMethodPending(method.id)
        }
    }
}

/// A call has ended without an outcome: a process that stood still may have sent it as late as now.
fn sent_until_now((method, step): (&PaymentMethod, Attaching), cx: &mut Context) {
    if step.deadline < cx.real_now {
        let Attaching { is_default, asked, reply, .. } = step;
        let deadline = cx.real_now;
        let step = Some(MethodStep::Attach { is_default, deadline, asked, reply });
        write(PaymentMethod { step, ..method.clone() }, cx);
    }
}

/// The method with the gateway's name for it, unless its person was erased meanwhile: then the name stays empty.
fn named_unless_erased(
    state: &State,
    method: &PaymentMethod,
    said: &MethodAtGateway,
    cx: &Context,
) -> PaymentMethod {
    let account = state.account(cx.tenant, method.account_id);
    let erased_at = account.and_then(|it| it.erased_at);
    match erased_at.is_some_and(|at| at >= method.created_at) {
        true => method.clone(),
        false => named(method, &method.gateway, said),
    }
}

fn activate(
    state: &State,
    method: PaymentMethod,
    step: Attaching,
    cx: &mut Context,
) -> AccountReply {
    let account = state
        .account(cx.tenant, method.account_id)
        .expect("a payment method is loaded with its account");
    let id = method.id;
    end((PaymentMethod { active: true, ..method }, None), cx);
    if step.is_default {
        default_method::change(account.clone(), Some(id), cx);
    }
    let reply = AccountReply::PaymentMethodCreated(id);
    settle_reply(step.reply, &reply, cx);
    reply
}

fn refuse(
    (method, step): (&PaymentMethod, Attaching),
    refused: MethodRefused,
    cx: &mut Context,
) -> AccountReply {
    end((method.clone(), Some(MethodStep::Refused)), cx);
    let reply = AccountReply::PaymentMethodRefused(refused);
    settle_reply(step.reply, &reply, cx);
    reply
}

fn settle_reply(key: Option<ReplyKey>, reply: &AccountReply, cx: &mut Context) {
    if let Some(key) = key {
        cx.settle_reply(key, Reply::Account(reply.clone()));
    }
}

/// Ends a step: `then` is what is left of it.
fn end((method, then): (PaymentMethod, Option<MethodStep>), cx: &mut Context) {
    cx.change(TimerChange::Cleared(key_of(method.id)));
    write(PaymentMethod { step: then, ..method }, cx);
}

fn write(method: PaymentMethod, cx: &mut Context) {
    cx.change(AccountChange::PaymentMethod(PaymentMethod {
        updated_at: cx.now,
        revision: method.revision.next(cx.seq),
        ..method
    }));
}

fn detach_answered(
    (method, step): (&PaymentMethod, Detaching),
    answer: &MethodAnswer,
    cx: &mut Context,
) {
    match answer {
        MethodAnswer::Absent | MethodAnswer::Refused { .. } => end_detaching((method, step), cx),
        // The request was lost: this one is committed anew.
        MethodAnswer::Attached(_) => detach((method, step), cx),
        MethodAnswer::NotSent { .. } | MethodAnswer::Unknown { .. } => {}
    }
}

fn end_detaching((method, step): (&PaymentMethod, Detaching), cx: &mut Context) {
    let then = step.was_refused.then_some(MethodStep::Refused);
    end((method.clone(), then), cx);
}

/// Has the gateway detach a method.
fn detach((method, step): (&PaymentMethod, Detaching), cx: &mut Context) {
    let Detaching { asked, was_refused } = step;
    let deadline = Some(cx.real_now.plus_us(timeout_us(method, cx)));
    let step = Some(MethodStep::Detach { deadline, asked, was_refused });
    write(PaymentMethod { step, ..method.clone() }, cx);
    request(method, MethodTask::Detach, cx);
}

/// The timer of a method's step is due: what was sent is asked about, and what was not is sent. After the last question
/// the step is given up.
pub(crate) fn proceed(state: &State, it: &ContinueMethod, cx: &mut Context) -> Outcome {
    let done = Ok(Accepted::now(Reply::Done));
    if !timer::take(state, (key_of(it.payment_method), it.due), cx) {
        return done;
    }
    let Some(method) = own(state, (it.account, it.payment_method), cx) else { return done };
    match method.step {
        Some(MethodStep::Attach { is_default, deadline, asked, reply }) => {
            let step = Attaching { is_default, deadline, asked, reply };
            match delay_after(asked, cx) {
                Some(delay_us) => {
                    let asked = asked.saturating_add(1);
                    let step = Some(MethodStep::Attach { is_default, deadline, asked, reply });
                    ask((method, step), delay_us, cx);
                }
                None => {
                    let message = "the gateway could not be asked".to_owned();
                    let cause = RefusalCause::NotReached;
                    let refused = MethodRefused { payment_method: method.id, cause, message };
                    refuse((method, step), refused, cx);
                }
            }
        }
        Some(MethodStep::Detach { deadline: None, asked, was_refused }) => {
            detach((method, Detaching { asked, was_refused }), cx);
            set_timer(method, timeout_us(method, cx), cx);
        }
        Some(MethodStep::Detach { deadline, asked, was_refused }) => match delay_after(asked, cx) {
            Some(delay_us) => {
                let asked = asked.saturating_add(1);
                let step = Some(MethodStep::Detach { deadline, asked, was_refused });
                ask((method, step), delay_us, cx);
            }
            None => end_detaching((method, Detaching { asked, was_refused }), cx),
        },
        Some(MethodStep::Refused) | None => {}
    }
    done
}

/// Asks the gateway whether a method is attached, and again later where the answer does not end the step.
fn ask((method, step): (&PaymentMethod, Option<MethodStep>), delay_us: i64, cx: &mut Context) {
    set_timer(method, delay_us, cx);
    write(PaymentMethod { step, ..method.clone() }, cx);
    request(method, MethodTask::Find, cx);
}

/// How long after a question the next one comes, where `asked` came before it; `None` after the last one.
fn delay_after(asked: u32, cx: &Context) -> Option<i64> {
    let at = usize::try_from(asked).unwrap_or(usize::MAX);
    cx.settings.unknown_delays_us.get(at).copied()
}

/// A call has ended, or its outcome was asked for, that was to attach its payment method first.
pub(crate) fn ended_by_call(
    state: &State,
    method: &PaymentMethod,
    (outcome, is_reply): (&GatewayOutcome, bool),
    cx: &mut Context,
) {
    let Some(MethodStep::Attach { is_default, deadline, asked, reply }) = method.step else {
        return;
    };
    let step = Attaching { is_default, deadline, asked, reply };
    let has_succeeded = match outcome.status {
        GatewayStatus::Processed | GatewayStatus::Pending => true,
        GatewayStatus::Error | GatewayStatus::Canceled | GatewayStatus::Undefined => false,
    };
    match &outcome.payment_method {
        Some(said) => {
            let named = named_unless_erased(state, method, said, cx);
            activate(state, named, step, cx);
        }
        None if has_succeeded => drop(activate(state, method.clone(), step, cx)),
        None if is_reply && outcome.status != GatewayStatus::Undefined => {
            end((method.clone(), Some(MethodStep::Refused)), cx);
        }
        // It is asked about by itself.
        None => {}
    }
}

/// A call that was to attach its payment method first has ended without an outcome.
pub(crate) fn ended_unknown(method: &PaymentMethod, cx: &mut Context) {
    if let Some(MethodStep::Attach { is_default, deadline, asked, reply }) = method.step {
        sent_until_now((method, Attaching { is_default, deadline, asked, reply }), cx);
    }
}

#[cfg(test)]
mod tests;
