//! The simulator itself: charges once per transaction, answers when it is time, and remembers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::payment::{GatewayAnswer, GatewayKnowledge, GatewayOutcome, GatewayStatus};
use domain::{GatewayCall, GatewaySettings, PaymentId, TenantNo, TransactionId};
use engine::Clock;
use engine::ports::{BoxFuture, Gateway, Inquiry};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::journal::Journal;
use super::record::{Effect, Record, RecordKind, Recorded, Step};
use super::rules::{self, Behaviour, Saying};
use crate::Error;

/// How many notifications wait to be taken; more wait in the journal.
const NOTIFICATIONS_MAX: usize = 1_024;

/// How many notifications are told again to who does not say what was told already: they may have
/// been lost with a process. Telling twice does no harm.
pub const NOTIFICATIONS_AGAIN: u64 = 1_000;

/// How many transactions may have something planned for later.
const PLANNED_MAX: usize = 65_536;

/// How much longer than a caller waits the simulator says nothing.
const SILENCE_LONGER: Duration = Duration::from_secs(1);

/// How a simulator is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a call may take.
    pub timeout: Duration,
    /// How long after a call's deadline "not found" is final.
    pub settle_after: Duration,
    /// Its real time stamps the journal.
    pub clock: Clock,
}

impl Options {
    /// The defaults: 30 s and 5 s.
    #[must_use]
    pub const fn new(clock: Clock) -> Self {
        let (timeout, settle_after) = (Duration::from_secs(30), Duration::from_secs(5));
        Self { timeout, settle_after, clock }
    }

    pub(super) fn settings(&self) -> GatewaySettings {
        GatewaySettings {
            settles_at_once: false,
            timeout_us: i64::try_from(self.timeout.as_micros()).unwrap_or(i64::MAX),
            settle_after_us: i64::try_from(self.settle_after.as_micros()).unwrap_or(i64::MAX),
        }
    }
}

/// What the simulator tells unasked. At least once, in no particular order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Whose.
    pub tenant: TenantNo,
    /// The payment.
    pub payment: PaymentId,
    /// The transaction.
    pub transaction: TransactionId,
    /// Where it stands.
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

/// The simulator, inside this process.
#[derive(Clone)]
pub struct Simulator {
    core: Arc<Core>,
}

struct Core {
    journal: Journal,
    options: Options,
    /// Transactions that are being charged right now; dropping the sender wakes who waits.
    running: Mutex<HashMap<TransactionId, watch::Sender<()>>>,
    planned: AtomicUsize,
}

impl Simulator {
    /// Opens the simulator's journal in `dir` and takes up what was planned. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`Error`] where the journal cannot be used.
    pub fn open(dir: &Path, options: Options) -> Result<Self, Error> {
        let (journal, planned) = Journal::open(dir)?;
        let core = Arc::new(Core {
            journal,
            options,
            running: Mutex::default(),
            planned: AtomicUsize::new(0),
        });
        for record in planned {
            core.plan(&record);
        }
        Ok(Self { core })
    }

    /// What it tells unasked, and the last thousand that it told before: they may be lost.
    #[must_use]
    pub fn notifications(&self) -> mpsc::Receiver<Notification> {
        let (sender, receiver) = mpsc::channel(NOTIFICATIONS_MAX);
        tokio::spawn(tell(Arc::clone(&self.core), sender));
        receiver
    }

    /// Its journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.core.journal
    }
}

impl Gateway for Simulator {
    fn settings(&self) -> GatewaySettings {
        self.core.options.settings()
    }

    fn call(&self, call: GatewayCall) -> BoxFuture<'_, GatewayAnswer> {
        // A task of its own: a gateway goes on with a charge when its caller gives up.
        let charging = tokio::spawn(Arc::clone(&self.core).perform(call));
        Box::pin(async move {
            charging.await.unwrap_or_else(|_| GatewayAnswer::Failed {
                message: "the simulator broke down".to_owned(),
            })
        })
    }

    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
        Box::pin(std::future::ready(self.core.known(&inquiry)))
    }
}

impl Core {
    async fn perform(self: Arc<Self>, call: GatewayCall) -> GatewayAnswer {
        let started = Instant::now();
        let timeout = Duration::from_micros(u64::try_from(call.timeout_us).unwrap_or(0));
        let mut behaviour = rules::decide(&call);
        if behaviour.charge_after >= timeout {
            // The caller will have given up, and perhaps asked in vain.
            behaviour.notices = behaviour.notices.max(1);
        }
        let (delay, said) = (behaviour.answer_after, behaviour.answer.clone());
        if let Some(answer) = self.charge(&call, behaviour, started).await {
            return answer;
        }
        if !delay.is_zero() {
            sleep_until(started + delay).await;
        }
        match said {
            Saying::Answer(answer) => answer,
            Saying::Silence => {
                sleep_until(started + timeout + SILENCE_LONGER).await;
                GatewayAnswer::TimedOut
            }
        }
    }

    /// Charges, unless this transaction was charged before; then it returns the answer.
    async fn charge(
        self: &Arc<Self>,
        call: &GatewayCall,
        behaviour: Behaviour,
        started: Instant,
    ) -> Option<GatewayAnswer> {
        let _running = self.begin(call.transaction).await;
        let before = match self.journal.latest(call.transaction) {
            Ok(before) => before,
            Err(error) => return Some(failed(&error)),
        };
        let truth_status = behaviour.truth.as_ref().map(|truth| truth.status);
        if let Some(before) = before {
            let goes_on = before.outcome.status == GatewayStatus::Pending
                && truth_status != Some(GatewayStatus::Pending);
            if !goes_on {
                return Some(self.repeat(call, before).await);
            }
        }
        if !behaviour.charge_after.is_zero() {
            sleep_until(started + behaviour.charge_after).await;
        }
        let record = self.record(call, behaviour)?;
        if !record.steps.is_empty() && self.planned.load(Ordering::Relaxed) >= PLANNED_MAX {
            return Some(refused("TOO_MANY_PLANS", "too much is planned for later already"));
        }
        match self.journal.append(&record).await {
            Ok(()) => {
                self.plan(&record);
                None
            }
            Err(error) => Some(failed(&error)),
        }
    }

    /// Answers as before. What asks for something else is written down and changes nothing.
    async fn repeat(&self, call: &GatewayCall, before: Record) -> GatewayAnswer {
        let asks_the_same = before.operation == call.operation
            && before.asked == call.amount
            && before.asked_currency == call.currency;
        if !asks_the_same {
            let attempt = Record {
                at: self.options.clock.real_now(),
                kind: RecordKind::Attempt,
                effect: Effect::Nothing,
                operation: call.operation,
                asked: call.amount,
                asked_currency: call.currency,
                notices: 0,
                steps: vec![],
                ..before.clone()
            };
            if let Err(error) = self.journal.append(&attempt).await {
                return failed(&error);
            }
        }
        GatewayAnswer::Outcome(before.outcome.outcome())
    }

    /// The record of a call; `None` where the gateway never takes the request.
    fn record(&self, call: &GatewayCall, behaviour: Behaviour) -> Option<Record> {
        let truth = Recorded::of(&behaviour.truth?);
        let at = self.options.clock.real_now();
        let later = |after: Duration| at.plus_us(i64::try_from(after.as_micros()).unwrap_or(0));
        let (mut steps, mut last) = (Vec::new(), truth.clone());
        let mut late_after = Duration::ZERO;
        if let Some(late) = behaviour.late {
            last = Recorded::of(&late.outcome);
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
        Some(Record {
            at,
            kind: RecordKind::Call,
            effect: effect(GatewayStatus::Pending, truth.status),
            tenant: call.tenant,
            payment: call.payment,
            transaction: call.transaction,
            operation: call.operation,
            asked: call.amount,
            asked_currency: call.currency,
            outcome: truth,
            notices: behaviour.notices,
            steps,
        })
    }

    /// Does the record's next step when it is time.
    fn plan(self: &Arc<Self>, record: &Record) {
        let Some(step) = record.steps.first().cloned() else { return };
        let (core, transaction) = (Arc::clone(self), record.transaction);
        self.planned.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let wait_us = step.at.0.saturating_sub(core.options.clock.real_now().0);
            sleep(Duration::from_micros(u64::try_from(wait_us).unwrap_or(0))).await;
            if let Err(error) = core.step(transaction, step).await {
                tracing::error!(error = %error, transaction.id = %transaction, "a late outcome is lost");
            }
            core.planned.fetch_sub(1, Ordering::Relaxed);
        });
    }

    async fn step(self: &Arc<Self>, transaction: TransactionId, step: Step) -> Result<(), Error> {
        let _running = self.begin(transaction).await;
        let Some(latest) = self.journal.latest(transaction)? else { return Ok(()) };
        if latest.steps.first() != Some(&step) {
            return Ok(()); // The transaction went another way in the meantime.
        }
        let record = Record {
            at: self.options.clock.real_now(),
            kind: step.kind,
            effect: effect(latest.outcome.status, step.outcome.status),
            outcome: step.outcome,
            notices: latest.notices.max(1),
            steps: latest.steps[1..].to_vec(),
            ..latest
        };
        self.journal.append(&record).await?;
        self.plan(&record);
        Ok(())
    }

    fn known(&self, inquiry: &Inquiry) -> GatewayKnowledge {
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

    /// Waits until nobody else charges this transaction.
    async fn begin(&self, transaction: TransactionId) -> Charging<'_> {
        loop {
            let other = {
                let mut running = self.running();
                match running.get(&transaction) {
                    Some(other) => other.subscribe(),
                    None => {
                        running.insert(transaction, watch::Sender::new(()));
                        return Charging { core: self, transaction };
                    }
                }
            };
            let mut other = other;
            // The sender says nothing; it is dropped when the other has ended.
            drop(other.changed().await);
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<TransactionId, watch::Sender<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to charge a transaction, until it is dropped.
struct Charging<'a> {
    core: &'a Core,
    transaction: TransactionId,
}

impl Drop for Charging<'_> {
    fn drop(&mut self) {
        self.core.running().remove(&self.transaction);
    }
}

/// What it means for the money that a transaction goes from one status to another.
fn effect(before: GatewayStatus, after: GatewayStatus) -> Effect {
    let (was, is) = (before == GatewayStatus::Processed, after == GatewayStatus::Processed);
    match (was, is) {
        (false, true) => Effect::Charged,
        (true, false) => Effect::Reversed,
        (false, false) | (true, true) => Effect::Nothing,
    }
}

fn refused(code: &str, message: &str) -> GatewayAnswer {
    GatewayAnswer::Outcome(GatewayOutcome {
        status: GatewayStatus::Canceled,
        amount: None,
        currency: None,
        error_code: Some(code.to_owned()),
        error_message: Some(message.to_owned()),
        first_reference: None,
        second_reference: None,
    })
}

/// With a full disk nothing was charged, and that is known; everything else is not.
fn failed(error: &Error) -> GatewayAnswer {
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

/// Hands the journal's notifications over, one after another, as they become durable.
async fn tell(core: Arc<Core>, sender: mpsc::Sender<Notification>) {
    let mut number = core.journal.notices();
    let mut told = number.borrow_and_update().saturating_sub(NOTIFICATIONS_AGAIN);
    loop {
        let records = match core.journal.notices_after(told, NOTIFICATIONS_MAX) {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(error = %error, "the simulator's notifications cannot be read");
                return;
            }
        };
        let is_all = records.is_empty();
        for record in records {
            if sender.send(record.into()).await.is_err() {
                return;
            }
            told += 1;
        }
        if is_all {
            tokio::select! {
                grown = number.changed() => if grown.is_err() { return },
                () = sender.closed() => return,
            }
        }
    }
}
