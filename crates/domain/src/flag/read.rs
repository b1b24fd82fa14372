//! Environments with their secrets and definitions, and changes that are kept for later.

use crate::change::FlagChange;
use crate::flag::change_request::ChangeRequest;
use crate::flag::definition::{Definition, DefinitionKey};
use crate::flag::environment::{Environment, Secret};
use crate::rows::Rows;
use crate::source::Source;
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

impl FlagState {
    pub(crate) fn look_for(&mut self, read: &FlagRead) {
        match read {
            FlagRead::Environment(no, id) => self.environments.look_for((*no, *id)),
            FlagRead::Secret(no, id) => self.secrets.look_for((*no, *id)),
            FlagRead::Definition(no, key) => self.definitions.look_for((*no, key.clone())),
            FlagRead::ChangeRequest(no, id) => self.change_requests.look_for((*no, *id)),
        }
    }

    /// Loads the rows that are looked for.
    ///
    /// # Errors
    /// Those of the source.
    pub fn load<S: Source>(&mut self, from: &S) -> Result<(), S::Error> {
        from.rows(&mut self.environments)?;
        from.rows(&mut self.secrets)?;
        from.rows(&mut self.definitions)?;
        from.rows(&mut self.change_requests)
    }

    pub(crate) fn apply(&mut self, change: &FlagChange) {
        match change {
            FlagChange::Environment(it) => drop(self.environments.put(it.clone())),
            FlagChange::Secret(it) => drop(self.secrets.put(it.clone())),
            FlagChange::Definition(it) => drop(self.definitions.put(it.clone())),
            FlagChange::ChangeRequest(it) => drop(self.change_requests.put(it.clone())),
        }
    }
}
