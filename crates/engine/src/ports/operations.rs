//! Reads of operations, and of what sign-up still has to do.

use domain::customer::operation::Operation;
use domain::payment::ReplyKey;
use domain::{OperationId, TenantNo, Timestamp};

use super::StoreError;

/// Reads of operations, and of what sign-up still has to do.
pub trait OperationQueries: Send + Sync {
    /// An operation.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn operation(&self, no: TenantNo, id: OperationId) -> Result<Option<Operation>, StoreError>;
    /// Operations of all tenants that are to be made, oldest first, behind the one with this id.
    fn operations_waiting(
        &self,
        after: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError>;
    /// Operations of all tenants whose end is to be notified now, the earliest due first: those behind
    /// `after`, the time at which one is due and its id.
    fn operations_to_notify(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError>;
    /// How much waits at a time to be done for customers of all tenants.
    fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError>;
    /// How many operations are to be made; no more than so many are counted.
    fn operations_waiting_count(&self, counted_max: usize) -> Result<usize, StoreError>;
    /// Whether the reply to a request that can come twice is stored at `now`, or to come.
    fn has_reply(&self, key: ReplyKey, now: Timestamp) -> Result<bool, StoreError>;
    /// Whether expired rows are still there.
    fn has_expired(&self, cutoffs: ExpiryCutoffs) -> Result<bool, StoreError>;
}

/// The work that waits to be done for customers, and by operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Mails to be sent; no more than [`Backlog::COUNTED_MAX`] are counted.
    pub mails: i64,
    /// When the first of them is due, or was.
    pub mail_due_at: Option<Timestamp>,
    /// Operations to be made; no more than [`Backlog::COUNTED_MAX`] are counted.
    pub operations: i64,
    /// When the first of them was requested.
    pub oldest_operation_at: Option<Timestamp>,
    /// Accounts out of service; no more than [`Backlog::COUNTED_MAX`] are counted.
    pub quarantined: i64,
    /// When the first account was due to be billed that is.
    pub billing_due_at: Option<Timestamp>,
    /// Accounts that are billed no more until somebody acts; no more than [`Backlog::COUNTED_MAX`] are counted.
    pub parked: i64,
}

impl Backlog {
    /// How many are counted at most: to count is not to take long.
    pub const COUNTED_MAX: i64 = 100_000;
}

/// Until when rows have expired: the retention deletes older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryCutoffs {
    /// Operations that came to their end before.
    pub operations_settled: Timestamp,
    /// Mails that were requested before, and were given up.
    pub mails_given_up: Timestamp,
    /// Sessions whose tokens could not be renewed any more.
    pub sessions_ended: Timestamp,
    /// Stored replies that could not be repeated any more.
    pub replies_expired: Timestamp,
    /// Events that were counted before, and reservations that ended before: they are known no more.
    pub usage_forgotten: Timestamp,
}
