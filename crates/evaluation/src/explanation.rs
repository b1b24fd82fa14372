//! The explanation of an evaluation: the evaluated rules and conditions, and their results.

use crate::evaluation::Evaluation;
use crate::model::Condition;

/// Why a user gets a variation of a flag.
#[derive(Clone, Debug)]
pub struct Explanation<'s> {
    pub evaluation: Evaluation<'s>,
    /// The rules up to and including the one that the user meets. Empty if the flag is archived or
    /// off, or if it targets the user individually.
    pub rules: Vec<EvaluatedRule<'s>>,
    /// How the rollout was decided; `None` in the cases in which no rule is evaluated.
    pub dispatch: Option<Dispatch>,
}

/// A rule and its result for a user.
#[derive(Clone, Debug)]
pub struct EvaluatedRule<'s> {
    /// The rule's name.
    pub name: &'s str,
    /// The conditions up to and including the first that does not hold.
    pub conditions: Vec<EvaluatedCondition<'s>>,
    /// Whether all conditions hold.
    pub is_met: bool,
}

/// A condition and its result for a user.
#[derive(Clone, Debug)]
pub struct EvaluatedCondition<'s> {
    /// The condition as the flag defines it.
    pub condition: &'s Condition,
    /// The user's value; `None` if the user lacks the property, or for a condition on segments.
    pub found: Option<String>,
    /// The ids of the condition's segments to which the user belongs.
    pub segments: Vec<String>,
    /// Whether the condition holds.
    pub holds: bool,
}

/// The position of a user in a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// The text that is hashed: the flag's key and the user's dispatch value.
    pub key: String,
    /// The hash of the key, scaled to the range from 0 to 1.
    pub bucket: f64,
    /// From where to where the part of the rollout goes that has the bucket; `None` where none has it.
    pub interval: Option<[f64; 2]>,
}
