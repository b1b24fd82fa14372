//! Descriptions of message formats: TOML, JSON, jPOS's XML, and the built-in ones.

mod built_in;
mod encoding;
mod error;
mod jpos;
mod row;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::DEPTH_MAX;
use crate::packager::{Compiled, Draft, DraftField, DraftFields, Enclosing, Packager};

pub use error::{DESCRIPTION_BYTES_MAX, DescriptionError};

use error::line_of;
use row::{Number, Row, Rows};

/// A description in TOML or JSON.
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

/// The form of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    /// Fields in the formats of the description.
    #[default]
    Fields,
    /// XML elements `isomsg`.
    Xml,
}

impl Form {
    fn is_fields(&self) -> bool {
        *self == Self::Fields
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_none(number: &u16) -> bool {
    *number == 0
}

impl Packager {
    /// Compiles a description in TOML.
    ///
    /// # Errors
    /// The description is invalid. The error names the line and the key, or the field.
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

    /// Compiles a description in JSON, which has the same keys as in TOML.
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
    /// A document type is ignored: nothing is fetched, and only the five predefined entities are
    /// supported.
    ///
    /// # Errors
    /// The file is invalid or has unsupported classes or attributes. The error names the line and the
    /// field.
    pub fn from_jpos_xml(text: &str) -> Result<Self, DescriptionError> {
        check_length(text)?;
        Ok(Self::from_draft(jpos::draft(text)?)?)
    }

    /// Compiles a packager file of jPOS's `GenericPackager` in the encoding that it declares:
    /// UTF-8, ISO-8859-1 or US-ASCII, and UTF-8 without a declaration.
    ///
    /// # Errors
    /// As [`Self::from_jpos_xml`], or the file is not in that encoding.
    pub fn from_jpos_xml_bytes(bytes: &[u8]) -> Result<Self, DescriptionError> {
        if bytes.len() > DESCRIPTION_BYTES_MAX {
            return Err(DescriptionError::TooLong { bytes: bytes.len() });
        }
        Self::from_jpos_xml(&encoding::decoded(bytes)?)
    }

    /// The built-in format with this name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        built_in::packager(name)
    }

    /// The names of the built-in formats.
    #[must_use]
    pub fn built_in_names() -> &'static [&'static str] {
        built_in::names()
    }

    /// The description in TOML, independently of its original form.
    #[must_use]
    pub fn description(&self) -> String {
        let description = self.to_description();
        let mut out = String::new();
        let head = Description { fields: Rows::new(), ..description.clone() };
        out.push_str(&toml::to_string(&head).expect("TOML supports all keys and values"));
        if !description.fields.is_empty() {
            write_rows("fields", &description.fields, &mut out);
        }
        out
    }

    /// The description in JSON.
    #[must_use]
    pub fn description_json(&self) -> String {
        serde_json::to_string_pretty(&self.to_description())
            .expect("JSON supports all keys and values")
    }

    fn from_description(description: Description) -> Result<Self, DescriptionError> {
        let Description { name, title, header_bytes, form, fields } = description;
        let header_bytes = usize::from(header_bytes);
        if form == Form::Xml {
            if !fields.is_empty() || header_bytes > 0 {
                return Err(unreadable("form", "messages in XML have neither fields nor headers"));
            }
            return Ok(Self::for_xml(name, title));
        }
        if fields.is_empty() {
            return Err(unreadable("fields", "at least one field was expected"));
        }
        let fields = draft_of("fields", fields, 1)?;
        Ok(Self::from_draft(Draft { name, title, header_bytes, fields })?)
    }

    fn to_description(&self) -> Description {
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
                rows_of(compiled, Enclosing::default())
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

fn path_of(path: &serde_path_to_error::Path) -> String {
    let path = path.to_string();
    // The path of a syntax error is unknown.
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
        let format = row.format().map_err(|reason| unreadable(&path, &reason))?;
        let field = DraftField { name: row.name, format, is_sensitive: row.sensitive, inside };
        fields.insert(number, field);
    }
    Ok(fields)
}

/// The rows of the fields of a packager.
fn rows_of(compiled: &Compiled, enclosing: Enclosing) -> Rows {
    let mut rows = Rows::new();
    for (number, format) in (0..).zip(&compiled.fields) {
        let name = &compiled.names[usize::from(number)];
        if format.content == crate::class::Content::Unused && name.is_empty() {
            continue;
        }
        let mut row = Row::new(format);
        row.name.clone_from(name);
        row.sensitive = compiled.explicit_sensitivity(number, enclosing);
        if let Some(inner) = compiled.inner(format) {
            row.inside =
                Some(row::Inside { fields: rows_of(inner.compiled(), enclosing.inside(format)) });
        }
        rows.insert(Number(number), row);
    }
    rows
}

/// Writes one field per line. Composite fields follow in tables of their own.
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
