//! How usage is priced: by tiers of what was counted, or by what was bought beforehand.

use serde::{Deserialize, Serialize};

use super::period::BillingPeriod;
use super::price::Price;
use super::{BillingMode, Prices};

/// A section of a phase that prices usage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pretty_name: Option<String>,
    pub mode: BillingMode,
    pub counts: UsageType,
    pub tier_policy: TierPolicy,
    pub period: BillingPeriod,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Block>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Tier>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Prices>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurring: Option<Prices>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum UsageType {
    /// The largest number at any time.
    Capacity,
    /// The sum.
    Consumable,
}

/// How the blocks of several tiers are priced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TierPolicy {
    /// Each tier's blocks at its price.
    #[default]
    AllTiers,
    /// All blocks at the price of the tier that was reached.
    TopTier,
}

/// Between which numbers of a unit a product or a tier is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub unit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Price>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Price>,
}

/// A number of units that is sold at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub unit: String,
    pub size: Price,
    pub prices: Prices,
    /// In a tier: how many blocks it has at most. In [`Usage::blocks`]: the credit below which more is bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Price>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// Of [`UsageType::Capacity`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// Of [`UsageType::Consumable`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Block>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Prices>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurring: Option<Prices>,
}
