//! Reads of tenants and their values.

use domain::tenant::payment_rules::PaymentRules;
use domain::tenant::{Tenant, TenantValue};
use domain::{CatalogVersionId, TenantId, TenantNo};

use super::{Page, StoreError};

/// Reads of tenants and their values.
pub trait TenantQueries: Send + Sync {
    /// The tenant with this API key.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn tenant_by_api_key(&self, api_key: &str) -> Result<Option<Tenant>, StoreError>;
    /// The tenant with this external key or API key; the oldest where several have it, so that no
    /// later tenant takes a name over.
    fn tenant_named(&self, name: &str) -> Result<Option<Tenant>, StoreError>;
    /// A tenant by id.
    fn tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError>;
    /// A tenant by number.
    fn tenant_by_no(&self, no: TenantNo) -> Result<Option<Tenant>, StoreError>;
    /// The tenants, by number.
    fn tenants(&self, page: Page) -> Result<Vec<Tenant>, StoreError>;
    /// How many tenants there are.
    fn tenant_count(&self) -> Result<i64, StoreError>;
    /// A tenant's stored value.
    fn tenant_value(&self, no: TenantNo, key: &str) -> Result<Option<TenantValue>, StoreError>;
    /// A tenant's stored values under keys that begin with `prefix`, by key, at most `limit`. For `Engine::scan`.
    fn tenant_values(
        &self,
        no: TenantNo,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<TenantValue>, StoreError>;
    /// The text of a version of a tenant's catalog.
    fn catalog_text(
        &self,
        no: TenantNo,
        id: CatalogVersionId,
    ) -> Result<Option<String>, StoreError>;
    /// A tenant's rules for payments; `None` where it never had one.
    fn payment_rules(&self, no: TenantNo) -> Result<Option<PaymentRules>, StoreError>;
    /// Whether any tenant has a value under `key`.
    fn is_value_in_use(&self, key: &str) -> Result<bool, StoreError>;
}
