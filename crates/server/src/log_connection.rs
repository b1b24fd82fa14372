//! A connection to what stands beside the journal, used by one task from blocking threads.

use std::sync::{Arc, Mutex, PoisonError};

use engine::ports::StoreError;
use store::delivery_log::LogSource;

/// Opens a connection.
type Open<T> = fn(&LogSource) -> Result<T, StoreError>;

/// A connection that is opened when it is first used, and again after an error.
pub struct LogConnection<T> {
    source: LogSource,
    open: Open<T>,
    kept: Arc<Mutex<Option<T>>>,
}

impl<T: Send + 'static> LogConnection<T> {
    /// Opens nothing yet.
    pub fn new(source: LogSource, open: Open<T>) -> Self {
        Self { source, open, kept: Arc::default() }
    }

    /// Runs a query on a thread that may block.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn query<R: Send + 'static>(
        &self,
        query: impl FnOnce(&T) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (source, open, kept) = (self.source.clone(), self.open, Arc::clone(&self.kept));
        let queried = tokio::task::spawn_blocking(move || {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let connection = match kept.take() {
                Some(connection) => connection,
                None => open(&source)?,
            };
            let result = query(&connection)?;
            *kept = Some(connection);
            Ok(result)
        });
        queried.await.map_err(|error| StoreError::Database(error.to_string()))?
    }
}
