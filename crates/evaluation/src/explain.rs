//! Why a user gets what they get: every question that was asked, and how it was answered.

use crate::model::Condition;
use crate::snapshot::Evaluation;

/// Why a user gets what they get.
#[derive(Clone, Debug)]
pub struct Explanation<'s> {
    /// What they get.
    pub evaluation: Evaluation<'s>,
    /// The rules up to the one that decided; none where none was asked.
    pub rules: Vec<AskedRule<'s>>,
    /// How the user was spread over the variations, where that was asked.
    pub spread: Option<Spread>,
}

/// A rule that was asked.
#[derive(Clone, Debug)]
pub struct AskedRule<'s> {
    /// Its name.
    pub name: &'s str,
    /// Its conditions up to the first that does not hold.
    pub conditions: Vec<AskedCondition<'s>>,
    /// Whether all of them hold.
    pub is_met: bool,
}

/// A condition that was asked.
#[derive(Clone, Debug)]
pub struct AskedCondition<'s> {
    /// The condition.
    pub condition: &'s Condition,
    /// What the user has there; nothing where there is no such property, or segments are asked.
    pub found: Option<String>,
    /// The segments of the condition to which the user belongs.
    pub segments: Vec<String>,
    /// Whether it holds.
    pub holds: bool,
}

/// How a user was spread over variations.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// What was hashed.
    pub key: String,
    /// Where that falls, between 0 and 1.
    pub bucket: f64,
}
