//! Reads about what accounts used.

use std::sync::Arc;

use domain::entitlement::Entitlements;
use domain::usage::{Reservation, Usage};
use domain::{AccountId, ReservationId, Seq, TenantNo};

use super::{Page, StoreError};

/// What there is to say whether an account may use a feature.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Whether there is such a feature.
    pub is_feature: bool,
    /// The account's time zone; `None` where there is no such account.
    pub zone: Option<String>,
    /// What was granted to the account; `None` where nothing ever was.
    pub entitlements: Option<Entitlements>,
    /// What it used of the feature in its newest periods.
    pub usage: Vec<Usage>,
}

/// Reads about what accounts used.
pub trait UsageQueries: Send + Sync {
    /// What an account used of features in their newest periods: of each feature as many as
    /// [`PERIODS_MAX`](domain::usage::PERIODS_MAX).
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn usage_now(
        &self,
        tenant: TenantNo,
        account: AccountId,
        features: &[&str],
    ) -> Result<Vec<Usage>, StoreError>;

    /// What there is to say whether accounts may use features, in their order.
    fn checked(
        &self,
        asked: &[(TenantNo, AccountId, String)],
    ) -> Result<Vec<Arc<Checked>>, StoreError>;

    /// What an account used of a feature, the newest period first.
    fn usage(
        &self,
        tenant: TenantNo,
        account: AccountId,
        feature: &str,
        page: Page,
    ) -> Result<Vec<Usage>, StoreError>;

    /// The accounts of the partition of a journal row whose usage changed after it, each with the row of the change, in
    /// the order of these rows; at most `limit`. A command changes one account at most.
    fn usage_changed(&self, after: Seq, limit: usize) -> Result<Vec<(Seq, AccountId)>, StoreError>;

    /// A reservation of an account.
    fn reservation(
        &self,
        tenant: TenantNo,
        account: AccountId,
        id: ReservationId,
    ) -> Result<Option<Reservation>, StoreError>;
}
