//! The simulator: it charges each transaction once, and answers after the requested delay.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::account::payment_method::{MethodAnswer, MethodRequest};
use domain::payment::{
    GatewayAnswer, GatewayKnowledge, GatewayOutcome, GatewayStatus, MethodAtGateway,
};
use domain::{GatewayCall, GatewaySettings, PaymentId, TenantNo, TransactionId};
use engine::ports::{BoxFuture, Gateway, Inquiry};
use engine::{Clock, Deadline};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::journal::Journal;
use super::record::{Effect, Record, RecordKind, RecordedOutcome, Step, Subject};
use super::rules::{self, Behaviour, Response};
use crate::error::Error;

/// The capacity of the channel of notifications.
const NOTIFICATIONS_MAX: usize = 1_024;

/// How many of the last notifications a new subscriber receives again. A crash may have lost them,
/// and duplicates are harmless.
pub const REPLAYED_NOTIFICATIONS_MAX: u64 = 1_000;

/// The maximum number of transactions with scheduled steps.
const SCHEDULED_MAX: usize = 65_536;

/// How long a withheld answer outlasts the caller's timeout.
const WITHHELD_EXTRA: Duration = Duration::from_secs(1);

/// The message in the answer to a request that made the simulator panic.
const PANICKED: &str = "the simulator panicked";

/// The options of a simulator.
#[derive(Clone, Debug)]
pub struct Options {
    /// The timeout of a call.
    pub timeout: Duration,
    /// How long after a call's deadline an inquiry's "not found" is final.
    pub settle_after: Duration,
    /// Whether payment methods are attached before they are active.
    pub attaches_methods: bool,
    /// The source of the real time in the journal.
    pub clock: Clock,
}

impl Options {
    /// The defaults: 30 s and 5 s, and no payment method is attached.
    #[must_use]
    pub const fn new(clock: Clock) -> Self {
        let (timeout, settle_after) = (Duration::from_secs(30), Duration::from_secs(5));
        Self { timeout, settle_after, attaches_methods: false, clock }
    }

    pub(super) fn settings(&self) -> GatewaySettings {
        GatewaySettings {
            settles_at_once: false,
            needs_merchant_account: false,
            attaches_methods: self.attaches_methods,
            action_timeout_us: None,
            timeout_us: i64::try_from(self.timeout.as_micros()).unwrap_or(i64::MAX),
            settle_after_us: i64::try_from(self.settle_after.as_micros()).unwrap_or(i64::MAX),
        }
    }
}

/// A notification of the simulator. It is delivered at least once, in no particular order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub tenant: TenantNo,
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// The state of the transaction.
    pub knowledge: GatewayKnowledge,
}

impl From<Record> for Notification {
    fn from(record: Record) -> Self {
        Self {
            tenant: record.tenant,
            payment: record.payment,
            transaction: record.transaction,
            knowledge: GatewayKnowledge::Found(record.outcome.outcome()),
        }
    }
}

/// A simulator inside this process.
#[derive(Clone)]
pub struct Simulator {
    core: Arc<Core>,
}

pub(super) struct Core {
    pub(super) journal: Journal,
    pub(super) options: Options,
    /// The locked transactions and payment methods. Dropping the sender wakes the waiters.
    locked: Mutex<HashMap<Subject, watch::Sender<()>>>,
    scheduled: AtomicUsize,
}

impl Simulator {
    /// Opens the simulator's journal in `dir` and schedules its pending steps. Requires a tokio runtime.
    ///
    /// # Errors
    /// The journal cannot be used.
    pub fn open(dir: &Path, options: Options) -> Result<Self, Error> {
        let (journal, pending) = Journal::open(dir)?;
        let core = Arc::new(Core {
            journal,
            options,
            locked: Mutex::default(),
            scheduled: AtomicUsize::new(0),
        });
        for record in pending {
            core.schedule(&record);
        }
        Ok(Self { core })
    }

    /// New notifications, after the last thousand ones.
    #[must_use]
    pub fn notifications(&self) -> mpsc::Receiver<Notification> {
        let (sender, receiver) = mpsc::channel(NOTIFICATIONS_MAX);
        tokio::spawn(publish(Arc::clone(&self.core), sender));
        receiver
    }

    /// The real time of its journal.
    pub(super) fn clock(&self) -> &Clock {
        &self.core.options.clock
    }

    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.core.journal
    }

    /// Performs a call. With `attaches`, a payment method that is unknown is attached before it is charged.
    pub(super) async fn perform(&self, call: GatewayCall, attaches: bool) -> GatewayAnswer {
        // A task of its own, because a gateway completes a charge even if its caller times out.
        let charging = tokio::spawn(Arc::clone(&self.core).perform(call, attaches));
        charging.await.unwrap_or_else(|_| GatewayAnswer::Failed { message: PANICKED.to_owned() })
    }
}

impl Gateway for Simulator {
    fn settings(&self) -> GatewaySettings {
        self.core.options.settings()
    }

    fn method(&self, request: MethodRequest, _: Deadline) -> BoxFuture<'_, MethodAnswer> {
        // A task of its own, as for a call.
        let asking = tokio::spawn(Arc::clone(&self.core).ask(request));
        Box::pin(async move {
            asking.await.unwrap_or_else(|_| MethodAnswer::Unknown { message: PANICKED.to_owned() })
        })
    }

    fn call(&self, call: GatewayCall, _: Deadline) -> BoxFuture<'_, GatewayAnswer> {
        Box::pin(self.perform(call, self.core.options.attaches_methods))
    }

    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
        Box::pin(std::future::ready(self.core.state_of(&inquiry)))
    }
}

impl Core {
    async fn perform(self: Arc<Self>, call: GatewayCall, attaches: bool) -> GatewayAnswer {
        let started = Instant::now();
        let timeout = duration(call.timeout_us);
        let mut behaviour = rules::decide(&call);
        if behaviour.charge_after >= timeout {
            // The caller has timed out by then, and may already have inquired without success.
            behaviour.notifications = behaviour.notifications.max(1);
        }
        let (delay, response) = (behaviour.answer_after, behaviour.response.clone());
        let payment_method = match self.charge((&call, attaches), behaviour, started).await {
            Ok(attached) => attached,
            Err(answer) => return answer,
        };
        match respond((delay, response), started, timeout).await {
            GatewayAnswer::Outcome(outcome) => {
                GatewayAnswer::Outcome(GatewayOutcome { payment_method, ..outcome })
            }
            answer @ (GatewayAnswer::Failed { .. }
            | GatewayAnswer::Nothing
            | GatewayAnswer::TimedOut
            | GatewayAnswer::NotSent { .. }) => answer,
        }
    }

    /// Charges, and returns the payment method where that was attached for it.
    ///
    /// # Errors
    /// The answer, where this transaction was charged before, its payment method cannot be charged, or the charge
    /// failed.
    async fn charge(
        self: &Arc<Self>,
        (call, attaches): (&GatewayCall, bool),
        behaviour: Behaviour,
        started: Instant,
    ) -> Result<Option<MethodAtGateway>, GatewayAnswer> {
        let _lock = self.lock(Subject::Transaction(call.transaction)).await;
        let before = self.journal.latest(call.transaction).map_err(|error| failed(&error))?;
        let truth_status = behaviour.truth.as_ref().map(|truth| truth.status);
        let is_first = before.is_none();
        if let Some(before) = before {
            let continues = before.outcome.status == GatewayStatus::Pending
                && truth_status != Some(GatewayStatus::Pending);
            if !continues {
                return Err(self.repeat(call, before).await);
            }
        }
        let attached = match attaches && is_first {
            true => self.attach_for(call).await?,
            false => None,
        };
        if !behaviour.charge_after.is_zero() {
            sleep_until(started + behaviour.charge_after).await;
        }
        let Some(record) = self.record(call, behaviour) else { return Ok(attached) };
        if !record.steps.is_empty() && self.scheduled.load(Ordering::Relaxed) >= SCHEDULED_MAX {
            return Err(refused(
                "TOO_MANY_SCHEDULED",
                "too many transactions have scheduled steps",
            ));
        }
        self.journal.append(&record).await.map_err(|error| failed(&error))?;
        self.schedule(&record);
        Ok(attached)
    }

    /// Returns the recorded outcome. A call with another operation or amount is recorded as an attempt
    /// and has no effect.
    async fn repeat(&self, call: &GatewayCall, before: Record) -> GatewayAnswer {
        let is_repeated = before.operation == call.operation
            && before.requested_amount == call.amount
            && before.requested_currency == call.currency;
        if !is_repeated {
            let attempt = Record {
                at: self.options.clock.real_now(),
                kind: RecordKind::Attempt,
                effect: Effect::Nothing,
                operation: call.operation,
                requested_amount: call.amount,
                requested_currency: call.currency,
                notifications: 0,
                steps: vec![],
                ..before.clone()
            };
            if let Err(error) = self.journal.append(&attempt).await {
                return failed(&error);
            }
        }
        GatewayAnswer::Outcome(before.outcome.outcome())
    }

    /// The record of a call; `None` if the gateway does not process the request.
    fn record(&self, call: &GatewayCall, behaviour: Behaviour) -> Option<Record> {
        let truth = RecordedOutcome::new(&behaviour.truth?);
        let at = self.options.clock.real_now();
        let later = |after: Duration| at.plus_us(i64::try_from(after.as_micros()).unwrap_or(0));
        let (mut steps, mut last) = (Vec::new(), truth.clone());
        let mut late_after = Duration::ZERO;
        if let Some(late) = behaviour.late {
            last = RecordedOutcome::new(&late.outcome);
            late_after = late.after;
            let kind = RecordKind::Late;
            steps.push(Step { at: later(late.after), kind, outcome: last.clone() });
        }
        if let Some(after) = behaviour.reverse_after
            && last.status == GatewayStatus::Processed
        {
            let at = later(after.max(late_after));
            steps.push(Step { at, kind: RecordKind::Reversal, outcome: last.reversed() });
        }
        let effect = effect(GatewayStatus::Pending, truth.status);
        let notifications = behaviour.notifications;
        Some(Record { notifications, steps, ..Record::of_call(call, at, effect, truth) })
    }

    /// Schedules the record's next step.
    fn schedule(self: &Arc<Self>, record: &Record) {
        let Some(step) = record.steps.first().cloned() else { return };
        let (core, transaction) = (Arc::clone(self), record.transaction);
        self.scheduled.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let wait_us = step.at.0.saturating_sub(core.options.clock.real_now().0);
            sleep(Duration::from_micros(u64::try_from(wait_us).unwrap_or(0))).await;
            if let Err(error) = core.step(transaction, step).await {
                tracing::error!(error = %error, transaction.id = %transaction, "failed to record a late outcome; it is lost");
            }
            core.scheduled.fetch_sub(1, Ordering::Relaxed);
        });
    }

    async fn step(self: &Arc<Self>, transaction: TransactionId, step: Step) -> Result<(), Error> {
        let _lock = self.lock(Subject::Transaction(transaction)).await;
        let Some(latest) = self.journal.latest(transaction)? else { return Ok(()) };
        if latest.steps.first() != Some(&step) {
            return Ok(()); // Another call has changed the transaction in the meantime.
        }
        let record = Record {
            at: self.options.clock.real_now(),
            kind: step.kind,
            effect: effect(latest.outcome.status, step.outcome.status),
            outcome: step.outcome,
            notifications: latest.notifications.max(1),
            steps: latest.steps[1..].to_vec(),
            ..latest
        };
        self.journal.append(&record).await?;
        self.schedule(&record);
        Ok(())
    }

    fn state_of(&self, inquiry: &Inquiry) -> GatewayKnowledge {
        match self.journal.latest(inquiry.transaction) {
            Ok(Some(record))
                if record.tenant == inquiry.tenant && record.payment == inquiry.payment =>
            {
                GatewayKnowledge::Found(record.outcome.outcome())
            }
            Ok(_) => GatewayKnowledge::NotFound,
            Err(error) => {
                tracing::error!(error = %error, "the simulator's journal cannot be read");
                GatewayKnowledge::Unreachable
            }
        }
    }

    /// Waits until no other task changes this transaction or payment method.
    pub(super) async fn lock(&self, subject: Subject) -> Lock<'_> {
        loop {
            let other = {
                let mut locked = self.locked();
                match locked.get(&subject) {
                    Some(other) => other.subscribe(),
                    None => {
                        locked.insert(subject, watch::Sender::new(()));
                        return Lock { core: self, subject };
                    }
                }
            };
            let mut other = other;
            // The sender never sends; the wait ends when it is dropped.
            drop(other.changed().await);
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Subject, watch::Sender<()>>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The exclusive right to change a transaction or a payment method.
pub(super) struct Lock<'a> {
    core: &'a Core,
    subject: Subject,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.core.locked().remove(&self.subject);
    }
}

/// Waits for the delay of a response, and returns the answer.
pub(super) async fn respond(
    (delay, response): (Duration, Response),
    started: Instant,
    timeout: Duration,
) -> GatewayAnswer {
    if !delay.is_zero() {
        sleep_until(started + delay).await;
    }
    match response {
        Response::Send(answer) => answer,
        Response::Withhold => {
            sleep_until(started + timeout + WITHHELD_EXTRA).await;
            GatewayAnswer::TimedOut
        }
    }
}

/// A timeout of a request; none where it is negative.
pub(super) fn duration(timeout_us: i64) -> Duration {
    Duration::from_micros(u64::try_from(timeout_us).unwrap_or(0))
}

/// The effect of a transaction's change of status on the money.
fn effect(before: GatewayStatus, after: GatewayStatus) -> Effect {
    let (was, is) = (before == GatewayStatus::Processed, after == GatewayStatus::Processed);
    match (was, is) {
        (false, true) => Effect::Charged,
        (true, false) => Effect::Reversed,
        (false, false) | (true, true) => Effect::Nothing,
    }
}

pub(super) fn refused(code: &str, message: &str) -> GatewayAnswer {
    GatewayAnswer::Outcome(GatewayOutcome {
        error_code: Some(code.to_owned()),
        error_message: Some(message.to_owned()),
        ..GatewayOutcome::new(GatewayStatus::Canceled)
    })
}

/// A full disk certainly prevents the charge. After any other error the outcome is unknown.
pub(super) fn failed(error: &Error) -> GatewayAnswer {
    match error {
        Error::JournalFull => refused("JOURNAL_FULL", "the simulator's disk is full"),
        Error::Journal { .. }
        | Error::JournalInUse { .. }
        | Error::JournalCorrupt { .. }
        | Error::JournalBroken
        | Error::Url { .. }
        | Error::Listen { .. }
        | Error::Remote(_) => GatewayAnswer::Failed { message: error.to_string() },
    }
}

/// Sends the journal's notifications in order as they become durable.
async fn publish(core: Arc<Core>, sender: mpsc::Sender<Notification>) {
    let mut number = core.journal.notification_count();
    let mut sent = number.borrow_and_update().saturating_sub(REPLAYED_NOTIFICATIONS_MAX);
    loop {
        let records = match core.journal.notifications_after(sent, NOTIFICATIONS_MAX) {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(error = %error, "the simulator's notifications cannot be read");
                return;
            }
        };
        let is_empty = records.is_empty();
        for record in records {
            if sender.send(record.into()).await.is_err() {
                return;
            }
            sent += 1;
        }
        if is_empty {
            tokio::select! {
                grown = number.changed() => if grown.is_err() { return },
                () = sender.closed() => return,
            }
        }
    }
}
