//! Errors of a server and of the way to it, as sources of a `StoreError`.

use std::error::Error;
use std::fmt::{self, Debug, Display, Formatter};

use engine::ports::Cause;

/// An error of the driver. Both of its texts are the server's message and code, where it has one: what the server
/// says beside them (`DETAIL`) has values of rows.
pub struct ServerError(pub(super) tokio_postgres::Error);

impl ServerError {
    /// The server's code for it (`SQLSTATE`); `None` where the server did not answer.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.code().map(tokio_postgres::error::SqlState::code)
    }
}

impl Display for ServerError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        match (error.as_db_error(), error.source()) {
            (Some(error), _) => write!(f, "{} ({})", error.message(), error.code().code()),
            (None, Some(cause)) => write!(f, "{error}: {cause}"),
            (None, None) => Display::fmt(error, f),
        }
    }
}

impl Debug for ServerError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ServerError({self})")
    }
}

impl Error for ServerError {
    /// The cause of a connection's failure. An error that the server sent has no source: it would print the detail.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.0.as_db_error() {
            Some(_) => None,
            None => self.0.source(),
        }
    }
}

/// A server that no connection can be made to.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {source}")]
pub(super) struct Unreachable {
    /// Its host and port.
    pub(super) place: String,
    pub(super) source: Cause,
}
