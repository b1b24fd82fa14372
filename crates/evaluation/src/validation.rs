//! Validates the flags and segments of an environment before they are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::condition::{self, ConditionError};
use crate::cycle;
use crate::entitled::ENTITLED_SEGMENT;
use crate::model::{Condition, Flag, RolloutVariation, Segment};

/// The maximum gap or overlap of neighbouring parts of a rollout, and of the last part and 1.
const ROLLOUT_ERROR_MAX: f64 = 1e-5;

/// The largest cycle for which the path is reported. The path is computed for each segment of the
/// cycle, and a longer one is unreadable.
const CYCLE_PATH_SEGMENTS_MAX: usize = 20;

/// OFREP's name of the user's key. Its clients send it beside the attributes, and FeatBit's SDKs do not know it: a
/// condition on it would hold for no one, or for different users in each protocol.
const TARGETING_KEY: &str = "targetingKey";

/// A field that is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, such as `featureFlags[0].rules[1].conditions[0].value`.
    pub path: String,
    /// Why it is invalid.
    pub kind: ProblemKind,
}

/// Why a field is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    /// A required text or list is blank or empty.
    #[error("may not be empty")]
    Empty,
    /// A key or id is not unique.
    #[error("{0:?} is there twice")]
    Repeated(String),
    /// The type of variations is unknown.
    #[error("boolean, string, number or json was expected")]
    VariationType,
    /// A value is not of the flag's type.
    #[error("a value of the kind {0} was expected")]
    Value(String),
    /// The flag has no such variation.
    #[error("there is no variation {0:?}")]
    UnknownVariation(String),
    /// The environment has no such segment.
    #[error("there is no segment {0:?}")]
    UnknownSegment(String),
    /// A segment refers to itself, directly or through others.
    #[error("the segment asks about itself: {0}")]
    Cycle(String),
    /// A part of a rollout is not an interval between 0 and 1.
    #[error("from and to are between 0 and 1, from before to")]
    Interval,
    /// A part of a rollout does not begin where the part before it ends.
    #[error(
        "the parts follow one another and end at 1; this one begins at {begins}, {expected} was expected"
    )]
    Gap {
        /// Where the part begins.
        begins: String,
        /// Where the part before it ends.
        expected: String,
    },
    /// The last part of a rollout does not end at 1.
    #[error("the parts end at {0}, 1 was expected")]
    Sum(String),
    /// A property has OFREP's name of the user's key, which no evaluation knows as a property.
    #[error("the user's key is `keyId` in a flag, also where OFREP's clients send `targetingKey`")]
    TargetingKey,
    /// A condition is invalid.
    #[error(transparent)]
    Condition(#[from] ConditionError),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.kind)
    }
}

/// All invalid fields of an environment's flags and segments, in the order of the documents.
#[must_use]
pub fn problems(flags: &[Flag], segments: &[Segment]) -> Vec<Problem> {
    let references = segments.iter().map(|segment| (segment.id.as_str(), references_of(segment)));
    let references: BTreeMap<&str, Vec<Box<str>>> = references.collect();
    let cycles = cycles(&references);
    let mut validator = Validator { problems: vec![], references, cycles };
    let keys = flags.iter().map(|flag| flag.key.as_str());
    validator.unique("featureFlags", "key", keys);
    for (index, flag) in flags.iter().enumerate() {
        validator.flag(&format!("featureFlags[{index}]"), flag);
    }
    validator.unique("segments", "id", segments.iter().map(|segment| segment.id.as_str()));
    for (index, segment) in segments.iter().enumerate() {
        validator.segment(&format!("segments[{index}]"), segment);
    }
    validator.problems
}

struct Validator<'a> {
    problems: Vec<Problem>,
    /// The ids of all segments, each with those that it refers to directly.
    references: BTreeMap<&'a str, Vec<Box<str>>>,
    /// The ids of the segments that are on a cycle.
    cycles: BTreeMap<&'a str, Cycle>,
}

/// A group of segments each of which refers to all others, directly or through others.
#[derive(Clone, Copy)]
struct Cycle {
    number: usize,
    segments: usize,
}

impl<'a> Validator<'a> {
    fn add(&mut self, path: String, kind: ProblemKind) {
        self.problems.push(Problem { path, kind });
    }

    /// Checks that no name is blank and none occurs twice.
    fn unique<'n>(&mut self, list: &str, field: &str, names: impl Iterator<Item = &'n str>) {
        let mut seen = BTreeSet::new();
        for (index, name) in names.enumerate() {
            let path = format!("{list}[{index}].{field}");
            if name.trim().is_empty() {
                self.add(path, ProblemKind::Empty);
            } else if !seen.insert(name) {
                self.add(path, ProblemKind::Repeated(name.to_owned()));
            }
        }
    }

    fn flag(&mut self, path: &str, flag: &'a Flag) {
        if !matches!(flag.variation_type.as_str(), "boolean" | "string" | "number" | "json") {
            self.add(format!("{path}.variationType"), ProblemKind::VariationType);
        }
        let variations = format!("{path}.variations");
        if flag.variations.is_empty() {
            self.add(variations.clone(), ProblemKind::Empty);
        }
        self.unique(&variations, "id", flag.variations.iter().map(|it| it.id.as_str()));
        for (index, variation) in flag.variations.iter().enumerate() {
            if !is_of_type(flag, &variation.value) {
                let kind = ProblemKind::Value(flag.variation_type.clone());
                self.add(format!("{variations}[{index}].value"), kind);
            }
        }
        self.variation(format!("{path}.disabledVariationId"), flag, &flag.disabled_variation_id);
        for (index, target) in flag.target_users.iter().enumerate() {
            let path = format!("{path}.targetUsers[{index}].variationId");
            self.variation(path, flag, &target.variation_id);
        }
        for (index, rule) in flag.rules.iter().enumerate() {
            let path = format!("{path}.rules[{index}]");
            self.conditions(&path, &rule.conditions);
            self.property(format!("{path}.dispatchKey"), rule.dispatch_key.as_deref());
            self.rollout(&path, flag, &rule.variations);
        }
        let fallthrough = &flag.fallthrough;
        let dispatch_key = fallthrough.dispatch_key.as_deref();
        self.property(format!("{path}.fallthrough.dispatchKey"), dispatch_key);
        self.rollout(&format!("{path}.fallthrough"), flag, &fallthrough.variations);
        if flag.gate.as_ref().is_some_and(|feature| feature.trim().is_empty()) {
            self.add(format!("{path}.gate"), ProblemKind::Empty);
        }
    }

    fn variation(&mut self, path: String, flag: &Flag, id: &str) {
        if !flag.variations.iter().any(|variation| variation.id == id) {
            self.add(path, ProblemKind::UnknownVariation(id.to_owned()));
        }
    }

    /// Checks a property that an evaluation reads.
    fn property(&mut self, path: String, property: Option<&str>) {
        if property == Some(TARGETING_KEY) {
            self.add(path, ProblemKind::TargetingKey);
        }
    }

    /// Checks that the parts follow one another from 0 to 1.
    fn rollout(&mut self, path: &str, flag: &Flag, parts: &[RolloutVariation]) {
        let path = format!("{path}.variations");
        if parts.is_empty() {
            return self.add(path, ProblemKind::Empty);
        }
        // Where the next part must begin; unknown behind an invalid part.
        let mut end = Some(0.0);
        for (index, part) in parts.iter().enumerate() {
            let path = format!("{path}[{index}]");
            self.variation(format!("{path}.id"), flag, &part.id);
            let [low, high] = part.rollout;
            let within = 0.0..=1.0;
            let is_interval = within.contains(&low) && within.contains(&high) && low <= high;
            if !is_interval {
                self.add(format!("{path}.rollout"), ProblemKind::Interval);
                end = None;
            }
            if !within.contains(&part.expt_rollout) {
                self.add(format!("{path}.exptRollout"), ProblemKind::Interval);
            }
            // A part without users may be anywhere in the list.
            let is_empty = high < f64::MIN_POSITIVE;
            let Some(expected) = end.filter(|_| !is_empty) else { continue };
            let follows = f64::abs(low - expected) <= ROLLOUT_ERROR_MAX;
            end = follows.then_some(high);
            if !follows {
                let (begins, expected) = (low.to_string(), expected.to_string());
                self.add(format!("{path}.rollout"), ProblemKind::Gap { begins, expected });
            }
        }
        if let Some(end) = end.filter(|end| f64::abs(1.0 - end) > ROLLOUT_ERROR_MAX) {
            self.add(path, ProblemKind::Sum(end.to_string()));
        }
    }

    fn conditions(&mut self, path: &str, conditions: &[Condition]) {
        for (index, condition) in conditions.iter().enumerate() {
            let path = format!("{path}.conditions[{index}]");
            if condition.property.trim().is_empty() {
                self.add(format!("{path}.property"), ProblemKind::Empty);
            }
            self.property(format!("{path}.property"), Some(&condition.property));
            let compiled = match condition::Condition::new(condition) {
                Ok(compiled) => compiled,
                Err(error) => {
                    let is_operator = matches!(error, ConditionError::Operator(_));
                    let field = if is_operator { "op" } else { "value" };
                    self.add(format!("{path}.{field}"), error.into());
                    continue;
                }
            };
            for id in compiled.segments() {
                if !self.references.contains_key(&**id) && !id.starts_with(ENTITLED_SEGMENT) {
                    self.add(format!("{path}.value"), ProblemKind::UnknownSegment(id.to_string()));
                }
            }
        }
    }

    fn segment(&mut self, path: &str, segment: &'a Segment) {
        for (index, rule) in segment.rules.iter().enumerate() {
            self.conditions(&format!("{path}.rules[{index}]"), &rule.conditions);
        }
        if let Some(cycle) = self.cycles.get(segment.id.as_str()) {
            let path_back = self.path_back_to(&segment.id, *cycle);
            self.add(format!("{path}.rules"), ProblemKind::Cycle(path_back.join(" > ")));
        }
    }

    /// The path on which a segment of a cycle refers to itself: the ids of the segments behind it, up
    /// to and including its own.
    fn path_back_to<'s>(&'s self, id: &'s str, cycle: Cycle) -> Vec<&'s str> {
        if cycle.segments > CYCLE_PATH_SEGMENTS_MAX {
            return vec!["...", id];
        }
        let mut predecessors: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = vec![id];
        while let Some(current) = next.pop() {
            for reference in self.references.get(current).into_iter().flatten() {
                if **reference == *id {
                    let before = |it: &&'s str| predecessors.get(it).copied();
                    let mut path: Vec<&str> =
                        std::iter::successors(Some(current), before).collect();
                    path.reverse();
                    path.remove(0);
                    path.push(id);
                    return path;
                }
                let is_on_cycle =
                    self.cycles.get(&**reference).is_some_and(|it| it.number == cycle.number);
                if is_on_cycle && !predecessors.contains_key(&**reference) {
                    predecessors.insert(reference, current);
                    next.push(reference);
                }
            }
        }
        unreachable!("a segment on a cycle leads back to itself")
    }
}

/// The segments that are on a cycle, by id.
fn cycles<'a>(references: &BTreeMap<&'a str, Vec<Box<str>>>) -> BTreeMap<&'a str, Cycle> {
    let numbers: BTreeMap<&str, usize> = references.keys().copied().zip(0..).collect();
    let number = |id: &str| numbers.get(id).copied();
    let edges = references.values().map(|ids| ids.iter().filter_map(|id| number(id)).collect());
    let cycles = cycle::cycles(&edges.collect::<Vec<_>>());
    let mut sizes = BTreeMap::<usize, usize>::new();
    for number in cycles.iter().flatten() {
        *sizes.entry(*number).or_default() += 1;
    }
    let cycle = |number: usize| Cycle { number, segments: sizes[&number] };
    let by_id = references.keys().copied().zip(cycles);
    by_id.filter_map(|(id, number)| Some((id, cycle(number?)))).collect()
}

/// The ids of the segments that a segment refers to directly.
fn references_of(segment: &Segment) -> Vec<Box<str>> {
    let conditions = segment.rules.iter().flat_map(|rule| &rule.conditions);
    let compiled = conditions.filter_map(|it| condition::Condition::new(it).ok());
    compiled.flat_map(|condition| condition.segments().to_vec()).collect()
}

fn is_of_type(flag: &Flag, value: &str) -> bool {
    let is_usable = match flag.variation_type.as_str() {
        "number" => value.trim() == value,
        // With the depth and the numbers that clients parse.
        "json" => serde_json::from_str::<serde_json::Value>(value).is_ok(),
        _ => true,
    };
    is_usable && flag.typed(value).is_some()
}
