//! The result of a flag's evaluation for a user.

use crate::model::{Flag, Variation};

/// The result of a flag's evaluation for a user.
#[derive(Clone, Copy, Debug)]
pub struct Evaluation<'s> {
    /// The evaluated flag.
    pub flag: &'s Flag,
    /// The user's variation; `None` for an archived flag. Its id and value are empty if the rollout
    /// does not cover the user, or if the flag has no variation of the id that the rule names.
    pub variation: Option<&'s Variation>,
    /// Why the user gets this variation.
    pub reason: Reason<'s>,
    /// Whether this evaluation counts for experiments.
    pub send_to_experiment: bool,
}

impl Evaluation<'_> {
    /// Whether a client that has the one needs not be sent the other, of the same flag.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        (self.variation, self.reason, self.send_to_experiment)
            == (other.variation, other.reason, other.send_to_experiment)
    }
}

/// Why a user gets a variation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'s> {
    /// The flag is archived.
    Archived,
    /// The flag is off.
    Disabled,
    /// The flag targets the user individually.
    Targeted,
    /// The user meets all conditions of the rule with this name.
    Rule(&'s str),
    /// The user is not targeted and meets no rule.
    Fallthrough,
}

impl<'s> Reason<'s> {
    /// The value of FeatBit's `matchReason`.
    #[must_use]
    pub const fn text(self) -> &'s str {
        match self {
            Self::Archived => "flag archived",
            Self::Disabled => "flag disabled",
            Self::Targeted => "targeted",
            Self::Rule(name) => name,
            Self::Fallthrough => "default",
        }
    }
}
