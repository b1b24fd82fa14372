//! Changes of users and roles. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::access::{Role, User};
use crate::entity::{Visited, Visitor};

/// A row of access control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessChange {
    User(User),
    Role(Role),
}

impl AccessChange {
    /// See [`Change::entity`](crate::change::Change::entity).
    pub(crate) fn entity<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Visited<V::Output> {
        Ok(match self {
            Self::User(it) => visitor.visit(it),
            Self::Role(it) => visitor.visit(it),
        })
    }
}
