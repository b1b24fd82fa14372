//! Answers of gateways that are waited for within a limit.

use std::future::Future;
use std::time::Duration;

/// The reason where a gateway did not answer within the limit.
pub(crate) const NOT_IN_TIME: &str = "it did not answer in time";

/// A gateway's answer, or the reason why there is none; `reason_of` is for failures within the limit.
pub(crate) async fn answered_within<T, E>(
    limit: Duration,
    answer: impl Future<Output = Result<T, E>>,
    reason_of: impl FnOnce(E) -> String,
) -> Result<T, String> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answered) => answered.map_err(reason_of),
        Err(_) => Err(NOT_IN_TIME.to_owned()),
    }
}
