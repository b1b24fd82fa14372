//! Conditions on a user, compiled for evaluation.

use std::collections::HashSet;

use regex::{Regex, RegexBuilder};

use crate::entitled::ENTITLED_ATTRIBUTE;
use crate::model::{self, User};
use crate::number;

/// The `property` of a condition that holds for the users of at least one segment of a list.
pub const IN_SEGMENT: &str = "User is in segment";
/// The `property` of a condition that holds for the users of none of the segments of a list.
pub const NOT_IN_SEGMENT: &str = "User is not in segment";

/// The maximum length of a regular expression in bytes.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// The maximum size of a compiled regular expression in bytes.
const PATTERN_MEMORY_MAX: usize = 256 * 1_024;

/// How a condition treats a property that the user does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingAttribute {
    /// As an empty text, which is the behaviour of FeatBit's server.
    #[default]
    Empty,
    /// The condition does not hold, not even a negated one, which is the behaviour that FeatBit's
    /// newer specification for SDKs requires.
    Absent,
}

/// A compiled condition.
#[derive(Debug)]
pub(crate) enum Condition {
    /// The user belongs to at least one of the segments (`is_member`) or to none of them.
    Segments { ids: Vec<Box<str>>, is_member: bool },
    /// The user's attribute passes the test.
    Attribute { attribute: Attribute, test: Test },
    /// Holds for no user: the operator is unknown or the value is invalid.
    Never,
}

/// The inputs of the evaluation of a condition, besides the user.
pub(crate) struct Context<'c> {
    pub(crate) missing_attribute: MissingAttribute,
    /// Whether the evaluated user belongs to the segment with this id.
    pub(crate) is_in_segment: &'c dyn Fn(&str) -> bool,
}

/// An attribute of a user.
#[derive(Debug)]
pub(crate) enum Attribute {
    Key,
    Name,
    /// A blank name, which stands for an empty text.
    Blank,
    Property(Box<str>),
    /// The value that the user has of the feature with this key.
    Entitled(Box<str>),
}

/// The value of an attribute.
enum AttributeValue<'u> {
    Text(&'u str),
    /// The user has no name: no condition on it holds.
    NoName,
    /// The user has no such property: [`MissingAttribute`] decides.
    Absent,
}

/// A test of an attribute's text.
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

/// Why a condition cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// The operator is unknown.
    #[error("there is no operator {0:?}")]
    Operator(String),
    /// The value is not a number.
    #[error("a number was expected")]
    Number,
    /// The value is not a JSON array of strings.
    #[error("a JSON array of strings was expected")]
    List,
    /// The value is not a supported regular expression.
    #[error("the regular expression cannot be used: {0}")]
    Pattern(String),
}

/// Compiles conditions. A condition that cannot be compiled holds for no user.
pub(crate) fn compile(conditions: &[model::Condition]) -> Vec<Condition> {
    conditions.iter().map(|it| Condition::new(it).unwrap_or(Condition::Never)).collect()
}

/// The ids of the segments that conditions refer to.
pub(crate) fn segment_ids(conditions: &[Condition]) -> impl Iterator<Item = &str> {
    conditions.iter().flat_map(Condition::segments).map(|id| &**id)
}

impl Attribute {
    pub(crate) fn new(property: &str) -> Self {
        match property {
            "keyId" => Self::Key,
            "name" => Self::Name,
            _ if property.trim().is_empty() => Self::Blank,
            _ => match property.strip_prefix(ENTITLED_ATTRIBUTE) {
                Some(feature) => Self::Entitled(feature.into()),
                None => Self::Property(property.into()),
            },
        }
    }

    fn value<'u>(&self, user: &'u User) -> AttributeValue<'u> {
        match self {
            Self::Key => AttributeValue::Text(&user.key_id),
            Self::Name => user.name.as_deref().map_or(AttributeValue::NoName, AttributeValue::Text),
            Self::Blank => AttributeValue::Text(""),
            Self::Entitled(feature) => {
                user.entitled.value(feature).map_or(AttributeValue::Absent, AttributeValue::Text)
            }
            Self::Property(name) => {
                let found = user.customized_properties.iter().find(|it| *it.name == **name);
                found.map_or(AttributeValue::Absent, |it| {
                    AttributeValue::Text(it.value.as_deref().unwrap_or(""))
                })
            }
        }
    }

    /// The attribute's text, which is empty if the user does not have the attribute.
    pub(crate) fn text_or_empty<'u>(&self, user: &'u User) -> &'u str {
        match self.value(user) {
            AttributeValue::Text(text) => text,
            AttributeValue::NoName | AttributeValue::Absent => "",
        }
    }
}

impl Condition {
    pub(crate) fn new(condition: &model::Condition) -> Result<Self, ConditionError> {
        let is_member = condition.property == IN_SEGMENT;
        if is_member || condition.property == NOT_IN_SEGMENT {
            return Ok(Self::Segments { ids: list(&condition.value)?, is_member });
        }
        let test = Test::new(&condition.op, &condition.value)?;
        Ok(Self::Attribute { attribute: Attribute::new(&condition.property), test })
    }

    /// Whether the condition holds for the user.
    pub(crate) fn holds(&self, user: &User, context: &Context<'_>) -> bool {
        match self {
            Self::Segments { ids, is_member } => {
                ids.iter().any(|id| (context.is_in_segment)(id)) == *is_member
            }
            Self::Attribute { attribute, test } => match attribute.value(user) {
                AttributeValue::Text(text) => test.passes(text),
                AttributeValue::NoName => false,
                AttributeValue::Absent => match context.missing_attribute {
                    MissingAttribute::Empty => test.passes(""),
                    MissingAttribute::Absent => false,
                },
            },
            Self::Never => false,
        }
    }

    /// Whether it depends on what the user is entitled to, but for segments.
    pub(crate) const fn tests_entitled(&self) -> bool {
        matches!(self, Self::Attribute { attribute: Attribute::Entitled(_), .. })
    }

    /// The ids of the segments that the condition refers to.
    pub(crate) fn segments(&self) -> &[Box<str>] {
        match self {
            Self::Segments { ids, .. } => ids,
            Self::Attribute { .. } | Self::Never => &[],
        }
    }

    /// The user's value of the attribute that the condition tests.
    pub(crate) fn value_of<'u>(&self, user: &'u User) -> Option<&'u str> {
        match self {
            Self::Attribute { attribute, .. } => match attribute.value(user) {
                AttributeValue::Text(text) => Some(text),
                AttributeValue::NoName | AttributeValue::Absent => None,
            },
            Self::Segments { .. } | Self::Never => None,
        }
    }
}

impl Test {
    fn new(op: &str, value: &str) -> Result<Self, ConditionError> {
        let number = || number::parse(value).ok_or(ConditionError::Number);
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
            _ => return Err(ConditionError::Operator(op.to_owned())),
        })
    }

    fn one_of(values: Vec<Box<str>>) -> Self {
        Self::IsOneOf(values.into_iter().collect())
    }

    fn passes(&self, text: &str) -> bool {
        let compare = |is: &dyn Fn(f64) -> bool| number::parse(text).is_some_and(is);
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
            Self::Not(test) => !test.passes(text),
        }
    }
}

fn list(value: &str) -> Result<Vec<Box<str>>, ConditionError> {
    serde_json::from_str(value).map_err(|_| ConditionError::List)
}

/// The `regex` crate matches in linear time, so that no pattern can stall an evaluation. It supports
/// neither back-references nor look-around.
fn pattern(value: &str) -> Result<Test, ConditionError> {
    if value.len() > PATTERN_BYTES_MAX {
        let reason = format!("it is longer than {PATTERN_BYTES_MAX} bytes");
        return Err(ConditionError::Pattern(reason));
    }
    let mut builder = RegexBuilder::new(value);
    builder.size_limit(PATTERN_MEMORY_MAX).dfa_size_limit(PATTERN_MEMORY_MAX);
    match builder.build() {
        Ok(regex) => Ok(Test::Matches(Box::new(regex))),
        Err(regex::Error::CompiledTooBig(_)) => {
            Err(ConditionError::Pattern("it takes too much memory".to_owned()))
        }
        Err(_) => {
            Err(ConditionError::Pattern("it is invalid or uses an unsupported feature".to_owned()))
        }
    }
}
