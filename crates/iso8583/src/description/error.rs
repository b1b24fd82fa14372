//! The errors of descriptions.

use std::fmt;

use crate::error::Error;

/// The maximum length of a description.
pub const DESCRIPTION_BYTES_MAX: usize = 1024 * 1024;

/// Why a description is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The description is too long.
    #[error("a description has at most {DESCRIPTION_BYTES_MAX} bytes, {bytes} were found")]
    TooLong {
        /// The length of the description.
        bytes: usize,
    },
    /// The syntax, a key or a value is invalid.
    #[error("{}{message}", Location { line: *line, key })]
    Unreadable {
        /// The line, if the parser reports it.
        line: Option<usize>,
        /// The key, such as `fields.2.prefix`; may be empty.
        key: String,
        /// The reason, such as the value that was expected or found.
        message: String,
    },
    /// The format of a field is invalid.
    #[error("{0}")]
    Field(#[from] Error),
}

struct Location<'a> {
    line: Option<usize>,
    key: &'a str,
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if self.key.is_empty() { Ok(()) } else { write!(f, "{}: ", self.key) }
    }
}

/// The line of the byte at `at`, from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}
