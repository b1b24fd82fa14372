//! Why definitions cannot be read, validated or written.

use domain::flag::definition::DefinitionKind;
use domain::{FlagRejection, Rejection};
use engine::{Reason, Unavailable};

use crate::document::Unreadable;

/// The longest explanation, in characters: more wrong fields than that do not help.
const EXPLANATION_CHARS_MAX: usize = 1_000;

/// Why definitions cannot be read, validated or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field or a parameter is invalid.
    #[error("{field}: {reason}")]
    Invalid { field: String, reason: String },
    /// Fields of documents are invalid: all of them.
    #[error("fields are wrong: {}", .0.len())]
    WrongFields(Vec<WrongField>),
    /// The tenant has no environment of this name. The default ones are made on first use.
    #[error("there is no environment {0}")]
    NoEnvironment(String),
    /// The environment has no such definition.
    #[error("there is no {} {key}", word(*.kind))]
    NotFound { kind: DefinitionKind, key: String },
    /// The environment has a definition of this key.
    #[error("there is a {} {key} already", word(*.kind))]
    Exists { kind: DefinitionKind, key: String },
    /// The core refused the command.
    #[error("the core refused: {0:?}")]
    Rejected(Box<Rejection>),
    /// Concurrent changes were faster each time.
    #[error("others change it all the time: nothing was written")]
    Contended,
    /// The core is not available.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A stored document cannot be parsed.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The word for a kind in messages.
#[must_use]
pub const fn word(kind: DefinitionKind) -> &'static str {
    match kind {
        DefinitionKind::Flag => "flag",
        DefinitionKind::Segment => "segment",
    }
}

/// A field of a document that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongField {
    /// Its path in the request, such as `rules[1].conditions[0].value`, or behind `featureFlags[0].` in
    /// an import.
    pub field: String,
    /// The rule that it breaks.
    pub reason: String,
}

impl Error {
    pub(crate) fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), reason: reason.into() }
    }

    pub(crate) fn bug() -> Self {
        Self::Unavailable(Reason::Bug.into())
    }

    /// Whether a concurrent change was faster: the same request may succeed upon what is there now.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        let Self::Rejected(rejection) = self else { return false };
        matches!(**rejection, Rejection::Flag(FlagRejection::DefinitionChanged { .. }))
    }

    /// The error in one text, which is stored with a change that failed.
    #[must_use]
    pub fn explanation(&self) -> String {
        let Self::WrongFields(wrong) = self else { return self.to_string() };
        let mut text = String::new();
        for WrongField { field, reason } in wrong {
            let separator = if text.is_empty() { "" } else { "; " };
            text.push_str(&format!("{separator}{field}: {reason}"));
            if let Some((end, _)) = text.char_indices().nth(EXPLANATION_CHARS_MAX) {
                text.truncate(end);
                break;
            }
        }
        text
    }
}
