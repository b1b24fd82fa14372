//! Values of features as JSON.

use domain::entitlement::feature::{FeatureKind, FeatureValue, ValueType};
use serde_json::Value;

/// The value that JSON says for a feature of this kind, or why it is none.
pub(super) fn parse(kind: &FeatureKind, json: &Value) -> Result<FeatureValue, &'static str> {
    let value = match kind {
        FeatureKind::Switch if *json == Value::Bool(true) => FeatureValue::On,
        FeatureKind::Switch => return Err("is true for a switch"),
        FeatureKind::Limit(_) => {
            FeatureValue::Limit(json.as_i64().ok_or("is a whole number for a limit")?)
        }
        FeatureKind::Value(ValueType::Boolean) => {
            FeatureValue::Boolean(json.as_bool().ok_or("is true or false for this feature")?)
        }
        FeatureKind::Value(ValueType::Number) if json.is_number() => {
            FeatureValue::Number(json.to_string())
        }
        FeatureKind::Value(ValueType::Number) => return Err("is a number for this feature"),
        FeatureKind::Value(ValueType::String) => {
            let text = json.as_str().ok_or("is a text for this feature")?;
            FeatureValue::String(text.to_owned())
        }
        FeatureKind::Value(ValueType::Json) if json.is_object() || json.is_array() => {
            FeatureValue::Json(json.to_string())
        }
        FeatureKind::Value(ValueType::Json) => {
            return Err("is an object or an array for this feature");
        }
    };
    match kind.refuses(&value) {
        Some(reason) => Err(reason),
        None => Ok(value),
    }
}
