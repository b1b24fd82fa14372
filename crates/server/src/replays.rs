//! Sends events again: reads a partition's part of each replay from the journal, and queues it as deliveries that are
//! due. How far it is, is recorded behind each page, so that it goes on after a crash.

use std::sync::Arc;
use std::time::Duration;

use domain::{PartitionNo, Seq};
use engine::periodic::{Pass, Periodic};
use engine::ports::{Bookkeeping, Delivery, DeliveryId, JournalRow, Queries, StoreError};
use engine::webhooks::{Replay, ReplayProgress};
use engine::{Engine, Unavailable};
use gateway::push::endpoint::wants;
use gateway::push::event::events_of;
use gateway::push::{Receivers, ReceiversError};
use secrets::Sealer;
use store::delivery_log::LogSource;
use store::replays::Replays;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::background::until;
use crate::log_connection::LogConnection;

/// How often replays are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many journal rows a second a partition reads for its replays. Faster, they would leave payments less than four
/// fifths of their CPU (`bench/webhooks --only replay`).
const ROWS_PER_S: u64 = 5_500;

/// Journal rows of a page.
const ROWS_MAX: usize = 550;

/// The time from page to page: what reading it takes counts.
const PAGE_EVERY: Duration = Duration::from_millis(1_000 * ROWS_MAX as u64 / ROWS_PER_S);

/// Deliveries that are due already, from which on no more are queued.
const DUE_MAX: usize = 2_048;

/// Why a page was not queued.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The part of a partition.
struct Replayer {
    engine: Engine,
    replays: LogConnection<Replays>,
    sealer: Option<Arc<Sealer>>,
    partition: PartitionNo,
}

/// A page of the journal, and what of it is sent again.
struct Page {
    deliveries: Vec<Delivery>,
    upto: Seq,
    is_last: bool,
}

/// Sends a partition's events again until `stopped`.
pub async fn run(
    engine: Engine,
    (source, sealer): (LogSource, Option<Arc<Sealer>>),
    partition: PartitionNo,
    stopped: watch::Receiver<bool>,
) {
    let replays = LogConnection::new(source, Replays::open);
    let replayer = Replayer { engine, replays, sealer, partition };
    let job = || async {
        let begun = Instant::now();
        match replayer.pass().await {
            Ok(0) => Pass::Idle,
            Ok(pages) => Pass::IdleFor((PAGE_EVERY * pages).saturating_sub(begun.elapsed())),
            Err(error) => {
                tracing::warn!(error = %error, "failed to send webhook events again; retrying");
                Pass::Failed
            }
        }
    };
    Periodic::every(LOOK_EVERY).with_jitter_percent(0).run(until(stopped), job).await;
}

impl Replayer {
    /// Queues a page of each replay; how many.
    async fn pass(&self) -> Result<u32, Error> {
        let partition = self.partition;
        let running = self.replays.query(move |replays| replays.running(partition)).await?;
        for (replay, progress) in &running {
            if self.has_room().await? {
                self.page(replay, *progress).await?;
            }
        }
        Ok(u32::try_from(running.len()).unwrap_or(u32::MAX))
    }

    /// Whether few deliveries wait: those of replays do not stand in the way of others for long.
    async fn has_room(&self) -> Result<bool, Error> {
        let now = self.engine.clock().now();
        let due = self.engine.read(move |queries| queries.deliveries_due(now, None, DUE_MAX));
        Ok(due.await?.len() < DUE_MAX)
    }

    async fn page(&self, replay: &Replay, before: ReplayProgress) -> Result<(), Error> {
        let (wanted, sealer) = (replay.clone(), self.sealer.clone());
        let after = before.upto.unwrap_or(self.partition.start());
        let now = self.engine.clock().now();
        let read = self.engine.read(move |queries| {
            let receivers = match Receivers::read(queries, sealer.as_deref(), wanted.tenant) {
                Ok(receivers) => receivers,
                // The follower logs it.
                Err(ReceiversError::Sealed) => Receivers::default(),
                Err(ReceiversError::Store(error)) => return Err(error),
            };
            let (rows, upto, is_last) = page(queries, after)?;
            let deliveries = rows.iter().flat_map(|row| deliveries(row, &wanted, &receivers));
            let deliveries = deliveries.map(|it| Delivery { due_at: now, ..it }).collect();
            Ok(Page { deliveries, upto, is_last })
        });
        let Page { deliveries, upto, is_last } = read.await?;
        let queued = i64::try_from(deliveries.len()).unwrap_or(i64::MAX);
        let rows: Vec<_> = deliveries.into_iter().map(Bookkeeping::DeliveryPostponed).collect();
        if !rows.is_empty() {
            self.engine.record(rows).await?;
        }
        let after =
            ReplayProgress { upto: Some(upto), queued: before.queued + queued, is_done: is_last };
        let (key, partition) = ((replay.tenant, replay.id), self.partition);
        let advance = move |replays: &Replays| replays.advance(key, partition, after);
        Ok(self.replays.query(advance).await?)
    }
}

/// Rows behind a row, how far they reach, and whether that is the end of the journal.
fn page(
    queries: &dyn Queries,
    after: Seq,
) -> Result<(Vec<Arc<JournalRow>>, Seq, bool), StoreError> {
    let head = queries.journal_head()?;
    let (rows, upto) = queries.journal_after(after, ROWS_MAX)?;
    Ok((rows, upto, upto >= head))
}

/// What of a row is sent again, and where to.
fn deliveries(row: &JournalRow, replay: &Replay, receivers: &Receivers) -> Vec<Delivery> {
    let (from, to) = replay.times;
    if row.tenant != replay.tenant || row.at < from || row.at >= to {
        return vec![];
    }
    let is_wanted = |account| replay.account.is_none_or(|it| Some(it) == account);
    let events = events_of(row).filter(|it| wants(&replay.events, it.kind));
    let events = events.filter(|it| is_wanted(it.event.account()));
    let deliveries = events.flat_map(|event| {
        let to = receivers.of(event).filter(|it| replay.endpoint.is_none_or(|only| only == *it));
        to.map(move |endpoint| Delivery {
            id: DeliveryId { seq: event.row.seq, ordinal: event.ordinal, endpoint },
            tenant: event.row.tenant,
            attempts: 0,
            due_at: event.row.at,
            error: String::new(),
        })
    });
    deliveries.collect()
}
