//! Calls the clients whose registrations ended. Hosts take turns: one that answers slowly or not at all
//! does not hold up the calls of others.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use domain::operation::Operation;
use domain::{OperationId, Timestamp};
use engine::periodic::{Job, Pass};
use engine::ports::Bookkeeping;
use engine::{Engine, Unavailable};
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::callback::Callback;
use super::worker::{FAILURE_PAUSE, Worker};
use super::{Deliver, Delivery, NOTIFY_DELAYS, NotDelivered};

/// How many clients are called concurrently.
const CALLS_MAX: usize = 16;

/// How many of these calls are to one host.
const HOST_CALLS_MAX: usize = 2;

/// How many operations are read at once.
const OPERATIONS_MAX: usize = 128;

/// How long a host that did not answer in time is left alone.
const UNRESPONSIVE_PAUSE: Duration = Duration::from_secs(60);

/// How long an operation is put off that finds no place while others may wait behind it unread.
const CROWDED_PAUSE: Duration = Duration::from_secs(2);

/// The job that calls clients.
pub(super) struct Notifier {
    worker: Worker,
    deliver: Deliver,
    calls: JoinSet<Called>,
    /// A call that has ended since the last pass.
    ended: Option<Called>,
    /// The operations that are being called for.
    running: HashSet<OperationId>,
    hosts: HashMap<String, Host>,
}

/// What is known of a host: no longer than something follows from it.
#[derive(Default)]
struct Host {
    calls: usize,
    paused_until: Option<Instant>,
}

impl Host {
    /// How long it is still left alone.
    fn pause(&self, now: Instant) -> Option<Duration> {
        let left = self.paused_until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

/// A call that is over, and recorded.
struct Called {
    operation: OperationId,
    host: String,
    timed_out: bool,
}

/// What is to be done about an operation now.
enum Turn {
    /// The client is called.
    Call,
    /// It is called already, or finds a place soon.
    Wait,
    /// It is looked at again after so long.
    PutOff(Duration),
}

impl Notifier {
    pub(super) fn new(worker: Worker, deliver: Deliver) -> Self {
        Self {
            worker,
            deliver,
            calls: JoinSet::new(),
            ended: None,
            running: HashSet::new(),
            hosts: HashMap::new(),
        }
    }

    /// Starts the calls that are due, and puts off what cannot be called for now.
    async fn start_due(&mut self) -> Result<Pass, Unavailable> {
        self.take_ended();
        let engine = self.worker.sign_up.engine();
        let now = engine.clock().now();
        let due =
            engine.read(move |queries| queries.operations_to_notify(now, OPERATIONS_MAX)).await?;
        let may_be_more = due.len() >= OPERATIONS_MAX;
        let mut put_off = vec![];
        for operation in due {
            let Some((host, delivery)) = self.delivery(&operation) else {
                tracing::error!(operation.id = %operation.id, "failed to decrypt a callback; it is dropped");
                put_off.push(notified(&operation, None, operation.notify_attempts));
                continue;
            };
            match self.turn(operation.id, &host, may_be_more) {
                Turn::Call => self.call(operation, host, delivery),
                Turn::Wait => {}
                Turn::PutOff(pause) => {
                    let again_at = Some(plus(now, pause));
                    put_off.push(notified(&operation, again_at, operation.notify_attempts));
                }
            }
        }
        if put_off.is_empty() {
            return Ok(Pass::Idle);
        }
        self.worker.bookkeeper.record(put_off).await?;
        Ok(if may_be_more { Pass::More } else { Pass::Idle })
    }

    fn turn(&self, operation: OperationId, host: &str, may_be_more: bool) -> Turn {
        if self.running.contains(&operation) {
            return Turn::Wait;
        }
        let known = self.hosts.get(host);
        if let Some(pause) = known.and_then(|it| it.pause(Instant::now())) {
            return Turn::PutOff(pause);
        }
        let has_place =
            self.running.len() < CALLS_MAX && known.is_none_or(|it| it.calls < HOST_CALLS_MAX);
        match (has_place, may_be_more) {
            (true, _) => Turn::Call,
            (false, false) => Turn::Wait,
            (false, true) => Turn::PutOff(CROWDED_PAUSE),
        }
    }

    /// The host of an operation's callback, and the call; `None` where it was sealed with another key.
    fn delivery(&self, operation: &Operation) -> Option<(String, Delivery)> {
        let (callback, disclosure) = Callback::open(self.worker.sign_up.sealer(), operation)?;
        let data = (self.worker.representation.operation)(operation, disclosure);
        let data = RawValue::from_string(data).ok()?;
        let now = self.worker.sign_up.engine().clock().real_now();
        Some((callback.host(), callback.delivery(operation, data, now)))
    }

    fn call(&mut self, operation: Operation, host: String, delivery: Delivery) {
        self.running.insert(operation.id);
        self.hosts.entry(host.clone()).or_default().calls += 1;
        let call = (self.deliver)(delivery);
        let engine = self.worker.bookkeeper.clone();
        self.calls.spawn(async move {
            let delivered = call.await;
            let timed_out = delivered == Err(NotDelivered::TimedOut);
            let outcome = outcome(&engine, &operation, delivered);
            if let Err(error) = engine.record(vec![outcome]).await {
                tracing::warn!(
                    operation.id = %operation.id,
                    error = %error,
                    "failed to record a callback; it is sent again"
                );
            }
            Called { operation: operation.id, host, timed_out }
        });
    }

    /// Gives the places of calls that ended back. What they recorded is durable: a read that begins now
    /// does not show their operations as due.
    fn take_ended(&mut self) {
        let now = Instant::now();
        while let Some(called) = self.ended.take().or_else(|| self.calls.try_join_next()?.ok()) {
            self.running.remove(&called.operation);
            let host = self.hosts.entry(called.host).or_default();
            host.calls = host.calls.saturating_sub(1);
            host.paused_until = called.timed_out.then(|| now + UNRESPONSIVE_PAUSE);
        }
        self.hosts.retain(|_, host| host.calls > 0 || host.pause(now).is_some());
    }
}

impl Job for Notifier {
    async fn pass(&mut self) -> Pass {
        self.start_due().await.unwrap_or_else(|error| {
            tracing::warn!(error = %error, "failed to read operations to call back for; retrying");
            Pass::IdleFor(FAILURE_PAUSE)
        })
    }

    async fn woken(&mut self) {
        match self.calls.join_next().await {
            Some(called) => self.ended = called.ok(),
            None => std::future::pending().await,
        }
    }
}

/// What to record of a call that is over.
fn outcome(
    engine: &Engine,
    operation: &Operation,
    delivered: Result<(), NotDelivered>,
) -> Bookkeeping {
    let failed_before = operation.notify_attempts;
    let Err(error) = delivered else { return notified(operation, None, failed_before) };
    let again_at = next_attempt_at(engine.clock().now(), failed_before);
    // The URL belongs to the client and may contain a key, so it is not logged.
    tracing::warn!(operation.id = %operation.id, error = %error, again = again_at.is_some(), "a callback failed");
    notified(operation, again_at, failed_before.saturating_add(1))
}

const fn notified(
    operation: &Operation,
    again_at: Option<Timestamp>,
    attempts: u32,
) -> Bookkeeping {
    let (tenant, id) = (operation.tenant, operation.id);
    Bookkeeping::OperationNotified { tenant, id, again_at, attempts }
}

/// When to retry a call that has failed this often before, unless it is given up.
fn next_attempt_at(now: Timestamp, failed_before: u32) -> Option<Timestamp> {
    let delay = NOTIFY_DELAYS.get(usize::try_from(failed_before).ok()?)?;
    Some(plus(now, *delay))
}

fn plus(now: Timestamp, delay: Duration) -> Timestamp {
    now.plus_us(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_calls_are_retried_with_growing_delays_and_then_given_up() {
        let at = |failed| next_attempt_at(Timestamp(0), failed).map(|at| at.0 / 1_000_000);
        assert_eq!((at(0), at(1), at(8)), (Some(5), Some(300), Some(86_400)));
        assert_eq!(at(9), None);
        assert_eq!(at(u32::MAX), None);
    }
}
