//! Features: what a tenant sells or grants, by key.

use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Facts};
use crate::flag::definition::Expected;
use crate::rows::Keyed;
use crate::{Rejection, Revision, TenantNo, Timestamp};

/// How many features a tenant has at most.
pub const FEATURES_MAX: u32 = 1_000;

/// How many characters a key of a feature or an offer has at most.
pub const KEY_CHARS_MAX: usize = 64;

/// How many characters a name, a unit or a text value has at most.
pub const TEXT_CHARS_MAX: usize = 255;

/// How many bytes a JSON value has at most.
pub const JSON_BYTES_MAX: usize = 4_096;

/// The largest limit: JSON readers with double precision keep it exact.
pub const LIMIT_MAX: i64 = (1 << 53) - 1;

/// Something that an account may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    pub tenant: TenantNo,
    /// Unique for the tenant; see [`check_key`].
    pub key: String,
    /// Counts its changes, from 1.
    pub version: i64,
    /// For people.
    pub name: String,
    pub terms: FeatureTerms,
    /// Not offered nor granted any more; who has it keeps it.
    pub archived: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for Feature {
    type Key = (TenantNo, String);

    fn key(&self) -> Self::Key {
        (self.tenant, self.key.clone())
    }
}

impl Entity for Feature {
    fn name(&self) -> String {
        format!("feature {} of tenant {}", self.key, self.tenant.0)
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// The kind of a feature, and the rule by which several grants of it add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureTerms {
    /// Stays what it was when the feature was made.
    pub kind: FeatureKind,
    pub combine: Combine,
}

/// The kind of a feature: the value that its grants give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeatureKind {
    /// The feature is on.
    Switch,
    /// A value, as a flag has one.
    Value(ValueType),
    /// How much of it there is.
    Limit(LimitTerms),
}

/// The type of a value: those of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueType {
    Boolean,
    Number,
    String,
    Json,
}

/// The terms of a limit: its unit, when its count starts again, and whether it may be exceeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitTerms {
    /// The unit that is counted, such as `seats`: for people.
    pub unit: String,
    /// When the count starts again.
    pub resets: Reset,
    /// Whether more may be used than there is.
    pub overdraft: bool,
}

/// When the count of a limit starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reset {
    Never,
    Day,
    Week,
    Month,
    Year,
}

/// How several grants of a feature add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Combine {
    /// The largest limit.
    Largest,
    /// The sum of the limits.
    Sum,
    /// The value that was granted last.
    Latest,
}

/// The value that a grant gives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FeatureValue {
    On,
    /// At most [`LIMIT_MAX`].
    Limit(i64),
    Boolean(bool),
    /// As JSON writes it.
    Number(String),
    String(String),
    /// An object or an array, as JSON writes it.
    Json(String),
}

/// Makes a feature, or changes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutFeature {
    pub key: String,
    pub name: String,
    pub terms: FeatureTerms,
    pub archived: bool,
    /// The version that is replaced.
    pub expected: Expected,
}

impl ValueType {
    pub const ALL: [Self; 4] = [Self::Boolean, Self::Number, Self::String, Self::Json];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Json => "json",
        }
    }
}

impl Reset {
    pub const ALL: [Self; 5] = [Self::Never, Self::Day, Self::Week, Self::Month, Self::Year];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

impl Combine {
    pub const ALL: [Self; 3] = [Self::Largest, Self::Sum, Self::Latest];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Largest => "largest",
            Self::Sum => "sum",
            Self::Latest => "latest",
        }
    }
}

impl FeatureKind {
    /// Its name in requests and answers.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Value(_) => "value",
            Self::Limit(_) => "limit",
        }
    }

    /// The reason why a feature of this kind cannot have the value, as a predicate: `is longer than 255 characters`;
    /// `None` where it can.
    #[must_use]
    pub fn refuses(&self, value: &FeatureValue) -> Option<&'static str> {
        let fits = |kind: &ValueType| Self::Value(*kind) == *self;
        match value {
            FeatureValue::On if *self == Self::Switch => None,
            FeatureValue::Boolean(_) if fits(&ValueType::Boolean) => None,
            FeatureValue::Number(_) if fits(&ValueType::Number) => None,
            FeatureValue::String(text) if fits(&ValueType::String) => {
                let is_long = text.chars().count() > TEXT_CHARS_MAX;
                is_long.then_some("is longer than 255 characters")
            }
            FeatureValue::Json(text) if fits(&ValueType::Json) => {
                (text.len() > JSON_BYTES_MAX).then_some("is longer than 4096 bytes")
            }
            FeatureValue::Limit(limit) if matches!(self, Self::Limit(_)) => {
                let is_limit = (0..=LIMIT_MAX).contains(limit);
                (!is_limit).then_some("is not between 0 and 9007199254740991")
            }
            FeatureValue::On
            | FeatureValue::Limit(_)
            | FeatureValue::Boolean(_)
            | FeatureValue::Number(_)
            | FeatureValue::String(_)
            | FeatureValue::Json(_) => Some("is not of the feature's kind"),
        }
    }
}

/// Refuses a key that is none: 1 to 64 of a-z, 0-9, dot, dash and underscore, and a letter or digit first.
///
/// # Errors
/// The refusal of `field`.
pub fn check_key(field: &str, key: &str) -> Result<(), Rejection> {
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    let fits = key.starts_with(is_plain)
        && key.len() <= KEY_CHARS_MAX
        && key.chars().all(|it| is_plain(it) || ['.', '-', '_'].contains(&it));
    match fits {
        true => Ok(()),
        false => Err(Rejection::invalid(
            field,
            "should be 1 to 64 of a-z, 0-9, '.', '-' and '_', and begin with a letter or a digit",
        )),
    }
}
