//! Flushes insights (counts of evaluations and metrics) into the database every few seconds, and deletes
//! those beyond their retention. Counts that were not flushed when the process is killed are lost; none
//! is added twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{EnvironmentId, Timestamp};
use engine::Clock;
use engine::insights::{FlagCount, MetricCount};
use engine::ports::{InsightWriter, StoreError};

use crate::{FlagCache, Insights};

/// How often counts are flushed.
const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// Rows per commit at most: with SQLite, payments wait for it.
const PORTION_ROWS: usize = 200;

/// How often expired counts are searched for, once there are none.
const DELETE_EVERY: Duration = Duration::from_secs(3_600);

/// Rows of a table that are deleted per commit.
const DELETED_ROWS: i64 = 1_000;

const HOUR_MS: i64 = 3_600_000;

/// Counts the insights that were not stored, by reason.
const DROPPED: &str = "faregate_insights_dropped_total";

/// Reasons: unknown flag or variation, or above the bounds of the cache; refused by the database; the
/// outcome of the commit is unknown; the process stopped while the database was unavailable.
const REASONS: [&str; 4] = [NOT_COUNTED, REFUSED, IN_DOUBT, STOPPED];
const NOT_COUNTED: &str = "not_counted";
const REFUSED: &str = "refused";
const IN_DOUBT: &str = "in_doubt";
const STOPPED: &str = "stopped";

/// Opens a connection that adds to the counts.
pub type OpenWriter = Box<dyn Fn() -> Result<Box<dyn InsightWriter>, StoreError> + Send>;

/// Flushes insights into the database.
pub struct InsightsFlusher {
    cache: Arc<FlagCache>,
    open: OpenWriter,
    clock: Clock,
    retention: Duration,
    /// Opened at the first flush, and again after an error.
    writer: Option<Box<dyn InsightWriter>>,
    /// Taken from the cache and not flushed yet. The cache goes on counting, within its bounds.
    flags: Vec<FlagCount>,
    metrics: Vec<MetricCount>,
    delete_at: Instant,
}

impl InsightsFlusher {
    /// Flushes what the cache counts; `retention` is how long counts are stored.
    pub fn new(cache: Arc<FlagCache>, open: OpenWriter, clock: Clock, retention: Duration) -> Self {
        for reason in REASONS {
            metrics::counter!(DROPPED, "reason" => reason).increment(0);
        }
        Self {
            cache,
            open,
            clock,
            retention,
            writer: None,
            flags: vec![],
            metrics: vec![],
            delete_at: Instant::now(),
        }
    }

    /// Runs until `stop` is ready, then flushes the rest.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut flusher = self;
        loop {
            let is_last = tokio::select! {
                () = tokio::time::sleep(FLUSH_EVERY) => false,
                () = &mut stop => true,
            };
            let stepped = tokio::task::spawn_blocking(move || {
                flusher.step();
                flusher
            });
            flusher = match stepped.await {
                Ok(flusher) => flusher,
                // The process ends before the first step: its start was refused.
                Err(error) if error.is_cancelled() => return,
                Err(error) => {
                    tracing::error!(error = %error, "insights are no longer stored: the flusher failed");
                    return;
                }
            };
            if is_last {
                flusher.drop_rest();
                return;
            }
        }
    }

    fn step(&mut self) {
        if self.flags.is_empty() && self.metrics.is_empty() {
            self.take();
        }
        if let Err(error) = self.add().and_then(|()| self.delete_expired()) {
            tracing::warn!(error = %error, "failed to flush insights; retrying");
            self.writer = None;
        }
    }

    fn take(&mut self) {
        let Insights { flags, metrics, dropped } = self.cache.take_insights();
        drop_counts(NOT_COUNTED, dropped);
        let flags = flags.into_iter().filter_map(|it| {
            Some(FlagCount {
                tenant: self.cache.environment(it.environment)?.tenant(),
                environment: EnvironmentId::new(it.environment),
                flag: it.flag_key,
                hour: it.hour_ms / HOUR_MS,
                variation: it.variation_id,
                evaluations: signed(it.count),
                for_experiments: signed(it.experiment_count),
            })
        });
        self.flags = flags.collect();
        let metrics = metrics.into_iter().filter_map(|it| {
            Some(MetricCount {
                tenant: self.cache.environment(it.environment)?.tenant(),
                environment: EnvironmentId::new(it.environment),
                event: it.event_name,
                hour: it.hour_ms / HOUR_MS,
                kind: it.kind,
                events: signed(it.count),
                total: it.sum,
            })
        });
        self.metrics = metrics.collect();
    }

    fn add(&mut self) -> Result<(), StoreError> {
        while !self.flags.is_empty() || !self.metrics.is_empty() {
            let mut flags = last(&mut self.flags);
            let mut metrics = last(&mut self.metrics);
            let added = self.writer().and_then(|it| it.add(&mut flags, &mut metrics));
            let reason = match added {
                Ok(()) => continue,
                // Added again, it could count twice.
                Err(StoreError::OutcomeUnknown(_)) => IN_DOUBT,
                Err(StoreError::Refused(_)) => REFUSED,
                Err(error) => {
                    self.flags.append(&mut flags);
                    self.metrics.append(&mut metrics);
                    return Err(error);
                }
            };
            tracing::warn!(reason, "insights were dropped");
            drop_counts(reason, count(&flags, &metrics));
            self.writer = None;
        }
        Ok(())
    }

    fn delete_expired(&mut self) -> Result<(), StoreError> {
        if Instant::now() < self.delete_at {
            return Ok(());
        }
        let retention_us = i64::try_from(self.retention.as_micros()).unwrap_or(i64::MAX);
        let oldest = Timestamp(self.clock.real_now().0.saturating_sub(retention_us));
        let before_hour = oldest.millis().div_euclid(HOUR_MS);
        // The next step deletes the rest.
        if self.writer()?.forget(before_hour, DELETED_ROWS)? == 0 {
            self.delete_at = Instant::now() + DELETE_EVERY;
        }
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut dyn InsightWriter, StoreError> {
        if self.writer.is_none() {
            self.writer = Some((self.open)()?);
        }
        Ok(self.writer.as_deref_mut().expect("it was opened"))
    }

    fn drop_rest(&mut self) {
        let left = count(&self.flags, &self.metrics);
        if left > 0 {
            tracing::warn!(
                left,
                "insights were lost: the database could not be written before the stop"
            );
            drop_counts(STOPPED, left);
        }
    }
}

/// The last rows, as many as a commit takes.
fn last<T>(rows: &mut Vec<T>) -> Vec<T> {
    rows.split_off(rows.len().saturating_sub(PORTION_ROWS))
}

/// The sum of the counts in these rows.
fn count(flags: &[FlagCount], metrics: &[MetricCount]) -> u64 {
    let evaluations = flags.iter().map(|it| it.evaluations.unsigned_abs());
    evaluations.chain(metrics.iter().map(|it| it.events.unsigned_abs())).sum()
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn drop_counts(reason: &'static str, count: u64) {
    metrics::counter!(DROPPED, "reason" => reason).increment(count);
}
