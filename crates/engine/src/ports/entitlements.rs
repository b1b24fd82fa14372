//! Reads about features, offers, purchases and what accounts may do.

use domain::entitlement::Entitlements;
use domain::feature::Feature;
use domain::offer::Offer;
use domain::purchase::Purchase;
use domain::{AccountId, PurchaseId, TenantNo};

use super::{Page, StoreError};

/// Reads about features, offers, purchases and what accounts may do. Lists of features and offers are in the order of
/// their keys.
pub trait EntitlementQueries: Send + Sync {
    /// A feature by key.
    ///
    /// # Errors
    /// [`StoreError`]
    fn feature(&self, tenant: TenantNo, key: &str) -> Result<Option<Feature>, StoreError>;

    /// Features, archived ones too.
    ///
    /// # Errors
    /// [`StoreError`]
    fn features(&self, tenant: TenantNo, page: Page) -> Result<Vec<Feature>, StoreError>;

    /// An offer by key, in a version, or in its newest.
    ///
    /// # Errors
    /// [`StoreError`]
    fn offer(
        &self,
        tenant: TenantNo,
        key: &str,
        version: Option<i64>,
    ) -> Result<Option<Offer>, StoreError>;

    /// The newest versions of offers, withdrawn ones too.
    ///
    /// # Errors
    /// [`StoreError`]
    fn offers(&self, tenant: TenantNo, page: Page) -> Result<Vec<Offer>, StoreError>;

    /// The versions of an offer, the newest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn offer_versions(
        &self,
        tenant: TenantNo,
        key: &str,
        page: Page,
    ) -> Result<Vec<Offer>, StoreError>;

    /// A purchase by id.
    ///
    /// # Errors
    /// [`StoreError`]
    fn purchase(&self, tenant: TenantNo, id: PurchaseId) -> Result<Option<Purchase>, StoreError>;

    /// The purchases of an account, the oldest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn purchases(
        &self,
        tenant: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<Purchase>, StoreError>;

    /// What was granted to an account; `None` where nothing ever was.
    ///
    /// # Errors
    /// [`StoreError`]
    fn entitlements(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> Result<Option<Entitlements>, StoreError>;
}
