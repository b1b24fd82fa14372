//! Parses values of the files: texts, `{"bin":"hex"}`, and inner fields as `48.1` or as objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::class::{Content, FieldFormat};
use crate::coding;
use crate::index::Index;
use crate::view::MessageView;

/// A field's value: text, or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldValue {
    Text(String),
    Bytes(Vec<u8>),
}

/// Fields by their paths.
pub(super) type Fields = BTreeMap<String, FieldValue>;

impl FieldValue {
    pub(super) fn read(value: &Value) -> Option<Self> {
        match value.as_str() {
            Some(text) => Some(Self::Text(text.to_owned())),
            None => bytes_of(&value["bin"]).map(Self::Bytes),
        }
    }

    /// The characters in ISO-8859-1, with `?` for all others.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.chars().map(|it| u8::try_from(it).unwrap_or(b'?')).collect(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }

    /// Whether the text has characters beyond ISO-8859-1.
    pub(super) fn is_beyond_latin1(&self) -> bool {
        match self {
            Self::Text(text) => text.chars().any(|it| u8::try_from(it).is_err()),
            Self::Bytes(_) => false,
        }
    }
}

/// The fields of a case; `None` if they are invalid.
pub(super) fn fields(value: &Value) -> Option<Fields> {
    let mut fields = Fields::new();
    flatten("", value.as_object()?, &mut fields)?;
    Some(fields)
}

fn flatten(prefix: &str, object: &Map<String, Value>, out: &mut Fields) -> Option<()> {
    for (number, value) in object {
        let path = format!("{prefix}{number}");
        match value.as_object().filter(|inner| !inner.contains_key("bin")) {
            Some(inner) => flatten(&format!("{path}."), inner, out)?,
            None => {
                out.insert(path, FieldValue::read(value)?);
            }
        }
    }
    Some(())
}

/// Whether the message has exactly these fields. The filling of fixed fields is ignored.
pub(super) fn holds(view: MessageView<'_>, expected: &Fields) -> bool {
    let mut found = Found::new();
    collect("", view, &mut found);
    // In a composite field, an empty message type counts as absent.
    let expected = expected.iter().filter(|(path, value)| {
        !path.ends_with(".0") || **value != FieldValue::Text(String::new())
    });
    let expected: BTreeMap<_, _> = expected.collect();
    found.len() == expected.len()
        && found.iter().zip(expected).all(|((path, (format, found)), (expected_path, expected))| {
            path == expected_path && is_same(format, found, expected)
        })
}

fn is_same(format: &FieldFormat, found: &FieldValue, expected: &FieldValue) -> bool {
    if found == expected {
        return true;
    }
    if expected.is_beyond_latin1() {
        return false;
    }
    let (found, expected) = (&found.to_bytes()[..], &expected.to_bytes()[..]);
    let is_filled = format.is_fixed() && found.len() > expected.len();
    let filling = |rest: Option<&[u8]>, filling| {
        is_filled && rest.is_some_and(|rest| rest.iter().all(|it| *it == filling))
    };
    found == expected
        || match format.content {
            Content::Digits => filling(found.strip_suffix(expected), b'0'),
            Content::Text => filling(found.strip_prefix(expected), b' '),
            Content::SignedDigits
            | Content::Amount
            | Content::HexText
            | Content::Bytes
            | Content::Bitmap
            | Content::Nothing
            | Content::Unused => false,
        }
}

/// The fields of a message by their paths.
type Found = BTreeMap<String, (FieldFormat, FieldValue)>;

fn collect(prefix: &str, view: MessageView<'_>, out: &mut Found) {
    for field in view.fields() {
        let path = format!("{prefix}{}", field.number());
        let mut index = Index::new();
        match field.nested(&mut index) {
            Ok(inner) if field.is_composite() => collect(&format!("{path}."), inner, out),
            Ok(_) | Err(_) => {
                let value = match field.is_binary() {
                    true => FieldValue::Bytes(field.to_bytes()),
                    false => FieldValue::Text(field.text()),
                };
                out.insert(path, (*field.format(), value));
            }
        }
    }
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap_or_default()
}

pub(super) fn number(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|it| usize::try_from(it).ok())
}

/// Hexadecimal digits as bytes.
pub(super) fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    bytes_of_hex(value.as_str()?)
}

pub(super) fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte =
        |pair: &[u8; 2]| Some(coding::hex_value(pair[0])? << 4 | coding::hex_value(pair[1])?);
    rest.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
