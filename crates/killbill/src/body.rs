//! Reading a request's body. How large it may be, and how long it may take, is the server's business:
//! the body that it hands in fails with a [`BodyError`].

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::error::Failure;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is too large.
    #[error("The request's body is larger than the server accepts.")]
    TooLarge,
    /// It did not come in time.
    #[error("The request's body did not arrive in time.")]
    TimedOut,
    /// It broke off.
    #[error("The request's body broke off.")]
    Broken,
    /// There are too many bodies in memory.
    #[error("The server is at its limit of request bodies in memory; nothing was done.")]
    NoRoom,
}

/// Reads all of it.
pub(crate) async fn read(body: Body) -> Result<Bytes, Failure> {
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) => {
            let error = error.into_inner().downcast().map_or(BodyError::Broken, |error| *error);
            Err(Failure::Body(error))
        }
    }
}
