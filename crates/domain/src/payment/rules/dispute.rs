//! Disputes: recorded as the gateway says, and booked as far as the payment goes: what was withdrawn is charged back,
//! what was reinstated is reversed, and what is beyond is excess, on an account of the ledger's own.
//!
//! The amount to book is the difference between the total that the gateway reports and the total that is booked so
//! far, so that the same report may arrive twice, late, and in any order.

use super::follow_up::destination_of;
use super::initiate::append;
use super::outcome::{self, Settled};
use super::route::routes;
use crate::change::{PaymentChange, TimerChange};
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::payment::dispute::{
    DISPUTES_PER_PAYMENT_MAX, Dispute, DisputeBooked, DisputeCase, DisputeSaid, DisputeTimer,
    RecordDispute, WARN_BEFORE_US,
};
use crate::payment::rules::gateway_text::gateway_text;
use crate::payment::rules::ledger;
use crate::payment::{PaymentFile, Transaction, TransactionStatus, TransactionType};
use crate::reply::Outcome;
use crate::state::State;
use crate::timer::rules as timer;
use crate::timer::{TimerKey, TimerKind};
use crate::{
    Accepted, AmountMinor, DisputeId, Event, PaymentRejection, Rejection, Reply, Revision,
    Timestamp, TransactionId,
};

/// How long a booking waits for another operation of its payment: as long as the dispute has not changed, within
/// these bounds.
const WAITING_US: (i64, i64) = (60 * Timestamp::SECOND_US, 3_600 * Timestamp::SECOND_US);

const fn key_of(kind: TimerKind, dispute: DisputeId) -> TimerKey {
    TimerKey { kind, object: dispute.uuid() }
}

fn claim_of(case: &DisputeCase, cx: &Context) -> ClaimKey {
    ClaimKey::new(cx.tenant, ClaimKind::Dispute, &case.claimed())
}

/// Records what a gateway says of a dispute, and books what is not booked.
pub(crate) fn record(state: &State, it: &RecordDispute, cx: &mut Context) -> Outcome {
    let (file, disputed) = outcome::transaction_of(state, (it.payment, it.transaction), cx)?;
    // No gateway takes back what went through another one.
    if disputed.gateway != it.case.gateway {
        let transaction = it.transaction.to_string();
        return Err(PaymentRejection::TransactionNotFound { transaction }.into());
    }
    let before = state.dispute(cx.tenant, &it.case);
    let mut dispute = match before {
        Some(known) if known.payment_id == it.payment => said_now(known, it, cx),
        Some(_) => return Err(of_another_payment()),
        None => first_said(state, (file, disputed), it, cx)?,
    };
    book(state, (file, &mut dispute), cx);
    write(before, dispute, cx);
    Ok(Accepted::now(Reply::Done))
}

fn of_another_payment() -> Rejection {
    Rejection::invalid("case", "is of another payment")
}

fn first_said(
    state: &State,
    (file, disputed): (&PaymentFile, &Transaction),
    it: &RecordDispute,
    cx: &mut Context,
) -> Result<Dispute, Rejection> {
    if state.claim(&claim_of(&it.case, cx)).is_some() {
        return Err(of_another_payment());
    }
    if state.dispute_count(cx.tenant, file.payment.id) >= DISPUTES_PER_PAYMENT_MAX {
        let reason = "has as many disputes as a payment may have";
        return Err(Rejection::invalid("payment", reason));
    }
    let id: DisputeId = cx.mint();
    cx.claim(claim_of(&it.case, cx), id.uuid(), Some(file.payment.account_id));
    let DisputeSaid { status, currency, evidence_due_by, .. } = it.said;
    let nothing = Dispute {
        tenant: cx.tenant,
        id,
        account_id: file.payment.account_id,
        payment_id: file.payment.id,
        transaction_id: disputed.id,
        case: it.case.clone(),
        status,
        reason: None,
        amount: AmountMinor::ZERO,
        currency,
        evidence_due_by,
        warned_of: None,
        withdrawn: AmountMinor::ZERO,
        reinstated: AmountMinor::ZERO,
        booked: DisputeBooked::default(),
        booking_at: None,
        warning_at: None,
        asked_at: it.asked_at,
        created_at: cx.now,
        updated_at: cx.now,
        revision: Revision::first(cx.seq),
    };
    Ok(said_now(&nothing, it, cx))
}

/// The dispute with what the gateway says. What moved in all only grows; the rest is that of the latest question.
fn said_now(known: &Dispute, it: &RecordDispute, cx: &Context) -> Dispute {
    let mut dispute = known.clone();
    let said = &it.said;
    if !cx.is_outdated(it.asked_at, known.asked_at) {
        let latest = Dispute {
            status: said.status,
            reason: said.reason.as_deref().map(gateway_text),
            amount: said.amount.max(AmountMinor::ZERO),
            evidence_due_by: said.evidence_due_by,
            ..known.clone()
        };
        if latest != *known {
            dispute = Dispute { asked_at: it.asked_at, ..latest };
        }
    }
    // A currency is that of the money: one that changes is not believed. A warning moves nothing.
    if said.currency == known.currency && !said.status.is_warning() {
        dispute.withdrawn = known.withdrawn.max(said.withdrawn);
        dispute.reinstated = known.reinstated.max(said.reinstated);
    }
    dispute
}

/// Books what had to wait for another operation of the payment.
pub(crate) fn book_waiting(state: &State, it: &DisputeTimer, cx: &mut Context) -> Outcome {
    if let Some((file, known)) = due(state, (TimerKind::DisputeBooking, it), cx) {
        let mut dispute = Dispute { booking_at: None, ..known.clone() };
        book(state, (file, &mut dispute), cx);
        write(Some(known), dispute, cx);
    }
    Ok(Accepted::now(Reply::Done))
}

/// Warns that evidence is due in a few days.
pub(crate) fn warn(state: &State, it: &DisputeTimer, cx: &mut Context) -> Outcome {
    if let Some((_, known)) = due(state, (TimerKind::DisputeEvidence, it), cx) {
        let awaited = known.evidence_due_by.filter(|_| known.status.needs_response());
        // A server that stood still may find that it is too late.
        let in_time = awaited.filter(|due_by| *due_by > cx.now);
        if let Some(due_by) = in_time {
            let (account, payment, dispute) = (known.account_id, known.payment_id, known.id);
            cx.event(Event::DisputeEvidenceDue { account, payment, dispute, due_by });
        }
        let warned_of = in_time.or(known.warned_of);
        write(Some(known), Dispute { warned_of, warning_at: None, ..known.clone() }, cx);
    }
    Ok(Accepted::now(Reply::Done))
}

/// The payment and the dispute of a timer, where the timer is set for that time.
fn due<'s>(
    state: &'s State,
    (kind, it): (TimerKind, &DisputeTimer),
    cx: &mut Context,
) -> Option<(&'s PaymentFile, &'s Dispute)> {
    timer::take(state, (key_of(kind, it.dispute), it.due), cx).then_some(())?;
    let dispute = state.dispute(cx.tenant, &it.case).filter(|known| known.id == it.dispute)?;
    Some((state.payment(cx.tenant, it.payment)?, dispute))
}

/// Books what is not booked, or has it wait while another operation of the payment is under way: it may take, or
/// leave, what could be charged back.
fn book(state: &State, (file, dispute): (&PaymentFile, &mut Dispute), cx: &mut Context) {
    let withdrawn = dispute.withdrawn.minus_floor_zero(dispute.booked.withdrawn());
    let reinstated = dispute.reinstated.minus_floor_zero(dispute.booked.reinstated());
    if (withdrawn, reinstated) == (AmountMinor::ZERO, AmountMinor::ZERO) {
        dispute.booking_at = None;
        return;
    }
    if file.transactions.iter().any(|it| it.status.is_open()) {
        let wait_us = dispute.updated_at.until_us(cx.now).clamp(WAITING_US.0, WAITING_US.1);
        dispute.booking_at = Some(cx.now.plus_us(wait_us));
        return;
    }
    dispute.booking_at = None;
    let mut booking = Booking { state, file: file.clone(), made: vec![] };
    booking.withdraw(dispute, withdrawn, cx);
    booking.reinstate(dispute, reinstated, cx);
    booking.write(cx);
}

/// A payment whose disputed money is booked.
struct Booking<'s> {
    state: &'s State,
    file: PaymentFile,
    /// The transactions that were made.
    made: Vec<TransactionId>,
}

impl Booking<'_> {
    fn withdraw(&mut self, dispute: &mut Dispute, amount: AmountMinor, cx: &mut Context) {
        if amount == AmountMinor::ZERO {
            return;
        }
        let (key, left) = self.to_charge_back(dispute, cx);
        let charged_back = amount.min(left);
        if let Some(key) = key.filter(|_| charged_back > AmountMinor::ZERO) {
            let of = self.disputed(dispute).clone();
            self.settle((TransactionType::Chargeback, key, charged_back), &of, cx);
            add(&mut dispute.booked.charged_back, charged_back);
        }
        let excess = amount.minus_floor_zero(charged_back);
        if excess > AmountMinor::ZERO {
            ledger::post_excess(&self.file.payment, dispute, excess, cx);
            add(&mut dispute.booked.excess, excess);
            cx.event(Event::DisputeExcess {
                account: dispute.account_id,
                payment: dispute.payment_id,
                dispute: dispute.id,
                amount: excess,
                currency: dispute.currency,
            });
        }
    }

    /// How much can be charged back, and under which key. Nothing without a key that is free, or without room for a
    /// further transaction.
    fn to_charge_back(&self, dispute: &Dispute, cx: &Context) -> (Option<String>, AmountMinor) {
        let is_free = |key: &String| {
            let claim = ClaimKey::new(cx.tenant, ClaimKind::Transaction, key);
            self.state.claim(&claim).is_none()
        };
        let key = dispute.case.transaction_keys().find(is_free);
        let is_same_money = dispute.currency == self.file.payment.currency;
        let key = key.filter(|_| is_same_money && self.has_room(cx));
        let routes = routes(&self.file);
        let disputed = self.disputed(dispute);
        let route = routes.iter().find(|it| it.last.has_same_route(disputed));
        let left = route.map(|it| it.left(TransactionType::Chargeback)).filter(|_| key.is_some());
        (key, left.unwrap_or_default())
    }

    fn has_room(&self, cx: &Context) -> bool {
        self.file.transactions.len() < cx.settings.transactions_per_payment_max
    }

    fn disputed(&self, dispute: &Dispute) -> &Transaction {
        self.file.transaction(dispute.transaction_id).expect("it was there when it was disputed")
    }

    /// Books a reinstated amount: it ends the excess first, then the case's chargebacks, the latest first. The rest
    /// is excess too, on the other side.
    fn reinstate(&mut self, dispute: &mut Dispute, amount: AmountMinor, cx: &mut Context) {
        let excess = dispute.booked.excess.minus_floor_zero(dispute.booked.excess_returned);
        let mut returned = excess.min(amount);
        let mut rest = amount.minus_floor_zero(returned);
        for key in dispute.case.transaction_keys().rev() {
            let reversed = self.open(&key).min(rest);
            if reversed > AmountMinor::ZERO && self.has_room(cx) {
                let worked = self.worked(&key, TransactionType::Chargeback);
                let of = worked.last().expect("something of it is open").clone();
                self.settle((TransactionType::ChargebackReversal, key, reversed), &of, cx);
                add(&mut dispute.booked.reversed, reversed);
                rest = rest.minus_floor_zero(reversed);
            }
        }
        add(&mut returned, rest);
        if returned > AmountMinor::ZERO {
            ledger::return_excess(&self.file.payment, dispute, returned, cx);
            add(&mut dispute.booked.excess_returned, returned);
        }
    }

    fn worked<'a>(
        &'a self,
        key: &'a str,
        kind: TransactionType,
    ) -> impl Iterator<Item = &'a Transaction> {
        let of_kind = self.file.named(key).filter(move |it| it.kind == kind);
        of_kind.filter(|it| it.status == TransactionStatus::Success)
    }

    /// The amount that was charged back under a key and not reversed.
    fn open(&self, key: &str) -> AmountMinor {
        let total = |kind| {
            self.worked(key, kind).fold(AmountMinor::ZERO, |mut sum, it| {
                add(&mut sum, it.processed_amount.unwrap_or_default());
                sum
            })
        };
        let reversed = total(TransactionType::ChargebackReversal);
        total(TransactionType::Chargeback).minus_floor_zero(reversed)
    }

    /// Adds a transaction that has settled: no gateway is called.
    fn settle(
        &mut self,
        (kind, key, amount): (TransactionType, String, AmountMinor),
        of: &Transaction,
        cx: &mut Context,
    ) {
        let amount = Some((amount, self.file.payment.currency));
        append(&mut self.file, (kind, Some(key)), destination_of(of), amount, cx);
        let transaction = self.file.transactions.last_mut().expect("it was appended");
        // What one commit makes is in the order of these times.
        let before = i64::try_from(self.made.len()).unwrap_or(i64::MAX);
        transaction.effective_at = cx.now.plus_us(before);
        let (id, settled) = (transaction.id, Settled::success(transaction));
        outcome::settle(&mut self.file, id, settled, cx);
        self.made.push(id);
    }

    fn write(self, cx: &mut Context) {
        if self.made.is_empty() {
            return;
        }
        let Self { file, made, .. } = self;
        cx.change(PaymentChange::Payment(file.payment));
        let made = file.transactions.into_iter().filter(|it| made.contains(&it.id));
        made.for_each(|it| cx.change(PaymentChange::Transaction(it)));
    }
}

/// Adds an amount to a sum. It fits: a sum here is part of a total that a gateway reports.
fn add(sum: &mut AmountMinor, amount: AmountMinor) {
    *sum = sum.checked_add(amount).unwrap_or(AmountMinor(i64::MAX));
}

/// Writes the dispute where it changed, with its timers, and reports it where others see the change.
fn write(before: Option<&Dispute>, mut dispute: Dispute, cx: &mut Context) {
    let due_by = dispute.evidence_due_by.filter(|it| {
        dispute.status.needs_response() && dispute.warned_of != Some(*it) && *it > cx.now
    });
    dispute.warning_at = due_by.map(|it| it.plus_us(-WARN_BEFORE_US).max(cx.now));
    if before == Some(&dispute) {
        return;
    }
    if let Some(known) = before {
        dispute.revision = known.revision.next(cx.seq);
    }
    let times = |it: &Dispute| (it.booking_at, it.warning_at);
    let (booking_before, warning_before) = before.map_or((None, None), times);
    let timers = [
        (TimerKind::DisputeBooking, booking_before, dispute.booking_at),
        (TimerKind::DisputeEvidence, warning_before, dispute.warning_at),
    ];
    for (kind, before, due) in timers {
        let (account, key) = (dispute.account_id, key_of(kind, dispute.id));
        match due {
            Some(due) if Some(due) != before => timer::set((key, account), due, cx),
            None if before.is_some() => cx.change(TimerChange::Cleared(key)),
            Some(_) | None => {}
        }
    }
    if before.is_none_or(|known| is_changed(known, &dispute)) {
        dispute.updated_at = cx.now;
        cx.event(changed(before, &dispute));
    }
    cx.change(PaymentChange::Dispute(Box::new(dispute)));
}

/// Whether anything else than its timers changed.
fn is_changed(before: &Dispute, now: &Dispute) -> bool {
    let timeless = |it: &Dispute| Dispute {
        warned_of: None,
        booking_at: None,
        warning_at: None,
        asked_at: now.asked_at,
        revision: now.revision,
        ..it.clone()
    };
    timeless(before) != timeless(now)
}

fn changed(before: Option<&Dispute>, it: &Dispute) -> Event {
    Event::DisputeChanged {
        account: it.account_id,
        payment: it.payment_id,
        transaction: it.transaction_id,
        dispute: it.id,
        case: it.case.clone(),
        before: before.map(|it| it.status),
        status: it.status,
        amount: it.amount,
        currency: it.currency,
        withdrawn: it.withdrawn,
        reinstated: it.reinstated,
    }
}
