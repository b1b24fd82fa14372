//! Changes of tenants and what each has once. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::account::tag::TagDefinition;
use crate::entity::{NoEntity, Visited, Visitor};
use crate::tenant::catalog::{CatalogText, CatalogVersion};
use crate::tenant::payment_rules::PaymentRules;
use crate::tenant::{Tenant, TenantValue};

/// A row of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TenantChange {
    /// The tenant itself.
    Tenant(Tenant),
    /// A stored value.
    Value(TenantValue),
    /// A definition of tags.
    TagDefinition(TagDefinition),
    /// Its rules for payments.
    PaymentRules(PaymentRules),
    /// A version of its catalog.
    CatalogVersion(CatalogVersion),
    /// The text of a version.
    CatalogText(CatalogText),
}

impl TenantChange {
    /// See [`Change::entity`](crate::change::Change::entity).
    pub(crate) fn entity<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Visited<V::Output> {
        Ok(match self {
            Self::Tenant(it) => visitor.visit(it),
            Self::Value(it) => visitor.visit(it),
            Self::TagDefinition(it) => visitor.visit(it),
            Self::PaymentRules(it) => visitor.visit(it),
            Self::CatalogVersion(it) => visitor.visit(it),
            Self::CatalogText(_) => return Err(NoEntity::default()),
        })
    }
}
