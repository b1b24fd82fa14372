//! Definitions: the documents of flags and segments, parsed strictly, and the rows that they become.

use std::collections::BTreeSet;

use domain::DefinitionId;
use domain::flag::definition::{Definition, DefinitionKind, Expected, NewDefinition};
use evaluation::{Flag, Segment, User};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::document::{self, Unreadable};
use crate::error::{Error, WrongField};

/// The longest key or id, in bytes.
pub const KEY_BYTES_MAX: usize = 255;

/// The largest flag or segment, in bytes.
const DOCUMENT_BYTES_MAX: usize = 512 * 1024;

/// How many unknown fields of a document are listed.
const UNKNOWN_FIELDS_MAX: usize = 100;

/// How many properties a user may have.
const PROPERTIES_MAX: usize = 1_000;

/// The fields of a flag.
pub const FLAG_FIELDS: &[&str] = &[
    "id",
    "createdAt",
    "updatedAt",
    "creatorId",
    "updatorId",
    "envId",
    "name",
    "description",
    "key",
    "variationType",
    "variations",
    "targetUsers",
    "rules",
    "isEnabled",
    "disabledVariationId",
    "fallthrough",
    "exptIncludeAllTargets",
    "tags",
    "gate",
    "isArchived",
];

/// The fields of a segment.
pub const SEGMENT_FIELDS: &[&str] = &[
    "id",
    "createdAt",
    "updatedAt",
    "envId",
    "name",
    "description",
    "included",
    "excluded",
    "rules",
    "isArchived",
];

/// The field that names a definition of a kind.
#[must_use]
pub const fn name_field(kind: DefinitionKind) -> &'static str {
    match kind {
        DefinitionKind::Flag => "key",
        DefinitionKind::Segment => "id",
    }
}

/// Checks a key: at most [`KEY_BYTES_MAX`] bytes, no control characters, no spaces around it.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check_key(field: &'static str, key: &str) -> Result<(), Error> {
    let is_valid = (1..=KEY_BYTES_MAX).contains(&key.len())
        && key.trim() == key
        && !key.chars().any(char::is_control);
    match is_valid {
        true => Ok(()),
        false => {
            Err(Error::invalid(field, format!("1 to {KEY_BYTES_MAX} characters were expected")))
        }
    }
}

/// The reason to refuse the key of a new flag that is not plain: see [`is_plain_key`].
pub const RESERVED_KEY: &str = "has other characters than `a` to `z`, `A` to `Z`, `0` to `9`, `.`, `_` and `-`: \
    some OpenFeature providers put it into a path as it is, and get another flag";

/// Whether every client takes the key of a flag as it is: FeatBit's rule.
#[must_use]
pub fn is_plain_key(key: &str) -> bool {
    key.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'_' | b'-'))
}

/// Checks the key of a flag: as [`check_key`], and one that no flag has yet is plain.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check_flag_key(key: &str, is_new: bool) -> Result<(), Error> {
    check_key("key", key)?;
    match !is_new || is_plain_key(key) {
        true => Ok(()),
        false => Err(Error::invalid("key", RESERVED_KEY)),
    }
}

/// Checks a user; `path` is the prefix of its fields in the request.
///
/// # Errors
/// [`Error::Invalid`]: it has no key, or too many properties.
pub fn check_user(path: &str, user: &User) -> Result<(), Error> {
    if user.key_id.is_empty() {
        return Err(Error::invalid(format!("{path}keyId"), "needs to be set"));
    }
    if user.customized_properties.len() > PROPERTIES_MAX {
        let reason = format!("are more than {PROPERTIES_MAX}");
        return Err(Error::invalid(format!("{path}customizedProperties"), reason));
    }
    Ok(())
}

/// Parses a document. Unknown fields are refused: ignoring them would lose them.
///
/// # Errors
/// [`Error::Invalid`]: it is no object; [`Error::WrongFields`]: fields are unknown, or one has another
/// type.
pub fn parse<T: DeserializeOwned>(value: Value, fields: &[&str]) -> Result<T, Error> {
    let Value::Object(given) = &value else {
        return Err(Error::invalid("body", "an object was expected"));
    };
    let unknown = given.keys().filter(|name| !fields.contains(&name.as_str()));
    let unknown: Vec<WrongField> =
        unknown.take(UNKNOWN_FIELDS_MAX).map(|it| unknown_field(it)).collect();
    if !unknown.is_empty() {
        return Err(Error::WrongFields(unknown));
    }
    parse_lenient(value).map_err(|wrong| Error::WrongFields(vec![wrong]))
}

fn unknown_field(name: &str) -> WrongField {
    let field = name.chars().take(KEY_BYTES_MAX).collect();
    WrongField { field, reason: "there is no such field".to_owned() }
}

/// Parses a document and ignores unknown fields. `null` counts as absent: programs that export flags
/// write either.
///
/// # Errors
/// The first field that has another type; an empty name where it is the whole document.
pub fn parse_lenient<T: DeserializeOwned>(mut value: Value) -> Result<T, WrongField> {
    remove_nulls(&mut value);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { String::new() } else { path };
        WrongField { field, reason: error.into_inner().to_string() }
    })
}

/// The parser bounds the depth of JSON, so that the recursion is bounded, too.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A text that is stored with a definition; `path` names it where it is too large.
///
/// # Errors
/// [`Error::WrongFields`].
pub fn bounded(path: &str, body: String) -> Result<String, Error> {
    match body.len() <= DOCUMENT_BYTES_MAX {
        true => Ok(body),
        false => Err(Error::WrongFields(vec![WrongField {
            field: path.to_owned(),
            reason: format!("is larger than {DOCUMENT_BYTES_MAX} bytes"),
        }])),
    }
}

/// The row of a flag; `path` is its place in the request.
///
/// # Errors
/// [`Error::WrongFields`]: its id is no UUID, or it is too large.
pub fn new_flag(path: &str, flag: &Flag, expected: Expected) -> Result<NewDefinition, Error> {
    let (id, body) = (id_or_new(path, &flag.id)?, bounded(path, document::body_of_flag(flag))?);
    let (kind, key) = (DefinitionKind::Flag, flag.key.clone());
    Ok(NewDefinition { kind, key, id, body, is_archived: flag.is_archived, expected })
}

/// The row of a segment, as [`new_flag`].
///
/// # Errors
/// See [`new_flag`].
pub fn new_segment(path: &str, it: &Segment, expected: Expected) -> Result<NewDefinition, Error> {
    let (id, body) = (id_or_new(path, &it.id)?, bounded(path, document::body_of_segment(it))?);
    let (kind, key) = (DefinitionKind::Segment, it.id.clone());
    Ok(NewDefinition { kind, key, id, body, is_archived: it.is_archived, expected })
}

fn id_or_new(path: &str, text: &str) -> Result<DefinitionId, Error> {
    if text.is_empty() {
        return Ok(DefinitionId::new(Uuid::now_v7()));
    }
    Uuid::try_parse(text).map(DefinitionId::new).map_err(|_| {
        let (field, reason) = (id_field(path), "is no UUID".to_owned());
        Error::WrongFields(vec![WrongField { field, reason }])
    })
}

/// The keys and ids of an environment's flags: no two flags have the same id.
#[derive(Default)]
pub struct FlagIds {
    keys: BTreeSet<String>,
    ids: BTreeSet<DefinitionId>,
}

impl FlagIds {
    /// Those of the flags among definitions.
    #[must_use]
    pub fn of(definitions: &[Definition]) -> Self {
        let flags = definitions.iter().filter(|it| it.key.kind == DefinitionKind::Flag);
        flags.map(|it| (it.key.key.clone(), it.id)).collect()
    }

    /// Whether a flag has this key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Claims the id of a flag; false where it belongs to another flag. An existing flag keeps its
    /// id, whatever its document says.
    pub fn claim(&mut self, new: &NewDefinition) -> bool {
        self.keys.contains(&new.key) || self.ids.insert(new.id)
    }
}

impl FromIterator<(String, DefinitionId)> for FlagIds {
    fn from_iter<I: IntoIterator<Item = (String, DefinitionId)>>(flags: I) -> Self {
        let (keys, ids) = flags.into_iter().unzip();
        Self { keys, ids }
    }
}

/// The problem of a new flag with the id of another one; `path` is its place in the request.
#[must_use]
pub fn id_in_use(path: &str) -> WrongField {
    let reason = "is another flag's: leave it out, and one is made up".to_owned();
    WrongField { field: id_field(path), reason }
}

fn id_field(path: &str) -> String {
    if path.is_empty() { "id".to_owned() } else { format!("{path}.id") }
}

/// The segments among definitions.
///
/// # Errors
/// [`Unreadable`].
pub fn segments(definitions: &[Definition]) -> Result<Vec<Segment>, Unreadable> {
    let segments = definitions.iter().filter(|it| it.key.kind == DefinitionKind::Segment);
    segments.map(document::segment).collect()
}

/// The JSON of a definition, as clients see it.
///
/// # Errors
/// [`Unreadable`].
pub fn to_json(definition: &Definition) -> Result<Value, Unreadable> {
    match definition.key.kind {
        DefinitionKind::Flag => document::flag(definition).map(|flag| json!(flag)),
        DefinitionKind::Segment => document::segment(definition).map(|segment| json!(segment)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_new_flag_is_plain() {
        for key in ["a", "Az09._-"] {
            assert!(check_flag_key(key, true).is_ok(), "{key}");
        }
        for key in ["a/b", "a?b", "a#b", "a b", "a%b", "a+b", "\u{fc}", "a\u{130}"] {
            assert!(check_flag_key(key, true).is_err(), "{key}");
            assert!(check_flag_key(key, false).is_ok(), "{key}");
        }
        for key in ["", " a", "a\n"] {
            assert!(check_flag_key(key, false).is_err(), "{key}");
        }
    }

    /// The lists contain exactly the fields of the documents.
    #[test]
    fn field_lists_match_the_documents() {
        let fields = |value: Value| -> Vec<String> {
            let mut names: Vec<String> =
                value.as_object().unwrap().keys().map(Clone::clone).collect();
            names.sort();
            names
        };
        let sorted = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
            names.sort();
            names
        };
        let (description, gate) = (Some(String::new()), Some(String::new()));
        let flag = Flag { description, gate, ..Flag::default() };
        assert_eq!(fields(serde_json::to_value(flag).unwrap()), sorted(FLAG_FIELDS));
        let segment = serde_json::to_value(Segment::default()).unwrap();
        assert_eq!(fields(segment), sorted(SEGMENT_FIELDS));
    }
}
