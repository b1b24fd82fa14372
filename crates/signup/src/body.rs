//! Reading a request's body. How large it may be, and how long it may take, is the server's business:
//! the body that it hands in fails with a [`BodyError`].

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

/// How large a body may be, in bytes, whatever the server accepts: nobody has more to say here.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is too large.
    #[error("the request's body is larger than the server accepts")]
    TooLarge,
    /// It did not come in time.
    #[error("the request's body did not arrive in time")]
    TimedOut,
    /// It broke off.
    #[error("the request's body broke off")]
    Broken,
    /// There are too many bodies in memory.
    #[error("the server is at its limit of request bodies in memory; nothing was done")]
    NoRoom,
}

/// Reads all of it.
pub(crate) async fn read(body: Body) -> Result<Bytes, BodyError> {
    let error = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => return Ok(collected.to_bytes()),
        Err(error) => error,
    };
    if error.is::<LengthLimitError>() {
        return Err(BodyError::TooLarge);
    }
    let error = error.downcast::<axum::Error>().map(|error| error.into_inner().downcast());
    Err(error.ok().and_then(Result::ok).map_or(BodyError::Broken, |error| *error))
}
