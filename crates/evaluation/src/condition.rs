//! Questions about a user, with what they are compared with read beforehand.

use std::collections::HashSet;

use regex::{Regex, RegexBuilder};

use crate::model::{self, User};
use crate::number;
use crate::snapshot::Snapshot;

/// The property of a condition that asks whether a user belongs to one of the segments of a list.
pub const IN_SEGMENT: &str = "User is in segment";
/// The property of a condition that asks whether a user belongs to none of them.
pub const NOT_IN_SEGMENT: &str = "User is not in segment";

/// The longest regular expression, in bytes.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// The most memory that one may take when it is compiled.
const PATTERN_MEMORY_MAX: usize = 256 * 1_024;

/// A question about a user.
#[derive(Debug)]
pub(crate) enum Condition {
    /// Whether the user belongs to one of these segments, or to none of them.
    Segments { ids: Vec<Box<str>>, is_wanted: bool },
    /// How what the user has there compares.
    Property { subject: Subject, test: Test },
    /// An unknown operator, or a value that cannot be read: holds of nobody.
    Never,
}

/// What conditions are asked in.
#[derive(Clone, Copy)]
pub(crate) struct Circumstances<'s> {
    pub(crate) snapshot: &'s Snapshot,
    /// How many segments are around the question.
    pub(crate) depth: u8,
}

/// What is asked about.
#[derive(Debug)]
pub(crate) enum Subject {
    Key,
    Name,
    /// Blank names mean nothing, which is an empty text.
    Nothing,
    Property(Box<str>),
}

/// What a user has there.
enum Found<'u> {
    Text(&'u str),
    /// No name: nothing holds of it.
    NoName,
    /// No such property.
    Absent,
}

#[derive(Debug)]
pub(crate) enum Test {
    Less(f64),
    LessOrEqual(f64),
    Greater(f64),
    GreaterOrEqual(f64),
    Equal(Box<str>),
    Contains(Box<str>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Matches(Box<Regex>),
    IsOneOf(HashSet<Box<str>>),
    IsWord(&'static str),
    Not(Box<Test>),
}

/// Why a condition can never hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// An operator that does not exist.
    #[error("there is no operator {0:?}")]
    Operator(String),
    /// A value that should be a number.
    #[error("a number was expected")]
    Number,
    /// A value that should be a list of texts in JSON.
    #[error("a JSON array of strings was expected")]
    List,
    /// A regular expression that cannot be used.
    #[error("the regular expression cannot be used: {0}")]
    Pattern(String),
}

impl Subject {
    pub(crate) fn of(property: &str) -> Self {
        match property {
            "keyId" => Self::Key,
            "name" => Self::Name,
            _ if property.trim().is_empty() => Self::Nothing,
            _ => Self::Property(property.into()),
        }
    }

    fn find<'u>(&self, user: &'u User) -> Found<'u> {
        match self {
            Self::Key => Found::Text(&user.key_id),
            Self::Name => user.name.as_deref().map_or(Found::NoName, Found::Text),
            Self::Nothing => Found::Text(""),
            Self::Property(name) => {
                let found = user.customized_properties.iter().find(|it| *it.name == **name);
                found.map_or(Found::Absent, |it| Found::Text(it.value.as_deref().unwrap_or("")))
            }
        }
    }

    /// The text to spread users by: empty where there is none.
    pub(crate) fn text<'u>(&self, user: &'u User) -> &'u str {
        match self.find(user) {
            Found::Text(text) => text,
            Found::NoName | Found::Absent => "",
        }
    }
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// Why it can never hold.
    pub(crate) fn read(condition: &model::Condition) -> Result<Self, Unusable> {
        let is_wanted = condition.property == IN_SEGMENT;
        if is_wanted || condition.property == NOT_IN_SEGMENT {
            return Ok(Self::Segments { ids: list(&condition.value)?, is_wanted });
        }
        let test = Test::read(&condition.op, &condition.value)?;
        Ok(Self::Property { subject: Subject::of(&condition.property), test })
    }

    /// Does it hold of the user?
    pub(crate) fn holds(&self, user: &User, circumstances: Circumstances<'_>) -> bool {
        match self {
            Self::Segments { ids, is_wanted } => {
                ids.iter().any(|id| circumstances.is_in_segment(id, user)) == *is_wanted
            }
            Self::Property { subject, test } => match subject.find(user) {
                Found::Text(text) => test.holds(text),
                Found::NoName => false,
                Found::Absent => circumstances.absent_is_empty() && test.holds(""),
            },
            Self::Never => false,
        }
    }

    /// The segments asked about.
    pub(crate) fn segments(&self) -> &[Box<str>] {
        match self {
            Self::Segments { ids, .. } => ids,
            Self::Property { .. } | Self::Never => &[],
        }
    }

    /// What a user has there, if that is asked.
    pub(crate) fn found<'u>(&self, user: &'u User) -> Option<&'u str> {
        match self {
            Self::Property { subject, .. } => match subject.find(user) {
                Found::Text(text) => Some(text),
                Found::NoName | Found::Absent => None,
            },
            Self::Segments { .. } | Self::Never => None,
        }
    }
}

impl Test {
    fn read(op: &str, value: &str) -> Result<Self, Unusable> {
        let number = || number::parse(value).ok_or(Unusable::Number);
        let not = |test: Self| Self::Not(Box::new(test));
        Ok(match op {
            "LessThan" => Self::Less(number()?),
            "LessEqualThan" => Self::LessOrEqual(number()?),
            "BiggerThan" => Self::Greater(number()?),
            "BiggerEqualThan" => Self::GreaterOrEqual(number()?),
            "Equal" => Self::Equal(value.into()),
            "NotEqual" => not(Self::Equal(value.into())),
            "Contains" => Self::Contains(value.into()),
            "NotContain" => not(Self::Contains(value.into())),
            "StartsWith" => Self::StartsWith(value.into()),
            "EndsWith" => Self::EndsWith(value.into()),
            "MatchRegex" => pattern(value)?,
            "NotMatchRegex" => not(pattern(value)?),
            "IsOneOf" => Self::one_of(list(value)?),
            "NotOneOf" => not(Self::one_of(list(value)?)),
            "IsTrue" => Self::IsWord("true"),
            "IsFalse" => Self::IsWord("false"),
            _ => return Err(Unusable::Operator(op.to_owned())),
        })
    }

    fn one_of(values: Vec<Box<str>>) -> Self {
        Self::IsOneOf(values.into_iter().collect())
    }

    fn holds(&self, text: &str) -> bool {
        let compare = |holds: &dyn Fn(f64) -> bool| number::parse(text).is_some_and(holds);
        match self {
            Self::Less(limit) => compare(&|number| number < *limit),
            Self::LessOrEqual(limit) => compare(&|number| number <= *limit),
            Self::Greater(limit) => compare(&|number| number > *limit),
            Self::GreaterOrEqual(limit) => compare(&|number| number >= *limit),
            Self::Equal(value) => *text == **value,
            Self::Contains(value) => text.contains(&**value),
            Self::StartsWith(value) => text.starts_with(&**value),
            Self::EndsWith(value) => text.ends_with(&**value),
            Self::Matches(pattern) => pattern.is_match(text),
            Self::IsOneOf(values) => values.contains(text),
            Self::IsWord(word) => text.eq_ignore_ascii_case(word),
            Self::Not(test) => !test.holds(text),
        }
    }
}

fn list(value: &str) -> Result<Vec<Box<str>>, Unusable> {
    serde_json::from_str(value).map_err(|_| Unusable::List)
}

/// Its engine takes time that is linear in the text: no pattern is a trap. It lacks what others do
/// by going back: references to groups, and looking around.
fn pattern(value: &str) -> Result<Test, Unusable> {
    if value.len() > PATTERN_BYTES_MAX {
        let longest = format!("it is longer than {PATTERN_BYTES_MAX} bytes");
        return Err(Unusable::Pattern(longest));
    }
    let mut builder = RegexBuilder::new(value);
    builder.size_limit(PATTERN_MEMORY_MAX).dfa_size_limit(PATTERN_MEMORY_MAX);
    match builder.build() {
        Ok(regex) => Ok(Test::Matches(Box::new(regex))),
        Err(regex::Error::CompiledTooBig(_)) => {
            Err(Unusable::Pattern("it takes too much memory".to_owned()))
        }
        Err(_) => Err(Unusable::Pattern("it is wrong, or not of the kinds known here".to_owned())),
    }
}
