//! Calls the clients whose registrations ended. Hosts and tenants take turns: a host that answers slowly or
//! not at all does not hold up the calls to others.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use domain::customer::operation::Operation;
use domain::{OperationId, TenantNo, Timestamp};
use engine::periodic::{Job, Pass};
use engine::ports::Bookkeeping;
use engine::{Engine, Unavailable};
use futures_util::FutureExt as _;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::callback::Callback;
use super::worker::Worker;
use secrets::webhook;

use super::{Deliver, Delivery, Disclosure, NotDelivered};

/// How many clients are called concurrently.
const CALLS_MAX: usize = 16;

/// How many of these calls are those of one tenant.
const TENANT_CALLS_MAX: usize = 8;

/// How many of these calls are to one host.
const HOST_CALLS_MAX: usize = 2;

/// How many operations are read at once, and how many such reads a pass makes. The next pass goes on behind
/// them: a long queue of one host is passed over, and not written anew.
const OPERATIONS_MAX: usize = 128;
const READS_MAX: usize = 8;

/// How long a host that did not answer in time is left alone.
const UNRESPONSIVE_PAUSE: Duration = Duration::from_secs(60);

/// The pause after a pass that found none to call, although some are due.
const NO_PLACE_PAUSE: Duration = Duration::from_secs(1);

/// The job that calls clients.
pub(super) struct Notifier {
    worker: Worker,
    deliver: Deliver,
    calls: JoinSet<Called>,
    /// A call that has ended since the last pass.
    ended: Option<Called>,
    /// The operations that are called for, or whose outcome is not recorded yet.
    running: HashSet<OperationId>,
    hosts: HashMap<String, Host>,
    tenants: HashMap<TenantNo, usize>,
    /// Outcomes that could not be recorded.
    unrecorded: Vec<(OperationId, Bookkeeping)>,
    /// The last operation that was looked at, where more follow.
    after: Option<(Timestamp, OperationId)>,
}

/// The calls in progress to a host, and its pause; forgotten once it has neither.
#[derive(Default)]
struct Host {
    calls: usize,
    paused_until: Option<Instant>,
}

impl Host {
    fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| until > now)
    }
}

/// A call that is over.
struct Called {
    operation: OperationId,
    tenant: TenantNo,
    host: String,
    timed_out: bool,
    /// The outcome that is still to be recorded.
    unrecorded: Option<Bookkeeping>,
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
            tenants: HashMap::new(),
            unrecorded: vec![],
            after: None,
        }
    }

    /// Starts the calls that are due and have a place.
    async fn start_due(&mut self) -> Result<Pass, Unavailable> {
        self.take_ended();
        self.record_rest().await?;
        let engine = self.worker.sign_up.engine().clone();
        let now = engine.clock().now();
        let (mut started, mut passed_over) = (0, 0);
        for _ in 0..READS_MAX {
            if self.running.len() >= CALLS_MAX {
                break;
            }
            let after = self.after;
            let due = engine
                .read(move |queries| queries.operations_to_notify(now, after, OPERATIONS_MAX))
                .await?;
            let is_last = due.len() < OPERATIONS_MAX;
            for operation in due {
                self.after = operation.notify_at.map(|at| (at, operation.id));
                if self.call_if_free(operation).await? {
                    started += 1
                } else {
                    passed_over += 1
                }
                if self.running.len() >= CALLS_MAX {
                    break;
                }
            }
            if is_last {
                // From the first one on again.
                self.after = None;
                break;
            }
        }
        let finds_none = started == 0 && passed_over > self.running.len();
        Ok(if finds_none { Pass::IdleFor(NO_PLACE_PAUSE) } else { Pass::Idle })
    }

    /// Calls for an operation, if its host and its tenant have a place.
    async fn call_if_free(&mut self, operation: Operation) -> Result<bool, Unavailable> {
        if self.running.contains(&operation.id) {
            return Ok(false);
        }
        let Some((callback, disclosure)) = Callback::open(self.worker.sign_up.sealer(), &operation)
        else {
            tracing::error!(operation.id = %operation.id, "failed to decrypt a callback; it is dropped");
            let dropped = notified(&operation, None, operation.notify_attempts);
            self.worker.bookkeeper.record(vec![dropped]).await?;
            return Ok(false);
        };
        let host = callback.host();
        let of_host = self.hosts.get(&host);
        let host_is_free =
            of_host.is_none_or(|it| it.calls < HOST_CALLS_MAX && !it.is_paused(Instant::now()));
        let of_tenant = self.tenants.get(&operation.tenant).copied().unwrap_or_default();
        if !host_is_free || of_tenant >= TENANT_CALLS_MAX {
            return Ok(false);
        }
        match self.delivery(&operation, callback, disclosure) {
            Some(delivery) => self.call(operation, host, delivery),
            None => {
                tracing::error!(operation.id = %operation.id, "an operation is no JSON; its callback is dropped");
                let dropped = notified(&operation, None, operation.notify_attempts);
                self.worker.bookkeeper.record(vec![dropped]).await?;
            }
        }
        Ok(true)
    }

    fn delivery(
        &self,
        operation: &Operation,
        callback: Callback,
        disclosure: Disclosure,
    ) -> Option<Delivery> {
        let data = (self.worker.representation.operation)(operation, disclosure);
        let data = RawValue::from_string(data).ok()?;
        let now = self.worker.sign_up.engine().clock().real_now();
        Some(callback.delivery(operation, data, now))
    }

    fn call(&mut self, operation: Operation, host: String, delivery: Delivery) {
        self.running.insert(operation.id);
        self.hosts.entry(host.clone()).or_default().calls += 1;
        *self.tenants.entry(operation.tenant).or_default() += 1;
        // The panic hook logs the message and the location.
        let call = AssertUnwindSafe((self.deliver)(delivery)).catch_unwind();
        let engine = self.worker.bookkeeper.clone();
        self.calls.spawn(async move {
            let panicked = |_| Err(NotDelivered::Refused("the call panicked".to_owned()));
            let delivered = call.await.unwrap_or_else(panicked);
            let timed_out = delivered == Err(NotDelivered::TimedOut);
            let outcome = outcome(&engine, &operation, delivered);
            let recorded = engine.record(vec![outcome.clone()]).await;
            let unrecorded = recorded.is_err().then_some(outcome);
            let (operation, tenant) = (operation.id, operation.tenant);
            Called { operation, tenant, host, timed_out, unrecorded }
        });
    }

    /// Gives the places of calls that ended back. What they recorded is durable: a read that begins now
    /// does not show their operations as due.
    fn take_ended(&mut self) {
        let now = Instant::now();
        while let Some(called) = self.ended.take().or_else(|| self.calls.try_join_next()?.ok()) {
            match called.unrecorded {
                Some(outcome) => self.unrecorded.push((called.operation, outcome)),
                None => drop(self.running.remove(&called.operation)),
            }
            let host = self.hosts.entry(called.host).or_default();
            host.calls = host.calls.saturating_sub(1);
            host.paused_until = called.timed_out.then(|| now + UNRESPONSIVE_PAUSE);
            let of_tenant = self.tenants.entry(called.tenant).or_default();
            *of_tenant = of_tenant.saturating_sub(1);
        }
        self.hosts.retain(|_, host| host.calls > 0 || host.is_paused(now));
        self.tenants.retain(|_, calls| *calls > 0);
    }

    /// Records what could not be recorded. Until then these clients are not called again.
    async fn record_rest(&mut self) -> Result<(), Unavailable> {
        if self.unrecorded.is_empty() {
            return Ok(());
        }
        let rows = self.unrecorded.iter().map(|(_, row)| row.clone()).collect();
        self.worker.bookkeeper.record(rows).await?;
        for (operation, _) in self.unrecorded.drain(..) {
            self.running.remove(&operation);
        }
        Ok(())
    }
}

impl Job for Notifier {
    async fn pass(&mut self) -> Pass {
        self.start_due().await.unwrap_or_else(|error| {
            tracing::warn!(error = %error, "failed to call back or to record it; retrying");
            Pass::Failed
        })
    }

    async fn woken(&mut self) {
        match self.calls.join_next().await {
            Some(called) => self.ended = called.ok(),
            None => std::future::pending().await,
        }
    }
}

/// The row to record for a call that is over.
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
    let delay = webhook::RETRY_DELAYS.get(usize::try_from(failed_before).ok()?)?;
    Some(now.plus_us(i64::try_from(delay.as_micros()).ok()?))
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
