//! How a transaction ends: at once, by the gateway's answer, or by asking it later.

use super::route::{last_success, set_route_of_payment};
use crate::change::PaymentChange;
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::effect::REFERENCES_MAX;
use crate::payment::routed::Tries;
use crate::payment::routing;
use crate::payment::rules::gateway_text::gateway_text;
use crate::payment::rules::ledger;
use crate::payment::{
    AMOUNT_NOT_TAKEN, Amounts, GatewayOutcome, GatewayStatus, Outstanding, PaymentFile,
    PaymentState, Transaction, TransactionStatus,
};
use crate::reply::Outcome;
use crate::state::State;
use crate::{
    Accepted, AmountMinor, Currency, Effect, Event, GatewayCall, GatewayReference, PaymentId,
    PaymentMethod, PaymentRejection, PaymentReply, PaymentResult, Properties, Rejection, Reply,
    Timestamp, TransactionChange, TransactionId,
};

/// The details of a request for the transaction that it put in flight.
pub(super) struct CallOptions<'a> {
    pub(super) amount: Option<AmountMinor>,
    pub(super) properties: &'a Properties,
    /// Whether it has an attempt, or may have one.
    pub(super) is_controlled: bool,
    /// The next action that its customer has already: a completion does not take the secret back.
    pub(super) next_action: Option<String>,
    /// Where it may go on after a decline.
    pub(super) tries: Option<Box<Tries>>,
}

impl<'a> CallOptions<'a> {
    /// Nothing of it is under way: no customer acts, and no other gateway is to be tried.
    pub(super) const fn of(
        amount: Option<AmountMinor>,
        properties: &'a Properties,
        is_controlled: bool,
    ) -> Self {
        Self { amount, properties, is_controlled, next_action: None, tries: None }
    }
}

/// The values to write for a transaction's outcome.
pub(super) struct Settled {
    pub(super) status: TransactionStatus,
    processed: Option<(AmountMinor, Option<Currency>)>,
    error_code: Option<String>,
    error_message: Option<String>,
    references: (Option<String>, Option<String>),
    /// The call never left: what the gateway was asked for is what it was before.
    pub(super) unsent: bool,
    /// It had failed, and now money may move after all.
    pub(super) reopens: bool,
    /// See [`Transaction::heard_at`].
    pub(super) heard_at: Option<Timestamp>,
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

    pub(super) fn failed_with(
        status: TransactionStatus,
        code: Option<&str>,
        message: &str,
    ) -> Self {
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
    asked: CallOptions,
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

/// The row that waits for the outcome of a transaction, from now on.
pub(super) fn outcome_of(
    transaction: &Transaction,
    deadline: Timestamp,
    cx: &Context,
) -> Outstanding {
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
pub(super) fn settle_at_once(
    mut file: PaymentFile,
    asked: CallOptions,
    cx: &mut Context,
) -> Accepted {
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

/// Whether what a gateway says changes what is written. A late success after a failure is booked,
/// a success that turns out to have failed is reversed; a success is never lost to "pending". What
/// opens a failure again is not decided here: see [`Settled::reopens`].
pub(super) const fn worth_booking(now: TransactionStatus, said: TransactionStatus) -> bool {
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
pub(super) enum Source {
    /// The answer to the call. It may be offered twice: again after a commit in doubt.
    CallReply,
    /// The answer to a question, or a report without one.
    Later,
}

/// A gateway's answer is untrusted: amounts and currencies are compared, texts are cut.
pub(super) fn read_outcome(
    transaction: &Transaction,
    said: &GatewayOutcome,
    source: Source,
) -> Settled {
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

/// The amount that a success processed: exactly the amount that the call asked for, which also holds where the
/// gateway reports none. Where the call is over and the gateway reports later, it may be any amount up to the one
/// that was asked for first, because a completion for less may have reached it or not; never zero, and never more.
/// `None` where it is anything else.
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

/// The status and the amount of a transaction in its event before.
#[derive(Clone, Copy)]
struct Before {
    status: TransactionStatus,
    amount: AmountMinor,
}

impl Before {
    /// Only what is pending is put in flight again: by its completion.
    const PENDING: Self = Self { status: TransactionStatus::Pending, amount: AmountMinor::ZERO };
}

/// The status and the amount before this command; `None` where this command makes the transaction.
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
    Event::TransactionChanged(TransactionChange {
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
    })
}

/// Hands the payment and its changed transaction to the commit.
pub(super) fn write(file: PaymentFile, id: TransactionId, cx: &mut Context) {
    let PaymentFile { payment, transactions } = file;
    let changed = transactions.into_iter().find(|tx| tx.id == id).expect("of this payment");
    cx.change(PaymentChange::Payment(payment));
    cx.change(PaymentChange::Transaction(changed));
}

/// The evidence of an outcome that a command brings.
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
pub(super) fn answer_early(
    transaction: &Transaction,
    open: Outstanding,
    reply: &Reply,
    cx: &mut Context,
) {
    if transaction.status == TransactionStatus::Success && open.reply.is_some() {
        settle_reply(&open, reply, cx);
        cx.change(PaymentChange::Outstanding(Outstanding { reply: None, ..open }));
    }
}

/// Plans a question about what was settled and is said to have ended otherwise, booked or not: neither two answers
/// nor an answer and a call have an order that is sure, and the answer to a question from now on is the newest.
/// A gateway that never says the same twice is asked as often as about an unknown outcome.
pub(super) fn ask_once_more(
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
        cx.settle_reply(key, reply.clone());
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
