//! Vectors: flags and users with the evaluations that are expected of them.

use serde::Deserialize;

use crate::{Evaluation, Flag, MissingAttribute, Segment, User};

/// A file of vectors; flags, segments and users are as in FeatBit's JSON.
#[derive(Deserialize)]
pub struct Vectors {
    pub flags: Vec<Flag>,
    #[serde(default)]
    pub segments: Vec<Segment>,
    pub users: Vec<User>,
    pub vectors: Vec<Vector>,
}

/// The expected evaluation of a flag for a user.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vector {
    pub flag: String,
    pub user: String,
    pub variation: Option<String>,
    pub variation_id: Option<String>,
    pub match_reason: String,
    pub send_to_experiment: bool,
    /// The variation if a missing attribute is absent, where that differs.
    pub spec_missing_attr: Option<String>,
}

impl Vector {
    /// The first difference from the vector, where a missing attribute evaluates by this rule.
    #[must_use]
    pub fn difference(&self, found: &Evaluation<'_>, missing: MissingAttribute) -> Option<String> {
        let value = found.variation.map(|it| it.value.as_str());
        let differs = |what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
            Some(format!("{what} is {found:?}, not {expected:?}"))
        };
        if let (MissingAttribute::Absent, Some(expected)) =
            (missing, self.spec_missing_attr.as_deref())
        {
            // The vector has nothing but the value for this rule.
            let is_right = value == Some(expected);
            return if is_right { None } else { differs("the variation", &value, &expected) };
        }
        let expected = self.variation.as_deref();
        if value != expected {
            return differs("the variation", &value, &expected);
        }
        let (id, expected) =
            (found.variation.map(|it| it.id.as_str()), self.variation_id.as_deref());
        if id != expected {
            return differs("the variation's id", &id, &expected);
        }
        let (reason, expected) = (found.reason.text(), self.match_reason.as_str());
        if reason != expected {
            return differs("the reason", &reason, &expected);
        }
        let (sent, expected) = (found.send_to_experiment, self.send_to_experiment);
        if sent == expected { None } else { differs("sendToExperiment", &sent, &expected) }
    }
}
