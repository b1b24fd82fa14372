//! The tenants that environments belong to, for counts that are stored by tenant.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use domain::{EnvironmentId, TenantNo};
use uuid::Uuid;

/// The tenant of each environment that the feed has published.
#[derive(Default)]
pub struct Owners(Mutex<HashMap<Uuid, TenantNo>>);

impl Owners {
    /// Stores the tenant of an environment.
    pub fn insert(&self, environment: EnvironmentId, tenant: TenantNo) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(environment.uuid(), tenant);
    }

    /// The tenant of an environment, once the feed has published it.
    pub fn tenant(&self, environment: Uuid) -> Option<TenantNo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&environment).copied()
    }
}
