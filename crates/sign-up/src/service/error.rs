//! Errors of sign-up.

use std::time::Duration;

use domain::customer::CustomerRejection;
use engine::Unavailable;

use crate::Invalid;
use crate::limits::TooManyRequests;
use crate::passwords::Busy;

/// A call failed; nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Fields that break rules; at least one.
    #[error("fields are invalid")]
    Fields(Vec<Invalid>),
    /// The domain refused the command.
    #[error(transparent)]
    Refused(#[from] CustomerRejection),
    /// No customer has this address and password.
    #[error("the address or the password is wrong")]
    Credentials,
    /// The password is right, and a code of the second factor is required too.
    #[error("a code is needed")]
    CodeNeeded,
    /// The token is forged, used or expired.
    #[error("the token is invalid")]
    TokenInvalid,
    /// The access token is missing or invalid.
    #[error("not logged in")]
    NoSession,
    /// The request needs the tenant's headers: without them it would be open to any client.
    #[error("the tenant's headers are needed")]
    TenantNeeded,
    /// Too many passwords wait to be hashed.
    #[error("too many passwords wait to be hashed")]
    Busy { retry_after: Duration },
    /// The client's network, or the address that the request is about, is over a limit.
    #[error("too many requests")]
    TooManyRequests { retry_after: Duration },
    /// A request with this idempotency key is in progress.
    #[error("a request with this idempotency key is in progress")]
    StillRunning,
    /// This idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    AnotherRequest,
    /// The engine is unavailable.
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

impl From<TooManyRequests> for Error {
    fn from(too_many: TooManyRequests) -> Self {
        Self::TooManyRequests { retry_after: too_many.retry_after }
    }
}

impl Error {
    /// Whether the server failed, not the client: what operators watch.
    #[must_use]
    pub const fn is_server_error(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unavailable(_))
    }
}
