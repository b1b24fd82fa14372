//! Keeps what programs tell of flags: every few seconds it is added to the counts in the database, and
//! counts that are old are forgotten. What a process had not added when it was killed is lost; nothing
//! is ever added twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::flags::{Board, Insights};
use domain::{EnvironmentId, TenantNo, Timestamp};
use engine::Clock;
use engine::insights::{FlagCount, MetricCount};
use engine::ports::StoreError;
use store::Source;
use store::insights::InsightWriter;
use tokio::sync::watch;
use uuid::Uuid;

use crate::node::until;

/// How often counts are added.
const ADD_EVERY: Duration = Duration::from_secs(5);

/// How many rows a commit changes at most: payments wait for it on a database file.
const PORTION_ROWS: usize = 200;

/// How often it looks for counts that are too old, once there are none.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

/// How many rows of a table are forgotten at a time.
const FORGOTTEN_ROWS: i64 = 1_000;

const HOUR_MS: i64 = 3_600_000;

/// What programs told and was not kept, by reason.
const DROPPED: &str = "faregate_insights_dropped_total";

/// Why something is not kept: it was of no flag or variation that there is, or too much; the database
/// refuses it; nobody knows whether a commit added it; the process stopped without a database.
const REASONS: [&str; 4] = [NOT_COUNTED, REFUSED, IN_DOUBT, STOPPED];
const NOT_COUNTED: &str = "not_counted";
const REFUSED: &str = "refused";
const IN_DOUBT: &str = "in_doubt";
const STOPPED: &str = "stopped";

/// Whose environments are.
#[derive(Default)]
pub struct Owners(Mutex<HashMap<Uuid, TenantNo>>);

impl Owners {
    /// Remembers one.
    pub fn learn(&self, environment: EnvironmentId, tenant: TenantNo) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(environment.uuid(), tenant);
    }

    fn of(&self, environment: Uuid) -> Option<TenantNo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&environment).copied()
    }
}

/// See the file's head.
pub struct Keeper {
    board: Arc<Board>,
    owners: Arc<Owners>,
    source: Source,
    clock: Clock,
    retention: Duration,
    /// Opened when there is something to write, and anew after an error.
    writer: Option<InsightWriter>,
    /// What was taken from the board and is not added yet. The board goes on counting meanwhile, and
    /// has bounds.
    flags: Vec<FlagCount>,
    metrics: Vec<MetricCount>,
    forget_at: Instant,
}

impl Keeper {
    /// Keeps what the board counts, for so long.
    pub fn new(
        (board, owners): (Arc<Board>, Arc<Owners>),
        source: Source,
        clock: Clock,
        retention: Duration,
    ) -> Self {
        for reason in REASONS {
            metrics::counter!(DROPPED, "reason" => reason).increment(0);
        }
        Self {
            board,
            owners,
            source,
            clock,
            retention,
            writer: None,
            flags: vec![],
            metrics: vec![],
            forget_at: Instant::now(),
        }
    }

    /// Goes on until it is to stop, and then adds what is left.
    pub async fn keep(self, stopped: watch::Receiver<bool>) {
        let mut stopped = std::pin::pin!(until(stopped));
        let mut keeper = self;
        loop {
            let is_last = tokio::select! {
                () = tokio::time::sleep(ADD_EVERY) => false,
                () = &mut stopped => true,
            };
            let stepped = tokio::task::spawn_blocking(move || {
                keeper.step();
                keeper
            });
            keeper = match stepped.await {
                Ok(keeper) => keeper,
                Err(error) => {
                    tracing::error!(error = %error, "insights are not kept any more");
                    return;
                }
            };
            if is_last {
                keeper.give_up();
                return;
            }
        }
    }

    fn step(&mut self) {
        if self.flags.is_empty() && self.metrics.is_empty() {
            self.take();
        }
        if let Err(error) = self.add().and_then(|()| self.forget()) {
            tracing::warn!(error = %error, "insights wait to be written");
            self.writer = None;
        }
    }

    fn take(&mut self) {
        let Insights { flags, metrics, dropped } = self.board.take_insights();
        drop_counts(NOT_COUNTED, dropped);
        let flags = flags.into_iter().filter_map(|it| {
            Some(FlagCount {
                tenant: self.owners.of(it.environment)?,
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
                tenant: self.owners.of(it.environment)?,
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
            tracing::warn!(reason, "insights are dropped");
            drop_counts(reason, told(&flags, &metrics));
            self.writer = None;
        }
        Ok(())
    }

    fn forget(&mut self) -> Result<(), StoreError> {
        if Instant::now() < self.forget_at {
            return Ok(());
        }
        let retention_us = i64::try_from(self.retention.as_micros()).unwrap_or(i64::MAX);
        let oldest = Timestamp(self.clock.real_now().0.saturating_sub(retention_us));
        let before_hour = oldest.millis().div_euclid(HOUR_MS);
        // The rest with the next step.
        if self.writer()?.forget(before_hour, FORGOTTEN_ROWS)? == 0 {
            self.forget_at = Instant::now() + FORGET_EVERY;
        }
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut InsightWriter, StoreError> {
        if self.writer.is_none() {
            self.writer = Some(InsightWriter::open(&self.source)?);
        }
        Ok(self.writer.as_mut().expect("it was opened"))
    }

    fn give_up(&mut self) {
        let left = told(&self.flags, &self.metrics);
        if left > 0 {
            tracing::warn!(left, "insights are lost: the database cannot be written");
            drop_counts(STOPPED, left);
        }
    }
}

/// The last rows, as many as a commit takes.
fn last<T>(rows: &mut Vec<T>) -> Vec<T> {
    rows.split_off(rows.len().saturating_sub(PORTION_ROWS))
}

/// How much was told in these rows.
fn told(flags: &[FlagCount], metrics: &[MetricCount]) -> u64 {
    let evaluations = flags.iter().map(|it| it.evaluations.unsigned_abs());
    evaluations.chain(metrics.iter().map(|it| it.events.unsigned_abs())).sum()
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn drop_counts(reason: &'static str, count: u64) {
    metrics::counter!(DROPPED, "reason" => reason).increment(count);
}
