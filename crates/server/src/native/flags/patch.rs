//! What a change makes of a flag or a segment, and whether that can be: for changes that are made at
//! once, and for those that were kept for later.

use std::collections::BTreeSet;

use domain::DefinitionId;
use domain::definition::{Definition, DefinitionKey, DefinitionKind, Expected, NewDefinition};
use evaluation::{Flag, Segment};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::find::bug;
use super::input::{self, FLAG_FIELDS, SEGMENT_FIELDS};
use crate::document;
use crate::native::parameters::invalid;
use crate::problem::{Problem, WrongField};

/// What is to be made of a document.
pub enum Change {
    /// This.
    Whole(Value),
    /// These fields of it (RFC 7396).
    Part(Map<String, Value>),
}

impl Change {
    /// The document that it makes. What names it cannot change.
    ///
    /// # Errors
    /// Where it is none, or of another name.
    pub fn of(&self, before: &Definition) -> Result<Value, Problem> {
        let Value::Object(there) = shown(before)? else { return Err(bug()) };
        let document = match self {
            Self::Whole(Value::Object(whole)) => whole.clone(),
            Self::Whole(_) => return Err(invalid("body", "an object was expected")),
            Self::Part(part) => {
                let mut merged = Value::Object(there.clone());
                merge(&mut merged, part);
                let Value::Object(merged) = merged else { return Err(bug()) };
                merged
            }
        };
        named(document, &before.key)
    }
}

/// What a patch makes of what is there, or of nothing.
///
/// # Errors
/// See [`Change::of`].
pub fn patched(
    key: &DefinitionKey,
    before: Option<&Definition>,
    part: Map<String, Value>,
) -> Result<Value, Problem> {
    if let Some(before) = before {
        return Change::Part(part).of(before);
    }
    let mut document = Value::Object(Map::new());
    merge(&mut document, &part);
    let Value::Object(document) = document else { return Err(bug()) };
    named(document, key)
}

/// The document with the name that it has, which it may say or not.
fn named(mut document: Map<String, Value>, key: &DefinitionKey) -> Result<Value, Problem> {
    let name = match key.kind {
        DefinitionKind::Flag => "key",
        DefinitionKind::Segment => "id",
    };
    let known = Value::from(key.key.as_str());
    match document.get(name) {
        Some(given) if *given != known => Err(invalid(name, "cannot change")),
        Some(_) => Ok(Value::Object(document)),
        None => {
            document.insert(name.to_owned(), known);
            Ok(Value::Object(document))
        }
    }
}

/// What is to be put of a document among those that are there.
///
/// # Errors
/// Where it cannot be: all that is wrong.
pub async fn judged(
    (kind, value): (DefinitionKind, Value),
    expected: Expected,
    there: &[Definition],
) -> Result<NewDefinition, Problem> {
    let mut flags = FlagIds::of(there);
    let there = input::segments_of(there)?;
    match kind {
        DefinitionKind::Flag => {
            let flag: Flag = input::document(value, FLAG_FIELDS)?;
            input::check_key("key", &flag.key)?;
            let new = new_flag("", &flag, expected)?;
            if !flags.takes(&new) {
                return Err(input::wrong(vec![taken("")]));
            }
            input::check(vec![flag], vec![], there).await?;
            Ok(new)
        }
        DefinitionKind::Segment => {
            let segment: Segment = input::document(value, SEGMENT_FIELDS)?;
            let new = new_segment("", &segment, expected)?;
            input::check(vec![], vec![segment], there).await?;
            Ok(new)
        }
    }
}

/// Puts fields into a document, and fields of those: `null` takes one out. JSON that was read is not
/// deep.
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

/// A flag that is to be put; `path` is where it stands in what the client sent.
///
/// # Errors
/// Where its id is none, or it is too large.
pub fn new_flag(path: &str, flag: &Flag, expected: Expected) -> Result<NewDefinition, Problem> {
    Ok(NewDefinition {
        kind: DefinitionKind::Flag,
        key: flag.key.clone(),
        id: id(path, &flag.id)?,
        body: input::bounded(path, document::body_of_flag(flag))?,
        is_archived: flag.is_archived,
        expected,
    })
}

/// A segment that is to be put.
///
/// # Errors
/// See [`new_flag`].
pub fn new_segment(
    path: &str,
    segment: &Segment,
    expected: Expected,
) -> Result<NewDefinition, Problem> {
    Ok(NewDefinition {
        kind: DefinitionKind::Segment,
        key: segment.id.clone(),
        id: id(path, &segment.id)?,
        body: input::bounded(path, document::body_of_segment(segment))?,
        is_archived: segment.is_archived,
        expected,
    })
}

/// An id, or a new one where none is given.
fn id(path: &str, text: &str) -> Result<DefinitionId, Problem> {
    if text.is_empty() {
        return Ok(DefinitionId::new(Uuid::now_v7()));
    }
    Uuid::try_parse(text).map(DefinitionId::new).map_err(|_| {
        let (field, reason) = (id_field(path), "is no UUID".to_owned());
        input::wrong(vec![WrongField { field, reason }])
    })
}

/// The flags that there are, by key and id: no two have the same id.
pub struct FlagIds {
    keys: BTreeSet<String>,
    ids: BTreeSet<DefinitionId>,
}

impl FlagIds {
    /// Those of these definitions.
    pub fn of(there: &[Definition]) -> Self {
        let flags = || there.iter().filter(|it| it.key.kind == DefinitionKind::Flag);
        Self {
            keys: flags().map(|it| it.key.key.clone()).collect(),
            ids: flags().map(|it| it.id).collect(),
        }
    }

    /// Whether a flag's id is its own; it is taken then. A flag that is there keeps the id that it
    /// has, whatever the document says.
    pub fn takes(&mut self, new: &NewDefinition) -> bool {
        self.keys.contains(&new.key) || self.ids.insert(new.id)
    }
}

/// What is wrong with a new flag that has another one's id; `path` is where it stands.
pub fn taken(path: &str) -> WrongField {
    let reason = "is another flag's: leave it out, and one is made up".to_owned();
    WrongField { field: id_field(path), reason }
}

fn id_field(path: &str) -> String {
    if path.is_empty() { "id".to_owned() } else { format!("{path}.id") }
}

/// A definition as clients see it.
///
/// # Errors
/// Where its document cannot be read.
pub fn shown(it: &Definition) -> Result<Value, Problem> {
    let value = match it.key.kind {
        DefinitionKind::Flag => document::flag(it).map(|flag| json!(flag)),
        DefinitionKind::Segment => document::segment(it).map(|segment| json!(segment)),
    };
    value.map_err(|error| input::unreadable(&error))
}
