//! Features of plans: what a subscription gives as long as it is active, version by version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalog::PhaseType;
use crate::entitlement::feature::FeatureValue;
use crate::entity::{Entity, Facts};
use crate::flag::definition::Expected;
use crate::rows::Keyed;
use crate::{Revision, TenantNo, Timestamp};

/// How many plans and products with features a tenant has at most.
pub const FEATURED_MAX: u32 = 10_000;

/// How many versions the features of a plan have at most.
pub const VERSIONS_MAX: i64 = 10_000;

/// How many features a plan or a product has at most.
pub const FEATURES_PER_PLAN_MAX: usize = 100;

/// How many characters the name of a plan or a product has at most.
pub const NAME_CHARS_MAX: usize = 255;

/// What has features: a plan of the catalog, or a product with all its plans.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FeaturesOf {
    pub kind: PlanOrProduct,
    /// As the catalog names it, whether or not it has it yet.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PlanOrProduct {
    Plan,
    Product,
}

/// A version of the features of a plan or a product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFeatures {
    pub tenant: TenantNo,
    pub of: FeaturesOf,
    /// Counts from 1.
    pub version: i64,
    /// By the keys of features; at most [`FEATURES_PER_PLAN_MAX`].
    pub features: BTreeMap<String, PlanFeature>,
    /// When this version was made.
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// What a plan gives of a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFeature {
    /// In the phases that `phases` does not name; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<FeatureValue>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<PhaseType, FeatureValue>,
    /// Whether a limit is multiplied by the subscription's quantity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub times_quantity: bool,
    pub starts: Starts,
}

/// From when on a subscription has a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Starts {
    /// From its start on.
    Start,
    /// Once the first invoice that charges it is paid.
    Paid,
}

/// Gives a plan or a product features, or other ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutPlanFeatures {
    pub of: FeaturesOf,
    pub features: BTreeMap<String, PlanFeature>,
    /// The version that is replaced.
    pub expected: Expected,
}

impl Keyed for PlanFeatures {
    type Key = (TenantNo, FeaturesOf);

    fn key(&self) -> Self::Key {
        (self.tenant, self.of.clone())
    }
}

impl Entity for PlanFeatures {
    fn name(&self) -> String {
        format!("features of {} {} of tenant {}", self.of.kind.name(), self.of.name, self.tenant.0)
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

impl FeaturesOf {
    #[must_use]
    pub fn plan(name: &str) -> Self {
        Self { kind: PlanOrProduct::Plan, name: name.to_owned() }
    }

    #[must_use]
    pub fn product(name: &str) -> Self {
        Self { kind: PlanOrProduct::Product, name: name.to_owned() }
    }
}

impl PlanOrProduct {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Product => "product",
        }
    }

    /// What its features are called where they are not there, or have another version.
    #[must_use]
    pub const fn list_name(self) -> &'static str {
        match self {
            Self::Plan => "feature list of plan",
            Self::Product => "feature list of product",
        }
    }
}

impl PlanFeatures {
    /// Whether it has a feature that waits for a payment.
    #[must_use]
    pub fn waits_for_payment(&self) -> bool {
        self.features.values().any(|it| it.starts == Starts::Paid)
    }
}

impl PlanFeature {
    /// Whether it gives nothing, in no phase: an entry of a plan takes away what the product gives.
    #[must_use]
    pub fn gives_nothing(&self) -> bool {
        self.value.is_none() && self.phases.is_empty()
    }

    /// What it gives in a phase.
    #[must_use]
    pub fn in_phase(&self, phase: PhaseType) -> Option<&FeatureValue> {
        self.phases.get(&phase).or(self.value.as_ref())
    }
}

impl Starts {
    pub const ALL: [Self; 2] = [Self::Start, Self::Paid];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Paid => "paid",
        }
    }
}
