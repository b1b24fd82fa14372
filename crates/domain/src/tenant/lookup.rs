//! Tenants and what each has once, as rules look them up.

use crate::account::tag::TagDefinition;
use crate::state::{LOADED, State};
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
