//! Tenants: their values, definitions of tags and rules for payments.

use std::collections::BTreeMap;

use super::{LOADED, State};
use crate::change::TenantChange;
use crate::payment_rules::PaymentRules;
use crate::rows::Rows;
use crate::tag::TagDefinition;
use crate::tenant::{Tenant, TenantValue};
use crate::{TagDefinitionId, TenantNo};

/// A row of a tenant that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantRead {
    TagDefinition(TenantNo, TagDefinitionId),
    /// A tenant's rules for payments.
    PaymentRules(TenantNo),
    Tenant(TenantNo),
    Value(TenantNo, String),
    /// How many bytes are counted of a tenant's values.
    ValuesBytes(TenantNo),
}

#[derive(Clone, Debug, Default)]
pub struct TenantState {
    pub tenants: Rows<Tenant>,
    pub values: Rows<TenantValue>,
    /// The size of all values of a tenant, in bytes: see [`TenantValue::counted_bytes`].
    pub values_bytes: BTreeMap<TenantNo, u64>,
    /// Tenants' own definitions of tags.
    pub tag_definitions: Rows<TagDefinition>,
    /// The rules for payments, as they were when the batch began: so they hold for all its payments.
    pub payment_rules: Rows<PaymentRules>,
    /// The rules that the batch changed.
    pub changed_payment_rules: BTreeMap<TenantNo, PaymentRules>,
}

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

impl TenantState {
    pub(super) fn apply(&mut self, change: &TenantChange) {
        match change {
            TenantChange::Tenant(it) => drop(self.tenants.put(it.clone())),
            TenantChange::TagDefinition(it) => drop(self.tag_definitions.put(it.clone())),
            TenantChange::PaymentRules(it) => {
                self.changed_payment_rules.insert(it.tenant, it.clone());
            }
            TenantChange::Value(it) => {
                let before = self.values.put(it.clone()).map_or(0, |it| it.counted_bytes());
                if let Some(bytes) = self.values_bytes.get_mut(&it.tenant) {
                    *bytes = bytes.saturating_sub(before) + it.counted_bytes();
                }
            }
        }
    }
}
