//! Bodies of many rows, read part by part as the client takes them, so that no response is held in memory.

use std::io;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use crate::error::{Failure, HandlerResult};

/// A body in parts.
pub(crate) trait Parts: Send + 'static {
    /// The next part, which may be empty; `None` behind the last one.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, Failure>> + Send;
}

/// 200 with the parts. A failure of the first one is answered with its own status; a later one breaks the
/// response off, so that the client does not take it for whole.
///
/// # Errors
/// That of the first part.
pub(crate) async fn response(mut parts: impl Parts, media_type: &'static str) -> HandlerResult {
    let first = Bytes::from(parts.next().await?.unwrap_or_default());
    let rest = stream::try_unfold(parts, async |mut parts| match parts.next().await {
        Ok(part) => Ok(part.map(|part| (Bytes::from(part), parts))),
        Err(failure) => {
            tracing::warn!(?failure, "a streamed response breaks off: its rows cannot be read");
            Err(io::Error::other("the rows cannot be read"))
        }
    });
    let first = stream::once(std::future::ready(Ok(first)));
    let body = Body::from_stream(futures_util::StreamExt::chain(first, rest));
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(response)
}
