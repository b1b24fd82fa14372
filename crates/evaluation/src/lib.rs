//! Evaluates feature flags for users with the same results as FeatBit's servers and SDKs.
//!
//! A [`Snapshot`] holds the flags and segments of an environment in compiled form: numbers, lists and
//! regular expressions are parsed once. A snapshot is immutable; a change creates a new one, which
//! shares the unchanged flags and segments with the old one.
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
//! let evaluation = snapshot.evaluate("dark-mode", &User::new("user-1")).expect("the flag exists");
//! assert_eq!(evaluation.variation.map(|it| it.value.as_str()), Some("false"));
//! assert_eq!(evaluation.reason.text(), "default");
//! # Ok::<(), serde_json::Error>(())
//! ```

#![forbid(unsafe_code)]

mod attribute_text;
mod client_text;
mod condition;
mod cycle;
mod entitled;
mod evaluation;
mod explanation;
mod flag;
mod model;
mod number;
mod rollout;
mod segment;
mod snapshot;
mod typed_value;
mod validation;
mod vectors;

pub use attribute_text::attribute_text;
pub use client_text::ClientText;
pub use condition::{
    ConditionError, IN_SEGMENT, MissingAttribute, NOT_IN_SEGMENT, PATTERN_BYTES_MAX,
};
pub use entitled::{ENTITLED_ATTRIBUTE, ENTITLED_SEGMENT, Entitled};
pub use evaluation::{Evaluation, Reason, ResolutionReason};
pub use explanation::{Dispatch, EvaluatedCondition, EvaluatedRule, Explanation};
pub use flag::CompiledFlag;
pub use model::{
    Condition, Fallthrough, Flag, Property, RolloutVariation, Rule, Segment, SegmentRule,
    TargetUsers, User, Variation,
};
pub use segment::CompiledSegment;
pub use snapshot::{SEGMENT_DEPTH_MAX, Snapshot};
pub use typed_value::TypedValue;
pub use validation::{Problem, ProblemKind, problems};
pub use vectors::{Vector, Vectors};
