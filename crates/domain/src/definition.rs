//! Definitions of feature flags and segments: which there are, in which version. What one means is
//! not known here: its body is a document that the API has validated.

use serde::{Deserialize, Serialize};

use crate::{DefinitionId, EnvironmentId, Revision, TenantNo, Timestamp};

/// How many definitions an environment has at most, and so a command.
pub const DEFINITIONS_MAX: usize = 5_000;

/// What is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DefinitionKind {
    /// A feature flag; its key is what programs ask for.
    Flag,
    /// A segment of users; its key is its id in text.
    Segment,
}

/// What tells a definition from the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DefinitionKey {
    /// Where it is defined.
    pub environment: EnvironmentId,
    pub kind: DefinitionKind,
    /// Unique among those of a kind in an environment.
    pub key: String,
}

/// A flag or a segment of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub tenant: TenantNo,
    /// What it is known by.
    pub key: DefinitionKey,
    pub id: DefinitionId,
    /// The document as the API wrote it, without the fields of this row.
    pub body: String,
    /// Whether it is archived.
    pub is_archived: bool,
    /// See [`crate::environment::Environment::version`].
    pub version: i64,
    /// When it was made.
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// What must be there for a definition to be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expected {
    /// Whatever.
    Anything,
    /// None of that key.
    Nothing,
    /// One of that version.
    Version(i64),
}

/// A definition that is about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDefinition {
    /// See [`DefinitionKey::kind`].
    pub kind: DefinitionKind,
    /// See [`DefinitionKey::key`].
    pub key: String,
    /// The id that it has if it is new.
    pub id: DefinitionId,
    /// See [`Definition::body`].
    pub body: String,
    /// See [`Definition::is_archived`].
    pub is_archived: bool,
    /// What must be there.
    pub expected: Expected,
}

/// Makes definitions, or puts them in the place of those that are there: all or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutDefinitions {
    pub environment: EnvironmentId,
    /// The version that the environment has to be in, where it was looked at as a whole.
    #[serde(default)]
    pub version: Option<i64>,
    /// At most [`DEFINITIONS_MAX`], each key once.
    pub definitions: Vec<NewDefinition>,
}

impl PutDefinitions {
    /// What the definitions are known by.
    pub(crate) fn keys(&self) -> impl Iterator<Item = DefinitionKey> {
        self.definitions.iter().map(|it| it.key(self.environment))
    }
}

impl NewDefinition {
    pub(crate) fn key(&self, environment: EnvironmentId) -> DefinitionKey {
        DefinitionKey { environment, kind: self.kind, key: self.key.clone() }
    }
}
