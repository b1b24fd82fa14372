//! Definitions of feature flags and segments: which there are, in which version. What one means is
//! not known here: its body is a document that the API has validated.

use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::{DefinitionId, EnvironmentId, Revision, TenantNo, Timestamp};

/// How many definitions an environment has at most, and so a command.
pub const DEFINITIONS_MAX: usize = 5_000;

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DefinitionKind {
    /// A feature flag; its key is what programs ask for.
    Flag,
    /// A segment of users; its key is its id in text.
    Segment,
}

/// Identifies a definition.
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
    pub key: DefinitionKey,
    pub id: DefinitionId,
    /// The document as the API wrote it, without the fields of this row.
    pub body: String,
    /// Whether it is archived.
    pub is_archived: bool,
    /// The version of its last change; see [`crate::flag::environment::Environment::version`].
    pub version: i64,
    /// When it was made.
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for Definition {
    type Key = (TenantNo, DefinitionKey);

    fn key(&self) -> Self::Key {
        (self.tenant, self.key.clone())
    }
}

impl Entity for Definition {
    fn name(&self) -> String {
        let DefinitionKey { environment, kind, key } = &self.key;
        format!("{kind:?} {key} of environment {environment}")
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// The state that a definition must have before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expected {
    /// Any definition of that key, or none.
    Anything,
    /// No definition of that key.
    Nothing,
    /// A definition in that version.
    Version(i64),
}

/// A definition to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDefinition {
    pub kind: DefinitionKind,
    /// For a segment, its id in text.
    pub key: String,
    /// The id to give it if it is new.
    pub id: DefinitionId,
    /// The document as the API wrote it, without the fields of the row.
    pub body: String,
    pub is_archived: bool,
    pub expected: Expected,
}

/// Creates or replaces definitions: all or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutDefinitions {
    pub environment: EnvironmentId,
    /// The version that the environment must have; `None` for any.
    #[serde(default)]
    pub version: Option<i64>,
    /// At most [`DEFINITIONS_MAX`], each key once.
    pub definitions: Vec<NewDefinition>,
}

impl PutDefinitions {
    /// The keys of the definitions.
    pub(crate) fn keys(&self) -> impl Iterator<Item = DefinitionKey> {
        self.definitions.iter().map(|it| it.key(self.environment))
    }
}

impl NewDefinition {
    pub(crate) fn key(&self, environment: EnvironmentId) -> DefinitionKey {
        DefinitionKey { environment, kind: self.kind, key: self.key.clone() }
    }
}
