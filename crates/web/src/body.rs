//! Reading a request's body. The listener bounds its size and its time: the body that it hands in
//! fails with a [`BodyError`].

use std::error::Error;
use std::iter::successors;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

/// Why a request's body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than the server, or the route, accepts.
    #[error("the request's body is larger than the server accepts")]
    TooLarge,
    /// It did not arrive in time.
    #[error("the request's body did not arrive in time")]
    TimedOut,
    /// The connection broke off.
    #[error("the request's body broke off")]
    Broken,
    /// The bodies of all requests fill the memory that they share.
    #[error("the server is at its limit of request bodies in memory; nothing was done")]
    NoRoom,
}

/// Reads a whole body, as large as the listener accepts.
///
/// # Errors
/// [`BodyError`].
pub async fn read(body: Body) -> Result<Bytes, BodyError> {
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) => Err(cause(&error)),
    }
}

/// Reads a whole body of at most `bytes_max` bytes.
///
/// # Errors
/// [`BodyError`].
pub async fn read_limited(body: Body, bytes_max: usize) -> Result<Bytes, BodyError> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) => Err(cause(&*error)),
    }
}

/// The reason in an error of a body, wherever in its chain of sources; an error of the connection
/// itself is a body that broke off.
fn cause(error: &(dyn Error + 'static)) -> BodyError {
    let mut causes = successors(Some(error), |it: &&(dyn Error + 'static)| (*it).source());
    let found = causes.find_map(|it| match it.is::<LengthLimitError>() {
        true => Some(BodyError::TooLarge),
        false => it.downcast_ref::<BodyError>().copied(),
    });
    found.unwrap_or(BodyError::Broken)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn failing(error: BodyError) -> Body {
        Body::from_stream(stream::iter([Ok(Bytes::from_static(b"begun")), Err(error)]))
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_body_that_fails_keeps_its_reason() {
        for error in
            [BodyError::TooLarge, BodyError::TimedOut, BodyError::Broken, BodyError::NoRoom]
        {
            assert_eq!(wait(read(failing(error))), Err(error));
            assert_eq!(wait(read_limited(failing(error), 64)), Err(error));
        }
    }

    #[test]
    fn a_body_above_the_limit_of_its_route_is_too_large() {
        assert_eq!(wait(read_limited(Body::from("four"), 4)), Ok(Bytes::from_static(b"four")));
        assert_eq!(wait(read_limited(Body::from("fifth"), 4)), Err(BodyError::TooLarge));
    }

    #[test]
    fn an_error_of_the_connection_is_a_body_that_broke_off() {
        let error = std::io::Error::other("reset");
        let body = Body::from_stream(stream::iter([Err::<Bytes, _>(error)]));
        assert_eq!(wait(read(body)), Err(BodyError::Broken));
    }
}
