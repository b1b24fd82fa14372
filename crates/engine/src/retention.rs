//! Deletes expired rows: operations some time after their end, mails that were given up long ago, sessions
//! that ended, replies that are not repeated any more, and events and reservations of usage that are known no more.

use std::future::Future;
use std::time::Duration;

use domain::Timestamp;
use domain::entitlement::usage::KEPT_US;

use crate::periodic::{Pass, Periodic};
use crate::ports::{Bookkeeping, ExpiryCutoffs};
use crate::{Engine, Unavailable};

/// How often expired rows are deleted.
const DELETE_EVERY: Duration = Duration::from_secs(60);

/// How long an operation is kept after its end, so that its client can read it: longer than its
/// callback is retried.
const OPERATIONS_KEPT_US: i64 = 7 * Timestamp::DAY_US;

/// How long a mail is kept after it was given up, so that an operator can send it again.
const MAILS_KEPT_US: i64 = 30 * Timestamp::DAY_US;

/// How long a session is kept after its end: longer than the clocks of a cluster differ.
const SESSIONS_KEPT_US: i64 = 3_600 * Timestamp::SECOND_US;

/// How long a stored reply is kept after it expired. Commits that store others delete it earlier: this is
/// for a server that has nothing to do.
const REPLIES_KEPT_US: i64 = 3_600 * Timestamp::SECOND_US;

/// Deletes expired rows until `stop` is ready.
pub async fn run(engine: Engine, stop: impl Future<Output = ()>) {
    let job = || async {
        match pass(&engine).await {
            Ok(()) => Pass::Idle,
            Err(error) => {
                tracing::warn!(error = %error, "failed to delete expired rows; retrying");
                Pass::Failed
            }
        }
    };
    Periodic::every(DELETE_EVERY).run(stop, job).await;
}

/// Deletes all rows that are expired now, a bounded number per commit.
///
/// # Errors
/// [`Unavailable`]: some rows may remain.
pub async fn pass(engine: &Engine) -> Result<(), Unavailable> {
    let now = engine.clock().now();
    // A clock that is ahead of real time may be set back: what was counted is not counted again then.
    let earliest = now.min(engine.clock().real_now());
    let expired = ExpiryCutoffs {
        operations_settled: now.plus_us(-OPERATIONS_KEPT_US),
        mails_given_up: now.plus_us(-MAILS_KEPT_US),
        sessions_ended: now.plus_us(-SESSIONS_KEPT_US),
        replies_expired: now.plus_us(-REPLIES_KEPT_US),
        usage_forgotten: earliest.plus_us(-KEPT_US),
    };
    while engine.read(move |queries| queries.has_expired(expired)).await? {
        engine.record(vec![Bookkeeping::Expired(expired)]).await?;
    }
    Ok(())
}
