//! All flags and segments of an environment, read and compiled, and what they say of a user.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::condition::{Circumstances, Condition, Subject};
use crate::explain::{AskedCondition, AskedRule, Explanation, Spread};
use crate::model::{self, Flag, Segment, User, Variation};
use crate::rollout::{Interval, bucket};

/// How deep segments may ask about segments.
pub const SEGMENT_DEPTH_MAX: u8 = 8;

/// What a flag gives whose rollout reaches nobody, or whose variation does not exist.
static NO_VARIATION: Variation = Variation { id: String::new(), name: None, value: String::new() };

/// What is asked of a property that a user does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingAttribute {
    /// It is an empty text: what FeatBit's server does.
    #[default]
    Empty,
    /// Nothing holds of it, what denies something neither: what FeatBit's specification for SDKs
    /// says since.
    Absent,
}

/// All flags and segments of an environment at one moment. It never changes: a change makes
/// another, which shares all else with it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    flags: BTreeMap<Arc<str>, Arc<CompiledFlag>>,
    segments: HashMap<Arc<str>, Arc<CompiledSegment>>,
    missing: MissingAttribute,
}

/// A flag that is ready to be evaluated.
#[derive(Debug)]
pub struct CompiledFlag {
    flag: Flag,
    changed_at_ms: i64,
    disabled: Option<usize>,
    targets: HashMap<Box<str>, Option<usize>>,
    rules: Vec<CompiledRule>,
    fallthrough: Split,
}

#[derive(Debug)]
struct CompiledRule {
    conditions: Vec<Condition>,
    split: Split,
}

/// Users spread over variations.
#[derive(Debug)]
struct Split {
    /// What they are spread by; their key where there is nothing.
    by: Option<Subject>,
    is_in_experiment: bool,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    variation: Option<usize>,
    interval: Interval,
    /// Those of them who count for experiments.
    experiment: Option<Interval>,
}

/// A segment that is ready to be asked.
#[derive(Debug)]
pub struct CompiledSegment {
    segment: Segment,
    changed_at_ms: i64,
    included: HashSet<Box<str>>,
    excluded: HashSet<Box<str>>,
    rules: Vec<Vec<Condition>>,
}

/// What a flag is for a user.
#[derive(Clone, Copy, Debug)]
pub struct Evaluation<'s> {
    /// The flag.
    pub flag: &'s Flag,
    /// What the user gets; nothing of an archived flag. Its id and value are empty where no part of
    /// a rollout is the user's.
    pub variation: Option<&'s Variation>,
    /// Why.
    pub reason: Reason<'s>,
    /// Whether this counts for experiments.
    pub send_to_experiment: bool,
}

/// Why a user gets a variation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'s> {
    /// The flag is put away.
    Archived,
    /// The flag is off.
    Disabled,
    /// The user is named.
    Targeted,
    /// All conditions of this rule hold; its name.
    Rule(&'s str),
    /// Nothing else decided.
    Fallthrough,
}

impl<'s> Reason<'s> {
    /// In FeatBit's words.
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

impl Circumstances<'_> {
    pub(crate) fn absent_is_empty(self) -> bool {
        self.snapshot.missing == MissingAttribute::Empty
    }

    /// Does the user belong to the segment? Nobody belongs to one that is not there, or that is
    /// asked about too deep in others, as all are that ask about themselves.
    pub(crate) fn is_in_segment(self, id: &str, user: &User) -> bool {
        let Some(segment) = self.snapshot.segment(id) else { return false };
        let inner = Self { depth: self.depth + 1, ..self };
        inner.depth <= SEGMENT_DEPTH_MAX && segment.has(user, inner)
    }
}

impl Snapshot {
    /// A snapshot without anything.
    #[must_use]
    pub fn new(missing: MissingAttribute) -> Self {
        Self { missing, ..Self::default() }
    }

    /// With these flags and segments, in place of those of the same key or id. Nothing else is
    /// compiled again.
    #[must_use]
    pub fn with(
        &self,
        flags: impl IntoIterator<Item = Flag>,
        segments: impl IntoIterator<Item = Segment>,
    ) -> Self {
        let mut changed = self.clone();
        for flag in flags {
            changed.flags.insert(flag.key.as_str().into(), Arc::new(CompiledFlag::new(flag)));
        }
        for segment in segments {
            let compiled = CompiledSegment::new(segment);
            changed.segments.insert(compiled.segment.id.as_str().into(), Arc::new(compiled));
        }
        changed
    }

    /// Without a flag.
    #[must_use]
    pub fn without_flag(&self, key: &str) -> Self {
        let mut changed = self.clone();
        changed.flags.remove(key);
        changed
    }

    /// Without a segment.
    #[must_use]
    pub fn without_segment(&self, id: &str) -> Self {
        let mut changed = self.clone();
        changed.segments.remove(id);
        changed
    }

    /// All flags, in the order of their keys.
    pub fn flags(&self) -> impl Iterator<Item = &CompiledFlag> {
        self.flags.values().map(|flag| &**flag)
    }

    /// All segments, in no order.
    pub fn segments(&self) -> impl Iterator<Item = &CompiledSegment> {
        self.segments.values().map(|segment| &**segment)
    }

    /// A flag.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<&CompiledFlag> {
        self.flags.get(key).map(|flag| &**flag)
    }

    /// A segment.
    #[must_use]
    pub fn segment(&self, id: &str) -> Option<&CompiledSegment> {
        self.segments.get(id).map(|segment| &**segment)
    }

    /// What a flag is for a user; nothing where there is no such flag.
    #[must_use]
    pub fn evaluate(&self, key: &str, user: &User) -> Option<Evaluation<'_>> {
        self.flag(key).map(|flag| self.evaluate_flag(flag, user))
    }

    /// What a flag of this snapshot is for a user.
    #[must_use]
    pub fn evaluate_flag<'s>(&'s self, flag: &'s CompiledFlag, user: &User) -> Evaluation<'s> {
        flag.evaluate(user, Circumstances { snapshot: self, depth: 0 })
    }

    /// What a flag of this snapshot is for a user, with all that was asked.
    #[must_use]
    pub fn explain<'s>(&'s self, flag: &'s CompiledFlag, user: &User) -> Explanation<'s> {
        let circumstances = Circumstances { snapshot: self, depth: 0 };
        let evaluation = flag.evaluate(user, circumstances);
        let decided = match evaluation.reason {
            Reason::Archived | Reason::Disabled | Reason::Targeted => None,
            Reason::Rule(_) | Reason::Fallthrough => Some(flag.rule_of(user, circumstances)),
        };
        let asked = decided.map_or(0, |rule| rule.map_or(flag.rules.len(), |place| place + 1));
        let rules = flag.rules[..asked].iter().zip(&flag.flag.rules);
        let rules = rules.map(|(rule, source)| rule.explain(source, user, circumstances));
        let spread = decided.map(|rule| {
            let key = format!("{}{}", flag.flag.key, flag.split(rule).text(user));
            Spread { bucket: bucket(&[&key]), key }
        });
        Explanation { evaluation, rules: rules.collect(), spread }
    }

    /// Does a user belong to a segment?
    #[must_use]
    pub fn is_in_segment(&self, id: &str, user: &User) -> bool {
        Circumstances { snapshot: self, depth: 0 }.is_in_segment(id, user)
    }

    /// When a flag changed last, or a segment that it asks about, directly or through others:
    /// since then it may be another for somebody. In milliseconds since 1970.
    #[must_use]
    pub fn changed_at_ms(&self, flag: &CompiledFlag) -> i64 {
        let mut latest = flag.changed_at_ms;
        self.visit_segments(flag, &mut |segment| {
            latest = latest.max(segment.changed_at_ms);
            false
        });
        latest
    }

    /// Whether a flag asks about a segment, directly or through others.
    #[must_use]
    pub fn uses_segment(&self, flag: &CompiledFlag, id: &str) -> bool {
        self.visit_segments(flag, &mut |segment| segment.segment.id == id)
    }

    /// Shows all segments that a flag asks about until one is what was looked for.
    fn visit_segments(
        &self,
        flag: &CompiledFlag,
        is_found: &mut dyn FnMut(&CompiledSegment) -> bool,
    ) -> bool {
        let mut seen = HashSet::new();
        let mut next: Vec<&str> = flag.rules.iter().flat_map(|it| asked(&it.conditions)).collect();
        while let Some(id) = next.pop() {
            let Some(segment) = self.segments.get(id).filter(|_| seen.insert(id)) else { continue };
            if is_found(segment) {
                return true;
            }
            next.extend(segment.rules.iter().flat_map(|conditions| asked(conditions)));
        }
        false
    }
}

/// The segments that conditions ask about.
fn asked(conditions: &[Condition]) -> impl Iterator<Item = &str> {
    conditions.iter().flat_map(Condition::segments).map(|id| &**id)
}

impl CompiledFlag {
    fn new(flag: Flag) -> Self {
        let place = |id: &str| flag.variations.iter().position(|it| it.id == id);
        let mut targets = HashMap::new();
        for target in &flag.target_users {
            for key in &target.key_ids {
                // The first that names a user wins.
                targets.entry(key.as_str().into()).or_insert_with(|| place(&target.variation_id));
            }
        }
        let rule = |rule: &model::Rule| CompiledRule {
            conditions: compile(&rule.conditions),
            split: Split {
                by: subject(rule.dispatch_key.as_deref()),
                is_in_experiment: rule.included_in_expt,
                parts: rule.variations.iter().map(|it| Part::new(it, place(&it.id))).collect(),
            },
        };
        let through = &flag.fallthrough;
        Self {
            changed_at_ms: milliseconds(&flag.updated_at),
            disabled: place(&flag.disabled_variation_id),
            targets,
            rules: flag.rules.iter().map(rule).collect(),
            fallthrough: Split {
                by: subject(through.dispatch_key.as_deref()),
                is_in_experiment: through.included_in_expt,
                parts: through.variations.iter().map(|it| Part::new(it, place(&it.id))).collect(),
            },
            flag,
        }
    }

    /// The flag.
    #[must_use]
    pub const fn flag(&self) -> &Flag {
        &self.flag
    }

    /// When it was changed last, in milliseconds since 1970.
    #[must_use]
    pub const fn changed_at_ms(&self) -> i64 {
        self.changed_at_ms
    }

    fn evaluate(&self, user: &User, circumstances: Circumstances<'_>) -> Evaluation<'_> {
        let flag = &self.flag;
        let all_count = flag.expt_include_all_targets;
        if flag.is_archived {
            let reason = Reason::Archived;
            return Evaluation { flag, variation: None, reason, send_to_experiment: false };
        }
        if !flag.is_enabled {
            return self.outcome(self.disabled, Reason::Disabled, false);
        }
        if let Some(place) = self.targets.get(user.key_id.as_str()) {
            return self.outcome(*place, Reason::Targeted, all_count);
        }
        let rule = self.rule_of(user, circumstances);
        let name = rule.map(|place| Reason::Rule(&flag.rules[place].name));
        let (place, counts) = self.split(rule).part(&flag.key, user);
        self.outcome(place, name.unwrap_or(Reason::Fallthrough), all_count || counts)
    }

    /// The first rule whose conditions all hold.
    fn rule_of(&self, user: &User, circumstances: Circumstances<'_>) -> Option<usize> {
        self.rules.iter().position(|rule| {
            rule.conditions.iter().all(|condition| condition.holds(user, circumstances))
        })
    }

    /// How users are spread for whom a rule decides, or none.
    fn split(&self, rule: Option<usize>) -> &Split {
        rule.map_or(&self.fallthrough, |place| &self.rules[place].split)
    }

    fn outcome<'s>(
        &'s self,
        place: Option<usize>,
        reason: Reason<'s>,
        send_to_experiment: bool,
    ) -> Evaluation<'s> {
        let variation = place.and_then(|place| self.flag.variations.get(place));
        let variation = Some(variation.unwrap_or(&NO_VARIATION));
        Evaluation { flag: &self.flag, variation, reason, send_to_experiment }
    }
}

/// Those that can never hold hold of nobody.
fn compile(conditions: &[model::Condition]) -> Vec<Condition> {
    conditions.iter().map(|it| Condition::read(it).unwrap_or(Condition::Never)).collect()
}

impl CompiledRule {
    fn explain<'s>(
        &self,
        source: &'s model::Rule,
        user: &User,
        circumstances: Circumstances<'_>,
    ) -> AskedRule<'s> {
        let mut conditions = vec![];
        for (condition, source) in self.conditions.iter().zip(&source.conditions) {
            let segments = condition.segments().iter();
            let segments = segments.filter(|id| circumstances.is_in_segment(id, user));
            let holds = condition.holds(user, circumstances);
            conditions.push(AskedCondition {
                condition: source,
                found: condition.found(user).map(str::to_owned),
                segments: segments.map(|id| id.to_string()).collect(),
                holds,
            });
            if !holds {
                break;
            }
        }
        let is_met = conditions.iter().all(|it| it.holds);
        AskedRule { name: &source.name, conditions, is_met }
    }
}

fn subject(dispatch_key: Option<&str>) -> Option<Subject> {
    dispatch_key.filter(|key| !key.trim().is_empty()).map(Subject::of)
}

impl Split {
    /// What a user is spread by.
    fn text<'u>(&self, user: &'u User) -> &'u str {
        self.by.as_ref().map_or(user.key_id.as_str(), |by| by.text(user))
    }

    /// The variation of the first part that a user belongs to, and whether that counts.
    fn part(&self, flag_key: &str, user: &User) -> (Option<usize>, bool) {
        let by = self.text(user);
        let mut known = None;
        let mut user_bucket = || *known.get_or_insert_with(|| bucket(&[flag_key, by]));
        let Some(part) = self.parts.iter().find(|part| part.interval.has(&mut user_bucket)) else {
            return (None, false);
        };
        let counts = self.is_in_experiment
            && part.experiment.is_some_and(|it| it.has(|| bucket(&["expt", flag_key, by])));
        (part.variation, counts)
    }
}

impl Part {
    fn new(part: &model::RolloutVariation, variation: Option<usize>) -> Self {
        let [low, high] = part.rollout;
        let width = high - low;
        let is_some = |number: f64| number.abs() >= f64::MIN_POSITIVE;
        let counts = is_some(width) && is_some(part.expt_rollout);
        let experiment = || Interval::new([0.0, (part.expt_rollout / width).min(1.0)]);
        let interval = Interval::new(part.rollout);
        Self { variation, interval, experiment: counts.then(experiment) }
    }
}

impl CompiledSegment {
    fn new(segment: Segment) -> Self {
        let keys = |keys: &[String]| keys.iter().map(|key| key.as_str().into()).collect();
        let conditions = |rule: &model::SegmentRule| compile(&rule.conditions);
        Self {
            changed_at_ms: milliseconds(&segment.updated_at),
            included: keys(&segment.included),
            excluded: keys(&segment.excluded),
            rules: segment.rules.iter().map(conditions).collect(),
            segment,
        }
    }

    /// The segment.
    #[must_use]
    pub const fn segment(&self) -> &Segment {
        &self.segment
    }

    /// When it was changed last, in milliseconds since 1970.
    #[must_use]
    pub const fn changed_at_ms(&self) -> i64 {
        self.changed_at_ms
    }

    fn has(&self, user: &User, circumstances: Circumstances<'_>) -> bool {
        let key = user.key_id.as_str();
        if self.excluded.contains(key) {
            return false;
        }
        let is_met = |conditions: &Vec<Condition>| {
            conditions.iter().all(|condition| condition.holds(user, circumstances))
        };
        self.included.contains(key) || self.rules.iter().any(is_met)
    }
}

/// Milliseconds since 1970; 0 for a text that is no time.
fn milliseconds(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_millisecond)
}
