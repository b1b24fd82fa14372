//! Feature flags: what value a flag has for a user, as FeatBit's servers and SDKs decide it.
//!
//! A [`Snapshot`] holds the flags and segments of an environment, with all that can be worked out
//! beforehand: numbers, lists, regular expressions, sets of users. It never changes; whoever
//! changes a flag makes another one, which shares everything else.
//!
//! ```
//! use evaluation::{Flag, MissingAttribute, Snapshot, User};
//!
//! let flag: Flag = serde_json::from_str(
//!     r#"{"key": "dark-mode", "isEnabled": true, "variationType": "boolean",
//!         "variations": [{"id": "on", "value": "true"}, {"id": "off", "value": "false"}],
//!         "disabledVariationId": "off",
//!         "rules": [{"name": "staff", "conditions":
//!             [{"property": "email", "op": "EndsWith", "value": "@example.com"}],
//!             "variations": [{"id": "on", "rollout": [0, 1], "exptRollout": 1}]}],
//!         "fallthrough": {"variations": [{"id": "off", "rollout": [0, 1], "exptRollout": 1}]}}"#,
//! )?;
//! let snapshot = Snapshot::new(MissingAttribute::Empty).with([flag], []);
//! let evaluation = snapshot.evaluate("dark-mode", &User::new("user-1")).expect("it is there");
//! assert_eq!(evaluation.variation.map(|it| it.value.as_str()), Some("false"));
//! assert_eq!(evaluation.reason.text(), "default");
//! # Ok::<(), serde_json::Error>(())
//! ```

#![forbid(unsafe_code)]

mod condition;
mod explain;
mod model;
mod number;
mod problem;
mod ring;
mod rollout;
mod snapshot;

pub use condition::{IN_SEGMENT, NOT_IN_SEGMENT, PATTERN_BYTES_MAX, Unusable};
pub use explain::{AskedCondition, AskedRule, Explanation, Spread};
pub use model::{
    Condition, Fallthrough, Flag, Property, RolloutVariation, Rule, Segment, SegmentRule,
    TargetUsers, User, Variation,
};
pub use problem::{Problem, Wrong, problems};
pub use snapshot::{
    CompiledFlag, CompiledSegment, Evaluation, MissingAttribute, Reason, SEGMENT_DEPTH_MAX,
    Snapshot,
};
