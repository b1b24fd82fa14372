//! Errors of feature flags as errors of `/v1`.

use domain::{FlagRejection, Rejection};
use feature_flags::document::Unreadable;
use feature_flags::error::word;

use super::find::bug;
use crate::error::Error;

impl From<feature_flags::Error> for Error {
    fn from(error: feature_flags::Error) -> Self {
        use feature_flags::Error as E;
        match error {
            E::Invalid { field, reason } => Self::InvalidParameter { field: field.into(), reason },
            E::WrongFields(wrong) => Self::WrongFields(
                wrong.into_iter().map(|it| web::WrongField::new(it.field, it.reason)).collect(),
            ),
            E::NoEnvironment(name) => Self::NotFound { what: "environment", name },
            E::NotFound { kind, key } => Self::NotFound { what: word(kind), name: key },
            E::Exists { kind, key } => Self::Exists { what: word(kind), name: key },
            E::Rejected(rejection) => Self::Rejected(rejection),
            E::Contended => Self::Contended,
            E::Unavailable(unavailable) => Self::Unavailable(unavailable),
            E::Unreadable(error) => Self::from(error),
        }
    }
}

impl From<Unreadable> for Error {
    fn from(error: Unreadable) -> Self {
        tracing::error!(%error, "a stored document cannot be parsed");
        bug()
    }
}

/// Whether a concurrent change was faster.
pub fn is_conflict(error: &Error) -> bool {
    let Error::Rejected(rejection) = error else { return false };
    matches!(**rejection, Rejection::Flag(FlagRejection::DefinitionChanged { .. }))
}
