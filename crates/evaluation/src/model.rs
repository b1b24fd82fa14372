//! Flags and segments as FeatBit's JSON has them. What a field means is said in `snapshot`.

use serde::{Deserialize, Serialize};

/// A feature flag of one environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Flag {
    /// UUID.
    pub id: String,
    /// When it was made, RFC 3339.
    pub created_at: String,
    /// When it was changed last, RFC 3339; grows with every change.
    pub updated_at: String,
    /// UUID of whoever made it.
    pub creator_id: String,
    /// UUID of whoever changed it last.
    pub updator_id: String,
    /// UUID of the environment.
    pub env_id: String,
    /// What people call it.
    pub name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What programs ask for; unique in the environment.
    pub key: String,
    /// `boolean`, `string`, `number` or `json`.
    pub variation_type: String,
    /// The values that it can have.
    pub variations: Vec<Variation>,
    /// Users who get a variation by name, before any rule.
    pub target_users: Vec<TargetUsers>,
    /// The first whose conditions all hold decides.
    pub rules: Vec<Rule>,
    /// Whether it is on.
    pub is_enabled: bool,
    /// The variation where it is off.
    pub disabled_variation_id: String,
    /// What users get whom nothing above decides.
    pub fallthrough: Fallthrough,
    /// Whether all evaluations count for experiments.
    pub expt_include_all_targets: bool,
    /// For finding it.
    pub tags: Vec<String>,
    /// Whether it is put away: it has no value then.
    pub is_archived: bool,
}

/// One of a flag's values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Variation {
    /// Unique in the flag.
    pub id: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The value as text.
    pub value: String,
}

/// Users who get a variation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetUsers {
    /// Their keys.
    pub key_ids: Vec<String>,
    /// What they get.
    pub variation_id: String,
}

/// Conditions, and what users get for whom all of them hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// UUID.
    pub id: String,
    /// What people call it; the reason of what it decides.
    pub name: String,
    /// The property by which users are spread over variations; their key where there is none.
    pub dispatch_key: Option<String>,
    /// Whether its evaluations count for experiments.
    pub included_in_expt: bool,
    /// All have to hold; none hold always.
    pub conditions: Vec<Condition>,
    /// What users get, and how many of them.
    pub variations: Vec<RolloutVariation>,
}

/// What users get whom no rule decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fallthrough {
    /// As [`Rule::dispatch_key`].
    pub dispatch_key: Option<String>,
    /// As [`Rule::included_in_expt`].
    pub included_in_expt: bool,
    /// As [`Rule::variations`].
    pub variations: Vec<RolloutVariation>,
}

/// A variation for a part of the users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutVariation {
    /// The variation.
    pub id: String,
    /// From where to where, between 0 and 1.
    pub rollout: [f64; 2],
    /// The part of these users who count for experiments.
    pub expt_rollout: f64,
}

/// A question about a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// UUID, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The property asked about, or one of [`crate::IN_SEGMENT`] and [`crate::NOT_IN_SEGMENT`].
    pub property: String,
    /// How it is compared; nothing for segments. One SDK wants an empty text there, not `null`.
    #[serde(deserialize_with = "or_empty")]
    pub op: String,
    /// What it is compared with; lists are JSON in a text.
    #[serde(deserialize_with = "or_empty")]
    pub value: String,
}

/// Users with something in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Segment {
    /// UUID.
    pub id: String,
    /// When it was made, RFC 3339.
    pub created_at: String,
    /// When it was changed last, RFC 3339; grows with every change.
    pub updated_at: String,
    /// UUID of the environment.
    pub env_id: String,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Keys of users who belong to it.
    pub included: Vec<String>,
    /// Keys of users who do not, whatever else is said.
    pub excluded: Vec<String>,
    /// Whoever meets all conditions of one of them belongs to it.
    pub rules: Vec<SegmentRule>,
    /// Whether it is put away.
    pub is_archived: bool,
}

/// Conditions that all have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SegmentRule {
    /// UUID.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// All have to hold; none hold always.
    pub conditions: Vec<Condition>,
}

/// Whoever a flag is evaluated for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User {
    /// Who it is.
    pub key_id: String,
    /// What people call them.
    pub name: Option<String>,
    /// What else is known.
    pub customized_properties: Vec<Property>,
}

/// Something known of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Property {
    /// What.
    pub name: String,
    /// Its value as text.
    pub value: Option<String>,
}

impl User {
    /// A user of whom nothing but the key is known.
    #[must_use]
    pub fn new(key_id: impl Into<String>) -> Self {
        Self { key_id: key_id.into(), ..Self::default() }
    }
}

fn or_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
