//! Publishes the events of a partition's journal to Kafka.

use std::sync::Arc;
use std::time::Duration;

use domain::Seq;
use engine::Engine;
use engine::periodic::{Pass, Periodic};
use engine::ports::{Bookkeeping, JournalRow, Queries};
use tokio::sync::watch;

use super::EventPublisher;
use crate::settings::Settings;
use crate::topics::TopicError;

/// The follower's name in the store.
const FOLLOWER: &str = "kafka";

/// Journal rows per batch, after which the position is recorded.
const ROWS_MAX: usize = 4_000;

/// The pause between batches: a few large batches cost the brokers and the database far less.
const GATHERED: Duration = Duration::from_millis(200);

/// The pause where more than [`BUSY_ROWS`] rows arrived during [`GATHERED`].
const GATHERED_WHILE_BUSY: Duration = Duration::from_secs(2);

/// The number of rows above which the pause is [`GATHERED_WHILE_BUSY`].
const BUSY_ROWS: i64 = 100;

/// The pause before a retry.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Why publishing failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Topics(#[from] TopicError),
    #[error("{0}")]
    Failed(String),
}

/// Publishes the events of a partition's journal, from the last recorded position, until `stop` is ready.
pub async fn publish_events(engine: Engine, settings: Settings, stop: impl Future<Output = ()>) {
    let job = || async {
        if let Err(error) = publish(&engine, &settings).await {
            tracing::warn!(error = %error, "failed to publish events; retrying");
        }
        Pass::Failed
    };
    Periodic::every(RETRY_PAUSE).run(stop, job).await;
}

/// Publishes until a step fails. Rows that were not recorded by then are published again.
async fn publish(engine: &Engine, settings: &Settings) -> Result<(), Error> {
    let publisher = EventPublisher::new(settings).await?;
    let mut position = engine.read(|queries| queries.followed(FOLLOWER)).await.map_err(failed)?;
    let mut head = engine.head();
    loop {
        if *head.borrow_and_update() <= position {
            head.changed().await.map_err(failed)?;
            continue;
        }
        let (rows, upto) = rows_after(engine, position).await?;
        publisher.publish(&rows).await.map_err(failed)?;
        let followed = Bookkeeping::Followed { follower: FOLLOWER, upto };
        engine.record(vec![followed]).await.map_err(failed)?;
        position = upto;
        gather(position, &mut head).await.map_err(failed)?;
    }
}

/// Waits before the next batch.
async fn gather(
    position: Seq,
    head: &mut watch::Receiver<Seq>,
) -> Result<(), watch::error::RecvError> {
    tokio::time::sleep(GATHERED).await;
    if head.borrow().0 - position.0 > BUSY_ROWS {
        let enough = i64::try_from(ROWS_MAX).unwrap_or(i64::MAX);
        let filled = head.wait_for(|head| head.0 - position.0 >= enough);
        // What there is by then is published.
        if let Ok(ended) = tokio::time::timeout(GATHERED_WHILE_BUSY - GATHERED, filled).await {
            ended?;
        }
    }
    Ok(())
}

async fn rows_after(engine: &Engine, position: Seq) -> Result<(Vec<Arc<JournalRow>>, Seq), Error> {
    let rows = engine.read(move |queries: &dyn Queries| queries.journal_after(position, ROWS_MAX));
    rows.await.map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}
