//! The errors of messages and of fields in descriptions.

use std::fmt;
use std::str::FromStr;

/// The maximum depth of nested fields.
pub const DEPTH_MAX: usize = 4;

/// An error with its field and byte. It never has the contents of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {problem}", Location(*path), At(*offset))]
pub struct Error {
    /// The invalid field, if a single field is invalid.
    pub path: Option<FieldPath>,
    /// The offset of the invalid byte in the message, or in the value that was to be set.
    pub offset: Option<usize>,
    /// Why it is invalid.
    pub problem: Problem,
}

/// Why a message or a field is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The message ends before the end of a field.
    #[error("{needed} bytes are needed, {found} are left")]
    Truncated {
        /// The length of the field.
        needed: usize,
        /// The remaining bytes.
        found: usize,
    },
    /// A value is longer than the maximum of its field.
    #[error("the length is {length}, but the maximum is {max}")]
    TooLong {
        /// The value's length.
        length: usize,
        /// The field's maximum.
        max: usize,
    },
    /// A value does not have the fixed length of its field.
    #[error("a length of {expected} was expected, {found} was found")]
    WrongLength {
        /// The field's length.
        expected: usize,
        /// The value's length.
        found: usize,
    },
    /// A length prefix is invalid.
    #[error("a length in {expected} was expected, {} was found", Found(*found))]
    BadPrefix {
        /// The encoding of the prefix.
        expected: &'static str,
        /// The invalid byte, unless it may be card data.
        found: Option<u8>,
    },
    /// A length must be even in this encoding.
    #[error("an even length was expected, {found} was found")]
    OddLength {
        /// The length in the prefix.
        found: usize,
    },
    /// The length of the field counts whole bytes, so that an odd number of digits would be read back as another
    /// number.
    #[error(
        "an even number of digits was expected, because the length counts whole bytes; {found} were given"
    )]
    OddDigits {
        /// The number of digits.
        found: usize,
    },
    /// A character is invalid.
    #[error("{expected} was expected, {} was found", Found(*found))]
    BadCharacter {
        /// The valid characters.
        expected: &'static str,
        /// The invalid byte, unless it may be card data.
        found: Option<u8>,
    },
    /// A bitmap has an invalid hexadecimal digit.
    #[error("a bitmap's hexadecimal digit was expected, {} was found", Found(*found))]
    BadBitmap {
        /// The invalid byte, unless it may be card data.
        found: Option<u8>,
    },
    /// The filling or padding of a field is invalid.
    #[error("{expected} was expected to fill the field up, {} was found", Found(*found))]
    BadFilling {
        /// The valid filling.
        expected: &'static str,
        /// The invalid byte, unless it may be card data.
        found: Option<u8>,
    },
    /// The tag in front of a content has the number of another field.
    #[error("the field's own number was expected before its content, {found} was found")]
    BadTag {
        /// The number in the tag.
        found: usize,
    },
    /// The content of a sensitive field is invalid.
    #[error("{expected} was expected")]
    Withheld {
        /// The expected content, in words.
        expected: &'static str,
    },
    /// A field occurs twice.
    #[error("the field occurs twice")]
    Repeated,
    /// The packager does not have this field, or marks it as unused.
    #[error("the packager does not have this field")]
    UnknownField,
    /// Bitmaps cannot be set.
    #[error("bitmaps follow from the fields and cannot be set")]
    BitmapIsDerived,
    /// The field is not composite.
    #[error("the field is not composite")]
    NotComposite,
    /// The message type is missing.
    #[error("a message type was expected, none was set")]
    NoMessageType,
    /// A message has no fields besides its type, so that it could not be read back.
    #[error("at least one field was expected beside the message type")]
    NoFields,
    /// A field of a positional layout has no value and cannot be filled up.
    #[error("the field has no value, although a field behind it has one, and cannot be filled up")]
    Gap {
        /// The number of the field.
        position: u16,
    },
    /// The message is followed by further bytes.
    #[error("the end was expected, {found} more bytes were found")]
    Trailing {
        /// The number of further bytes.
        found: usize,
    },
    /// A character is not in ISO-8859-1.
    #[error("a character of ISO-8859-1 was expected")]
    NotLatin1,
    /// The class is unknown.
    #[error("unknown field class")]
    UnknownClass,
    /// A class of jPOS is known and has no format here.
    #[error("the class is not supported: {reason}")]
    UnsupportedClass {
        /// Why not.
        reason: &'static str,
    },
    /// The length of a bitmap is invalid.
    #[error("a bitmap has 8, 16 or 24 bytes")]
    BadBitmapLength,
    /// A description declares that card data is not sensitive.
    #[error("this field holds card data and is always sensitive")]
    CardData,
    /// A message in XML is invalid.
    #[error("expected {expected} in the XML")]
    BadXml {
        /// The expected element or value, in words.
        expected: &'static str,
    },
    /// A header does not have the packager's length.
    #[error("a header of {expected} bytes was expected, {found} were found")]
    BadHeader {
        /// The packager's length.
        expected: usize,
        /// The length of the header.
        found: usize,
    },
    /// Fields are nested too deeply.
    #[error("fields are nested {DEPTH_MAX} deep at most")]
    TooDeep,
    /// A path is invalid.
    #[error("a field is named by numbers with dots between, such as 48.3")]
    BadPath,
    /// A field's number is too high.
    #[error("fields are numbered up to {max}")]
    NumberTooHigh {
        /// The highest number.
        max: u16,
    },
}

/// The number of a field or of an inner field: `39`, `48.3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    numbers: [u16; DEPTH_MAX],
    depth: u8,
}

impl FieldPath {
    /// The numbers from the outermost to the innermost field.
    #[must_use]
    #[inline]
    pub fn numbers(&self) -> &[u16] {
        &self.numbers[..usize::from(self.depth)]
    }

    /// The path of this field in the field `outer`.
    pub(crate) fn inside(self, outer: u16) -> Self {
        let mut numbers = [outer; DEPTH_MAX];
        numbers[1..].copy_from_slice(&self.numbers[..DEPTH_MAX - 1]);
        Self { numbers, depth: (self.depth + 1).min(4) }
    }
}

impl From<u16> for FieldPath {
    #[inline]
    fn from(number: u16) -> Self {
        Self { numbers: [number, 0, 0, 0], depth: 1 }
    }
}

impl From<[u16; 2]> for FieldPath {
    fn from(numbers: [u16; 2]) -> Self {
        Self { numbers: [numbers[0], numbers[1], 0, 0], depth: 2 }
    }
}

impl From<[u16; 3]> for FieldPath {
    fn from(numbers: [u16; 3]) -> Self {
        Self { numbers: [numbers[0], numbers[1], numbers[2], 0], depth: 3 }
    }
}

impl FromStr for FieldPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut path = Self { numbers: [0; DEPTH_MAX], depth: 0 };
        for part in text.split('.') {
            let number = path.numbers.get_mut(usize::from(path.depth)).ok_or(Problem::TooDeep)?;
            *number = part.parse().map_err(|_| Problem::BadPath)?;
            path.depth += 1;
        }
        Ok(path)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (level, number) in self.numbers().iter().enumerate() {
            let dot = if level == 0 { "" } else { "." };
            write!(f, "{dot}{number}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self { path: None, offset: None, problem }
    }
}

impl Problem {
    #[cold]
    pub(crate) fn in_field(self, number: u16) -> Error {
        Error { path: Some(number.into()), offset: None, problem: self }
    }

    #[cold]
    pub(crate) fn at(self, number: u16, offset: usize) -> Error {
        Error { path: Some(number.into()), offset: Some(offset), problem: self }
    }
}

impl Problem {
    /// The same problem with `found` as the invalid byte, if it has one.
    pub(crate) fn with_found(self, found: Option<u8>) -> Self {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other problems have no byte")]
        match self {
            Self::BadCharacter { expected, .. } => Self::BadCharacter { expected, found },
            Self::BadFilling { expected, .. } => Self::BadFilling { expected, found },
            Self::BadPrefix { expected, .. } => Self::BadPrefix { expected, found },
            Self::BadBitmap { .. } => Self::BadBitmap { found },
            other => other,
        }
    }

    /// The same problem without contents of fields.
    #[cold]
    pub(crate) fn withheld(self) -> Self {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other problems have no contents")]
        match self.with_found(None) {
            Self::Truncated { .. } => Self::Withheld { expected: "more content" },
            Self::TooLong { .. } => Self::Withheld { expected: "a length that its field may have" },
            Self::OddLength { .. } => Self::Withheld { expected: "an even length" },
            Self::OddDigits { .. } => Self::Withheld { expected: "an even number of digits" },
            Self::BadTag { .. } => Self::Withheld { expected: "the field's own number" },
            other => other,
        }
    }
}

impl Error {
    /// The same error in bytes with `start` more bytes in front.
    #[cold]
    pub(crate) fn behind(self, start: usize) -> Self {
        Self { offset: self.offset.map(|offset| start + offset), ..self }
    }

    /// The same error, without contents if the field is sensitive.
    pub(crate) fn withheld_if(self, is_sensitive: bool) -> Self {
        let problem = if is_sensitive { self.problem.withheld() } else { self.problem };
        Self { problem, ..self }
    }

    /// The same error as one of an inner field of `outer`, whose content begins at `start`.
    #[cold]
    pub(crate) fn inside(self, outer: u16, start: Option<usize>) -> Self {
        let path = self.path.map_or_else(|| outer.into(), |path| path.inside(outer));
        let offset = match (self.offset, start) {
            (Some(offset), Some(start)) => Some(start + offset),
            (_, start) => start,
        };
        Self { path: Some(path), offset, problem: self.problem }
    }
}

/// Displays the invalid byte.
struct Found(Option<u8>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(byte) => write!(f, "byte {byte:02X}"),
            None => write!(f, "something else"),
        }
    }
}

struct Location(Option<FieldPath>);

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(path) => write!(f, "field {path}"),
            None => write!(f, "message"),
        }
    }
}

struct At(Option<usize>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(offset) => write!(f, " at byte {offset}"),
            None => Ok(()),
        }
    }
}
