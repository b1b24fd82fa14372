//! Reads: blocking queries on threads of their own, so many at a time and no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{Semaphore, oneshot};

use crate::ports::{Queries, ReadLimits, StoreError};
use crate::{Reason, Unavailable};

/// How long a read may take once it has begun.
pub(crate) const READ_WITHIN: Duration = Duration::from_secs(2);

/// A query that sends its result where it is awaited.
type Query = Box<dyn FnOnce(&dyn Queries) + Send>;

pub(crate) struct Readers {
    queries: Arc<dyn Queries>,
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl Readers {
    pub(crate) fn new(queries: Arc<dyn Queries>, readers: usize, waiting_max: usize) -> Self {
        let free = Arc::new(Semaphore::new(readers.max(1)));
        Self { queries, free, waiting: AtomicUsize::new(0), waiting_max }
    }

    /// Reads within [`READ_WITHIN`]; a caller who waits no longer ends the read.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, Unavailable>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (sender, result) = oneshot::channel();
        self.run(Box::new(move |queries| {
            // The reader may be gone; then the result is of no use.
            let _ = sender.send(query(queries));
        }))
        .await?;
        answer(result.await)
    }

    /// Runs a query once a reader is free. Not generic: a task of tokio is much code, and there are
    /// more than a hundred queries.
    async fn run(&self, query: Query) -> Result<(), Unavailable> {
        let permit = if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            permit
        } else {
            let _waiting = Waiting::begin(&self.waiting, self.waiting_max)?;
            let acquired = Arc::clone(&self.free).acquire_owned().await;
            acquired.map_err(|_| Unavailable::from(Reason::Stopping))?
        };
        let queries = Arc::clone(&self.queries);
        let (limits, _awaited) = ReadLimits::new(READ_WITHIN);
        let ran = tokio::task::spawn_blocking(move || {
            query(&*queries.within(limits.from_now()));
            drop(permit);
        });
        ran.await.map_err(|_| Reason::Bug.into())
    }
}

/// What a read came to, with its failure logged.
pub(crate) fn answer<T>(
    result: Result<Result<T, StoreError>, RecvError>,
) -> Result<T, Unavailable> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(StoreError::ReadTooLong)) => {
            let reason = Reason::ReadTooLong;
            metrics::counter!("faregate_refused_total", "reason" => reason.label()).increment(1);
            Err(reason.into())
        }
        Ok(Err(error)) => {
            tracing::error!(error = %error, "a read failed");
            Err(Reason::from(&error).into())
        }
        Err(_) => Err(Reason::Bug.into()),
    }
}

/// The refusal of a read for which there is no room, counted.
pub(crate) fn refused_full() -> Unavailable {
    let reason = Reason::ReadersFull;
    metrics::counter!("faregate_refused_total", "reason" => reason.label()).increment(1);
    reason.into()
}

/// One more reader that waits, as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize, max: usize) -> Result<Self, Unavailable> {
        let waiting = Self(count);
        if count.fetch_add(1, Ordering::Relaxed) >= max {
            return Err(refused_full());
        }
        Ok(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
