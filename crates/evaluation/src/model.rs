//! Flags, segments and users in the shape of FeatBit's JSON.

use serde::{Deserialize, Serialize};

use crate::attribute_text;
use crate::entitled::Entitled;

/// A feature flag of one environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Flag {
    /// A UUID as text.
    pub id: String,
    /// A timestamp in RFC 3339.
    pub created_at: String,
    /// RFC 3339; later than before each change.
    pub updated_at: String,
    /// UUID of the user who created the flag.
    pub creator_id: String,
    /// UUID of the user who last changed the flag.
    pub updator_id: String,
    /// UUID of the environment.
    pub env_id: String,
    /// The display name.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The name by which programs evaluate the flag; unique in the environment.
    pub key: String,
    /// `boolean`, `string`, `number` or `json`.
    pub variation_type: String,
    pub variations: Vec<Variation>,
    /// Individual users and their variations; evaluated before the rules.
    pub target_users: Vec<TargetUsers>,
    /// The first rule whose conditions all hold decides.
    pub rules: Vec<Rule>,
    pub is_enabled: bool,
    /// The variation while the flag is off.
    pub disabled_variation_id: String,
    /// The rollout for users who are not targeted and meet no rule.
    pub fallthrough: Fallthrough,
    /// Whether all evaluations count for experiments.
    pub expt_include_all_targets: bool,
    pub tags: Vec<String>,
    /// The key of the feature that users have to be entitled to; others get the disabled variation, but for the
    /// users whom the flag targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// An archived flag has no value.
    pub is_archived: bool,
}

/// A value of a flag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Variation {
    /// Unique in the flag.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub id: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The value as text, such as `true` or a JSON document.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub value: String,
}

/// Individual users and the variation that they get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TargetUsers {
    /// The keys of the users.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub key_ids: Vec<String>,
    #[cfg_attr(feature = "openapi", schema(required))]
    pub variation_id: String,
}

/// Conditions, and the rollout for the users who meet all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// A UUID as text.
    pub id: String,
    /// The display name; the reason of evaluations that this rule decides.
    pub name: String,
    /// The property that the rollout hashes; the user's key if it is absent or blank.
    pub dispatch_key: Option<String>,
    /// Whether evaluations that this rule decides count for experiments.
    pub included_in_expt: bool,
    /// All must hold; a rule without conditions is always met.
    pub conditions: Vec<Condition>,
    /// The rollout for users who meet the rule.
    pub variations: Vec<RolloutVariation>,
}

/// The rollout for users who are not targeted and meet no rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Fallthrough {
    /// The property that the rollout hashes; the user's key if it is absent or blank.
    pub dispatch_key: Option<String>,
    /// Whether these evaluations count for experiments.
    pub included_in_expt: bool,
    pub variations: Vec<RolloutVariation>,
}

/// A variation and the part of the users who get it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutVariation {
    /// The variation's id.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub id: String,
    /// The lower and upper bound of the users' buckets, both between 0 and 1.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub rollout: [f64; 2],
    /// The share of all users, up to the width of `rollout`, who count for experiments.
    pub expt_rollout: f64,
}

/// A condition on a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// A UUID as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tested property; or `User is in segment` or `User is not in segment`, whose value lists segments.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub property: String,
    /// The operator; empty for segments. One SDK requires an empty text instead of `null`.
    #[serde(deserialize_with = "or_empty")]
    pub op: String,
    /// The operand. A list is a JSON array in a text.
    #[serde(deserialize_with = "or_empty")]
    pub value: String,
}

/// A group of users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Segment {
    /// A UUID as text.
    pub id: String,
    /// A timestamp in RFC 3339.
    pub created_at: String,
    /// RFC 3339; later than before each change.
    pub updated_at: String,
    /// UUID of the environment.
    pub env_id: String,
    /// The display name.
    pub name: String,
    pub description: String,
    /// The keys of users who belong to the segment individually.
    pub included: Vec<String>,
    /// The keys of users who do not belong to it; takes precedence over all else.
    pub excluded: Vec<String>,
    /// A user who meets one of the rules belongs to the segment.
    pub rules: Vec<SegmentRule>,
    pub is_archived: bool,
}

/// Conditions that a user of the segment meets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct SegmentRule {
    /// A UUID as text.
    pub id: String,
    /// The display name.
    pub name: String,
    /// All must hold; a rule without conditions is always met.
    pub conditions: Vec<Condition>,
}

/// The subject of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct User {
    /// The unique key.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub key_id: String,
    /// The display name.
    #[serde(deserialize_with = "attribute_text::read")]
    pub name: Option<String>,
    /// All other attributes. Those of [`crate::ENTITLED_ATTRIBUTE`] count for nothing here.
    pub customized_properties: Vec<Property>,
    /// The features that the user is entitled to, from the server; not part of the JSON.
    #[serde(skip)]
    pub entitled: Entitled,
}

/// An attribute of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Property {
    #[cfg_attr(feature = "openapi", schema(required))]
    pub name: String,
    /// A text, or another value, which counts as its JSON text.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    #[serde(deserialize_with = "attribute_text::read")]
    pub value: Option<String>,
}

impl Flag {
    /// Whether no target and no rule gives a user something else than the fallthrough.
    pub(crate) fn is_same_for_all(&self) -> bool {
        self.rules.is_empty() && self.target_users.is_empty()
    }

    /// The time of the last change in milliseconds since 1970; 0 if `updated_at` is invalid.
    pub(crate) fn changed_at_ms(&self) -> i64 {
        milliseconds(&self.updated_at)
    }
}

impl Segment {
    /// The time of the last change in milliseconds since 1970; 0 if `updated_at` is invalid.
    pub(crate) fn changed_at_ms(&self) -> i64 {
        milliseconds(&self.updated_at)
    }
}

impl User {
    /// A user without a name and properties.
    #[must_use]
    pub fn new(key_id: impl Into<String>) -> Self {
        Self { key_id: key_id.into(), ..Self::default() }
    }
}

fn or_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn milliseconds(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_millisecond)
}
