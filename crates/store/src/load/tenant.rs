//! Loads tenants, and what each has once.

use domain::state::TenantState;
use engine::ports::StoreError;

use super::Stored;
use crate::catalogs::Catalogs;
use crate::driver::Reader;

const VALUES_BYTES: &str = "SELECT COALESCE(CAST(sum(counted_bytes) AS BIGINT), 0) \
    FROM tenant_value WHERE tenant = ?1 AND value IS NOT NULL";

pub(super) fn load(
    reader: &Reader,
    loaded: &mut TenantState,
    catalogs: &Catalogs,
) -> Result<(), StoreError> {
    loaded.load(&Stored(reader))?;
    catalogs.load(reader, &mut loaded.catalog_versions)?;
    for (no, bytes) in &mut loaded.values_bytes {
        let counted = reader.query_one(VALUES_BYTES, &[(*no).into()], |cells| cells.length())?;
        *bytes = counted.unwrap_or_default();
    }
    Ok(())
}
