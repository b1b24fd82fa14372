//! Reads of transactions without a final outcome.

use domain::payment::{Outstanding, Transaction, TransactionStatus};
use domain::{AccountId, PaymentId, TenantNo, Timestamp, TransactionId};

use super::{Page, QueueWindow, StoreError};

/// Reads of transactions without a final outcome.
pub trait OutcomeQueries: Send + Sync {
    /// The gateways that are to be asked about outcomes, now or later.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn outstanding_gateways(&self) -> Result<Vec<String>, StoreError>;
    /// Outcomes to ask a gateway about: those whose `ask_at` is due at `now`, oldest first.
    fn outstanding_due(
        &self,
        gateway: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Outstanding>, StoreError>;
    /// Outcomes to ask a gateway about later than `at`, latest first.
    fn outstanding_after(
        &self,
        gateway: &str,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Outstanding>, StoreError>;
    /// Outcomes of calls that were never asked about and are not planned to be: calls that run,
    /// and those that ran when a process ended.
    fn outstanding_orphans(&self) -> Result<Vec<Outstanding>, StoreError>;
    /// Outcomes of a payment that are waited for.
    fn outstanding_of(
        &self,
        no: TenantNo,
        payment: PaymentId,
    ) -> Result<Vec<Outstanding>, StoreError>;
    /// Outcomes waited for, oldest deadline first.
    fn outstanding(&self, limit: usize) -> Result<Vec<Outstanding>, StoreError>;
    /// A tenant's outcomes that are waited for, in the order of their transactions. The time of each is that of
    /// its next inquiry, or while its call runs that until which it may run.
    fn outstanding_of_tenant(
        &self,
        no: TenantNo,
        account: Option<AccountId>,
        window: QueueWindow<TransactionId>,
    ) -> Result<Vec<Outstanding>, StoreError>;
    /// How many outcomes are waited for.
    fn outstanding_count(&self) -> Result<i64, StoreError>;
    /// Transactions that are unknown or pending after their call ended, oldest first. Whatever
    /// waits at other tenants is not looked at.
    fn unresolved(&self, no: TenantNo, page: Page) -> Result<Vec<Unresolved>, StoreError>;
    /// How many transactions of all tenants are unknown or pending after their call ended, for each
    /// of the two statuses.
    fn unresolved_counts(&self) -> Result<Vec<UnresolvedCount>, StoreError>;
}

/// Outcomes to ask gateways about at `now`, so many of each gateway.
///
/// # Errors
/// [`StoreError`].
pub fn due_outcomes(
    queries: &dyn OutcomeQueries,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Outstanding>, StoreError> {
    let mut due = vec![];
    for gateway in queries.outstanding_gateways()? {
        due.extend(queries.outstanding_due(&gateway, now, limit)?);
    }
    Ok(due)
}

/// A transaction whose outcome is not known although its call has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    pub transaction: Transaction,
    /// How often its gateway was asked.
    pub questions: u32,
    /// Domain time of the next question; `None` where no further question is planned.
    pub ask_at: Option<Timestamp>,
}

/// How many transactions are in an unresolved status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnresolvedCount {
    /// `Unknown` or `Pending`.
    pub status: TransactionStatus,
    pub transactions: i64,
    /// Domain time of the request for the oldest of them; `None` where there are none.
    pub oldest_at: Option<Timestamp>,
}
