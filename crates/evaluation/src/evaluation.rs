//! The result of a flag's evaluation for a user.

use crate::client_text::{ClientText, ClientTexts};
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
    /// Whether the rollout that decided spreads users over several variations.
    pub is_split: bool,
    pub(crate) texts: &'s ClientTexts,
}

impl<'s> Evaluation<'s> {
    /// The variation that has a value; none for an archived flag, for a user whom the rollout does not cover, and
    /// where the flag has no variation of the id that the rule names.
    #[must_use]
    pub fn value_variation(&self) -> Option<&'s Variation> {
        self.variation.filter(|it| !it.id.is_empty())
    }

    /// Whether a client that has the one needs not be sent the other, of the same flag.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.reason, it.send_to_experiment, it.is_split);
        self.variation == other.variation && of(self) == of(other)
    }

    /// What a message to FeatBit's clients says of it besides the reason.
    #[must_use]
    pub fn client_text(&self) -> ClientText<'s> {
        self.texts.of(self.flag, self.variation)
    }

    /// Why, by OpenFeature's list.
    #[must_use]
    pub fn resolution_reason(&self) -> ResolutionReason {
        let has_value = self.value_variation().is_some();
        match self.reason {
            Reason::Archived => ResolutionReason::Unknown,
            Reason::Disabled => ResolutionReason::Disabled,
            Reason::Targeted | Reason::Rule(_) | Reason::Fallthrough if !has_value => {
                ResolutionReason::Default
            }
            Reason::Rule(_) | Reason::Fallthrough if self.is_split => ResolutionReason::Split,
            Reason::Targeted | Reason::Rule(_) => ResolutionReason::TargetingMatch,
            Reason::Fallthrough if self.flag.is_same_for_all() => ResolutionReason::Static,
            Reason::Fallthrough => ResolutionReason::Default,
        }
    }
}

/// A reason of [OpenFeature's list](https://openfeature.dev/specification/types#resolution-reason). `CACHED` and
/// `STALE` are for clients to say, `ERROR` is a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolutionReason {
    /// The value is the same for all users: clients may cache it.
    Static,
    /// No target and no rule is the user's, or the client takes the value in its code.
    Default,
    /// A target or a rule is the user's.
    TargetingMatch,
    /// The user's bucket decided.
    Split,
    /// The flag is off.
    Disabled,
    /// The flag is archived. APIs that answer by this list leave such a flag out.
    Unknown,
}

impl ResolutionReason {
    /// The text of OpenFeature.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Static => "STATIC",
            Self::Default => "DEFAULT",
            Self::TargetingMatch => "TARGETING_MATCH",
            Self::Split => "SPLIT",
            Self::Disabled => "DISABLED",
            Self::Unknown => "UNKNOWN",
        }
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
