//! The partition's thread: batches what comes in, processes it, and sends the answers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use domain::reply::AccountReply;
use domain::{
    Effect, EffectId, PaymentId, PaymentReply, PaymentResult, Reply, Timestamp, TransactionId,
};
use tokio::sync::{mpsc, oneshot};

use super::lanes::Lanes;
use super::outbox::{self, CallPermit, RETRY_AFTER, RETRY_AFTER_MAX};
use super::progress::ThreadProgress;
use super::{Engine, Message};
use crate::lane::Lane;
use crate::partition::{
    Answer, BATCH_COMMANDS_MAX, Changed, CommitOutcome, Partition, Performing, Processed, Times,
    Verdict, Work,
};
use crate::pending_batch::{PendingBatch, Waiter};
use crate::periodic::Backoff;
use crate::ports::Store;
use crate::{Reason, Unavailable};

/// How often a batch is processed again because other partitions took keys first.
const KEYS_TAKEN_MAX: usize = 64;

/// The partition's thread.
pub(super) struct Worker<S> {
    partition: Partition<S>,
    engine: Engine,
    /// Who waits for the outcome of which effect, with the answer to give where it is not known.
    outcome_waiters: HashMap<EffectId, (Answer, oneshot::Sender<Result<Answer, Unavailable>>)>,
    runtime: tokio::runtime::Handle,
    /// Set once it is not known whether queued commands were committed: the process that takes the
    /// partition over anew learns where to read on. Until then nothing that comes later is executed.
    lost_position: bool,
    /// Set while a batch is processed.
    progress: Arc<ThreadProgress>,
}

impl<S: Store> Worker<S> {
    /// A worker on the current tokio runtime.
    pub(super) fn new(partition: Partition<S>, engine: Engine) -> Self {
        let progress = engine.shared.options.progress.join();
        Self {
            partition,
            engine,
            outcome_waiters: HashMap::new(),
            runtime: tokio::runtime::Handle::current(),
            lost_position: false,
            progress,
        }
    }

    pub(super) fn run(mut self, mut messages: mpsc::UnboundedReceiver<Message>) {
        let mut received = Vec::with_capacity(BATCH_COMMANDS_MAX);
        let mut lanes = Lanes::default();
        let mut go_on = true;
        loop {
            if lanes.len() == 0
                && (!go_on || messages.blocking_recv_many(&mut received, BATCH_COMMANDS_MAX) == 0)
            {
                break;
            }
            // Where threads share a core, those with more commands go first, and the batch is larger: each
            // commit costs a sync, however little it writes. On a core of its own this returns at once.
            if lanes.len() + received.len() < BATCH_COMMANDS_MAX {
                std::thread::yield_now();
            }
            while let Ok(message) = messages.try_recv() {
                received.push(message);
            }
            for message in received.drain(..) {
                match message {
                    Message::Work(waiting) => lanes.push(waiting),
                    Message::Stop => go_on = false,
                }
            }
            let (mut batch, mut admitted) = (PendingBatch::default(), 0);
            let now = Instant::now();
            for waiting in lanes.next_batch() {
                admitted += usize::from(waiting.is_counted());
                batch.add(waiting.work, waiting.answer, (waiting.lane, waiting.position), now);
            }
            self.progress.begin(now);
            self.process_batch(batch);
            self.progress.end();
            lanes.note_time(now.elapsed());
            // Only now: until its calls have begun, a request must keep the core from stopping.
            self.engine.shared.waiting.fetch_sub(admitted, Ordering::Relaxed);
        }
        // Calls that still run: their outcome is not known.
        for (unknown, waiter) in self.outcome_waiters.into_values() {
            drop(waiter.send(Ok(unknown)));
        }
    }

    /// Processes a batch. One that a queue brought is not passed over: what cannot be committed now
    /// is tried again, until another process owns the partition or this one stops. One that the
    /// database refuses is processed by halves, in order and each with its own position in the queue,
    /// until the command that is to blame is alone.
    fn process_batch(&mut self, mut batch: PendingBatch) {
        if self.lost_position {
            batch = batch.refuse_queued();
        }
        if batch.works.is_empty() {
            return;
        }
        let read_on = batch.read_on();
        batch.works.extend(read_on.map(Work::ReadOn));
        let (mut backoff, mut keys_taken) = (Backoff::new(RETRY_AFTER, RETRY_AFTER_MAX), 0);
        let (processed, granted, began) = loop {
            // Before the commit: who takes the partition over counts from there too.
            let began = self.engine.clock().real_now();
            let (processed, granted) = self.process(&batch.works);
            let may_succeed_later = read_on.is_some() && !self.engine.is_stopping();
            match processed.commit {
                CommitOutcome::RowRefused => {
                    // The halves need them.
                    drop(granted);
                    let later = batch.split_off();
                    self.process_batch(batch);
                    return self.process_batch(later);
                }
                CommitOutcome::KeyTaken if keys_taken < KEYS_TAKEN_MAX => {
                    keys_taken += 1;
                    continue;
                }
                CommitOutcome::KeyTaken | CommitOutcome::NothingWritten if may_succeed_later => {}
                CommitOutcome::Committed
                | CommitOutcome::KeyTaken
                | CommitOutcome::NothingWritten
                | CommitOutcome::Lost => break (processed, granted, began),
            }
            std::thread::sleep(backoff.pause());
        };
        self.lost_position |= read_on.is_some() && !processed.is_committed();
        self.publish(&processed.changed);
        self.engine.shared.committed_purchases.put(processed.bought);
        self.engine
            .shared
            .head
            .send_if_modified(|head| std::mem::replace(head, processed.head) != processed.head);
        let mut unknown: HashMap<EffectId, Answer> = processed
            .calls
            .iter()
            .map(|it| (it.effect.id(), unknown_outcome(&it.effect)))
            .collect();
        let background = in_background(&batch.waiters, &processed.verdicts);
        for (performing, permit) in processed.calls.into_iter().zip(granted) {
            let lane = match background.contains(&performing.effect.id()) {
                true => Lane::BackgroundOutcome,
                false => Lane::Own,
            };
            self.perform((performing, lane), permit, began);
        }
        for (waiter, verdict) in batch.waiters.into_iter().zip(processed.verdicts) {
            self.answer(waiter, verdict, &mut unknown);
        }
    }

    /// Wakes those who follow the parts of the state that a batch changed.
    fn publish(&self, changed: &BTreeSet<Changed>) {
        let shared = &self.engine.shared;
        for changed in changed {
            match changed {
                Changed::Access => {
                    shared.access_generation.fetch_add(1, Ordering::AcqRel);
                }
                Changed::Flags => {
                    shared.options.flags.send_replace(());
                }
                Changed::Mails => {
                    shared.options.mails.send_replace(());
                }
                Changed::Entitlements => {
                    shared.options.entitlements.send_replace(());
                }
            }
        }
    }

    fn process(&mut self, works: &[Work]) -> (Processed, Vec<CallPermit>) {
        let started = Instant::now();
        let clock = self.engine.clock();
        let times = Times { now: clock.now(), real_now: clock.real_now() };
        let mut granted: Vec<CallPermit> = Vec::new();
        self.partition.stamp_health(self.engine.batch_health());
        let engine = &self.engine;
        let mut permit = |tenant, gateway: &str| {
            granted.push(engine.call_permit(tenant, gateway)?);
            Ok(())
        };
        let processed = self.partition.process(works, times, &mut permit);
        self.observe(works.len(), started, &processed);
        (processed, granted)
    }

    fn perform(&self, performing: (Performing, Lane), permit: CallPermit, began: Timestamp) {
        self.engine.shared.calls.begin(performing.0.effect.id());
        self.runtime.spawn(outbox::perform(self.engine.clone(), performing, permit, began));
    }

    /// Sends a work's answer to its waiter; a waiter that has gone away is no error.
    fn answer(
        &mut self,
        waiter: Waiter,
        verdict: Verdict,
        unknown: &mut HashMap<EffectId, Answer>,
    ) {
        match verdict {
            Verdict::Answered(_) if waiter.expired => {
                drop(waiter.answer.send(Err(Reason::Expired.into())));
            }
            Verdict::Answered(answer) => {
                if let Answer::Replied(reply) = &answer {
                    count_payment(reply);
                }
                let of_call = waiter.outcome_of.and_then(|id| self.outcome_waiters.remove(&id));
                if let Some((_, of_call)) = of_call {
                    drop(of_call.send(Ok(answer.clone())));
                }
                drop(waiter.answer.send(Ok(answer)));
            }
            Verdict::Waits(effect) => {
                let unknown =
                    unknown.remove(&effect).expect("a waiting command has called a gateway");
                let client = match waiter.outcome_of {
                    None => Some(waiter.answer),
                    // A decline that went on: who waits for the declined call waits for the next one.
                    Some(declined) => {
                        drop(waiter.answer.send(Ok(Answer::StillRunning)));
                        self.outcome_waiters.remove(&declined).map(|(_, client)| client)
                    }
                };
                if let Some(client) = client {
                    self.outcome_waiters.insert(effect, (unknown, client));
                }
            }
            Verdict::Unavailable(reason) => {
                metrics::counter!("faregate_refused_total", "reason" => reason.label())
                    .increment(1);
                // The outbox or the resolver commits this outcome later. Its waiter gets an unknown
                // outcome now, because a call was made.
                let of_call = waiter.outcome_of.and_then(|id| self.outcome_waiters.remove(&id));
                if let Some((unknown, of_call)) = of_call {
                    drop(of_call.send(Ok(unknown)));
                }
                drop(waiter.answer.send(Err(reason.into())));
            }
        }
    }

    fn observe(&self, count: usize, started: Instant, processed: &Processed) {
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        metrics::histogram!("faregate_batch_commands").record(count as f64);
        metrics::histogram!("faregate_commit_seconds", "ok" => if processed.is_committed() { "true" } else { "false" })
            .record(started.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        metrics::gauge!("faregate_queue_commands")
            .set(self.engine.shared.waiting.load(Ordering::Relaxed) as f64);
    }
}

/// The effects that were begun by works that nobody waits for.
fn in_background(waiters: &[Waiter], verdicts: &[Verdict]) -> HashSet<EffectId> {
    let of_waiter = |(waiter, verdict): (&Waiter, &Verdict)| match (waiter.lane, verdict) {
        (Lane::Background | Lane::BackgroundOutcome, Verdict::Waits(effect)) => Some(*effect),
        (
            Lane::Own | Lane::Request | Lane::BackgroundOutcome | Lane::Background,
            Verdict::Answered(_) | Verdict::Waits(_) | Verdict::Unavailable(_),
        ) => None,
    };
    waiters.iter().zip(verdicts).filter_map(of_waiter).collect()
}

/// The answer where an effect was begun and its outcome is not known.
fn unknown_outcome(effect: &Effect) -> Answer {
    match effect {
        Effect::CallGateway(call) => outcome_unknown(call.payment, call.transaction),
        Effect::AskAboutMethod(it) => {
            Answer::Replied(Reply::Account(AccountReply::PaymentMethodPending(it.payment_method)))
        }
    }
}

/// The answer where a call was made and its outcome is not known.
fn outcome_unknown(payment: PaymentId, transaction: TransactionId) -> Answer {
    let status = domain::payment::TransactionStatus::Unknown;
    let result = PaymentResult::Status { status, message: None };
    Answer::Replied(Reply::Payment(PaymentReply { payment, transaction, result }))
}

fn count_payment(reply: &Reply) {
    let Reply::Payment(payment) = reply else { return };
    let status = match &payment.result {
        PaymentResult::Status { status, .. } => match status {
            domain::payment::TransactionStatus::Success => "success",
            domain::payment::TransactionStatus::Pending => "pending",
            domain::payment::TransactionStatus::PaymentFailure => "payment_failure",
            domain::payment::TransactionStatus::PluginFailure => "plugin_failure",
            domain::payment::TransactionStatus::InFlight
            | domain::payment::TransactionStatus::Unknown => "unknown",
        },
        PaymentResult::AmountNotTaken { .. } => "plugin_failure",
        PaymentResult::GatewayFailed { .. }
        | PaymentResult::GatewayAnsweredNothing
        | PaymentResult::GatewayTimedOut => "unknown",
    };
    metrics::counter!("faregate_payments_total", "status" => status).increment(1);
}
