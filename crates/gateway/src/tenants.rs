//! Gateways' reads of tenants, and of objects that belong to them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::TenantNo;
use engine::ports::{Queries, StoreError};
use engine::{Engine, WeakEngine};
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

/// How many tenants are remembered. A number keeps its tenant for ever, so nothing gets stale.
const REMEMBERED_MAX: usize = 65_536;

/// How long to wait for the engine: its first inquiries are sent while it starts.
const STARTED_WITHIN: Duration = Duration::from_secs(5);

/// Reads tenants through an engine, which is made after the gateways that it calls.
#[derive(Default)]
pub struct Tenants {
    /// Weak, because the engine holds the gateways that hold this.
    engine: watch::Sender<Option<WeakEngine>>,
    ids: Mutex<HashMap<TenantNo, Uuid>>,
}

impl Tenants {
    /// Tenants that are known from the start.
    #[must_use]
    pub fn knowing(tenants: impl IntoIterator<Item = (TenantNo, Uuid)>) -> Self {
        Self { ids: Mutex::new(tenants.into_iter().collect()), ..Self::default() }
    }

    /// Reads through this engine from now on.
    pub fn read_with(&self, engine: &Engine) {
        self.engine.send_replace(Some(engine.downgrade()));
    }

    /// Reads committed rows.
    ///
    /// # Errors
    /// Why they cannot be read now.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, String>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let engine = self.engine().await.ok_or("the server is starting")?;
        engine.read(query).await.map_err(|error| format!("the database cannot be read: {error}"))
    }

    /// Grows whenever a tenant's values change in this process.
    pub(crate) async fn generation(&self) -> Option<i64> {
        Some(self.engine().await?.access_generation())
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
        let found = self.read(move |queries| queries.tenant_by_no(no)).await?;
        let id = found.ok_or("there is no such tenant")?.id.uuid();
        let mut ids = self.ids();
        if ids.len() >= REMEMBERED_MAX {
            ids.clear();
        }
        ids.insert(no, id);
        Ok(id)
    }

    async fn engine(&self) -> Option<Engine> {
        let mut engine = self.engine.subscribe();
        let started = timeout(STARTED_WITHIN, engine.wait_for(Option::is_some)).await;
        started.ok()?.ok()?.as_ref()?.upgrade()
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<TenantNo, Uuid>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
