//! Reading a request's body: all of it, within a size and a time, before any door sees the request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::door::Refusal;

/// How much more than the limit is read and thrown away, in bytes: a client that is still writing
/// when the connection closes would see a reset instead of the answer.
const DISCARDED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads a body.
///
/// # Errors
/// Too large, too late, or broken off.
pub async fn read(body: Incoming, bytes_max: usize, timeout: Duration) -> Result<Bytes, Refusal> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    tokio::time::timeout(timeout, collect(body, bytes_max)).await.unwrap_or(Err(Refusal::TimedOut))
}

async fn collect(mut body: Incoming, bytes_max: usize) -> Result<Bytes, Refusal> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max {
        discard(body, announced).await;
        return Err(Refusal::TooLarge);
    }
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::Broken)?.into_data() else { continue };
        // Most bodies are one frame, which is handed on as it is.
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.reserve(announced.max(first.len() + data.len()));
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
        if first.len().max(all.len()) > bytes_max {
            discard(body, bytes_max).await;
            return Err(Refusal::TooLarge);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

async fn discard(mut body: Incoming, announced: usize) {
    let mut discarded = 0;
    while announced <= DISCARDED_BYTES_MAX && discarded <= DISCARDED_BYTES_MAX {
        match body.frame().await {
            Some(Ok(frame)) => discarded += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}
