//! Reads of timers.

use domain::timer::Timer;
use domain::{AccountId, AttemptId, PaymentId, TenantNo, Timestamp};
use uuid::Uuid;

use super::{QueueWindow, StoreError};

/// Reads of timers.
pub trait TimerQueries: Send + Sync {
    /// The timers of the partition that are due at `now`, the oldest first, behind `after` in that order; at
    /// most `limit`.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn timers_due(
        &self,
        now: Timestamp,
        after: Option<&Timer>,
        limit: usize,
    ) -> Result<Vec<Timer>, StoreError>;
    /// A tenant's retries whose timer is set, in the order of their attempts. The time of each is its due time.
    /// A window of times is not one of an index: for `Engine::scan`.
    fn retries_of_tenant(
        &self,
        no: TenantNo,
        account: Option<AccountId>,
        window: QueueWindow<AttemptId>,
    ) -> Result<Vec<ScheduledRetry>, StoreError>;
}

/// A retry of a failed payment whose timer is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledRetry {
    /// Its object is the attempt that failed.
    pub timer: Timer,
    pub payment: PaymentId,
    /// The control plugins of the attempt, by name.
    pub plugins: Vec<String>,
    /// Domain time of the batch that scheduled it.
    pub at: Timestamp,
    /// Names the request of that batch to its caller.
    pub token: Uuid,
}

impl ScheduledRetry {
    /// The attempt that failed.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        AttemptId::new(self.timer.key.object)
    }
}
