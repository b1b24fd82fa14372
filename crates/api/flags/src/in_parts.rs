//! Long answers: made part by part as the client takes them, so that one that is not read takes little memory
//! and little time.

use std::convert::Infallible;

use axum::body::Body;
use futures_util::{StreamExt as _, stream};

/// After how many bytes a part ends.
pub(crate) const PART_BYTES: usize = 64 * 1024;

/// An answer in the making.
pub(crate) trait InParts: Send + 'static {
    /// Appends the next part, which ends behind `PART_BYTES`; whether it is the last one.
    fn write_part(&mut self, out: &mut Vec<u8>) -> bool;
}

/// The answer's body; with its length where it is one part. The first part has room for so many bytes.
pub(crate) fn body(mut answer: impl InParts, capacity: usize) -> Body {
    let mut first = Vec::with_capacity(capacity.min(PART_BYTES));
    if answer.write_part(&mut first) {
        return Body::from(first);
    }
    let rest = stream::unfold(Some(answer), async |answer| {
        let mut answer = answer?;
        let mut part = Vec::with_capacity(PART_BYTES);
        let is_last = answer.write_part(&mut part);
        Some((Ok::<_, Infallible>(part), (!is_last).then_some(answer)))
    });
    Body::from_stream(stream::once(std::future::ready(Ok(first))).chain(rest))
}
