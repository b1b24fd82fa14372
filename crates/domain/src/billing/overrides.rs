//! Price overrides: the prices of a subscription that replace those of its plan, until the plan changes.
//!
//! Kill Bill makes a plan of its own of them, `<plan>-<number>`. Here that plan is only a name: all but the prices is the
//! catalog's.

use serde::{Deserialize, Serialize};

use crate::Seq;
use crate::catalog::price::Price;
use crate::catalog::{NoPrice, PhaseType, Prices};
use crate::currency::Currency;

/// A price that a client sets in place of the catalog's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceOverride {
    pub phase: OverriddenPhase,
    /// Not below zero, as the other; `None`: as in the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Price>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurring: Option<Price>,
}

/// Which phase of the plan is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverriddenPhase {
    /// By its name, `<plan>-<type>`.
    Named(String),
    OfType(PhaseType),
}

/// The prices that replace those of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// The command that set them. All subscriptions of a command share it.
    pub number: Seq,
    /// At most one of each phase.
    pub phases: Vec<PhasePrices>,
}

/// The prices that replace those of a phase, in the account's currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePrices {
    pub phase: PhaseType,
    /// `None`: the catalog's, as the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Price>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurring: Option<Price>,
}

impl Overrides {
    /// The name of a plan with these prices.
    #[must_use]
    pub fn plan_name(&self, plan: &str) -> String {
        format!("{plan}-{}", self.number.0)
    }

    /// What replaces the prices of a phase.
    #[must_use]
    pub fn of(&self, phase: PhaseType) -> Option<&PhasePrices> {
        self.phases.iter().find(|it| it.phase == phase)
    }
}

/// A price of the catalog, or what replaces it.
pub(super) fn price(
    overridden: Option<Price>,
    prices: &Prices,
    currency: Currency,
) -> Result<Price, NoPrice> {
    overridden.map_or_else(|| prices.of(currency), Ok)
}
