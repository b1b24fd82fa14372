//! Verifies the database while it is served, a portion at a time, so that a damaged page is noticed before
//! it is needed.

use std::future::Future;
use std::time::{Duration, SystemTime};

use engine::periodic::{Job, Pass, Periodic};
use store::verify::{Portion, Scrub};
use store::{Error, Source};
use tokio::task::JoinError;

/// The pause between two portions: about 5,000 rows a second, a few percent of a core.
const PAUSE: Duration = Duration::from_millis(50);

/// How long after the start the first pass begins, at the latest.
const FIRST_AFTER: Duration = Duration::from_secs(3_600);

/// Problems of a pass that are logged one by one; the rest is counted.
const LOGGED_MAX: u64 = 100;

const PROBLEMS: &str = "faregate_integrity_problems";
const VERIFIED: &str = "faregate_integrity_verified_timestamp_seconds";

/// The database that is verified, and the interval.
#[derive(Clone)]
pub struct Schedule {
    pub source: Source,
    /// From the end of a pass to the start of the next one.
    pub every: Duration,
}

/// Verifies the database again and again until `stop` is ready.
pub async fn run(schedule: Schedule, stop: impl Future<Output = ()>) {
    metrics::gauge!(PROBLEMS).set(0);
    let mut stop = std::pin::pin!(stop);
    let every = schedule.every;
    tokio::select! {
        () = &mut stop => return,
        () = tokio::time::sleep(every.min(FIRST_AFTER)) => {}
    }
    let verifier = Verifier { schedule, scrub: None, problems: 0 };
    Periodic::every(every).run(stop, verifier).await;
}

struct Verifier {
    schedule: Schedule,
    /// The pass that is under way.
    scrub: Option<Scrub>,
    /// The number of problems that the pass has found so far.
    problems: u64,
}

impl Job for Verifier {
    async fn pass(&mut self) -> Pass {
        match self.portion().await {
            Ok(Ok(portion)) => self.report(&portion),
            Ok(Err(error)) => {
                tracing::warn!(error = %error, "failed to verify the database; retrying");
                Pass::Failed
            }
            Err(error) => {
                tracing::error!(error = %error, "the database is no longer verified: the task failed");
                Pass::Done
            }
        }
    }
}

impl Verifier {
    async fn portion(&mut self) -> Result<Result<Portion, Error>, JoinError> {
        let begun = self.scrub.take();
        let mut scrub = begun.unwrap_or_else(|| {
            self.problems = 0;
            Scrub::new(self.schedule.source.clone())
        });
        let looked = tokio::task::spawn_blocking(move || {
            let portion = scrub.next_portion();
            portion.map(|portion| (portion, scrub))
        });
        Ok(looked.await?.map(|(portion, scrub)| {
            self.scrub = (!portion.is_last).then_some(scrub);
            portion
        }))
    }

    fn report(&mut self, portion: &Portion) -> Pass {
        for problem in &portion.problems {
            self.problems += 1;
            if self.problems <= LOGGED_MAX {
                let (table, row, what) = (problem.table, &problem.row, &problem.what);
                tracing::error!(table, row, what, "the database is damaged: run `faregate verify`");
            }
        }
        if !portion.problems.is_empty() || portion.is_last {
            // A pass that finds less than the one before says so at its end.
            metrics::gauge!(PROBLEMS).set(gauge(self.problems));
        }
        if !portion.is_last {
            return Pass::IdleFor(PAUSE);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        metrics::gauge!(VERIFIED).set(now.as_secs_f64());
        tracing::info!(problems = self.problems, "verified the database");
        Pass::Idle
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
const fn gauge(value: u64) -> f64 {
    value as f64
}
