//! Whether the engine takes requests: checked by the server from time to time, answered from memory to
//! every caller of a health route.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::{Engine, Transport};
use crate::{Reason, Unavailable};

/// How old the last check may be. Checks wait in the engine's queue: a long queue alone does not make
/// the engine unhealthy.
pub const CHECK_AGE_MAX: Duration = Duration::from_secs(30);

/// Why the engine is not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    /// The last check failed.
    #[error("{0}")]
    Failed(Reason),
    /// No check has ended within [`CHECK_AGE_MAX`].
    #[error("the core does not answer")]
    Silent,
    /// A partition's thread has been writing one batch for more than ten seconds.
    #[error("the core makes no progress: a commit does not end")]
    Stuck,
}

/// The outcome of the last check; an engine that was just made counts as checked.
pub(crate) struct LastCheck(Mutex<Outcome>);

#[derive(Clone, Copy)]
struct Outcome {
    at: Instant,
    failure: Option<Reason>,
}

impl LastCheck {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Outcome { at: Instant::now(), failure: None }))
    }

    fn set(&self, failure: Option<Reason>) {
        let outcome = Outcome { at: Instant::now(), failure };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
    }

    fn get(&self) -> Outcome {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Checks whether requests can be taken: the partition commits or the queue can be reached, and the
    /// database can be read.
    /// [`Engine::health`] returns the outcome until the next check. [`Reason::DiskFull`] means that
    /// reads are served.
    ///
    /// # Errors
    /// [`Unavailable`]: why not.
    pub async fn check(&self) -> Result<(), Unavailable> {
        let mut checked = self.check_writes().await;
        // An empty commit may not reach the database; on a full disk reads go on.
        if checked.as_ref().err().is_none_or(|it| it.reason == Reason::DiskFull)
            && let Err(unavailable) = self.check_reads().await
        {
            checked = Err(unavailable);
        }
        self.shared.last_check.set(checked.as_ref().err().map(|unavailable| unavailable.reason));
        checked
    }

    async fn check_writes(&self) -> Result<(), Unavailable> {
        match &self.shared.transport {
            Transport::Partition(_) => self.record(vec![]).await,
            Transport::Queue(queue) if !queue.is_available() => Err(Reason::QueueAway.into()),
            Transport::Queue(_) => Ok(()),
        }
    }

    /// Busy readers are no failure: they read, and their overload is answered request by request.
    async fn check_reads(&self) -> Result<(), Unavailable> {
        match self.read(|queries| queries.tenant_count().map(drop)).await {
            Err(it) if matches!(it.reason, Reason::ReadersFull | Reason::ReadTooLong) => Ok(()),
            checked => checked,
        }
    }

    /// Whether the threads of this process's partitions get on.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.shared.options.progress)
    }

    /// The outcome of the last [`Engine::check`], from memory: callers of health routes cause no work.
    ///
    /// # Errors
    /// [`Unhealthy`].
    pub fn health(&self) -> Result<(), Unhealthy> {
        let Outcome { at, failure } = self.shared.last_check.get();
        if self.shared.options.progress.is_stuck(Instant::now()) {
            return Err(Unhealthy::Stuck);
        }
        match failure {
            Some(reason) => Err(Unhealthy::Failed(reason)),
            None if at.elapsed() > CHECK_AGE_MAX => Err(Unhealthy::Silent),
            None => Ok(()),
        }
    }
}
