//! Long answers: made part by part as the client takes them, so that one that is not read takes little memory
//! and little time.

use std::convert::Infallible;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use axum::body::Body;
use feature_flags::environment_state::EnvironmentState;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::Semaphore;

/// After how many bytes a part ends.
pub(crate) const PART_BYTES: usize = 64 * 1024;

/// Of flags whose values are longer no part is made before there is room for the answer.
const LONG_VALUES_BYTES: usize = 4 * PART_BYTES;

/// An answer in the making.
pub(crate) trait InParts: Send + 'static {
    /// The state whose flags it is about.
    fn state(&self) -> &EnvironmentState;

    /// Appends the next part, which ends behind `PART_BYTES`; whether it is the last one.
    fn write_part(&mut self, out: &mut Vec<u8>) -> bool;
}

/// The answer's body; with its length where it is one part. The first part has room for so many bytes.
pub(crate) fn body(mut answer: impl InParts, capacity: usize) -> Body {
    if answer.state().values_bytes > LONG_VALUES_BYTES {
        return Body::from_stream(parts(answer));
    }
    let mut first = Vec::with_capacity(capacity.min(PART_BYTES));
    if answer.write_part(&mut first) {
        return Body::from(first);
    }
    let first = stream::once(std::future::ready(Ok(first)));
    Body::from_stream(first.chain(parts(answer)))
}

/// Parts are made by half of the cores: a flag's value may be long, and other requests run meanwhile.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, std::num::NonZero::get);
    Semaphore::new(cores.div_ceil(2))
});

fn parts(answer: impl InParts) -> impl Stream<Item = Result<Vec<u8>, Infallible>> + Send {
    stream::unfold(Some(answer), async |answer| {
        let mut answer = answer?;
        let _turn = TURNS.acquire().await.expect("it is never closed");
        let mut part = Vec::with_capacity(PART_BYTES);
        let is_last = answer.write_part(&mut part);
        Some((Ok(part), (!is_last).then_some(answer)))
    })
}
