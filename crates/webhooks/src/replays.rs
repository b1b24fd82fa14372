//! Sends events again: has the push follower of a partition deliver its part of each replay, page by page. How far it
//! is, is recorded once a page is delivered, so that it goes on after a crash.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::{PartitionNo, TenantNo};
use engine::Engine;
use engine::periodic::{Job, Pass, Periodic};
use engine::ports::{DeliveryLogSource, Replays, StoreError};
use engine::webhooks::{Replay, ReplayProgress};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;
use uuid::Uuid;

use crate::log_connection::LogConnection;
use crate::resend::{ResendError, Resender, ResentPage};

/// How often replays are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many journal rows a second a partition reads for its replays. Faster, they would leave payments less than four
/// fifths of their CPU (`bench/webhooks --only replay`).
const ROWS_PER_S: u64 = 6_400;

/// Journal rows of a page.
const ROWS_MAX: usize = 640;

/// The time from page to page: what reading it takes counts.
const PAGE_EVERY: Duration = Duration::from_millis(1_000 * ROWS_MAX as u64 / ROWS_PER_S);

/// The pages of a replay that may be under way at a time: one is read while the one before is delivered.
const PAGES_MAX: usize = 2;

/// The pause before the next look at pages that are all under way.
const UNDER_WAY_PAUSE: Duration = Duration::from_millis(20);

/// Deliveries that are due already, from which on no more are made again.
const DUE_MAX: usize = 2_048;

/// Why a page was not sent.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Resend(#[from] ResendError),
}

/// The part of a partition.
struct Replayer {
    engine: Engine,
    resender: Resender,
    replays: LogConnection<dyn Replays>,
    partition: PartitionNo,
    /// The pages of replays that are under way, the oldest first.
    under_way: BTreeMap<(TenantNo, Uuid), VecDeque<ResentPage>>,
}

/// Sends a partition's events again until `stop` is ready.
pub async fn run(
    engine: Engine,
    (source, resender): (Arc<dyn DeliveryLogSource>, Resender),
    partition: PartitionNo,
    stop: impl Future<Output = ()>,
) {
    let replays = LogConnection::new(move || source.open_replays());
    let replayer = Replayer { engine, resender, replays, partition, under_way: BTreeMap::new() };
    Periodic::every(LOOK_EVERY).with_jitter_percent(0).run(stop, replayer).await;
}

impl Job for Replayer {
    async fn pass(&mut self) -> Pass {
        let begun = Instant::now();
        match self.replay().await {
            Ok(0) if self.under_way.is_empty() => Pass::Idle,
            Ok(0) => Pass::IdleFor(UNDER_WAY_PAUSE),
            Ok(pages) => Pass::IdleFor((PAGE_EVERY * pages).saturating_sub(begun.elapsed())),
            Err(error) => {
                tracing::warn!(error = %error, "failed to send webhook events again; retrying");
                Pass::Failed
            }
        }
    }
}

impl Replayer {
    /// Sends a page of each replay that has room for one; how many.
    async fn replay(&mut self) -> Result<u32, Error> {
        let partition = self.partition;
        let mut running = self.replays.query(move |replays| replays.running(partition)).await?;
        self.under_way.retain(|key, _| running.iter().any(|(it, _)| (it.tenant, it.id) == *key));
        let mut pages = 0;
        for (replay, progress) in &mut running {
            let is_done = self.advance(replay, progress).await?;
            if !is_done && self.send(replay, *progress).await? {
                pages += 1;
            }
        }
        Ok(pages)
    }

    /// Records the pages that have been delivered; whether the last one was among them.
    async fn advance(&mut self, replay: &Replay, at: &mut ReplayProgress) -> Result<bool, Error> {
        let (key, partition) = ((replay.tenant, replay.id), self.partition);
        let pages = self.under_way.entry(key).or_default();
        let before = *at;
        while let Some(page) = pages.front_mut() {
            match page.done.try_recv() {
                Ok(deliveries) => {
                    at.queued += i64::try_from(deliveries).unwrap_or(i64::MAX);
                    at.upto = Some(page.upto);
                    at.is_done = page.is_last;
                    pages.pop_front();
                }
                Err(TryRecvError::Empty) => break,
                // The follower has started anew: so do the pages.
                Err(TryRecvError::Closed) => pages.clear(),
            }
        }
        if *at != before {
            let after = *at;
            self.replays.query(move |it| it.advance(key, partition, after)).await?;
        }
        Ok(at.is_done)
    }

    /// Sends the next page of a replay, if there is room for one; whether it was sent.
    async fn send(&mut self, replay: &Replay, progress: ReplayProgress) -> Result<bool, Error> {
        let key = (replay.tenant, replay.id);
        let pages = self.under_way.entry(key).or_default();
        if pages.len() >= PAGES_MAX || pages.back().is_some_and(|last| last.is_last) {
            return Ok(false);
        }
        let after = pages.back().map(|last| last.upto).or(progress.upto);
        if !self.has_room().await? {
            return Ok(false);
        }
        let after = after.unwrap_or(self.partition.start());
        let page = self.resender.resend(replay, after, ROWS_MAX).await?;
        self.under_way.entry(key).or_default().push_back(page);
        Ok(true)
    }

    /// Whether few deliveries wait: those of replays do not stand in the way of others for long.
    async fn has_room(&self) -> Result<bool, Error> {
        let now = self.engine.clock().now();
        let due = self.engine.read(move |queries| queries.deliveries_due(now, None, DUE_MAX));
        Ok(due.await.map_err(ResendError::from)?.len() < DUE_MAX)
    }
}
