//! Tenants: their values, definitions of tags and rules for payments.

use std::collections::BTreeMap;

use crate::account::tag::TagDefinition;
use crate::change::TenantChange;
use crate::rows::{Parts, Rows};
use crate::source::Source;
use crate::tenant::catalog::CatalogVersion;
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
    /// All versions of a tenant's catalog.
    CatalogVersions(TenantNo),
}

#[derive(Clone, Debug, Default)]
pub struct TenantState {
    pub tenants: Rows<Tenant>,
    pub values: Rows<TenantValue>,
    /// The size of all values of a tenant, in bytes: see [`TenantValue::counted_bytes`].
    pub values_bytes: BTreeMap<TenantNo, u64>,
    /// Tenants' own definitions of tags.
    pub tag_definitions: Rows<TagDefinition>,
    /// All versions of tenants' catalogs.
    pub catalog_versions: Parts<CatalogVersion>,
    /// The rules for payments, as they were when the batch began: so they hold for all its payments.
    pub payment_rules: Rows<PaymentRules>,
    /// The rules that the batch changed.
    pub changed_payment_rules: BTreeMap<TenantNo, PaymentRules>,
}

impl TenantState {
    pub(crate) fn look_for(&mut self, read: &TenantRead) {
        match read {
            TenantRead::Row(TenantRow::Tenant(no)) => self.tenants.look_for(*no),
            TenantRead::Row(TenantRow::Value(no, key)) => self.values.look_for((*no, key.clone())),
            TenantRead::Row(TenantRow::TagDefinition(no, id)) => {
                self.tag_definitions.look_for((*no, *id));
            }
            TenantRead::Row(TenantRow::CatalogVersions(no)) => self.catalog_versions.look_for(*no),
            TenantRead::PaymentRules(no) => self.payment_rules.look_for(*no),
            TenantRead::ValuesBytes(no) => drop(self.values_bytes.entry(*no).or_default()),
        }
    }

    /// Loads the rows that are looked for and come alone.
    ///
    /// # Errors
    /// Those of the source.
    pub fn load<S: Source>(&mut self, from: &S) -> Result<(), S::Error> {
        from.rows(&mut self.tenants)?;
        from.rows(&mut self.values)?;
        from.rows(&mut self.tag_definitions)
    }

    /// Loads the catalogs that are looked for.
    ///
    /// # Errors
    /// Those of the source.
    pub fn load_catalogs<S: Source>(&mut self, from: &S) -> Result<(), S::Error> {
        from.parts(&mut self.catalog_versions)
    }

    pub(crate) fn apply(&mut self, change: &TenantChange) {
        match change {
            TenantChange::Tenant(it) => drop(self.tenants.put(it.clone())),
            TenantChange::TagDefinition(it) => drop(self.tag_definitions.put(it.clone())),
            TenantChange::PaymentRules(it) => {
                self.changed_payment_rules.insert(it.tenant, it.clone());
            }
            TenantChange::CatalogVersion(it) => self.catalog_versions.put(it.clone()),
            // No rule looks at it.
            TenantChange::CatalogText(_) => {}
            TenantChange::Value(it) => {
                let before = self.values.put(it.clone()).map_or(0, |it| it.counted_bytes());
                if let Some(bytes) = self.values_bytes.get_mut(&it.tenant) {
                    *bytes = bytes.saturating_sub(before) + it.counted_bytes();
                }
            }
        }
    }
}
