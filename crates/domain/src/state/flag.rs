//! Environments with their secrets and definitions, and changes that are kept for later.

use super::State;
use crate::change::FlagChange;
use crate::change_request::ChangeRequest;
use crate::definition::{Definition, DefinitionKey};
use crate::environment::{Environment, Secret};
use crate::rows::Rows;
use crate::{ChangeRequestId, EnvironmentId, SecretId, TenantNo};

/// A row of feature flags that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlagRead {
    Environment(TenantNo, EnvironmentId),
    Secret(TenantNo, SecretId),
    Definition(TenantNo, DefinitionKey),
    ChangeRequest(TenantNo, ChangeRequestId),
}

#[derive(Clone, Debug, Default)]
pub struct FlagState {
    pub environments: Rows<Environment>,
    pub secrets: Rows<Secret>,
    /// Flags and segments.
    pub definitions: Rows<Definition>,
    pub change_requests: Rows<ChangeRequest>,
}

impl State {
    pub(crate) fn environment(&self, tenant: TenantNo, id: EnvironmentId) -> Option<&Environment> {
        self.flag.environments.get(&(tenant, id))
    }

    pub(crate) fn secret(&self, tenant: TenantNo, id: SecretId) -> Option<&Secret> {
        self.flag.secrets.get(&(tenant, id))
    }

    pub(crate) fn definition(&self, tenant: TenantNo, key: &DefinitionKey) -> Option<&Definition> {
        self.flag.definitions.get(&(tenant, key.clone()))
    }

    pub(crate) fn change_request(
        &self,
        tenant: TenantNo,
        id: ChangeRequestId,
    ) -> Option<&ChangeRequest> {
        self.flag.change_requests.get(&(tenant, id))
    }
}

impl FlagState {
    pub(super) fn apply(&mut self, change: &FlagChange) {
        match change {
            FlagChange::Environment(it) => drop(self.environments.put(it.clone())),
            FlagChange::Secret(it) => drop(self.secrets.put(it.clone())),
            FlagChange::Definition(it) => drop(self.definitions.put(it.clone())),
            FlagChange::ChangeRequest(it) => drop(self.change_requests.put(it.clone())),
        }
    }
}
