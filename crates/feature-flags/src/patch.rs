//! Changes of a document: the whole, or fields of it (RFC 7396).

use domain::flag::definition::{Definition, DefinitionKey, DefinitionKind};
use serde_json::{Map, Value};

use crate::definition::{name_field, to_json};
use crate::error::{Error, WrongField};

/// A change of a document.
pub enum Change {
    /// Replaces all of it.
    Whole(Value),
    /// Replaces fields of it (RFC 7396).
    Part(Map<String, Value>),
}

impl Change {
    /// The document after the change. Its name cannot change.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it is no object; [`Error::WrongFields`]: it has another name.
    pub fn of(&self, before: &Definition) -> Result<Value, Error> {
        let Value::Object(current) = to_json(before)? else { return Err(Error::bug()) };
        let document = match self {
            Self::Whole(Value::Object(whole)) => whole.clone(),
            Self::Whole(_) => return Err(Error::invalid("body", "an object was expected")),
            Self::Part(part) => {
                let mut merged = Value::Object(current);
                merge(&mut merged, &given(before.key.kind, part));
                let Value::Object(merged) = merged else { return Err(Error::bug()) };
                merged
            }
        };
        with_name(document, &before.key)
    }
}

/// The fields that a definition may lack, which a patch takes off with `null`.
const fn removable(kind: DefinitionKind) -> &'static [&'static str] {
    match kind {
        DefinitionKind::Flag => &["description", "gate"],
        DefinitionKind::Segment => &[],
    }
}

/// The fields of a patch that are given. Generated clients send `null` for others, which would be an empty list or
/// text.
fn given(kind: DefinitionKind, part: &Map<String, Value>) -> Map<String, Value> {
    let is_given =
        |(name, it): &(&String, &Value)| !it.is_null() || removable(kind).contains(&name.as_str());
    part.iter().filter(is_given).map(|(name, it)| (name.clone(), it.clone())).collect()
}

/// The document after a patch of the current definition, or of nothing.
///
/// # Errors
/// See [`Change::of`].
pub fn apply(
    key: &DefinitionKey,
    before: Option<&Definition>,
    part: Map<String, Value>,
) -> Result<Value, Error> {
    if let Some(before) = before {
        return Change::Part(part).of(before);
    }
    let mut document = Value::Object(Map::new());
    merge(&mut document, &part);
    let Value::Object(document) = document else { return Err(Error::bug()) };
    with_name(document, key)
}

/// Sets the name of a document, which may contain it already.
fn with_name(mut document: Map<String, Value>, key: &DefinitionKey) -> Result<Value, Error> {
    let field = name_field(key.kind);
    let name = Value::from(key.key.as_str());
    match document.get(field) {
        Some(given) if *given != name => {
            let (field, reason) = (field.to_owned(), "cannot change".to_owned());
            Err(Error::WrongFields(vec![WrongField { field, reason }]))
        }
        Some(_) => Ok(Value::Object(document)),
        None => {
            document.insert(field.to_owned(), name);
            Ok(Value::Object(document))
        }
    }
}

/// Merges fields into a document, recursively: `null` removes a field. The parser bounds the depth.
fn merge(document: &mut Value, part: &Map<String, Value>) {
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(fields) = document else { return };
    for (name, value) in part {
        match value {
            Value::Null => drop(fields.remove(name)),
            Value::Object(inner) => merge(fields.entry(name.clone()).or_insert(Value::Null), inner),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{DefinitionId, EnvironmentId, Revision, Seq, TenantNo, Timestamp};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn definition(kind: DefinitionKind, key: &str, body: &Value) -> Definition {
        let environment = EnvironmentId::new(Uuid::from_u128(1));
        Definition {
            key: DefinitionKey { environment, kind, key: key.to_owned() },
            id: DefinitionId::new(Uuid::from_u128(2)),
            tenant: TenantNo(1),
            body: body.to_string(),
            is_archived: false,
            version: 1,
            created_at: Timestamp(0),
            revision: Revision::first(Seq(1)),
        }
    }

    /// As clients send it that were generated from the OpenAPI document.
    #[test]
    fn null_is_a_field_that_is_not_given() {
        let patched = |it: &Definition, part: Value| {
            let Value::Object(part) = part else { panic!("{part}") };
            Change::Part(part).of(it).unwrap()
        };
        let segment = json!({ "id": "s", "name": "staff", "included": ["ann"], "excluded": ["bob"],
            "rules": [{ "conditions": [{ "property": "a", "op": "Equal", "value": "b" }] }] });
        let segment = definition(DefinitionKind::Segment, "s", &segment);
        let part = json!({ "name": "crew", "included": null, "excluded": null, "rules": null,
            "description": null, "isArchived": null, "id": null });
        let changed = patched(&segment, part);
        assert_eq!(changed, patched(&segment, json!({ "name": "crew" })));
        assert_eq!((&changed["name"], &changed["included"]), (&json!("crew"), &json!(["ann"])));
        let flag = json!({ "key": "f", "description": "old", "gate": "pro", "tags": ["shop"] });
        let flag = definition(DefinitionKind::Flag, "f", &flag);
        let changed = patched(&flag, json!({ "tags": null, "fallthrough": null, "gate": null }));
        assert_eq!((&changed["tags"], changed.get("gate")), (&json!(["shop"]), None));
        assert!(changed["fallthrough"].is_object());
        assert_eq!(changed["description"], "old");
        assert_eq!(patched(&flag, json!({ "description": null })).get("description"), None);
    }
}
