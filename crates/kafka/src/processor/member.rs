//! The member of a consumer group: which partitions are ours, as the group changes. Runs on the
//! polling thread, inside of `poll`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::queue::Processor;
use futures_util::future::join_all;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::lane::Lane;
use crate::client::log;
use crate::topics::Class;

/// How long a partition may take to be given up; then the group goes on without waiting.
const REVOKED_WITHIN: Duration = Duration::from_secs(10);

/// Knows which partitions are ours.
pub(super) struct Member {
    pub(super) class: Class,
    pub(super) topic: String,
    pub(super) processor: Arc<dyn Processor>,
    pub(super) runtime: Handle,
    owned: Mutex<BTreeMap<i32, Owned>>,
    assignments: AtomicU64,
}

struct Owned {
    lane: Arc<Lane>,
    /// Opens it again.
    opening: Option<Opening>,
}

struct Opening {
    task: JoinHandle<()>,
    ended: Arc<AtomicBool>,
}

impl Member {
    pub(super) fn new(
        class: Class,
        topic: String,
        processor: Arc<dyn Processor>,
        runtime: Handle,
    ) -> Self {
        Self {
            class,
            topic,
            processor,
            runtime,
            owned: Mutex::default(),
            assignments: AtomicU64::new(0),
        }
    }

    /// A partition, where it is ours.
    pub(super) fn lane(&self, partition: i32) -> Option<Arc<Lane>> {
        self.owned().get(&partition).map(|it| Arc::clone(&it.lane))
    }

    /// All that are ours.
    pub(super) fn lanes(&self) -> Vec<Arc<Lane>> {
        self.owned().values().map(|it| Arc::clone(&it.lane)).collect()
    }

    /// How many times partitions were taken over.
    pub(super) fn assignments(&self) -> u64 {
        self.assignments.load(Ordering::Relaxed)
    }

    /// Begins to open a broken partition again, unless that runs already; says whether it began.
    /// `open` gets a flag that tells it to end.
    pub(super) fn begin_opening(
        &self,
        lane: &Arc<Lane>,
        open: impl FnOnce(Arc<AtomicBool>) -> JoinHandle<()>,
    ) -> bool {
        let mut owned = self.owned();
        let Some(it) = owned.get_mut(&lane.partition) else { return false };
        if it.opening.is_some() || !Arc::ptr_eq(&it.lane, lane) {
            return false;
        }
        let ended = Arc::new(AtomicBool::new(false));
        it.opening = Some(Opening { task: open(Arc::clone(&ended)), ended });
        true
    }

    /// A partition was opened again: what comes from now on belongs to a new lane. False where it is
    /// no longer ours.
    pub(super) fn opened(&self, lane: &Arc<Lane>) -> bool {
        let mut owned = self.owned();
        let Some(it) = owned.get_mut(&lane.partition) else { return false };
        let is_ours = Arc::ptr_eq(&it.lane, lane);
        if is_ours {
            *it = Owned { lane: Arc::new(Lane::new(lane.partition)), opening: None };
        }
        is_ours
    }

    /// The partitions of a list are ours now: finds where to read each. One that cannot be opened
    /// is broken from the start, and is opened later.
    fn take_over(&self, partitions: &mut TopicPartitionList) {
        self.assignments.fetch_add(1, Ordering::Relaxed);
        let numbers = numbers(partitions);
        let opened = match self.class {
            Class::Payment => self.runtime.block_on(join_all(
                numbers.iter().map(|partition| self.processor.assigned(*partition)),
            )),
            // Questions are read on from where the group has come to.
            Class::Balance => vec![],
        };
        for (partition, opened) in numbers.iter().zip(opened) {
            let offset = match opened {
                Ok(offset) => offset.map_or(Offset::Beginning, Offset::Offset),
                Err(error) => {
                    tracing::error!(partition, error = %error, "a partition cannot be opened");
                    let lane = Lane::new(*partition);
                    lane.set_broken();
                    self.insert(lane);
                    Offset::End
                }
            };
            if let Err(error) = partitions.set_partition_offset(&self.topic, *partition, offset) {
                tracing::error!(partition, error = %error, "an offset cannot be set");
            }
        }
        for partition in &numbers {
            self.insert(Lane::new(*partition));
        }
        tracing::info!(class = self.class.name(), partitions = ?numbers, "partitions taken over");
        self.observe("assigned");
    }

    /// Unless it is there already: what is broken stays so.
    fn insert(&self, lane: Lane) {
        let partition = lane.partition;
        let owned = Owned { lane: Arc::new(lane), opening: None };
        self.owned().entry(partition).or_insert(owned);
    }

    /// The partitions are no longer ours.
    pub(super) fn give_up(&self, numbers: &[i32]) {
        let gone: Vec<Owned> = {
            let mut owned = self.owned();
            numbers.iter().filter_map(|it| owned.remove(it)).collect()
        };
        if gone.is_empty() {
            return;
        }
        let ending = async {
            // Not while it is being opened: that would come later and keep it.
            for opening in gone.into_iter().filter_map(|it| it.opening) {
                opening.ended.store(true, Ordering::Release);
                drop(opening.task.await);
            }
            if self.class == Class::Payment {
                join_all(numbers.iter().map(|it| self.processor.revoked(*it))).await;
            }
        };
        let ended = async { tokio::time::timeout(REVOKED_WITHIN, ending).await };
        if self.runtime.block_on(ended).is_err() {
            tracing::error!(partitions = ?numbers, "partitions were not given up in time");
        }
        tracing::info!(class = self.class.name(), partitions = ?numbers, "partitions given up");
        self.observe("revoked");
    }

    fn observe(&self, kind: &'static str) {
        let class = self.class.name();
        metrics::counter!("faregate_queue_rebalances_total", "class" => class, "kind" => kind)
            .increment(1);
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        metrics::gauge!("faregate_queue_partitions", "class" => class)
            .set(self.owned().len() as f64);
    }

    fn owned(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, Owned>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn numbers(partitions: &TopicPartitionList) -> Vec<i32> {
    partitions.elements().iter().map(|it| it.partition()).collect()
}

impl ClientContext for Member {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(error = %error, reason, "a Kafka client reports an error");
    }
}

impl ConsumerContext for Member {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        what: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let is_partial = matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
        let done = if what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            // librdkafka keeps a pause until it is undone, also of a partition that left meanwhile. Undone before
            // the partitions are read: later it would drop what was fetched.
            if let Err(error) = consumer.resume(partitions) {
                tracing::error!(error = %error, "the partitions were not resumed");
            }
            self.take_over(partitions);
            if is_partial {
                consumer.incremental_assign(partitions)
            } else {
                consumer.assign(partitions)
            }
        } else {
            self.give_up(&numbers(partitions));
            if is_partial { consumer.incremental_unassign(partitions) } else { consumer.unassign() }
        };
        if let Err(error) = done {
            tracing::error!(error = %error, "the group's assignment was not taken");
        }
    }
}
