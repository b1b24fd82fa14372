//! A segment that is compiled for evaluation.

use std::collections::HashSet;

use crate::condition::{self, Condition, Context};
use crate::model::{Segment, SegmentRule, User};

/// A segment that is compiled for evaluation.
#[derive(Debug)]
pub struct CompiledSegment {
    segment: Segment,
    changed_at_ms: i64,
    included: HashSet<Box<str>>,
    excluded: HashSet<Box<str>>,
    rules: Vec<Vec<Condition>>,
}

impl CompiledSegment {
    pub(crate) fn new(segment: Segment) -> Self {
        let keys = |keys: &[String]| keys.iter().map(|key| key.as_str().into()).collect();
        let conditions = |rule: &SegmentRule| condition::compile(&rule.conditions);
        Self {
            changed_at_ms: segment.changed_at_ms(),
            included: keys(&segment.included),
            excluded: keys(&segment.excluded),
            rules: segment.rules.iter().map(conditions).collect(),
            segment,
        }
    }

    /// The segment's definition.
    #[must_use]
    pub const fn segment(&self) -> &Segment {
        &self.segment
    }

    /// When the segment was last changed, in milliseconds since 1970.
    #[must_use]
    pub const fn changed_at_ms(&self) -> i64 {
        self.changed_at_ms
    }

    /// The ids of the segments that the rules refer to directly.
    pub(crate) fn segment_ids(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(|conditions| condition::segment_ids(conditions))
    }

    /// Whether a rule tests what a user is entitled to, but for segments.
    pub(crate) fn tests_entitled(&self) -> bool {
        self.rules.iter().flatten().any(Condition::tests_entitled)
    }

    pub(crate) fn contains(&self, user: &User, context: &Context<'_>) -> bool {
        let key = user.key_id.as_str();
        if self.excluded.contains(key) {
            return false;
        }
        let is_met = |conditions: &Vec<Condition>| {
            conditions.iter().all(|condition| condition.holds(user, context))
        };
        self.included.contains(key) || self.rules.iter().any(is_met)
    }
}
