//! Reads about disputes.

use domain::payment::dispute::{Dispute, DisputeStatus};
use domain::{AccountId, DisputeId, PaymentId, TenantNo};

use super::{Page, StoreError};

/// Which disputes; all where nothing is named.
#[derive(Clone, Copy, Debug, Default)]
pub struct DisputeFilter {
    pub account: Option<AccountId>,
    pub payment: Option<PaymentId>,
    pub status: Option<DisputeStatus>,
}

/// Reads about disputes.
pub trait DisputeQueries: Send + Sync {
    /// A dispute by id.
    ///
    /// # Errors
    /// [`StoreError`]
    fn dispute(&self, tenant: TenantNo, id: DisputeId) -> Result<Option<Dispute>, StoreError>;

    /// Disputes, the oldest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn disputes(
        &self,
        tenant: TenantNo,
        filter: &DisputeFilter,
        page: Page,
    ) -> Result<Vec<Dispute>, StoreError>;
}
