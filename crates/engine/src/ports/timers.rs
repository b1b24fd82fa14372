//! Reads of timers.

use domain::Timestamp;
use domain::timer::Timer;

use super::StoreError;

/// Reads of timers.
pub trait TimerQueries: Send + Sync {
    /// The timers of the partition that are due at `now`, the oldest first, behind `after` in that order; at
    /// most `limit`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn timers_due(
        &self,
        now: Timestamp,
        after: Option<&Timer>,
        limit: usize,
    ) -> Result<Vec<Timer>, StoreError>;
}
