//! The outcomes of deliveries: writes the log in batches, and follows whether endpoints receive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::tenant::webhook::DisableReason;
use domain::{PartitionNo, TenantNo, Timestamp, WebhookEndpointId};
use engine::Clock;
use engine::ports::{DeliveryLog, DeliveryLogSource, StoreError};
use engine::webhooks::{DeliveryTry, Health, LogRetention, TryOutcome};
use tokio::sync::mpsc;

/// How many tries wait to be written at most.
pub const TRIES_MAX: usize = 16_384;

/// How often tries are written.
const WRITE_EVERY: Duration = Duration::from_millis(200);

/// Rows per commit at most.
const PORTION_ROWS: usize = 4_096;

/// How long the log is kept.
const KEPT_US: i64 = 30 * Timestamp::DAY_US;

/// How often rows are searched for that are no longer kept, once there are none.
const FORGET_EVERY: Duration = Duration::from_secs(10);

/// For how long an endpoint may fail at every try.
const FAILING_US: i64 = 5 * Timestamp::DAY_US;

/// How exactly it is known when an endpoint received last.
const RECEIVED_EVERY_US: i64 = 3_600 * Timestamp::SECOND_US;

/// How many endpoints' health is remembered; that of others is read again.
const HEALTH_MAX: usize = 16_384;

/// Counts tries that are not in the log: also those that found no room in the channel.
const DROPPED: &str = "faregate_webhook_log_dropped_total";

/// An endpoint of a tenant, or a registration of its callback.
type Key = (TenantNo, WebhookEndpointId);

/// The log of a process.
#[derive(Clone)]
pub struct LogSettings {
    pub source: Arc<dyn DeliveryLogSource>,
    /// About how many bytes a partition's rows may take.
    pub bytes_max: i64,
}

/// Writes a partition's part of the log.
pub struct DeliveryLogger {
    settings: LogSettings,
    partition: PartitionNo,
    clock: Clock,
    tries: mpsc::Receiver<DeliveryTry>,
    /// Opened at the first write, and again after an error.
    log: Option<Box<dyn DeliveryLog>>,
    /// Taken from the channel and not written yet.
    taken: Vec<DeliveryTry>,
    health: BTreeMap<Key, Health>,
    forget_at: Instant,
}

impl DeliveryLogger {
    pub fn new(
        settings: LogSettings,
        partition: PartitionNo,
        clock: Clock,
        tries: mpsc::Receiver<DeliveryTry>,
    ) -> Self {
        metrics::counter!(DROPPED).increment(0);
        let (log, taken, health) = (None, vec![], BTreeMap::new());
        Self { settings, partition, clock, tries, log, taken, health, forget_at: Instant::now() }
    }

    /// Runs until `stop` is ready, then writes the rest.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut logger = self;
        loop {
            let is_last = tokio::select! {
                () = tokio::time::sleep(WRITE_EVERY) => false,
                () = &mut stop => true,
            };
            let stepped = tokio::task::spawn_blocking(move || {
                logger.step();
                logger
            });
            logger = match stepped.await {
                Ok(logger) => logger,
                Err(error) if error.is_cancelled() => return,
                Err(error) => {
                    tracing::error!(error = %error, "webhook deliveries are no longer logged: the logger failed");
                    return;
                }
            };
            if is_last {
                return;
            }
        }
    }

    fn step(&mut self) {
        if let Err(error) = self.write().and_then(|()| self.forget()) {
            tracing::warn!(error = %error, "failed to write the log of webhook deliveries; retrying");
            self.log = None;
        }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        loop {
            while self.taken.len() < PORTION_ROWS
                && let Ok(it) = self.tries.try_recv()
            {
                self.taken.push(it);
            }
            if self.taken.is_empty() {
                return Ok(());
            }
            let health = self.changed_health()?;
            let tries = std::mem::take(&mut self.taken);
            match self.log()?.add(&tries, &health) {
                Ok(()) => {
                    // It is forgotten once the endpoint is off, by another connection.
                    self.health.extend(health);
                    self.health.retain(|_, it| it.refused.is_none());
                }
                // Written again, they could stand there twice; refused again, they would stop the log.
                Err(error @ (StoreError::OutcomeUnknown(_) | StoreError::Refused(_))) => {
                    metrics::counter!(DROPPED).increment(tries.len() as u64);
                    return Err(error);
                }
                Err(error) => {
                    self.taken = tries;
                    return Err(error);
                }
            }
        }
    }

    /// The new health of endpoints after the tries that were taken; only of those whose health changed.
    fn changed_health(&mut self) -> Result<Vec<(Key, Health)>, StoreError> {
        let mut changed = BTreeMap::<Key, Health>::new();
        for at in 0..self.taken.len() {
            let it = &self.taken[at];
            let (key, outcome, when) = ((it.tenant, it.receiver), it.outcome, it.at);
            let (has_gone, is_try) =
                (it.status == Some(410), it.status.is_some() || it.took_ms > 0);
            let before = match changed.get(&key) {
                Some(known) => *known,
                None => self.known_health(key)?,
            };
            let mut after = match outcome {
                TryOutcome::Delivered => received(before, when),
                TryOutcome::Failed | TryOutcome::GivenUp if is_try => {
                    let failing_since = Some(before.failing_since.unwrap_or(when));
                    Health { failing_since, ..before }
                }
                TryOutcome::Failed | TryOutcome::GivenUp => before,
            };
            if has_gone {
                after.refused = Some(DisableReason::Gone);
            } else if after != before || after.failing_since.is_some() {
                after = self.refused_after_days(key, after, when)?;
            }
            if after != before {
                changed.insert(key, after);
            }
        }
        Ok(changed.into_iter().collect())
    }

    fn known_health(&mut self, key: Key) -> Result<Health, StoreError> {
        if let Some(known) = self.health.get(&key) {
            return Ok(*known);
        }
        let read = self.log()?.health(key.0, key.1)?;
        if self.health.len() >= HEALTH_MAX {
            self.health.clear();
        }
        self.health.insert(key, read);
        Ok(read)
    }

    /// An endpoint to which every try has failed for days is to be switched off.
    fn refused_after_days(
        &mut self,
        key: Key,
        health: Health,
        now: Timestamp,
    ) -> Result<Health, StoreError> {
        let since = now.plus_us(-FAILING_US);
        if health.refused.is_some() || health.failing_since.is_none_or(|it| it > since) {
            return Ok(health);
        }
        // It may have been switched off and on again meanwhile, or receive what other partitions send.
        let log = self.log()?;
        let stored = log.health(key.0, key.1)?;
        if stored.failing_since.is_none_or(|it| it > since) {
            return Ok(Health {
                failing_since: Some(stored.failing_since.unwrap_or(now)),
                ..stored
            });
        }
        match log.has_received(key, since)? {
            true => Ok(health),
            false => Ok(Health { refused: Some(DisableReason::Failing), ..health }),
        }
    }

    fn forget(&mut self) -> Result<(), StoreError> {
        if Instant::now() < self.forget_at {
            return Ok(());
        }
        let since = self.clock.now().plus_us(-KEPT_US);
        let kept = LogRetention { since, bytes_max: self.settings.bytes_max };
        // The next step deletes the rest.
        if !self.log()?.forget(kept)? {
            self.forget_at = Instant::now() + FORGET_EVERY;
        }
        Ok(())
    }

    fn log(&mut self) -> Result<&mut dyn DeliveryLog, StoreError> {
        if self.log.is_none() {
            self.log = Some(self.settings.source.open(self.partition)?);
        }
        Ok(self.log.as_deref_mut().expect("it was opened"))
    }
}

fn received(before: Health, at: Timestamp) -> Health {
    let is_known = before.received_at.is_some_and(|it| at < it.plus_us(RECEIVED_EVERY_US));
    let received_at = if is_known { before.received_at } else { Some(at) };
    Health { failing_since: None, received_at, refused: None }
}
