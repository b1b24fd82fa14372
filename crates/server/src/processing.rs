//! A processor: it owns the partitions that the queue assigns to it, each with an engine of its own,
//! and executes the commands and queries of the queue.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{AccountId, PartitionNo, Request, TenantNo};
use engine::access::Access;
use engine::ports::{BoxFuture, Cause, LedgerTotal, Queries, Question, StoreError};
use engine::queue::{Inquired, Processor, QueuePosition, Resend, SimulatedWork, Work};
use engine::{Answer, Engine, Parts, Reason, Running, StartError, Unavailable};
use kafka::events::publish_events;
use store::{Server, Share, SqlQueries};

use crate::background::BackgroundTasks;
use crate::engine_parts::EngineParts;
use crate::first_start::{self, Given, Made};

/// How long calls in flight get to end when a partition goes to another process: those that take
/// longer are asked about by their new owner.
const REVOKED_WITHIN: Duration = Duration::from_secs(2);

/// The partitions of this process.
pub struct Processing {
    core: EngineParts,
    server: Server,
    options: store::Options,
    /// Of the first partition; those of others read over the same connections.
    queries: Arc<SqlQueries>,
    partitions: u16,
    kafka: kafka::Settings,
    reads: Engine,
    data_dir: PathBuf,
    owned: Mutex<BTreeMap<i32, Owned>>,
}

/// A partition of this process.
struct Owned {
    engine: Engine,
    running: Running,
    tasks: BackgroundTasks,
}

impl Processing {
    /// Owns nothing yet. The queue is so many partitions, reached with these settings; `reads` is an
    /// engine to read balances with, and what a first start generates is kept in `data_dir`.
    pub fn new(
        core: EngineParts,
        (server, options): (Server, store::Options),
        queries: Arc<SqlQueries>,
        (partitions, kafka): (u16, kafka::Settings),
        (reads, data_dir): (Engine, PathBuf),
    ) -> Self {
        let owned = Mutex::default();
        Self { core, server, options, queries, partitions, kafka, reads, data_dir, owned }
    }

    /// Ends what runs in all partitions.
    pub async fn stop(&self, deadline: Duration) {
        let owned = std::mem::take(&mut *self.owned());
        futures_util::future::join_all(owned.into_values().map(|it| it.stop(deadline))).await;
    }

    fn give_up(&self, partition: i32) -> Option<Owned> {
        self.reads.partition_went(partition);
        self.owned().remove(&partition)
    }

    fn owned(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, Owned>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work of a partition's engine on a message; refused where the partition is not ours.
    fn by_owner<T: Send + 'static, F>(
        &self,
        partition: i32,
        work: impl FnOnce(Engine) -> F,
    ) -> Work<T>
    where
        F: Future<Output = Result<T, Unavailable>> + Send + 'static,
    {
        let engine = self.owned().get(&partition).map(|it| it.engine.clone());
        match engine {
            Some(engine) => Box::pin(work(engine)),
            None => Box::pin(std::future::ready(Err(Reason::NotOwner.into()))),
        }
    }

    async fn take_over(&self, partition: i32) -> Result<Option<i64>, StoreError> {
        let no = PartitionNo::new(i64::from(partition));
        let no = no.filter(|no| no.number() < i64::from(self.partitions));
        let share = Share {
            partition: no.ok_or_else(|| no_partition(partition))?,
            partitions: self.partitions,
        };
        // What was left from an earlier turn goes first: there is one owner.
        let earlier = self.give_up(partition);
        if let Some(earlier) = earlier {
            earlier.stop(Duration::ZERO).await;
        }
        let queries = Arc::clone(&self.queries);
        let (server, options, core) = (self.server.clone(), self.options, self.core.clone());
        let opening = tokio::task::spawn_blocking(move || {
            let store = store::open_share(&server, share, &options)
                .map_err(|error| StoreError::Database(Cause::new(error)))?;
            let queries: Arc<dyn Queries> = Arc::new(store.queries_over(&queries));
            Engine::start(Parts {
                store,
                queries,
                settings: core.settings,
                gateways: core.gateways,
                clock: core.clock,
                options: core.options,
            })
        });
        let opened = opening.await.map_err(|error| StoreError::Database(Cause::new(error)))?;
        let (engine, running) = opened.map_err(|error| match error {
            StartError::Store(error) => error,
            StartError::ClockBehind(error) => StoreError::Database(Cause::new(error)),
        })?;
        let offset = running.queue_offset();
        let mut tasks = self.core.start_tasks(&engine, share);
        let stop = tasks.until_stopped();
        let publishing = publish_events(engine.clone(), self.kafka.clone(), stop);
        tasks.spawn(publishing);
        if share.partition == PartitionNo::FIRST {
            tokio::spawn(prepare(engine.clone(), self.data_dir.clone()));
        }
        self.reads.partition_came(partition, engine.clone());
        self.owned().insert(partition, Owned { engine, running, tasks });
        tracing::info!(partition, offset, "took a partition over");
        Ok(offset)
    }
}

impl Processor for Processing {
    fn assigned(&self, partition: i32) -> BoxFuture<'_, Result<Option<i64>, StoreError>> {
        Box::pin(self.take_over(partition))
    }

    fn revoked(&self, partition: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let owned = self.give_up(partition);
            if let Some(owned) = owned {
                owned.stop(REVOKED_WITHIN).await;
                tracing::info!(partition, "gave a partition away");
            }
        })
    }

    fn execute(&self, partition: i32, position: QueuePosition, request: Request) -> Work<Answer> {
        self.by_owner(partition, |engine| engine.submit_queued(position, request))
    }

    fn skip(&self, partition: i32, offset: i64) -> Work<()> {
        self.by_owner(partition, |engine| {
            let skipped = engine.skip_queued(offset);
            async move { skipped.await.map(drop) }
        })
    }

    fn inquire(&self, partition: i32, question: Question) -> Work<Inquired> {
        self.by_owner(partition, |engine| async move { engine.inquire_for_front(question).await })
    }

    fn resend(&self, partition: i32, resend: Resend) -> Work<()> {
        self.by_owner(partition, |engine| async move { engine.resend(resend).await })
    }

    fn balance(
        &self,
        tenant: TenantNo,
        account: AccountId,
        work: Option<SimulatedWork>,
    ) -> Work<Option<Vec<LedgerTotal>>> {
        let reads = self.reads.clone();
        Box::pin(async move { reads.read_balance(tenant, account, work).await })
    }
}

/// Creates the administrator and the first tenant. The owner of the first partition does it, before
/// a login is possible.
async fn prepare(engine: Engine, data_dir: PathBuf) {
    let access = Access::new(engine.clone(), Duration::ZERO, 1);
    let keep = |made: &Made| first_start::keep(&data_dir, made);
    let prepared = first_start::prepare(&engine, &access, Given::by_environment(), keep);
    if let Err(error) = prepared.await {
        tracing::error!(error = %error, "the first start is tried again with the next owner");
    }
}

impl Owned {
    async fn stop(self, deadline: Duration) {
        self.tasks.stop().await;
        self.running.stop(deadline).await;
    }
}

fn no_partition(partition: i32) -> StoreError {
    StoreError::Database(Cause::new(format!("there is no partition {partition}")))
}
