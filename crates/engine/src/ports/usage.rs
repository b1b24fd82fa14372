//! Reads about what accounts used.

use std::sync::Arc;

use domain::entitlement::Entitlements;
use domain::entitlement::usage::{Reservation, Usage};
use domain::{AccountId, ReservationId, Seq, TenantNo};

use super::{Page, StoreError};

/// The data that decides whether an account may use a feature.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Whether there is such a feature.
    pub is_feature: bool,
    /// The account's time zone; `None` where there is no such account.
    pub zone: Option<String>,
    /// The account's entitlements; `None` where nothing was ever granted to it.
    pub entitlements: Option<Entitlements>,
    /// The account's usage of the feature in its newest periods.
    pub usage: Vec<Usage>,
}

/// Reads about what accounts used.
pub trait UsageQueries: Send + Sync {
    /// An account's usage of features in their newest periods: of each feature as many as
    /// [`PERIODS_MAX`](domain::entitlement::usage::PERIODS_MAX).
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn usage_now(
        &self,
        tenant: TenantNo,
        account: AccountId,
        features: &[&str],
    ) -> Result<Vec<Usage>, StoreError>;

    /// The data that decides whether accounts may use features, in the order of `asked`.
    fn checked(
        &self,
        asked: &[(TenantNo, AccountId, String)],
    ) -> Result<Vec<Arc<Checked>>, StoreError>;

    /// An account's usage of a feature, the newest period first.
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
