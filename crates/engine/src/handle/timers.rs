//! Fires the timers of the partition that are due, each as a command.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::account::payment_method::ContinueMethod;
use domain::billing::pay::PayUnpaid;
use domain::billing::subscription::ContinueBilling;
use domain::command::{AccountCommand, BillingCommand, EntitlementCommand, PaymentCommand};
use domain::entitlement::ContinueEntitlements;
use domain::payment::attempt::RetryPayment;
use domain::payment::dispute::DisputeTimer;
use domain::payment::{Actor, ExpireAction, RefundLateSuccess};
use domain::timer::{Timer, TimerKey, TimerKind};
use domain::{
    AttemptId, Command, DisputeId, InvoiceId, PaymentMethodId, Request, TenantNo, Timestamp,
    TransactionId,
};
use tokio::sync::Semaphore;

use super::resolver;
use crate::lane::Lane;
use crate::partition::Answer;
use crate::periodic::{Job, Pass, Periodic};
use crate::ports::Inquiry;
use crate::{Clock, Engine, Unavailable};

/// How many timers are being fired at a time: enough for the partition, which takes a few of their commands with
/// each batch.
const FIRING_MAX: usize = 64;

/// How many due timers are read at a time: more than are being fired, so that each read finds others.
const DUE_MAX: usize = 2 * FIRING_MAX;

/// How long a timer that could not be fired waits where the reason says nothing: each try asks a gateway.
const REFIRE_AFTER: Duration = Duration::from_secs(10);

/// After failed reads the pause doubles up to so many ticks.
const BACKOFF_TICKS_MAX: u32 = 4;

/// How much further than the monotonic clock the system's clock may go from one pass to the next.
const JUMP_MAX: Duration = Duration::from_secs(60);

/// Who fires timers, in the journal.
const ACTOR: &str = "timer";

/// Runs until the engine stops.
pub(crate) async fn run(engine: Engine) {
    let tick = engine.shared().options.resolver_tick;
    let watch = ClockWatch::new(engine.clock());
    let firing = Firing { permits: Arc::new(Semaphore::new(FIRING_MAX)), held: Arc::default() };
    let timers = Timers { engine, firing, watch, after: None };
    let periodic = Periodic::every(tick).with_backoff(tick, tick * BACKOFF_TICKS_MAX);
    periodic.run(std::future::pending(), timers).await;
}

struct Timers {
    engine: Engine,
    firing: Firing,
    watch: ClockWatch,
    /// The last timer that this round has seen: those that could not be fired do not stand in the way of
    /// those behind them, and are seen again in the next round.
    after: Option<Timer>,
}

impl Job for Timers {
    async fn pass(&mut self) -> Pass {
        let engine = &self.engine;
        if engine.is_stopping() {
            return Pass::Done;
        }
        self.watch.look(engine.clock());
        self.firing.release();
        let (now, after) = (engine.clock().now(), self.after.take());
        let due = engine.read(move |queries| queries.timers_due(now, after.as_ref(), DUE_MAX));
        match due.await {
            Ok(due) => {
                let is_whole = due.len() == DUE_MAX;
                self.after = due.last().filter(|_| is_whole).cloned();
                for timer in due {
                    if !(self.watch.has_jumped && timer.key.kind.charges()) {
                        self.firing.begin(engine, timer).await;
                    }
                }
                if is_whole { Pass::More } else { Pass::Idle }
            }
            Err(error) => {
                tracing::warn!(error = %error, "failed to read due timers; retried");
                Pass::Failed
            }
        }
    }

    async fn woken(&mut self) {
        self.engine.shared().attention.notified().await;
    }
}

/// The timers that are not to be fired now: those being fired, those that an operator has to look at first
/// (`None`), and those that could not be fired, with the time of their next try.
type Held = BTreeMap<(TenantNo, TimerKey), Option<Instant>>;

/// The timers that are being fired.
struct Firing {
    permits: Arc<Semaphore>,
    held: Arc<Mutex<Held>>,
}

impl Firing {
    /// Lets go of the timers whose next try has come.
    fn release(&self) {
        let now = Instant::now();
        lock(&self.held).retain(|_, until| until.is_none_or(|until| until > now));
    }

    /// Fires in the background, unless the timer is held.
    async fn begin(&self, engine: &Engine, timer: Timer) {
        let key = (timer.tenant, timer.key);
        match lock(&self.held).entry(key) {
            Entry::Occupied(_) => return,
            Entry::Vacant(entry) => entry.insert(None),
        };
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
        let (engine, held) = (engine.clone(), Arc::clone(&self.held));
        tokio::spawn(async move {
            let kind = timer.key.kind.name();
            let fired = fire(&engine, timer).await;
            if let Err(error) = &fired {
                tracing::warn!(error = %error, kind, object = %key.1.object, "a timer was not fired");
            }
            let label = if fired.is_ok() { "fired" } else { "failed" };
            metrics::counter!("faregate_timers_total", "kind" => kind, "result" => label)
                .increment(1);
            match fired {
                Ok(()) => drop(lock(&held).remove(&key)),
                Err(error) if error.reason.is_parked() => {}
                Err(error) => {
                    let pause = error.retry_after.unwrap_or(REFIRE_AFTER);
                    lock(&held).insert(key, Some(Instant::now() + pause));
                }
            }
            drop(permit);
        });
    }
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Submits the command that the timer is for.
async fn fire(engine: &Engine, timer: Timer) -> Result<(), Unavailable> {
    let command = match timer.key.kind {
        TimerKind::PaymentRetry => retry(engine, &timer).await?,
        TimerKind::PaymentAction => expire_action(engine, &timer).await?,
        TimerKind::LateRefund => late_refund(engine, &timer).await?,
        TimerKind::DisputeBooking => {
            of_dispute(engine, &timer).await?.map(PaymentCommand::BookDispute).map(Command::Payment)
        }
        TimerKind::DisputeEvidence => of_dispute(engine, &timer)
            .await?
            .map(PaymentCommand::WarnOfDispute)
            .map(Command::Payment),
        TimerKind::MethodStep => {
            Some(Command::Account(AccountCommand::ContinueMethod(ContinueMethod {
                account: timer.account,
                payment_method: PaymentMethodId::new(timer.key.object),
                due: timer.due,
            })))
        }
        TimerKind::Entitlements => {
            let (account, due) = (timer.account, timer.due);
            let it = ContinueEntitlements { account, due };
            Some(Command::Entitlement(EntitlementCommand::Continue(it)))
        }
        TimerKind::Billing => {
            let (account, due) = (timer.account, timer.due);
            let it = ContinueBilling { account, due };
            Some(Command::Billing(BillingCommand::Continue(it)))
        }
        TimerKind::InvoicePayment => {
            let (account, due) = (timer.account, timer.due);
            let it = PayUnpaid { account, invoice: InvoiceId::new(timer.key.object), due };
            Some(Command::Billing(BillingCommand::PayUnpaid(it)))
        }
    };
    let Some(command) = command else {
        tracing::error!(object = %timer.key.object, "a timer is of an object that is not there");
        return Ok(());
    };
    let id = engine.mint();
    let (tenant, actor) = (timer.tenant, Actor::new(ACTOR, ACTOR, id.0));
    let request = Request { id, tenant, actor, idempotency: None, command };
    match engine.submit_in(Lane::Background, request).await? {
        Answer::Replied(_) => {}
        Answer::Refused(rejection) => {
            tracing::error!(rejection = %rejection, "a timer was refused");
        }
        Answer::StillRunning | Answer::AnotherRequest => {
            unreachable!("it has no idempotency key")
        }
    }
    Ok(())
}

/// Asks the gateway once more what became of the try that failed, and makes the command of its retry.
async fn retry(engine: &Engine, timer: &Timer) -> Result<Option<Command>, Unavailable> {
    let (tenant, id) = (timer.tenant, AttemptId::new(timer.key.object));
    let found = engine.read(move |queries| {
        let Some(attempt) = queries.payment_attempt(tenant, id)? else { return Ok(None) };
        let transaction = attempt.payment_id.zip(attempt.transaction_id);
        let Some((payment, transaction)) = transaction else { return Ok(None) };
        let file = queries.payment(tenant, payment)?;
        let gateway = file.and_then(|it| Some(it.transaction(transaction)?.gateway.clone()));
        Ok(gateway.map(|gateway| (attempt, Inquiry { tenant, payment, transaction }, gateway)))
    });
    let Some((attempt, inquiry, gateway)) = found.await? else { return Ok(None) };
    let payment = inquiry.payment;
    let actor = Actor::new(ACTOR, ACTOR, engine.mint().0);
    let is_answered =
        resolver::inquire(engine, (&gateway, inquiry), actor, Lane::Background).await?;
    Ok(Some(Command::Payment(PaymentCommand::Retry(RetryPayment {
        account: timer.account,
        payment,
        attempt: id,
        transaction_key: attempt.transaction_key,
        is_answered,
        due: timer.due,
    }))))
}

/// Makes the command that gives up the transaction whose customer was waited for.
async fn expire_action(engine: &Engine, timer: &Timer) -> Result<Option<Command>, Unavailable> {
    let (tenant, transaction) = (timer.tenant, TransactionId::new(timer.key.object));
    let found = engine.read(move |queries| queries.payment_of_transaction(tenant, transaction));
    let expire = |payment| ExpireAction { payment, transaction, due: timer.due };
    let payment = found.await?.map(|file| file.payment.id);
    Ok(payment.map(|payment| Command::Payment(PaymentCommand::ExpireAction(expire(payment)))))
}

/// The command that returns a late success; the timer's object is its transaction.
async fn late_refund(engine: &Engine, timer: &Timer) -> Result<Option<Command>, Unavailable> {
    let (tenant, transaction) = (timer.tenant, TransactionId::new(timer.key.object));
    let found = engine.read(move |queries| queries.payment_of_transaction(tenant, transaction));
    let Some(file) = found.await? else { return Ok(None) };
    let refund = RefundLateSuccess { payment: file.payment.id, transaction, due: timer.due };
    Ok(Some(Command::Payment(PaymentCommand::RefundLateSuccess(refund))))
}

/// The dispute that the command of a dispute's timer names; `None` where there is no such dispute.
async fn of_dispute(engine: &Engine, timer: &Timer) -> Result<Option<DisputeTimer>, Unavailable> {
    let (tenant, id) = (timer.tenant, DisputeId::new(timer.key.object));
    let found = engine.read(move |queries| queries.dispute(tenant, id)).await?;
    Ok(found.map(|it| DisputeTimer {
        payment: it.payment_id,
        dispute: it.id,
        case: it.case,
        due: timer.due,
    }))
}

/// Notices a system's clock that jumps ahead, after which timers that charge wait for a restart: everything
/// that was due in the time between would be charged at once, and the clock may be wrong.
struct ClockWatch {
    at: Instant,
    real: Timestamp,
    has_jumped: bool,
}

impl ClockWatch {
    fn new(clock: &Clock) -> Self {
        metrics::gauge!("faregate_timers_held").set(0.0);
        Self { at: Instant::now(), real: clock.real_now(), has_jumped: false }
    }

    fn look(&mut self, clock: &Clock) {
        if clock.is_test() {
            return;
        }
        self.compare(Instant::now(), clock.real_now());
    }

    fn compare(&mut self, at: Instant, real: Timestamp) {
        let elapsed_us = i64::try_from((at - self.at).as_micros()).unwrap_or(i64::MAX);
        let ahead_us = real.0.saturating_sub(self.real.plus_us(elapsed_us).0);
        let jump_us = i64::try_from(JUMP_MAX.as_micros()).unwrap_or(i64::MAX);
        if ahead_us > jump_us && !self.has_jumped {
            self.has_jumped = true;
            metrics::gauge!("faregate_timers_held").set(1.0);
            tracing::error!(
                ahead_s = ahead_us / Timestamp::SECOND_US,
                "the system's clock jumped ahead: timers that charge wait until the server is restarted"
            );
        }
        (self.at, self.real) = (at, real);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_more_than_a_minute_ahead_is_noticed_and_one_that_drifts_is_not() {
        let (start, second) = (Instant::now(), Timestamp::SECOND_US);
        let mut watch = ClockWatch { at: start, real: Timestamp(0), has_jumped: false };
        let mut pass = |after_s: u64, real_s: i64| {
            watch.compare(start + Duration::from_secs(after_s), Timestamp(real_s * second));
            watch.has_jumped
        };
        // A second of drift with each pass adds up to much more than a minute.
        for n in 1..=100 {
            assert!(!pass(n, i64::try_from(2 * n).unwrap()), "drift");
        }
        assert!(!pass(101, 202 + 59), "59 seconds are no jump");
        assert!(!pass(102, 100), "a clock that is set back is none");
        assert!(pass(103, 100 + 62), "a jump");
        assert!(pass(104, 163), "it stays noticed");
    }
}
