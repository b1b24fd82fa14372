//! Changes of features, offers and what accounts may do. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::entitlement::Entitlements;
use crate::entitlement::account_user::ChangedUsers;
use crate::entitlement::feature::Feature;
use crate::entitlement::offer::Offer;
use crate::entitlement::plan_features::PlanFeatures;
use crate::entitlement::purchase::Purchase;
use crate::entitlement::usage::{Reservation, Usage, UsageEvent};
use crate::entity::{NoEntity, Visited, Visitor};

/// A row of features, offers and what accounts may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntitlementChange {
    Feature(Feature),
    /// A new version of an offer.
    Offer(Offer),
    /// A new version of the features of a plan or a product.
    PlanFeatures(Box<PlanFeatures>),
    Purchase(Box<Purchase>),
    /// All grants of an account.
    Entitlements(Box<Entitlements>),
    /// Users that are mapped to an account, or no longer.
    Users(Box<ChangedUsers>),
    /// The usage of a feature by an account in a period.
    Usage(Box<Usage>),
    /// An event that was counted.
    UsageEvent(Box<UsageEvent>),
    Reservation(Box<Reservation>),
}

impl EntitlementChange {
    /// See [`Change::entity`](crate::change::Change::entity).
    pub(crate) fn entity<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Visited<V::Output> {
        Ok(match self {
            Self::Feature(it) => visitor.visit(it),
            Self::Offer(it) => visitor.visit(it),
            Self::PlanFeatures(it) => visitor.visit(&**it),
            Self::Purchase(it) => visitor.visit(&**it),
            Self::Entitlements(it) => visitor.visit(&**it),
            Self::Users(it) => return Err(NoEntity::of(it.account)),
            Self::Usage(it) => return Err(NoEntity::of(it.account_id)),
            Self::UsageEvent(it) => return Err(NoEntity::of(it.account_id)),
            Self::Reservation(it) => return Err(NoEntity::of(it.account_id)),
        })
    }
}
