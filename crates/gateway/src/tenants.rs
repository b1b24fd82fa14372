//! What gateways read of tenants.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use domain::TenantNo;
use engine::Engine;
use uuid::Uuid;

/// How many tenants are remembered. A number keeps its tenant for ever, so nothing gets stale.
const REMEMBERED_MAX: usize = 65_536;

/// Reads tenants through an engine, which is made after the gateways that it calls.
#[derive(Default)]
pub struct Tenants {
    engine: OnceLock<Engine>,
    ids: Mutex<HashMap<TenantNo, Uuid>>,
}

impl Tenants {
    /// Tenants that are known from the start.
    #[must_use]
    pub fn knowing(tenants: impl IntoIterator<Item = (TenantNo, Uuid)>) -> Self {
        Self { engine: OnceLock::new(), ids: Mutex::new(tenants.into_iter().collect()) }
    }

    /// Reads through this engine from now on, if there is none yet: all engines of a process read the same
    /// database.
    pub fn read_with(&self, engine: &Engine) {
        // Another is as good.
        let _other = self.engine.set(engine.clone());
    }

    /// The id that clients see.
    ///
    /// # Errors
    /// Why it cannot be read now.
    pub(crate) async fn id(&self, no: TenantNo) -> Result<Uuid, String> {
        let remembered = self.ids().get(&no).copied();
        if let Some(id) = remembered {
            return Ok(id);
        }
        let engine = self.engine.get().ok_or("the server is starting")?;
        let found = engine.read(move |queries| queries.tenant_by_no(no)).await;
        let found = found.map_err(|error| format!("the tenant cannot be read: {error}"))?;
        let id = found.ok_or("there is no such tenant")?.id.uuid();
        let mut ids = self.ids();
        if ids.len() >= REMEMBERED_MAX {
            ids.clear();
        }
        ids.insert(no, id);
        Ok(id)
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<TenantNo, Uuid>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
