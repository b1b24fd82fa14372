//! Changes of environments and what is in them. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::entity::{Visited, Visitor};
use crate::flag::change_request::ChangeRequest;
use crate::flag::definition::Definition;
use crate::flag::environment::{Environment, Secret};

/// A row of feature flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlagChange {
    Environment(Environment),
    /// A secret of an environment.
    Secret(Secret),
    /// A feature flag or a segment.
    Definition(Definition),
    /// A requested change of a definition.
    ChangeRequest(ChangeRequest),
}

impl FlagChange {
    /// See [`Change::entity`](crate::change::Change::entity).
    pub(crate) fn entity<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Visited<V::Output> {
        Ok(match self {
            Self::Environment(it) => visitor.visit(it),
            Self::Secret(it) => visitor.visit(it),
            Self::Definition(it) => visitor.visit(it),
            Self::ChangeRequest(it) => visitor.visit(it),
        })
    }
}
