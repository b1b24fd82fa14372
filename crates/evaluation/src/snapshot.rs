//! An immutable set of all flags and segments of an environment.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::condition::{Context, MissingAttribute};
use crate::entitled::ENTITLED_SEGMENT;
use crate::evaluation::Evaluation;
use crate::explanation::Explanation;
use crate::flag::CompiledFlag;
use crate::model::{Flag, Segment, User};
use crate::segment::CompiledSegment;

/// The maximum number of segments on a path of nested segments.
pub const SEGMENT_DEPTH_MAX: u8 = 8;

/// An immutable set of all flags and segments of an environment. A change creates a new snapshot,
/// which shares the unchanged flags and segments with the old one.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    flags: BTreeMap<Arc<str>, Arc<CompiledFlag>>,
    segments: HashMap<Arc<str>, Arc<CompiledSegment>>,
    missing_attribute: MissingAttribute,
}

impl Snapshot {
    /// An empty snapshot.
    #[must_use]
    pub fn new(missing_attribute: MissingAttribute) -> Self {
        Self { missing_attribute, ..Self::default() }
    }

    /// A copy with these flags and segments, which replace those with the same key or id. Only these
    /// are compiled.
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
            let id = segment.id.as_str().into();
            changed.segments.insert(id, Arc::new(CompiledSegment::new(segment)));
        }
        changed
    }

    /// A copy without the flag.
    #[must_use]
    pub fn without_flag(&self, key: &str) -> Self {
        let mut changed = self.clone();
        changed.flags.remove(key);
        changed
    }

    /// A copy without the segment.
    #[must_use]
    pub fn without_segment(&self, id: &str) -> Self {
        let mut changed = self.clone();
        changed.segments.remove(id);
        changed
    }

    /// All flags in the order of their keys.
    pub fn flags(&self) -> impl Iterator<Item = &CompiledFlag> {
        self.flags.values().map(|flag| &**flag)
    }

    /// All segments in no particular order.
    pub fn segments(&self) -> impl Iterator<Item = &CompiledSegment> {
        self.segments.values().map(|segment| &**segment)
    }

    /// The flag with this key.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<&CompiledFlag> {
        self.flags.get(key).map(|flag| &**flag)
    }

    /// The segment with this id.
    #[must_use]
    pub fn segment(&self, id: &str) -> Option<&CompiledSegment> {
        self.segments.get(id).map(|segment| &**segment)
    }

    /// Evaluates the flag with this key for a user; `None` if there is no such flag.
    #[must_use]
    pub fn evaluate(&self, key: &str, user: &User) -> Option<Evaluation<'_>> {
        self.flag(key).map(|flag| self.evaluate_flag(flag, user))
    }

    /// Evaluates a flag of this snapshot for a user.
    #[must_use]
    pub fn evaluate_flag<'s>(&'s self, flag: &'s CompiledFlag, user: &User) -> Evaluation<'s> {
        let is_in_segment = |id: &str| self.is_in_segment(id, user);
        flag.evaluate(user, &self.context(&is_in_segment))
    }

    /// Evaluates a flag of this snapshot for a user and explains the result.
    #[must_use]
    pub fn explain<'s>(&'s self, flag: &'s CompiledFlag, user: &User) -> Explanation<'s> {
        let is_in_segment = |id: &str| self.is_in_segment(id, user);
        flag.explain(user, &self.context(&is_in_segment))
    }

    /// Whether a user belongs to the segment; `false` if there is no such segment. Those of
    /// [`ENTITLED_SEGMENT`] are no part of the snapshot: the user says which it belongs to.
    #[must_use]
    pub fn is_in_segment(&self, id: &str, user: &User) -> bool {
        self.is_in_nested_segment(id, user, 1)
    }

    /// A segment that is nested too deeply contains no one. This also ends a cycle of segments.
    fn is_in_nested_segment(&self, id: &str, user: &User, depth: u8) -> bool {
        if let Some(feature) = id.strip_prefix(ENTITLED_SEGMENT) {
            return user.entitled.value(feature).is_some();
        }
        let Some(segment) = self.segment(id) else { return false };
        let is_in_segment = |inner: &str| self.is_in_nested_segment(inner, user, depth + 1);
        depth <= SEGMENT_DEPTH_MAX && segment.contains(user, &self.context(&is_in_segment))
    }

    fn context<'c>(&self, is_in_segment: &'c dyn Fn(&str) -> bool) -> Context<'c> {
        Context { missing_attribute: self.missing_attribute, is_in_segment }
    }

    /// When the flag, or a segment that it refers to directly or through other segments, was last
    /// changed, in milliseconds since 1970. The flag's result may differ for a user since then.
    #[must_use]
    pub fn changed_at_ms(&self, flag: &CompiledFlag) -> i64 {
        let mut latest = flag.changed_at_ms();
        self.visit_segments(flag, &mut |segment| {
            latest = latest.max(segment.changed_at_ms());
            false
        });
        latest
    }

    /// Whether the flag refers to the segment, directly or through other segments.
    #[must_use]
    pub fn uses_segment(&self, flag: &CompiledFlag, id: &str) -> bool {
        self.visit_segments(flag, &mut |segment| segment.segment().id == id)
    }

    /// Whether the flag's result depends on what the user is entitled to, directly or through segments.
    #[must_use]
    pub fn depends_on_entitled(&self, flag: &CompiledFlag) -> bool {
        let mut names_one = flag.tests_entitled() || flag.segment_ids().any(is_of_entitled);
        self.visit_segments(flag, &mut |segment| {
            names_one |= segment.tests_entitled() || segment.segment_ids().any(is_of_entitled);
            names_one
        });
        names_one
    }

    /// The features of which flags or segments name the segment [`ENTITLED_SEGMENT`].
    #[must_use]
    pub fn entitled_features(&self) -> BTreeSet<&str> {
        let of_flags = self.flags.values().flat_map(|it| it.segment_ids());
        let of_segments = self.segments.values().flat_map(|it| it.segment_ids());
        of_flags.chain(of_segments).filter_map(|it| it.strip_prefix(ENTITLED_SEGMENT)).collect()
    }

    /// Visits the segments that a flag refers to, directly or through others, until `is_found`
    /// returns true.
    fn visit_segments(
        &self,
        flag: &CompiledFlag,
        is_found: &mut dyn FnMut(&CompiledSegment) -> bool,
    ) -> bool {
        let mut seen = HashSet::new();
        let mut next: Vec<&str> = flag.segment_ids().collect();
        while let Some(id) = next.pop() {
            let Some(segment) = self.segments.get(id).filter(|_| seen.insert(id)) else { continue };
            if is_found(segment) {
                return true;
            }
            next.extend(segment.segment_ids());
        }
        false
    }
}

fn is_of_entitled(id: &str) -> bool {
    id.starts_with(ENTITLED_SEGMENT)
}
