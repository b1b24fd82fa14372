//! Why something that was asked of sign-up was not done.

use std::time::Duration;

use domain::customer::CustomerRefusal;
use engine::Unavailable;

use crate::Invalid;
use crate::limits::TooMany;
use crate::passwords::Busy;

/// Why not. Nothing was done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Fields that break rules; at least one.
    #[error("fields are invalid")]
    Fields(Vec<Invalid>),
    /// The core refused.
    #[error("{0:?}")]
    Refused(CustomerRefusal),
    /// No customer has this address and password.
    #[error("the address or the password is wrong")]
    Credentials,
    /// The password is right, and a code of the second factor is needed beside it.
    #[error("a code is needed")]
    CodeNeeded,
    /// A token that was not made here, was used, or has ended.
    #[error("the token is invalid")]
    TokenInvalid,
    /// No access token, or one that is worth nothing.
    #[error("not logged in")]
    NoSession,
    /// Too many passwords wait to be hashed.
    #[error("too many passwords wait to be hashed")]
    Busy {
        /// When to come back.
        retry_after: Duration,
    },
    /// Too much was asked from this address, or about this one.
    #[error("too many requests")]
    TooMany {
        /// When to come back.
        retry_after: Duration,
    },
    /// A request with this idempotency key runs.
    #[error("a request with this idempotency key is in progress")]
    StillRunning,
    /// This idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    AnotherRequest,
    /// The core could not do it now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Fields(vec![invalid])
    }
}

impl From<Busy> for Error {
    fn from(busy: Busy) -> Self {
        Self::Busy { retry_after: busy.retry_after }
    }
}

impl From<TooMany> for Error {
    fn from(too_many: TooMany) -> Self {
        Self::TooMany { retry_after: too_many.retry_after }
    }
}

impl Error {
    /// Whether it is ours, not the client's: what operators look at.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unavailable(_))
    }
}
