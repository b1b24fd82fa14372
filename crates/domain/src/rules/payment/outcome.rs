//! How a transaction ends: at once, by the gateway's answer, or by asking it later.

use super::action;
use super::cascade;
use super::route::{last_success, set_route_of_payment};
use crate::change::{AccountChange, Change, PaymentChange};
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::effect::REFERENCES_MAX;
use crate::payment::{
    AMOUNT_NOT_TAKEN, Amounts, GatewayAnswer, GatewayInquired, GatewayKnowledge, GatewayOutcome,
    GatewayReplied, GatewayStatus, Outstanding, PaymentFile, PaymentState, Transaction,
    TransactionStatus,
};
use crate::reply::Outcome;
use crate::routed::Tries;
use crate::routing;
use crate::rules::gateway_text::gateway_text;
use crate::rules::{ledger, method_step};
use crate::state::State;
use crate::{
    Accepted, AmountMinor, Currency, Effect, Event, GatewayCall, GatewayReference, PaymentId,
    PaymentMethod, PaymentRejection, PaymentReply, PaymentResult, Properties, Rejection, Reply,
    Timestamp, TransactionId,
};

/// What a request wants of the transaction it put in flight.
pub(super) struct Asked<'a> {
    pub(super) amount: Option<AmountMinor>,
    pub(super) properties: &'a Properties,
    /// Whether it has an attempt, or may have one.
    pub(super) is_controlled: bool,
    /// What its customer has to do already: a completion does not take the secret back.
    pub(super) next_action: Option<String>,
    /// Where it may go on after a decline.
    pub(super) tries: Option<Box<Tries>>,
}

impl<'a> Asked<'a> {
    /// Nothing of it is under way: no customer acts, and no other gateway is to be tried.
    pub(super) const fn of(
        amount: Option<AmountMinor>,
        properties: &'a Properties,
        is_controlled: bool,
    ) -> Self {
        Self { amount, properties, is_controlled, next_action: None, tries: None }
    }
}

/// What is to be written of a transaction's outcome.
pub(super) struct Settled {
    status: TransactionStatus,
    processed: Option<(AmountMinor, Option<Currency>)>,
    error_code: Option<String>,
    error_message: Option<String>,
    references: (Option<String>, Option<String>),
    /// The call never left: what the gateway was asked for is what it was before.
    unsent: bool,
    /// It had failed, and now money may move after all.
    reopens: bool,
    /// See [`Transaction::heard_at`].
    heard_at: Option<Timestamp>,
}

impl Settled {
    pub(super) fn success(transaction: &Transaction) -> Self {
        let amount = transaction.called_amount.or(transaction.amount).unwrap_or_default();
        let processed = Some((amount, transaction.currency));
        Self { processed, ..Self::failed(TransactionStatus::Success) }
    }

    /// An end that moved nothing, or none yet.
    pub(super) const fn failed(status: TransactionStatus) -> Self {
        Self {
            status,
            processed: None,
            error_code: None,
            error_message: None,
            references: (None, None),
            unsent: false,
            reopens: false,
            heard_at: None,
        }
    }

    fn failed_with(status: TransactionStatus, code: Option<&str>, message: &str) -> Self {
        Self {
            error_code: code.map(str::to_owned),
            error_message: Some(gateway_text(message)),
            ..Self::failed(status)
        }
    }
}

/// The payment method of the last transaction of `file`.
pub(super) fn method_of<'s>(
    state: &'s State,
    file: &PaymentFile,
    cx: &Context,
) -> Option<&'s PaymentMethod> {
    let transaction = file.transactions.last()?;
    state.payment_method(cx.tenant, transaction.payment_method_id)
}

/// Sends the last transaction of `file`, which is in flight, to its gateway. `method` is its payment method.
pub(super) fn submit(
    method: Option<&PaymentMethod>,
    file: PaymentFile,
    asked: Asked,
    cx: &mut Context,
) -> Outcome {
    let transaction = file.transactions.last().expect("one is in flight").clone();
    let gateway = transaction.gateway.clone();
    let Some(settings) = cx.settings.gateway(&gateway) else {
        return Err(PaymentRejection::GatewayNotRegistered { gateway }.into());
    };
    if settings.settles_at_once {
        return Ok(settle_at_once(file, asked, cx));
    }
    let left_us = asked.tries.as_ref().map(|it| cx.real_now.until_us(it.deadline));
    let timeout_us = left_us.map_or(settings.timeout_us, |it| it.min(settings.timeout_us));
    let deadline = cx.real_now.plus_us(timeout_us);
    let next_action = asked.next_action;
    let awaited = Outstanding { next_action, ..outcome_of(&transaction, deadline, cx) };
    cx.change(PaymentChange::Outstanding(awaited));
    let sent = routing::sent_to(&gateway, method, asked.properties, cx.settings);
    cx.effect(Effect::CallGateway(Box::new(GatewayCall {
        tenant: cx.tenant,
        account: file.payment.account_id,
        payment: file.payment.id,
        transaction: transaction.id,
        payment_method: transaction.payment_method_id,
        gateway,
        merchant_account: transaction.merchant_account.clone(),
        operation: transaction.kind,
        amount: asked.amount.or(transaction.amount),
        currency: file.payment.currency,
        external_payment_method_id: sent.external_payment_method_id,
        payment_method_properties: sent.payment_method_properties,
        properties: sent.properties,
        references: references(&file, &transaction),
        is_controlled: asked.is_controlled,
        seq: cx.seq,
        tries: asked.tries,
        timeout_us,
    })));
    let before = transaction.revision.previous.map(|_| Before::PENDING);
    cx.event(event(&file, file.transactions.len() - 1, before));
    write(file, transaction.id, cx);
    Ok(Accepted::later())
}

/// See [`GatewayCall::references`].
fn references(file: &PaymentFile, called: &Transaction) -> Vec<GatewayReference> {
    let is_known = |it: &&Transaction| {
        let has_name = it.first_reference.is_some() || it.second_reference.is_some();
        let counts = it.id == called.id || it.status == TransactionStatus::Success;
        has_name && counts && it.has_same_route(called)
    };
    let all = file.transactions.iter().filter(is_known).map(|it| GatewayReference {
        transaction: it.id,
        operation: it.kind,
        first: it.first_reference.clone(),
        second: it.second_reference.clone(),
    });
    let mut all: Vec<_> = all.collect();
    if let Some(too_many) = all.len().checked_sub(REFERENCES_MAX) {
        all.drain(1..=too_many);
    }
    all
}

/// What is to be waited for, from now on.
fn outcome_of(transaction: &Transaction, deadline: Timestamp, cx: &Context) -> Outstanding {
    Outstanding {
        tenant: cx.tenant,
        transaction_id: transaction.id,
        payment_id: transaction.payment_id,
        account_id: transaction.account_id,
        gateway: transaction.gateway.clone(),
        deadline,
        ask_at: None,
        asked: 0,
        reply: cx.reply_key,
        next_action: None,
        actor: cx.actor.clone(),
    }
}

/// Settles the last transaction of `file` within this commit: nobody is called.
pub(super) fn settle_at_once(mut file: PaymentFile, asked: Asked, cx: &mut Context) -> Accepted {
    let transaction = file.transactions.last().expect("one is in flight");
    let id = transaction.id;
    let mut settled = Settled::success(transaction);
    if let (Some(amount), Some((processed, _))) = (asked.amount, settled.processed.as_mut()) {
        *processed = amount;
    }
    settle(&mut file, id, settled, cx);
    let transaction = file.transaction(id).expect("it was settled there");
    let reply = payment_reply(&file, transaction);
    write(file, id, cx);
    Accepted::now(reply)
}

/// A payment and one of its transactions.
pub(super) fn transaction_of<'s>(
    state: &'s State,
    (payment, transaction): (PaymentId, TransactionId),
    cx: &Context,
) -> Result<(&'s PaymentFile, &'s Transaction), Rejection> {
    let file = state.payment(cx.tenant, payment);
    let file = file.ok_or_else(|| PaymentRejection::NotFound { payment: payment.to_string() })?;
    let found = file.transaction(transaction).ok_or_else(|| {
        PaymentRejection::TransactionNotFound { transaction: transaction.to_string() }
    })?;
    Ok((file, found))
}

pub(crate) fn gateway_replied(state: &State, it: &GatewayReplied, cx: &mut Context) -> Outcome {
    let (file, transaction) = transaction_of(state, (it.payment, it.transaction), cx)?;
    let mut outstanding = state.outstanding(cx.tenant, it.transaction).cloned();
    let (settled, failure) = match &it.answer {
        GatewayAnswer::Outcome(outcome) => {
            (read_outcome(transaction, outcome, Source::CallReply), None)
        }
        GatewayAnswer::Failed { message } => (
            Settled::failed_with(TransactionStatus::Unknown, None, message),
            Some(PaymentResult::GatewayFailed { message: gateway_text(message) }),
        ),
        GatewayAnswer::Nothing => (
            Settled::failed(TransactionStatus::Unknown),
            Some(PaymentResult::GatewayAnsweredNothing),
        ),
        GatewayAnswer::TimedOut => {
            (Settled::failed(TransactionStatus::Unknown), Some(PaymentResult::GatewayTimedOut))
        }
        GatewayAnswer::NotSent { message, .. } => {
            // A completion that never left leaves pending what is pending at the gateway. What is
            // called for the first time has processed nothing yet, not even zero.
            let status = match transaction.processed_amount {
                Some(_) => TransactionStatus::Pending,
                None => TransactionStatus::PluginFailure,
            };
            let settled = Settled::failed_with(status, None, message);
            (Settled { unsent: true, ..settled }, None)
        }
    };
    let evidence = match &it.answer {
        GatewayAnswer::Outcome(_) | GatewayAnswer::NotSent { .. } => Evidence::Outcome,
        GatewayAnswer::Failed { .. } | GatewayAnswer::Nothing | GatewayAnswer::TimedOut => {
            Evidence::None
        }
    };
    // Only a call that runs can end by not answering; what is settled stays settled.
    let in_flight = transaction.status == TransactionStatus::InFlight;
    if let Some(outstanding) = outstanding.as_mut().filter(|_| in_flight) {
        // A process that stood still may have sent it as late as now.
        outstanding.deadline = outstanding.deadline.max(cx.real_now);
    }
    if let GatewayAnswer::Outcome(outcome) = &it.answer {
        name_method(state, transaction, (outcome, Source::CallReply), cx);
    } else if let Some(method) = state.payment_method(cx.tenant, transaction.payment_method_id) {
        method_step::ended_unknown(method, cx);
    }
    let mut file = file.clone();
    // What was reported since is newer than the answer to the call: a success stays one.
    let stays = transaction.status == TransactionStatus::Success;
    let books = in_flight || !stays && worth_booking(transaction.status, settled.status);
    if books {
        settle(&mut file, it.transaction, settled, cx);
    }
    if let Some(next) = cascade::next_try(state, it, (&file, outstanding.as_ref()), cx) {
        return cascade::begin(state, next, (file, it.is_controlled), cx);
    }
    let transaction = file.transaction(it.transaction).expect("it was found before").clone();
    if let (GatewayAnswer::Outcome(outcome), Some(outstanding)) = (&it.answer, &mut outstanding) {
        action::wait(outstanding, (&transaction, outcome.next_action.as_ref()), cx);
    }
    let mut reply = payment_reply(&file, &transaction);
    if books && let (Some(failure), Reply::Payment(payment)) = (failure, &mut reply) {
        payment.result = failure;
    }
    close_or_ask(&transaction, (outstanding, evidence), &reply, cx);
    if books {
        write(file, it.transaction, cx);
    }
    Ok(Accepted::now(reply))
}

pub(crate) fn gateway_inquired(state: &State, it: &GatewayInquired, cx: &mut Context) -> Outcome {
    let (file, transaction) = transaction_of(state, (it.payment, it.transaction), cx)?;
    let outstanding = outstanding_today(state, it.transaction, cx);
    // Two questions may be answered in one order and booked in the other: the later one has the say.
    let outdated = !transaction.status.is_open()
        && transaction.heard_at.is_some_and(|heard_at| cx.is_outdated(it.asked_at, heard_at));
    let settled = match &it.knowledge {
        GatewayKnowledge::Found(outcome) => Some(read_outcome(transaction, outcome, Source::Later)),
        GatewayKnowledge::NotFound
            if not_found_is_final(transaction, outstanding.as_ref(), it.asked_at, cx) =>
        {
            let message = "the gateway has no record of it";
            Some(Settled::failed_with(TransactionStatus::PluginFailure, None, message))
        }
        GatewayKnowledge::NotFound | GatewayKnowledge::Unreachable => None,
    };
    let evidence = match &it.knowledge {
        GatewayKnowledge::Found(outcome)
            if outcome.status != GatewayStatus::Undefined && !outdated =>
        {
            Evidence::Outcome
        }
        GatewayKnowledge::Found(_) | GatewayKnowledge::NotFound | GatewayKnowledge::Unreachable => {
            Evidence::None
        }
    };
    if let GatewayKnowledge::Found(outcome) = &it.knowledge {
        name_method(state, transaction, (outcome, Source::Later), cx);
    }
    let call_may_run = outstanding.as_ref().is_some_and(|open| may_run(open, it.asked_at));
    let mut file = file.clone();
    let said = settled.filter(|it| it.reopens || worth_booking(transaction.status, it.status));
    let contradicts = said.is_some() && !transaction.status.is_open();
    let changed = said
        .filter(|_| !outdated)
        .filter(|it| it.reopens || !(call_may_run && it.status.is_open()));
    let was_settled = changed.is_some();
    // What is open again is asked about as anything that is not known.
    let reopened = changed.as_ref().is_some_and(|it| it.reopens);
    let mut outstanding =
        outstanding.or_else(|| reopened.then(|| outcome_of(transaction, cx.real_now, cx)));
    if let Some(settled) = changed {
        settle(&mut file, it.transaction, Settled { heard_at: Some(it.asked_at), ..settled }, cx);
    } else if transaction.status == TransactionStatus::InFlight && !call_may_run {
        // Nobody asks while a call runs; one that is found running was orphaned by a crash.
        settle(&mut file, it.transaction, Settled::failed(TransactionStatus::Unknown), cx);
    }
    let transaction = file.transaction(it.transaction).expect("it was found before").clone();
    if let (GatewayKnowledge::Found(outcome), Some(outstanding), true) =
        (&it.knowledge, &mut outstanding, was_settled)
    {
        action::wait(outstanding, (&transaction, outcome.next_action.as_ref()), cx);
    }
    let reply = payment_reply(&file, &transaction);
    if contradicts && !call_may_run && !transaction.status.is_open() {
        ask_once_more(&transaction, outstanding, &reply, cx);
    } else if !call_may_run {
        close_or_ask(&transaction, (outstanding, evidence), &reply, cx);
    } else if let Some(open) = outstanding.filter(|_| was_settled) {
        answer_early(&transaction, open, &reply, cx);
    }
    if was_settled || transaction.revision.seq == cx.seq {
        write(file, it.transaction, cx);
    }
    Ok(Accepted::now(reply))
}

/// Stores what the gateway calls the payment method of a transaction from now on. One that the call was to attach is
/// active then, and one that it did not attach never will be.
fn name_method(
    state: &State,
    transaction: &Transaction,
    (outcome, source): (&GatewayOutcome, Source),
    cx: &mut Context,
) {
    let Some(method) = state.payment_method(cx.tenant, transaction.payment_method_id) else {
        return;
    };
    if method.is_attaching() {
        return method_step::ended_by_call(
            state,
            method,
            (outcome, source == Source::CallReply),
            cx,
        );
    }
    // One that the person's erasure emptied stays empty.
    let Some(said) = outcome.payment_method.as_ref().filter(|_| method.active) else { return };
    let mut named = method_step::named(method, &transaction.gateway, said);
    if named != *method {
        named.updated_at = cx.now;
        named.revision = method.revision.next(cx.seq);
        cx.change(AccountChange::PaymentMethod(named));
    }
}

/// What waits for an outcome, by today's clock. A deadline or a question further off than any can be
/// was set by a clock that has been set back since. It counts from now on: the gateway would not be
/// believed, nor asked, before the clock is there again.
fn outstanding_today(state: &State, id: TransactionId, cx: &mut Context) -> Option<Outstanding> {
    let found = state.outstanding(cx.tenant, id)?;
    let timeout_us = cx.settings.gateway(&found.gateway).map_or(0, |it| it.timeout_us);
    let ask_latest = cx.now.plus_us(cx.settings.longest_delay_us());
    let open = Outstanding {
        deadline: found.deadline.min(cx.real_now.plus_us(timeout_us)),
        ask_at: found.ask_at.map(|at| if at > ask_latest { cx.now } else { at }),
        ..found.clone()
    };
    if open != *found {
        cx.change(PaymentChange::Outstanding(open.clone()));
    }
    Some(open)
}

/// Whether the call itself may still answer: an outcome reported meanwhile is booked, but the row
/// that waits for the call stays, so that the call answers the waiting caller. Where nobody runs
/// the call any more, the first question after its deadline ends the waiting.
fn may_run(outstanding: &Outstanding, asked_at: Timestamp) -> bool {
    let answered = outstanding.asked > 0 || outstanding.ask_at.is_some();
    !answered && asked_at < outstanding.deadline
}

/// A request may still be on its way to the gateway until its deadline, and a gateway may take a
/// while to find what it took: only where it was asked after both does "not found" mean that nothing
/// happened.
fn not_found_is_final(
    transaction: &Transaction,
    outstanding: Option<&Outstanding>,
    asked_at: Timestamp,
    cx: &Context,
) -> bool {
    let Some(outstanding) = outstanding else { return false };
    let Some(settings) = cx.settings.gateway(&outstanding.gateway) else { return false };
    transaction.status.is_in_doubt()
        && asked_at >= outstanding.deadline.plus_us(settings.settle_after_us)
}

/// Whether what a gateway says changes what is written. A late success after a failure is booked,
/// a success that turns out to have failed is reversed; a success is never lost to "pending". What
/// opens a failure again is not decided here: see [`Settled::reopens`].
const fn worth_booking(now: TransactionStatus, said: TransactionStatus) -> bool {
    use TransactionStatus as S;
    match (now, said) {
        (S::InFlight, _) => true,
        (S::Unknown | S::Pending, S::Success | S::PaymentFailure | S::PluginFailure)
        | (S::Unknown, S::Pending)
        | (S::Success, S::PaymentFailure | S::PluginFailure)
        | (S::PaymentFailure | S::PluginFailure, S::Success) => true,
        (S::Unknown | S::Pending, S::InFlight | S::Unknown)
        | (S::Pending, S::Pending)
        | (S::Success, S::InFlight | S::Success | S::Pending | S::Unknown)
        | (
            S::PaymentFailure | S::PluginFailure,
            S::InFlight | S::Pending | S::Unknown | S::PaymentFailure | S::PluginFailure,
        ) => false,
    }
}

/// Where an outcome comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The answer to the call. It may be offered twice: again after a commit in doubt.
    CallReply,
    /// The answer to a question, or a report without one.
    Later,
}

/// A gateway's answer is untrusted: amounts and currencies are compared, texts are cut.
fn read_outcome(transaction: &Transaction, said: &GatewayOutcome, source: Source) -> Settled {
    let status = match said.status {
        GatewayStatus::Processed => TransactionStatus::Success,
        GatewayStatus::Pending => TransactionStatus::Pending,
        GatewayStatus::Error => TransactionStatus::PaymentFailure,
        GatewayStatus::Canceled => TransactionStatus::PluginFailure,
        GatewayStatus::Undefined => TransactionStatus::Unknown,
    };
    // The answer to a call is older than what was reported since.
    let reopens = source == Source::Later && transaction.status.is_failed();
    let processed = match status {
        TransactionStatus::Success => processed(transaction, said, source),
        TransactionStatus::Pending if reopens => {
            let message = "the gateway says that it is pending, after it had failed";
            let settled = Settled::failed_with(TransactionStatus::Unknown, None, message);
            return Settled { reopens, ..settled };
        }
        TransactionStatus::Pending => Some(transaction.amount.unwrap_or_default()),
        TransactionStatus::InFlight
        | TransactionStatus::PaymentFailure
        | TransactionStatus::PluginFailure
        | TransactionStatus::Unknown => Some(AmountMinor::ZERO),
    };
    let Some(processed) = processed else {
        let message = "the gateway processed another amount or currency than was asked for";
        let settled =
            Settled::failed_with(TransactionStatus::Unknown, Some("AMOUNT_MISMATCH"), message);
        return Settled { reopens, ..settled };
    };
    let currency = transaction.currency;
    let text = |said: &Option<String>| said.as_deref().map(gateway_text);
    Settled {
        processed: Some((processed, currency)),
        error_code: text(&said.error_code),
        error_message: text(&said.error_message),
        references: (text(&said.first_reference), text(&said.second_reference)),
        ..Settled::failed(status)
    }
}

/// What a success processed: exactly what the call asked for, which is also meant where no amount is
/// said. Where the call is over and the gateway tells later, it may be anything up to what was asked
/// for first, because a completion for less may have reached it or not; never nothing, and never
/// more. `None` where it is anything else.
fn processed(
    transaction: &Transaction,
    said: &GatewayOutcome,
    source: Source,
) -> Option<AmountMinor> {
    // A void moves nothing, whatever the gateway echoes.
    let Some(most) = transaction.amount else { return Some(AmountMinor::ZERO) };
    if said.currency.is_some() && said.currency != transaction.currency {
        return None;
    }
    let in_flight = transaction.status == TransactionStatus::InFlight;
    let called = if in_flight { transaction.processed_amount } else { transaction.called_amount };
    let asked = called.unwrap_or(most);
    let amount = said.amount.unwrap_or(asked);
    let may_differ = source == Source::Later && !in_flight;
    let fits = amount == asked || (may_differ && amount <= most);
    (fits && amount > AmountMinor::ZERO).then_some(amount)
}

/// Writes an outcome into the transaction and its payment, posts what moved, says what happened.
pub(super) fn settle(
    file: &mut PaymentFile,
    id: TransactionId,
    settled: Settled,
    cx: &mut Context,
) {
    let at = file.transactions.iter().position(|tx| tx.id == id).expect("of this payment");
    let transaction = &mut file.transactions[at];
    let before = before(transaction, cx);
    if transaction.status == TransactionStatus::Success {
        ledger::reverse(&file.payment, transaction, cx);
    }
    if transaction.status == TransactionStatus::InFlight && !settled.unsent {
        let called = transaction.processed_amount;
        transaction.called_amount =
            called.filter(|called| transaction.amount.is_some_and(|asked| asked != *called));
    }
    transaction.status = settled.status;
    let (processed, currency) =
        settled.processed.unwrap_or((AmountMinor::ZERO, transaction.currency));
    transaction.processed_amount = Some(processed);
    transaction.processed_currency = currency;
    transaction.gateway_error_code = settled.error_code;
    transaction.gateway_error_message = settled.error_message;
    let (first, second) = settled.references;
    transaction.first_reference = first.or(transaction.first_reference.take());
    transaction.second_reference = second.or(transaction.second_reference.take());
    transaction.heard_at = settled.heard_at.or(transaction.heard_at);
    transaction.revision = transaction.revision.next(cx.seq);
    if transaction.status == TransactionStatus::Success {
        ledger::post(&file.payment, transaction, cx);
    }
    if before.is_some_and(|it| it.status.is_failed()) && !settled.status.is_failed() {
        transaction.overruled = true;
        if let Some(key) = &transaction.external_key {
            // Another payment may have claimed the key since: it is taken by what succeeded or may.
            let claim = ClaimKey::new(cx.tenant, ClaimKind::Transaction, key);
            cx.claim(claim, file.payment.id.uuid(), Some(file.payment.account_id));
        }
    }
    cx.event(event(file, at, before));
    let state = PaymentState { operation: file.transactions[at].kind, status: settled.status };
    if state.operation.is_initial() {
        set_route_of_payment(file);
    }
    let payment = &mut file.payment;
    payment.state = state;
    payment.last_success = last_success(&file.transactions);
    payment.amounts = Amounts::of(&file.transactions);
    payment.updated_at = cx.now;
    payment.revision = payment.revision.next(cx.seq);
}

/// What a transaction was in its event before.
#[derive(Clone, Copy)]
struct Before {
    status: TransactionStatus,
    amount: AmountMinor,
}

impl Before {
    /// Only what is pending is put in flight again: by its completion.
    const PENDING: Self = Self { status: TransactionStatus::Pending, amount: AmountMinor::ZERO };
}

/// What the transaction was before this command; `None` where this command makes it.
fn before(transaction: &Transaction, cx: &Context) -> Option<Before> {
    if transaction.revision.seq == cx.seq {
        // A completion that settles at once put it in flight a moment ago.
        return transaction.revision.previous.map(|_| Before::PENDING);
    }
    let status = transaction.status;
    let succeeded = status == TransactionStatus::Success;
    let processed = transaction.processed_amount.filter(|_| succeeded);
    Some(Before { status, amount: processed.unwrap_or_default() })
}

fn event(file: &PaymentFile, at: usize, before: Option<Before>) -> Event {
    let transaction = &file.transactions[at];
    Event::TransactionChanged {
        account: file.payment.account_id,
        payment: file.payment.id,
        transaction: transaction.id,
        kind: transaction.kind,
        before: before.map(|it| it.status),
        before_amount: before.map_or(AmountMinor::ZERO, |it| it.amount),
        opens_payment: before.is_none() && file.transactions.len() == 1,
        status: transaction.status,
        gateway: transaction.gateway.clone(),
        amount: transaction.processed_amount.unwrap_or_default(),
        currency: transaction.currency,
        payment_currency: file.payment.currency,
        effective_at: transaction.effective_at,
    }
}

/// Hands the payment and its changed transaction to the commit.
pub(super) fn write(file: PaymentFile, id: TransactionId, cx: &mut Context) {
    let PaymentFile { payment, transactions } = file;
    let changed = transactions.into_iter().find(|tx| tx.id == id).expect("of this payment");
    cx.change(PaymentChange::Payment(payment));
    cx.change(PaymentChange::Transaction(changed));
}

/// What a command brings about an outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// An outcome: the gateway's, an operator's, or that the call was not sent.
    Outcome,
    /// No outcome: no answer, no record, or a record that is undecided.
    None,
}

/// Ends the waiting for an outcome that is known, or plans the next question. That the gateway has no
/// record of a transaction ends the doubt, and is asked again on the same schedule: a process or a network
/// that stood still may deliver what was believed lost.
pub(super) fn close_or_ask(
    transaction: &Transaction,
    (outstanding, evidence): (Option<Outstanding>, Evidence),
    reply: &Reply,
    cx: &mut Context,
) {
    let Some(mut outstanding) = outstanding else { return };
    let believed_lost =
        transaction.status == TransactionStatus::PluginFailure && evidence == Evidence::None;
    let delays = match transaction.status {
        TransactionStatus::Unknown | TransactionStatus::InFlight => &cx.settings.unknown_delays_us,
        TransactionStatus::Pending => &cx.settings.pending_delays_us,
        TransactionStatus::PluginFailure if believed_lost => &cx.settings.unknown_delays_us,
        TransactionStatus::Success
        | TransactionStatus::PaymentFailure
        | TransactionStatus::PluginFailure => return close(outstanding, reply, cx),
    };
    // A schedule starts when the status does. Questions out of turn (a client that reads, a gateway
    // that tells unasked) use none of it up.
    let is_first = outstanding.asked == 0 && outstanding.ask_at.is_none();
    if transaction.revision.seq == cx.seq || is_first {
        outstanding.asked = 0;
    } else if outstanding.ask_at.is_none_or(|due| due > cx.now) {
        return;
    }
    let delay_us = delays.get(usize::try_from(outstanding.asked).unwrap_or(usize::MAX)).copied();
    if believed_lost && delay_us.is_none() {
        return close(outstanding, reply, cx);
    }
    outstanding.ask_at = delay_us.map(|delay_us| cx.now.plus_us(delay_us));
    outstanding.asked = outstanding.asked.saturating_add(1);
    if transaction.status == TransactionStatus::Pending || believed_lost {
        settle_reply(&outstanding, reply, cx);
        outstanding.reply = None;
    }
    cx.change(PaymentChange::Outstanding(outstanding));
}

/// Answers repetitions of a request whose success is found while its call may still run: after a crash nobody runs it,
/// and they would wait for its deadline. A failure waits, because the call may still move money.
fn answer_early(transaction: &Transaction, open: Outstanding, reply: &Reply, cx: &mut Context) {
    if transaction.status == TransactionStatus::Success && open.reply.is_some() {
        settle_reply(&open, reply, cx);
        cx.change(PaymentChange::Outstanding(Outstanding { reply: None, ..open }));
    }
}

/// Plans a question about what was settled and is said to have ended otherwise, booked or not: neither two answers
/// nor an answer and a call have an order that is sure, and the answer to a question from now on is the newest.
/// A gateway that never says the same twice is asked as often as about an unknown outcome.
fn ask_once_more(
    transaction: &Transaction,
    outstanding: Option<Outstanding>,
    reply: &Reply,
    cx: &mut Context,
) {
    let open = outstanding.unwrap_or_else(|| outcome_of(transaction, cx.real_now, cx));
    let asked = usize::try_from(open.asked).unwrap_or(usize::MAX);
    let Some(delay_us) = cx.settings.unknown_delays_us.get(asked).copied() else {
        return close(open, reply, cx);
    };
    settle_reply(&open, reply, cx);
    cx.change(PaymentChange::Outstanding(Outstanding {
        ask_at: Some(cx.now.plus_us(delay_us)),
        asked: open.asked.saturating_add(1),
        reply: None,
        next_action: None,
        ..open
    }));
}

fn close(outstanding: Outstanding, reply: &Reply, cx: &mut Context) {
    let transaction = outstanding.transaction_id;
    cx.change(PaymentChange::OutstandingClosed { transaction });
    settle_reply(&outstanding, reply, cx);
}

fn settle_reply(outstanding: &Outstanding, reply: &Reply, cx: &mut Context) {
    if let Some(key) = outstanding.reply {
        let expires_at = cx.now.plus_us(cx.settings.reply_keep_us);
        cx.change(Change::ReplySettled { key, reply: reply.clone(), expires_at });
    }
}

pub(super) fn payment_reply(file: &PaymentFile, transaction: &Transaction) -> Reply {
    let message = transaction.gateway_error_message.clone();
    let not_taken = transaction.status == TransactionStatus::PluginFailure
        && transaction.gateway_error_code.as_deref() == Some(AMOUNT_NOT_TAKEN);
    let result = match not_taken {
        true => PaymentResult::AmountNotTaken { message },
        false => PaymentResult::Status { status: transaction.status, message },
    };
    Reply::Payment(PaymentReply { payment: file.payment.id, transaction: transaction.id, result })
}
