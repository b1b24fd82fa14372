//! Compiled catalogs, shared by all who read them: each version is decoded once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::rows::Parts;
use domain::tenant::catalog::CatalogVersion;
use domain::{Seq, TenantNo};
use engine::ports::StoreError;

use crate::driver::Reader;
use crate::tables::CATALOG_VERSION;

/// Of how many tenants catalogs are held at most.
const TENANTS_MAX: usize = 64;

const NEWEST: &str = "SELECT max(seq) FROM catalog_version WHERE tenant = ?1";

/// The catalogs of some tenants, each as it was at a journal row.
#[derive(Default)]
pub(crate) struct Catalogs(Mutex<Held>);

/// All versions of tenants, each list with the journal row of its newest one.
type Held = BTreeMap<TenantNo, (Seq, Arc<[CatalogVersion]>)>;

impl Catalogs {
    /// Loads all versions of the tenants that are looked for.
    pub(crate) fn load(
        &self,
        reader: &Reader,
        loaded: &mut Parts<CatalogVersion>,
    ) -> Result<(), StoreError> {
        let tenants: Vec<TenantNo> = loaded.owners().copied().collect();
        for tenant in tenants {
            let versions = self.of(reader, tenant)?;
            versions.iter().for_each(|it| loaded.put(it.clone()));
        }
        Ok(())
    }

    /// All versions of a tenant, read in one snapshot with the number of the newest one.
    fn of(&self, reader: &Reader, tenant: TenantNo) -> Result<Arc<[CatalogVersion]>, StoreError> {
        let newest = reader.query_one(NEWEST, &[tenant.into()], |cells| cells.opt_int())?;
        let Some(newest) = newest.flatten().map(Seq) else { return Ok(Arc::default()) };
        if let Some((of, versions)) = self.held().get(&tenant)
            && *of == newest
        {
            return Ok(Arc::clone(versions));
        }
        let sql = CATALOG_VERSION.select("WHERE tenant = ?1");
        let versions = reader.query(&sql, &[tenant.into()], |cells| CATALOG_VERSION.row(cells))?;
        let versions: Arc<[CatalogVersion]> = versions.into();
        let mut held = self.held();
        if held.len() >= TENANTS_MAX {
            held.clear();
        }
        held.insert(tenant, (newest, Arc::clone(&versions)));
        Ok(versions)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
