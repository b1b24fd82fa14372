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
    /// Loads the rows of reads.
    ///
    /// # Errors
    /// Those of the source.
    pub fn load<'a, S: Source>(
        &mut self,
        reads: impl IntoIterator<Item = &'a FlagRead>,
        from: &S,
    ) -> Result<(), S::Error> {
        let (mut environments, mut secrets) = (vec![], vec![]);
        let (mut definitions, mut change_requests) = (vec![], vec![]);
        for read in reads {
            match read {
                FlagRead::Environment(no, id) => environments.push((*no, *id)),
                FlagRead::Secret(no, id) => secrets.push((*no, *id)),
                FlagRead::Definition(no, key) => definitions.push((*no, key.clone())),
                FlagRead::ChangeRequest(no, id) => change_requests.push((*no, *id)),
            }
        }
        from.rows(environments, &mut self.environments)?;
        from.rows(secrets, &mut self.secrets)?;
        from.rows(definitions, &mut self.definitions)?;
        from.rows(change_requests, &mut self.change_requests)
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
