//! Environments and what is in them, as rules look them up.

use crate::flag::change_request::ChangeRequest;
use crate::flag::definition::{Definition, DefinitionKey};
use crate::flag::environment::{Environment, Secret};
use crate::state::State;
use crate::{ChangeRequestId, EnvironmentId, SecretId, TenantNo};

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
