//! Descriptions of message formats: our own in TOML and JSON, jPOS's in XML, and the built-in ones.

mod built_in;
mod encoding;
mod jpos;
mod row;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{DEPTH_MAX, Error};
use crate::packager::{
    Around, Compiled, Draft, DraftField, DraftFields, FIELD_NUMBER_MAX, Packager,
};

use row::Row;

/// No description is longer.
pub const DESCRIPTION_BYTES_MAX: usize = 1024 * 1024;

/// Why a description is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// It is longer than any description need be.
    #[error("a description has at most {DESCRIPTION_BYTES_MAX} bytes, {bytes} were found")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is not TOML, JSON or XML, or a key or value is not one of a description.
    #[error("{}{message}", Place { line: *line, key })]
    Unreadable {
        /// The line, where the parser says it.
        line: Option<usize>,
        /// Where in the description, such as `fields.2.prefix`; empty if nowhere.
        key: String,
        /// What was expected and found.
        message: String,
    },
    /// A field cannot be as it is described.
    #[error("{0}")]
    Field(#[from] Error),
}

struct Place<'a> {
    line: Option<usize>,
    key: &'a str,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if self.key.is_empty() { Ok(()) } else { write!(f, "{}: ", self.key) }
    }
}

/// A description as it is written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    title: String,
    #[serde(default, skip_serializing_if = "is_none")]
    header_bytes: u16,
    #[serde(default, skip_serializing_if = "Form::is_fields")]
    form: Form,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    fields: Rows,
}

type Rows = BTreeMap<Number, Row>;

/// What messages look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    /// As the fields say.
    #[default]
    Fields,
    /// XML elements `isomsg`.
    Xml,
}

/// The number of a field, as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Number(u16);

impl TryFrom<String> for Number {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_plain = text == "0" || !text.starts_with(['0', '+']);
        let number = text.parse().ok().filter(|it| is_plain && *it <= FIELD_NUMBER_MAX);
        number.map(Self).ok_or_else(|| {
            format!("`{text}`: the number of a field was expected, 0 to {FIELD_NUMBER_MAX}")
        })
    }
}

impl From<Number> for String {
    fn from(number: Number) -> Self {
        number.0.to_string()
    }
}

impl Form {
    fn is_fields(&self) -> bool {
        *self == Self::Fields
    }
}

/// Serde hands over references.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_none(number: &u16) -> bool {
    *number == 0
}

impl Packager {
    /// Compiles a description in TOML.
    ///
    /// # Errors
    /// With the line and the key, or with the field, where it is not a description.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        check_length(text)?;
        let line = |error: &toml::de::Error| error.span().map(|span| line_of(text, span.start));
        let unreadable = |error: &toml::de::Error, key| DescriptionError::Unreadable {
            line: line(error),
            key,
            message: error.message().trim_end().to_owned(),
        };
        let parsed = toml::Deserializer::parse(text);
        let deserializer = parsed.map_err(|error| unreadable(&error, String::new()))?;
        let description = serde_path_to_error::deserialize(deserializer)
            .map_err(|error| unreadable(error.inner(), path_of(error.path())))?;
        Self::from_description(description)
    }

    /// Compiles a description in JSON: the same keys as in TOML.
    ///
    /// # Errors
    /// As [`Self::from_toml`].
    pub fn from_json(text: &str) -> Result<Self, DescriptionError> {
        check_length(text)?;
        let unreadable = |error: &serde_json::Error, key| {
            let text = error.to_string();
            let message = text.split(" at line ").next().unwrap_or_default().to_owned();
            DescriptionError::Unreadable { line: Some(error.line()), key, message }
        };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let description = serde_path_to_error::deserialize(&mut deserializer)
            .map_err(|error| unreadable(error.inner(), path_of(error.path())))?;
        deserializer.end().map_err(|error| unreadable(&error, String::new()))?;
        Self::from_description(description)
    }

    /// Compiles a packager file of jPOS's `GenericPackager`.
    ///
    /// A document type may stand in it and is not read: nothing is fetched, and no entity is known
    /// beside the five of XML itself.
    ///
    /// # Errors
    /// With the line, and with the field, where it is not such a file or says what is not known
    /// here.
    pub fn from_jpos_xml(text: &str) -> Result<Self, DescriptionError> {
        check_length(text)?;
        Ok(Self::from_draft(jpos::draft(text)?)?)
    }

    /// Compiles a packager file of jPOS's `GenericPackager` in the encoding that it declares:
    /// UTF-8, ISO-8859-1 or US-ASCII, and UTF-8 without a declaration.
    ///
    /// # Errors
    /// As [`Self::from_jpos_xml`], and with the line where it is not in that encoding.
    pub fn from_jpos_xml_bytes(bytes: &[u8]) -> Result<Self, DescriptionError> {
        if bytes.len() > DESCRIPTION_BYTES_MAX {
            return Err(DescriptionError::TooLong { bytes: bytes.len() });
        }
        Self::from_jpos_xml(&encoding::decoded(bytes)?)
    }

    /// A built-in format, if there is one of this name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        built_in::packager(name)
    }

    /// The names of the built-in formats.
    #[must_use]
    pub fn built_in_names() -> &'static [&'static str] {
        built_in::names()
    }

    /// Its description in TOML, whatever it was compiled from.
    #[must_use]
    pub fn description(&self) -> String {
        let described = self.described();
        let mut out = String::new();
        let head = Description { fields: Rows::new(), ..described.clone() };
        out.push_str(&toml::to_string(&head).expect("keys and values are those of TOML"));
        if !described.fields.is_empty() {
            write_rows("fields", &described.fields, &mut out);
        }
        out
    }

    /// Its description in JSON.
    #[must_use]
    pub fn description_json(&self) -> String {
        serde_json::to_string_pretty(&self.described()).expect("keys and values are those of JSON")
    }

    fn from_description(description: Description) -> Result<Self, DescriptionError> {
        let Description { name, title, header_bytes, form, fields } = description;
        let header_bytes = usize::from(header_bytes);
        if form == Form::Xml {
            if !fields.is_empty() || header_bytes > 0 {
                return Err(unreadable("form", "messages in XML have neither fields nor headers"));
            }
            return Ok(Self::of_xml_messages(name, title));
        }
        if fields.is_empty() {
            return Err(unreadable("fields", "at least one field was expected"));
        }
        let fields = draft_of("fields", fields, 1)?;
        Ok(Self::from_draft(Draft { name, title, header_bytes, fields })?)
    }

    fn described(&self) -> Description {
        let compiled = self.compiled();
        let form = if compiled.is_xml { Form::Xml } else { Form::Fields };
        Description {
            name: compiled.name.clone(),
            title: compiled.title.clone(),
            header_bytes: u16::try_from(compiled.header_bytes).unwrap_or(u16::MAX),
            form,
            fields: if compiled.is_xml {
                Rows::new()
            } else {
                rows_of(compiled, Around::default())
            },
        }
    }
}

fn check_length(text: &str) -> Result<(), DescriptionError> {
    let bytes = text.len();
    if bytes > DESCRIPTION_BYTES_MAX {
        return Err(DescriptionError::TooLong { bytes });
    }
    Ok(())
}

fn unreadable(key: &str, message: &str) -> DescriptionError {
    let (key, message) = (key.to_owned(), message.to_owned());
    DescriptionError::Unreadable { line: None, key, message }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

fn path_of(path: &serde_path_to_error::Path) -> String {
    let path = path.to_string();
    // Where the parser gave up, the path is not known.
    if matches!(path.as_str(), "." | "?") { String::new() } else { path }
}

fn draft_of(path: &str, rows: Rows, depth: usize) -> Result<DraftFields, DescriptionError> {
    if depth > DEPTH_MAX {
        return Err(unreadable(path, &format!("fields are nested {DEPTH_MAX} deep at most")));
    }
    let mut fields = DraftFields::new();
    for (Number(number), mut row) in rows {
        let path = format!("{path}.{number}");
        let inside = row.inside.take();
        let inside =
            inside.map(|it| draft_of(&format!("{path}.inside.fields"), it.fields, depth + 1));
        let inside = inside.transpose()?;
        let format = row.format().map_err(|wrong| unreadable(&path, &wrong))?;
        let field = DraftField { name: row.name, format, is_sensitive: row.sensitive, inside };
        fields.insert(number, field);
    }
    Ok(fields)
}

/// The rows of the fields that the packager has.
fn rows_of(compiled: &Compiled, around: Around) -> Rows {
    let mut rows = Rows::new();
    for (number, format) in (0..).zip(&compiled.fields) {
        let name = &compiled.names[usize::from(number)];
        if format.content == crate::class::Content::Unused && name.is_empty() {
            continue;
        }
        let mut row = Row::of(format);
        row.name.clone_from(name);
        row.sensitive = compiled.told_sensitivity(number, around);
        if let Some(inner) = compiled.inner(format) {
            row.inside =
                Some(row::Inside { fields: rows_of(inner.compiled(), around.inside(format)) });
        }
        rows.insert(Number(number), row);
    }
    rows
}

/// One field to a line; those with fields inside have a table of their own behind the others.
fn write_rows(path: &str, rows: &Rows, out: &mut String) {
    out.push_str(&format!("\n[{path}]\n"));
    for (Number(number), row) in rows.iter().filter(|(_, row)| row.inside.is_none()) {
        out.push_str(&format!("{number} = {}\n", row.inline()));
    }
    for (Number(number), row) in rows {
        let Some(inside) = &row.inside else { continue };
        out.push_str(&format!("\n[{path}.{number}]\n"));
        out.push_str(&row.lines());
        write_rows(&format!("{path}.{number}.inside.fields"), &inside.fields, out);
    }
}
