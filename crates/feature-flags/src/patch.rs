//! Changes of a document: the whole, or fields of it (RFC 7396).

use domain::definition::{Definition, DefinitionKey};
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
                merge(&mut merged, part);
                let Value::Object(merged) = merged else { return Err(Error::bug()) };
                merged
            }
        };
        with_name(document, &before.key)
    }
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
