//! Why a store did not do what it was asked for.

use std::error::Error;
use std::fmt::{self, Debug, Display, Formatter};
use std::ops::Deref;
use std::sync::Arc;

/// The source of a [`StoreError`]: the error of a driver, or a text. Neither its display nor its debug form has
/// values of rows or secrets.
#[derive(Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    /// A driver's error, or a text.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        Self(error.into())
    }
}

/// It is no error itself, so that [`Error::source`] of a [`StoreError`] is the driver's error.
impl Deref for Cause {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Debug for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

/// Why the store did not do something.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full; reads still work.
    #[error("the disk is full")]
    DiskFull,
    /// Another process took the partition over.
    #[error("this process no longer owns the partition")]
    NotOwner,
    /// The writer of another partition took a key first, or got the same request: loaded anew, the
    /// batch will see it.
    #[error("another partition has taken a key")]
    KeyTaken,
    /// The database refused or failed; nothing was written.
    #[error("database: {0}")]
    Database(#[source] Cause),
    /// The database refuses what is in a row, such as a value out of range or against a constraint.
    /// Nothing was written, and the same batch will be refused whenever it comes again.
    #[error("the database refuses a row: {0}")]
    Refused(#[source] Cause),
    /// The row that a command makes is there already: its id is the request's, so that the same request was carried
    /// out before. Nothing was written.
    #[error("the request was carried out before: {0}")]
    Repeated(#[source] Cause),
    /// The connection to the database was lost, or cannot be made. Nothing was written, and the
    /// store must be opened again.
    #[error("no connection to the database: {0}")]
    ConnectionLost(#[source] Cause),
    /// The commit may or may not have happened.
    #[error("the outcome of a commit is not known: {0}")]
    OutcomeUnknown(#[source] Cause),
    /// The read took too long, or its caller waits no longer.
    #[error("the read took too long")]
    ReadTooLong,
    /// A row has an invalid value.
    #[error("corrupt row in {table}: {reason}")]
    Corrupt {
        table: &'static str,
        /// The reason why the row is invalid.
        reason: String,
    },
}
