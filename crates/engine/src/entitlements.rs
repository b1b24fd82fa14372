//! What APIs and events say of what accounts may do.

use domain::feature::FeatureValue;
use serde_json::Value;

/// The value of a feature as JSON: `true` for one that is on, a number for a limit.
#[must_use]
pub fn value_json(value: &FeatureValue) -> Value {
    match value {
        FeatureValue::On => Value::Bool(true),
        FeatureValue::Limit(limit) => Value::from(*limit),
        FeatureValue::Boolean(it) => Value::Bool(*it),
        FeatureValue::String(it) => Value::String(it.clone()),
        // They were JSON when they were stored.
        FeatureValue::Number(it) | FeatureValue::Json(it) => {
            serde_json::from_str(it).unwrap_or_default()
        }
    }
}
