//! Reads of environments, flags and segments.

use domain::flag::definition::{Definition, DefinitionKey};
use domain::flag::environment::{Environment, Secret};
use domain::{EnvironmentId, Seq, TenantNo};

use super::{HistoryRow, Page, StoreError};

/// Reads of environments, flags and segments.
pub trait FlagQueries: Send + Sync {
    /// A tenant's environments of feature flags, oldest first.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn environments(&self, no: TenantNo) -> Result<Vec<Environment>, StoreError>;
    /// An environment by its project's key and its own.
    fn environment_by_key(
        &self,
        no: TenantNo,
        project: &str,
        key: &str,
    ) -> Result<Option<Environment>, StoreError>;
    /// The secrets of all of a tenant's environments, oldest first, those that ended too.
    fn secrets(&self, no: TenantNo) -> Result<Vec<Secret>, StoreError>;
    /// Environments of all tenants that changed after this journal row, in the order of their last
    /// changes; at most `limit`.
    fn environments_changed(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Environment>, StoreError>;
    /// An environment with its secrets, and with what is defined there since a version: everything
    /// for `None`.
    fn environment_file(
        &self,
        no: TenantNo,
        id: EnvironmentId,
        newer_than: Option<i64>,
    ) -> Result<Option<EnvironmentFile>, StoreError>;
    /// The flags and segments of an environment, by kind and key.
    fn definitions(
        &self,
        no: TenantNo,
        environment: EnvironmentId,
    ) -> Result<Vec<Definition>, StoreError>;
    fn definition(
        &self,
        no: TenantNo,
        key: &DefinitionKey,
    ) -> Result<Option<Definition>, StoreError>;
    /// The history of a flag or a segment, newest first; empty where there is none.
    fn definition_history(
        &self,
        no: TenantNo,
        key: &DefinitionKey,
        page: Page,
    ) -> Result<Vec<HistoryRow>, StoreError>;
}

/// A cache of committed feature flags: see [`crate::flags`]. Secrets come as they are stored.
pub trait Audience: Send + Sync {
    /// Environments are new, or their secrets changed: this is all of them, in place of what was published before.
    fn environments(&self, files: Vec<EnvironmentFile>);
    /// These flags and segments of an environment were made or changed, in the order of their
    /// versions.
    fn changed(&self, environment: EnvironmentId, definitions: Vec<Definition>);
    /// All that there was at the start has been published.
    fn caught_up(&self);
}

/// An environment with what belongs to it, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentFile {
    pub environment: Environment,
    /// Its secrets, those that ended too.
    pub secrets: Vec<Secret>,
    /// Its definitions, in the order of the versions.
    pub definitions: Vec<Definition>,
}
