//! What is wrong with flags and segments before they are taken in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::condition::{self, Unusable};
use crate::model::{Condition, Flag, RolloutVariation, Segment};
use crate::ring;

/// How far the parts of a rollout may miss each other or the whole.
const ROLLOUT_ERROR_MAX: f64 = 1e-5;

/// How many segments may ask about each other for the way among them to be told: for each of them it
/// is looked for, and nobody reads a longer one.
const WAY_SEGMENTS_MAX: usize = 20;

/// Something that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, such as `featureFlags[0].rules[1].conditions[0].value`.
    pub path: String,
    /// What is wrong with it.
    pub problem: Wrong,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A text that has to say something.
    #[error("may not be empty")]
    Empty,
    /// A key, name or id that another one has.
    #[error("{0:?} is there twice")]
    Repeated(String),
    /// No kind of value.
    #[error("boolean, string, number or json was expected")]
    VariationType,
    /// A value that is not of the flag's kind.
    #[error("a value of the kind {0} was expected")]
    Value(String),
    /// A variation that the flag does not have.
    #[error("there is no variation {0:?}")]
    UnknownVariation(String),
    /// A segment that is not there.
    #[error("there is no segment {0:?}")]
    UnknownSegment(String),
    /// Segments that ask about each other.
    #[error("the segment asks about itself: {0}")]
    Cycle(String),
    /// A part of a rollout that is none.
    #[error("from and to are between 0 and 1, from before to")]
    Interval,
    /// Parts of a rollout that leave something out or overlap.
    #[error(
        "the parts follow one another and end at 1; this one begins at {begins}, {expected} was expected"
    )]
    Gap {
        /// Where it begins.
        begins: String,
        /// Where the one before ends.
        expected: String,
    },
    /// Parts of a rollout that do not reach 1.
    #[error("the parts end at {0}, 1 was expected")]
    Sum(String),
    /// A condition that can never hold.
    #[error(transparent)]
    Condition(#[from] Unusable),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// All that is wrong with an environment's flags and segments, in the order of the text.
#[must_use]
pub fn problems(flags: &[Flag], segments: &[Segment]) -> Vec<Problem> {
    let asked = segments.iter().map(|segment| (segment.id.as_str(), asked_by(segment)));
    let asked: BTreeMap<&str, Vec<Box<str>>> = asked.collect();
    let mut search = Search { found: vec![], rings: rings(&asked), segments: asked };
    let keys = flags.iter().map(|flag| flag.key.as_str());
    search.names("featureFlags", "key", keys);
    for (at, flag) in flags.iter().enumerate() {
        search.flag(&format!("featureFlags[{at}]"), flag);
    }
    search.names("segments", "id", segments.iter().map(|segment| segment.id.as_str()));
    for (at, segment) in segments.iter().enumerate() {
        search.segment(&format!("segments[{at}]"), segment);
    }
    search.found
}

struct Search<'a> {
    found: Vec<Problem>,
    /// What each segment asks about.
    segments: BTreeMap<&'a str, Vec<Box<str>>>,
    /// Those that ask about themselves.
    rings: BTreeMap<&'a str, Ring>,
}

/// Segments that ask about each other.
#[derive(Clone, Copy)]
struct Ring {
    number: usize,
    segments: usize,
}

impl<'a> Search<'a> {
    fn add(&mut self, path: String, problem: Wrong) {
        self.found.push(Problem { path, problem });
    }

    /// Texts that say something, each another one.
    fn names<'n>(&mut self, list: &str, field: &str, names: impl Iterator<Item = &'n str>) {
        let mut seen = BTreeSet::new();
        for (at, name) in names.enumerate() {
            let path = format!("{list}[{at}].{field}");
            if name.trim().is_empty() {
                self.add(path, Wrong::Empty);
            } else if !seen.insert(name) {
                self.add(path, Wrong::Repeated(name.to_owned()));
            }
        }
    }

    fn flag(&mut self, path: &str, flag: &'a Flag) {
        if !matches!(flag.variation_type.as_str(), "boolean" | "string" | "number" | "json") {
            self.add(format!("{path}.variationType"), Wrong::VariationType);
        }
        let variations = format!("{path}.variations");
        if flag.variations.is_empty() {
            self.add(variations.clone(), Wrong::Empty);
        }
        self.names(&variations, "id", flag.variations.iter().map(|it| it.id.as_str()));
        for (at, variation) in flag.variations.iter().enumerate() {
            if !is_of_kind(&flag.variation_type, &variation.value) {
                let kind = flag.variation_type.clone();
                self.add(format!("{variations}[{at}].value"), Wrong::Value(kind));
            }
        }
        self.variation(format!("{path}.disabledVariationId"), flag, &flag.disabled_variation_id);
        for (at, target) in flag.target_users.iter().enumerate() {
            let path = format!("{path}.targetUsers[{at}].variationId");
            self.variation(path, flag, &target.variation_id);
        }
        for (at, rule) in flag.rules.iter().enumerate() {
            let path = format!("{path}.rules[{at}]");
            self.conditions(&path, &rule.conditions);
            self.rollout(&path, flag, &rule.variations);
        }
        self.rollout(&format!("{path}.fallthrough"), flag, &flag.fallthrough.variations);
    }

    fn variation(&mut self, path: String, flag: &Flag, id: &str) {
        if !flag.variations.iter().any(|variation| variation.id == id) {
            self.add(path, Wrong::UnknownVariation(id.to_owned()));
        }
    }

    /// Parts that follow one another from 0 to 1.
    fn rollout(&mut self, path: &str, flag: &Flag, parts: &[RolloutVariation]) {
        let path = format!("{path}.variations");
        if parts.is_empty() {
            return self.add(path, Wrong::Empty);
        }
        // Where a part is wrong, nobody knows where the next one is to begin.
        let mut end = Some(0.0);
        for (at, part) in parts.iter().enumerate() {
            let path = format!("{path}[{at}]");
            self.variation(format!("{path}.id"), flag, &part.id);
            let [low, high] = part.rollout;
            let within = 0.0..=1.0;
            let is_interval = within.contains(&low) && within.contains(&high) && low <= high;
            if !is_interval {
                self.add(format!("{path}.rollout"), Wrong::Interval);
                end = None;
            }
            if !within.contains(&part.expt_rollout) {
                self.add(format!("{path}.exptRollout"), Wrong::Interval);
            }
            // Nobody: it may stand anywhere.
            let is_nobody = high < f64::MIN_POSITIVE;
            let Some(expected) = end.filter(|_| !is_nobody) else { continue };
            let follows = f64::abs(low - expected) <= ROLLOUT_ERROR_MAX;
            end = follows.then_some(high);
            if !follows {
                let (begins, expected) = (low.to_string(), expected.to_string());
                self.add(format!("{path}.rollout"), Wrong::Gap { begins, expected });
            }
        }
        if let Some(end) = end.filter(|end| f64::abs(1.0 - end) > ROLLOUT_ERROR_MAX) {
            self.add(path, Wrong::Sum(end.to_string()));
        }
    }

    fn conditions(&mut self, path: &str, conditions: &[Condition]) {
        for (at, condition) in conditions.iter().enumerate() {
            let path = format!("{path}.conditions[{at}]");
            if condition.property.trim().is_empty() {
                self.add(format!("{path}.property"), Wrong::Empty);
            }
            let compiled = match condition::Condition::read(condition) {
                Ok(compiled) => compiled,
                Err(unusable) => {
                    let is_operator = matches!(unusable, Unusable::Operator(_));
                    let field = if is_operator { "op" } else { "value" };
                    self.add(format!("{path}.{field}"), unusable.into());
                    continue;
                }
            };
            for id in compiled.segments() {
                if !self.segments.contains_key(&**id) {
                    self.add(format!("{path}.value"), Wrong::UnknownSegment(id.to_string()));
                }
            }
        }
    }

    fn segment(&mut self, path: &str, segment: &'a Segment) {
        for (at, rule) in segment.rules.iter().enumerate() {
            self.conditions(&format!("{path}.rules[{at}]"), &rule.conditions);
        }
        if let Some(ring) = self.rings.get(segment.id.as_str()) {
            let way = self.way_back_to(&segment.id, *ring);
            self.add(format!("{path}.rules"), Wrong::Cycle(way.join(" > ")));
        }
    }

    /// The way on which a segment of a ring asks about itself, directly or through others.
    fn way_back_to<'s>(&'s self, id: &'s str, ring: Ring) -> Vec<&'s str> {
        if ring.segments > WAY_SEGMENTS_MAX {
            return vec!["...", id];
        }
        let mut askers: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = vec![id];
        while let Some(asker) = next.pop() {
            for asked in self.segments.get(asker).into_iter().flatten() {
                if **asked == *id {
                    let before = |at: &&'s str| askers.get(at).copied();
                    let mut way: Vec<&str> = std::iter::successors(Some(asker), before).collect();
                    way.reverse();
                    way.remove(0);
                    way.push(id);
                    return way;
                }
                let is_of_ring =
                    self.rings.get(&**asked).is_some_and(|it| it.number == ring.number);
                if is_of_ring && !askers.contains_key(&**asked) {
                    askers.insert(asked, asker);
                    next.push(asked);
                }
            }
        }
        unreachable!("a segment of a ring leads back to itself")
    }
}

/// The rings of segments that ask about each other, by the segments in them.
fn rings<'a>(segments: &BTreeMap<&'a str, Vec<Box<str>>>) -> BTreeMap<&'a str, Ring> {
    let numbers: BTreeMap<&str, usize> = segments.keys().copied().zip(0..).collect();
    let number = |id: &str| numbers.get(id).copied();
    let asked = segments.values().map(|ids| ids.iter().filter_map(|id| number(id)).collect());
    let rings = ring::rings(&asked.collect::<Vec<_>>());
    let mut sizes = BTreeMap::<usize, usize>::new();
    for number in rings.iter().flatten() {
        *sizes.entry(*number).or_default() += 1;
    }
    let ring = |number: usize| Ring { number, segments: sizes[&number] };
    let of_segments = segments.keys().copied().zip(rings);
    of_segments.filter_map(|(id, number)| Some((id, ring(number?)))).collect()
}

/// The segments that a segment asks about.
fn asked_by(segment: &Segment) -> Vec<Box<str>> {
    let conditions = segment.rules.iter().flat_map(|rule| &rule.conditions);
    let read = conditions.filter_map(|it| condition::Condition::read(it).ok());
    read.flat_map(|condition| condition.segments().to_vec()).collect()
}

fn is_of_kind(kind: &str, value: &str) -> bool {
    match kind {
        "boolean" => matches!(value, "true" | "false"),
        "number" => value.parse::<f64>().is_ok_and(f64::is_finite),
        "json" => serde_json::from_str::<serde_json::Value>(value).is_ok(),
        _ => true,
    }
}
