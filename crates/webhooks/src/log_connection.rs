//! A connection to what stands beside the journal, used by one task from blocking threads.

use std::sync::{Arc, Mutex, PoisonError};

use engine::ports::{Cause, StoreError};

/// Opens a connection.
type Open<T> = dyn Fn() -> Result<Box<T>, StoreError> + Send + Sync;

/// A connection that is opened when it is first used, and again after an error.
pub(crate) struct LogConnection<T: ?Sized> {
    open: Arc<Open<T>>,
    kept: Arc<Mutex<Option<Box<T>>>>,
}

impl<T: Send + ?Sized + 'static> LogConnection<T> {
    /// Opens nothing yet.
    pub(crate) fn new(
        open: impl Fn() -> Result<Box<T>, StoreError> + Send + Sync + 'static,
    ) -> Self {
        Self { open: Arc::new(open), kept: Arc::default() }
    }

    /// Runs a query on a thread that may block.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) async fn query<R: Send + 'static>(
        &self,
        query: impl FnOnce(&T) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (open, kept) = (Arc::clone(&self.open), Arc::clone(&self.kept));
        let queried = tokio::task::spawn_blocking(move || {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let connection = match kept.take() {
                Some(connection) => connection,
                None => open()?,
            };
            let result = query(&connection)?;
            *kept = Some(connection);
            Ok(result)
        });
        queried.await.map_err(|error| StoreError::Database(Cause::new(error)))?
    }
}
