//! Deletes what is over: operations some time after their end, mails that were given up long ago, and
//! sessions whose customers did not come back.

use std::future::Future;
use std::time::Duration;

use domain::Timestamp;
use engine::ports::{Bookkeeping, Over};
use engine::{Engine, Unavailable};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How long an operation is there after its end, so that whoever asked can read it. Longer than
/// anybody is called who wants to be told.
const OPERATIONS_KEPT_US: i64 = 7 * Timestamp::DAY_US;

/// How long a mail is there that was given up, so that somebody can have it sent after all.
const MAILS_KEPT_US: i64 = 30 * Timestamp::DAY_US;

/// How long a session is there after its end. Clocks of a cluster differ by less.
const SESSIONS_KEPT_US: i64 = 3_600 * Timestamp::SECOND_US;

/// Deletes until `stop` is ready.
pub async fn run(engine: Engine, stop: impl Future<Output = ()>) {
    let working = async {
        loop {
            if let Err(error) = pass(&engine).await {
                tracing::warn!(error = %error, "what is over waits to be deleted");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        () = working => {}
        () = stop => {}
    }
}

/// Deletes all that is over now, a commit's worth at a time.
pub(super) async fn pass(engine: &Engine) -> Result<(), Unavailable> {
    let now = engine.clock().now();
    let over = Over {
        operations_settled: now.plus_us(-OPERATIONS_KEPT_US),
        mails_given_up: now.plus_us(-MAILS_KEPT_US),
        sessions_ended: now.plus_us(-SESSIONS_KEPT_US),
    };
    while engine.read(move |queries| queries.has_over(over)).await? {
        engine.record(vec![Bookkeeping::Over(over)]).await?;
    }
    Ok(())
}
