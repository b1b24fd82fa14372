//! Loads tenants, and what each has once.

use std::collections::BTreeSet;

use domain::TenantNo;
use domain::read::{TenantRead, TenantRow};
use domain::state::State;
use engine::ports::StoreError;

use super::Stored;
use crate::driver::Reader;
use crate::tables::PAYMENT_RULES;

const VALUES_BYTES: &str = "SELECT COALESCE(CAST(sum(counted_bytes) AS BIGINT), 0) \
    FROM tenant_value WHERE tenant = ?1 AND value IS NOT NULL";

/// The keys of what belongs to tenants.
#[derive(Default)]
pub(super) struct TenantPlan {
    rows: Vec<TenantRow>,
    /// Tenants whose values are counted.
    values_bytes: Vec<TenantNo>,
    /// Tenants whose rules for payments are looked at.
    pub(super) rules: BTreeSet<TenantNo>,
}

impl TenantPlan {
    pub(super) fn add(&mut self, read: &TenantRead) {
        match read {
            TenantRead::Row(row) => self.rows.push(row.clone()),
            TenantRead::ValuesBytes(no) => self.values_bytes.push(*no),
            TenantRead::PaymentRules(no) => drop(self.rules.insert(*no)),
        }
    }

    /// Loads the rules for payments, which say what else is looked at.
    pub(super) fn load_rules(
        &mut self,
        reader: &Reader,
        state: &mut State,
    ) -> Result<(), StoreError> {
        let rules = std::mem::take(&mut self.rules);
        PAYMENT_RULES.load(reader, rules, &mut state.tenant.payment_rules)
    }

    pub(super) fn load(self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        let loaded = &mut state.tenant;
        loaded.load(&self.rows, &Stored(reader))?;
        for no in self.values_bytes {
            let counted = reader.query_one(VALUES_BYTES, &[no.into()], |cells| cells.length())?;
            loaded.values_bytes.insert(no, counted.unwrap_or_default());
        }
        Ok(())
    }
}
