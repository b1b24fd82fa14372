//! Tenants: their values, definitions of tags and rules for payments.

use std::collections::BTreeMap;

use crate::account::tag::TagDefinition;
use crate::change::TenantChange;
use crate::rows::Rows;
use crate::source::Source;
use crate::tenant::payment_rules::PaymentRules;
use crate::tenant::{Tenant, TenantValue};
use crate::{TagDefinitionId, TenantNo};

/// A row of a tenant that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantRead {
    Row(TenantRow),
    /// A tenant's rules for payments.
    PaymentRules(TenantNo),
    /// How many bytes are counted of a tenant's values.
    ValuesBytes(TenantNo),
}

/// A row of a tenant that comes alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantRow {
    Tenant(TenantNo),
    Value(TenantNo, String),
    TagDefinition(TenantNo, TagDefinitionId),
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

impl TenantState {
    /// Loads rows.
    ///
    /// # Errors
    /// Those of the source.
    pub fn load<'a, S: Source>(
        &mut self,
        rows: impl IntoIterator<Item = &'a TenantRow>,
        from: &S,
    ) -> Result<(), S::Error> {
        let (mut tenants, mut values, mut tag_definitions) = (vec![], vec![], vec![]);
        for row in rows {
            match row {
                TenantRow::Tenant(no) => tenants.push(*no),
                TenantRow::Value(no, key) => values.push((*no, key.clone())),
                TenantRow::TagDefinition(no, id) => tag_definitions.push((*no, *id)),
            }
        }
        from.rows(tenants, &mut self.tenants)?;
        from.rows(values, &mut self.values)?;
        from.rows(tag_definitions, &mut self.tag_definitions)
    }

    pub(crate) fn apply(&mut self, change: &TenantChange) {
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
