//! Reads of the rows that commands look at.

use std::collections::BTreeSet;

use domain::read::Read;
use domain::state::State;

use super::StoreError;

/// Reads of the rows that commands look at, for queries that need no more than a command does.
pub trait RowQueries: Send + Sync {
    /// The rows of these reads as they are now, each with what belongs to it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn rows(&self, reads: &BTreeSet<Read>) -> Result<State, StoreError>;
}
