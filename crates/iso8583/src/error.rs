//! What can be wrong with a message or a description: where, what was expected, what was found.

use std::fmt;
use std::str::FromStr;

/// How deep fields may be nested.
pub const DEPTH_MAX: usize = 4;

/// What is wrong, in which field and at which byte. Contents of fields are never part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {problem}", Place(*path), At(*offset))]
pub struct Error {
    /// The field, where it is one field's fault.
    pub path: Option<FieldPath>,
    /// The byte of the message, from 0; of a value that was to be set, the place in the value.
    pub offset: Option<usize>,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The message ends early.
    #[error("{needed} bytes are needed, {found} are left")]
    Truncated {
        /// Bytes that the field takes.
        needed: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// A value is longer than its field may be.
    #[error("at most {max} is the length, {length} was found")]
    TooLong {
        /// The value's length.
        length: usize,
        /// The field's.
        max: usize,
    },
    /// A value of another length than the field's.
    #[error("{expected} is the length, {found} was found")]
    WrongLength {
        /// The field's.
        expected: usize,
        /// The value's.
        found: usize,
    },
    /// Something else where a length should stand.
    #[error("a length in {expected} was expected, {} was found", Found(*found))]
    BadPrefix {
        /// How lengths are written here.
        expected: &'static str,
        /// What stands there, unless it may be card data.
        found: Option<u8>,
    },
    /// A length that this coding cannot have.
    #[error("an even length was expected, {found} was found")]
    OddLength {
        /// What the prefix says.
        found: usize,
    },
    /// A character of the wrong kind.
    #[error("{expected} was expected, {} was found", Found(*found))]
    BadCharacter {
        /// What may stand here.
        expected: &'static str,
        /// The byte, unless it may be card data.
        found: Option<u8>,
    },
    /// A bitmap in hexadecimal digits that are none.
    #[error("a bitmap's hexadecimal digit was expected, {} was found", Found(*found))]
    BadBitmap {
        /// What stands there, unless it may be card data.
        found: Option<u8>,
    },
    /// What fills up a field is not what fills it up.
    #[error("{expected} was expected to fill the field up, {} was found", Found(*found))]
    BadFilling {
        /// What it should be.
        expected: &'static str,
        /// The byte, unless it may be card data.
        found: Option<u8>,
    },
    /// Another field's number where this field's should stand.
    #[error("the field's own number was expected before its content, {found} was found")]
    BadTag {
        /// The number.
        found: usize,
    },
    /// Something inside a field whose content is told to nobody.
    #[error("{expected} was expected")]
    Withheld {
        /// What should stand there.
        expected: &'static str,
    },
    /// A field that is there twice.
    #[error("the field was there before")]
    Repeated,
    /// The packager does not have this field, or marks it as unused.
    #[error("the packager does not have this field")]
    UnknownField,
    /// The bitmap and its fields are not values.
    #[error("bitmaps follow from the fields and cannot be set")]
    BitmapIsDerived,
    /// The field has no fields inside.
    #[error("the field has none inside")]
    NotComposite,
    /// A message without a message type.
    #[error("a message type was expected, none was set")]
    NoMessageType,
    /// A message that would be nothing but its type, which nobody can read back.
    #[error("at least one field was expected beside the message type")]
    NoFields,
    /// A field without a value, where one stands behind the other and nothing fills the gap.
    #[error("a value was expected: a field behind it has one, and nothing fills the gap")]
    Gap {
        /// The position without one.
        position: u16,
    },
    /// Bytes behind the end of the message.
    #[error("the end was expected, {found} more bytes were found")]
    Trailing {
        /// How many.
        found: usize,
    },
    /// A character that ISO-8859-1 does not have.
    #[error("a character of ISO-8859-1 was expected")]
    NotLatin1,
    /// A class name that means nothing here.
    #[error("no such class of field")]
    UnknownClass,
    /// A bitmap that is not 8, 16 or 24 bytes long.
    #[error("a bitmap has 8, 16 or 24 bytes")]
    BadBitmapLength,
    /// A description that would have card data shown.
    #[error("this field holds card data and is always sensitive")]
    CardData,
    /// A message that is not the XML that it should be.
    #[error("{expected} should stand in the XML here")]
    BadXml {
        /// What should stand there.
        expected: &'static str,
    },
    /// A header that is not as long as the packager's.
    #[error("a header of {expected} bytes was expected, {found} were found")]
    BadHeader {
        /// The packager's.
        expected: usize,
        /// The one that was set.
        found: usize,
    },
    /// Too many levels of fields.
    #[error("fields are nested {DEPTH_MAX} deep at most")]
    TooDeep,
    /// A path that is not numbers with dots between.
    #[error("a field is named by numbers with dots between, such as 48.3")]
    BadPath,
    /// A field's number beyond every packager.
    #[error("fields are numbered up to {max}")]
    NumberTooHigh {
        /// The highest.
        max: u16,
    },
}

/// The number of a field, or of one inside others: `39`, `48.3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    numbers: [u16; DEPTH_MAX],
    depth: u8,
}

impl FieldPath {
    /// The numbers from the outside in.
    #[must_use]
    #[inline]
    pub fn numbers(&self) -> &[u16] {
        &self.numbers[..usize::from(self.depth)]
    }

    /// This field inside another.
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
    /// The same with this byte as what was found, where one was.
    pub(crate) fn with_found(self, found: Option<u8>) -> Self {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others found no byte")]
        match self {
            Self::BadCharacter { expected, .. } => Self::BadCharacter { expected, found },
            Self::BadFilling { expected, .. } => Self::BadFilling { expected, found },
            Self::BadPrefix { expected, .. } => Self::BadPrefix { expected, found },
            Self::BadBitmap { .. } => Self::BadBitmap { found },
            other => other,
        }
    }

    /// The same without anything that was read inside a field.
    #[cold]
    pub(crate) fn withheld(self) -> Self {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others were not read")]
        match self.with_found(None) {
            Self::Truncated { .. } => Self::Withheld { expected: "more content" },
            Self::TooLong { .. } => Self::Withheld { expected: "a length that its field may have" },
            Self::OddLength { .. } => Self::Withheld { expected: "an even length" },
            Self::BadTag { .. } => Self::Withheld { expected: "the field's own number" },
            other => other,
        }
    }
}

impl Error {
    /// The same, said of bytes that begin here in others.
    #[cold]
    pub(crate) fn behind(self, start: usize) -> Self {
        Self { offset: self.offset.map(|offset| start + offset), ..self }
    }

    /// The same without what was found, where that is told to nobody.
    pub(crate) fn withheld_if(self, is_sensitive: bool) -> Self {
        let problem = if is_sensitive { self.problem.withheld() } else { self.problem };
        Self { problem, ..self }
    }

    /// The same, said of a field inside another whose content begins at `start`.
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

/// A byte that was found.
struct Found(Option<u8>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(byte) => write!(f, "byte {byte:02X}"),
            None => write!(f, "something else"),
        }
    }
}

struct Place(Option<FieldPath>);

impl fmt::Display for Place {
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
