//! Tenants and what each has once, as rules look them up.

use crate::account::tag::TagDefinition;
use crate::rows::PartsOf;
use crate::state::{LOADED, State};
use crate::tenant::catalog::CatalogVersion;
use crate::tenant::payment_rules::PaymentRules;
use crate::tenant::{Tenant, TenantValue};
use crate::{TagDefinitionId, TenantNo};

impl State {
    /// The tenant of a request, which exists wherever a request names it.
    pub(crate) fn tenant(&self, no: TenantNo) -> &Tenant {
        self.tenant.tenants.get(&no).expect("a request names a tenant that exists")
    }

    pub(crate) fn tenant_value(&self, tenant: TenantNo, key: &str) -> Option<&TenantValue> {
        self.tenant.values.get(&(tenant, key.to_owned()))
    }

    pub(crate) fn tenant_values_bytes(&self, tenant: TenantNo) -> u64 {
        *self.tenant.values_bytes.get(&tenant).expect(LOADED)
    }

    pub(crate) fn tag_definition(
        &self,
        tenant: TenantNo,
        id: TagDefinitionId,
    ) -> Option<&TagDefinition> {
        self.tenant.tag_definitions.get(&(tenant, id))
    }

    /// All versions of a tenant's catalog, those that are withdrawn among them.
    pub(crate) fn catalog_versions(&self, tenant: TenantNo) -> &PartsOf<CatalogVersion> {
        self.tenant.catalog_versions.of(&tenant)
    }

    /// The rules for the payments of the batch.
    pub(crate) fn payment_rules(&self, tenant: TenantNo) -> Option<&PaymentRules> {
        self.tenant.payment_rules.get(&tenant)
    }

    /// The rules for the payments of the batches to come.
    pub(crate) fn newest_payment_rules(&self, tenant: TenantNo) -> Option<&PaymentRules> {
        let changed = self.tenant.changed_payment_rules.get(&tenant);
        changed.or_else(|| self.payment_rules(tenant))
    }
}
