//! Sends records to partitions: each at once while there is little to send, many together when there
//! is much.
//!
//! A broker's cost is per request, and librdkafka makes one for each partition that has records. So
//! a record that comes soon after another to its partition, or before that has arrived, waits for those
//! behind it, and they travel as one batch. librdkafka's own lingering makes every record wait, and its
//! threads spin while a record waits for an earlier one to arrive.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{
    BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext, PurgeConfig,
};

use crate::client::log;
use crate::signature::{SIGNATURE, Signature};

/// How often it is looked for what arrived, while something waits for that.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How often it is looked for what arrived otherwise, and for a producer that is broken.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// How long librdkafka waits for the rest of a batch, which it is given record by record: what came
/// later would have to wait until the first part has arrived.
const BATCH_WITHIN_MS: &str = "0.5";

/// After a batch of so many records the next one gathers for twice as long, after twice as many for three
/// times, and so on: the more records there are, the more of them share the cost of a request.
const RECORDS_PER_GATHERING: usize = 8;

/// The most times of [`Shared::gathering`] that a batch gathers.
const GATHERINGS_MAX: usize = 8;

/// A record without its place.
pub(crate) struct Record {
    pub(crate) key: Option<String>,
    pub(crate) payload: Vec<u8>,
    /// The signature for the place that it is sent to; `None` where the cluster has no key.
    pub(crate) signature: Option<Signature>,
    /// The record's number in calls of [`Undelivered`].
    pub(crate) number: u64,
}

/// Is called with records that were not delivered.
pub(crate) trait Undelivered: Send + Sync + 'static {
    /// Whether a caller still waits for the reply to this record.
    fn is_waited_for(&self, number: u64) -> bool;

    /// The record with this number was given up. It may lie in Kafka all the same, where the error
    /// does not say otherwise.
    fn give_up(&self, number: u64, error: &KafkaError);
}

/// Sends records. Dropped, it gives up what waits.
pub(crate) struct Sender<U: Undelivered> {
    shared: Arc<Shared<U>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<U: Undelivered> {
    config: ClientConfig,
    gathering: Duration,
    undelivered: Arc<U>,
    producer: Mutex<Arc<BaseProducer<Reports<U>>>>,
    lanes: Arc<Mutex<Lanes>>,
    changed: Condvar,
}

#[derive(Default)]
struct Lanes {
    topics: HashMap<String, HashMap<i32, Lane>>,
    /// Whether records wait in a lane.
    is_waiting: bool,
    is_stopping: bool,
}

/// The records to one partition, in order.
#[derive(Default)]
struct Lane {
    /// Until when what comes is gathered.
    gathers_until: Option<Instant>,
    /// Records that were sent and have not arrived.
    in_flight: usize,
    waiting: Vec<Record>,
}

impl Lane {
    /// A batch of so many records leaves now.
    fn send(&mut self, records: usize, now: Instant, gathering: Duration) {
        let times = (1 + records / RECORDS_PER_GATHERING).min(GATHERINGS_MAX);
        let times = u32::try_from(times).expect("a few");
        self.gathers_until = Some(now + gathering * times);
        self.in_flight = records;
    }

    fn is_free(&self, now: Instant) -> bool {
        self.in_flight == 0 && self.gathers_until.is_none_or(|until| until <= now)
    }
}

impl Lanes {
    fn lane(&mut self, topic: &str, partition: i32) -> &mut Lane {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), HashMap::new());
        }
        let lanes = self.topics.get_mut(topic).expect("it was just made");
        lanes.entry(partition).or_default()
    }

    /// Whether nothing waits and everything has arrived.
    fn is_idle(&self) -> bool {
        let mut lanes = self.topics.values().flat_map(HashMap::values);
        lanes.all(|lane| lane.waiting.is_empty() && lane.in_flight == 0)
    }

    /// A record has arrived, or was given up.
    fn arrived(&mut self, topic: &str, partition: i32) {
        let lane = self.lane(topic, partition);
        lane.in_flight = lane.in_flight.saturating_sub(1);
    }
}

impl<U: Undelivered> Sender<U> {
    /// One that sends at most one batch to a partition in each `gathering`.
    ///
    /// # Errors
    /// Where librdkafka does not take the settings.
    ///
    /// # Panics
    /// Where no thread can be started.
    pub(crate) fn start(
        mut config: ClientConfig,
        gathering: Duration,
        undelivered: Arc<U>,
    ) -> Result<Self, KafkaError> {
        config.set("linger.ms", BATCH_WITHIN_MS);
        let lanes = Arc::default();
        let shared = Shared {
            producer: Mutex::new(Arc::new(producer(&config, &undelivered, &lanes)?)),
            config,
            gathering,
            undelivered,
            lanes,
            changed: Condvar::new(),
        };
        let shared = Arc::new(shared);
        let sending = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("kafka-sender".to_owned())
            .spawn(move || sending.run())
            .expect("the system gives one more thread");
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Sends a record to a partition, after those that were given before.
    ///
    /// # Errors
    /// It is not sent. The failure of a record that waits first goes to [`Undelivered::give_up`].
    pub(crate) fn send(
        &self,
        topic: &str,
        partition: i32,
        record: Record,
    ) -> Result<(), KafkaError> {
        let now = Instant::now();
        let mut lanes = self.shared.lanes();
        let lane = lanes.lane(topic, partition);
        if lane.waiting.is_empty() && lane.is_free(now) {
            lane.send(1, now, self.shared.gathering);
            let sent = produce(&self.shared.producer(), topic, partition, &record);
            if sent.is_err() {
                lane.in_flight = 0;
            }
            return sent;
        }
        lane.waiting.push(record);
        if !std::mem::replace(&mut lanes.is_waiting, true) {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// Waits until what was given is delivered, for so long.
    ///
    /// # Errors
    /// Some of it may not be.
    pub(crate) fn flush(&self, timeout: Duration) -> Result<(), KafkaError> {
        let until = Instant::now() + timeout;
        // The sending thread polls for what arrives.
        while !self.shared.lanes().is_idle() {
            if Instant::now() >= until {
                return Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl<U: Undelivered> Drop for Sender<U> {
    fn drop(&mut self) {
        self.shared.lanes().is_stopping = true;
        self.shared.changed.notify_one();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that sends to Kafka panicked");
        }
    }
}

impl<U: Undelivered> Shared<U> {
    fn run(&self) {
        let mut looked_around = Instant::now();
        loop {
            {
                let lanes = self.lanes();
                if lanes.is_stopping {
                    return;
                }
                let wait = if lanes.is_waiting { LOOK_EVERY } else { LOOK_AROUND };
                let woken = self.changed.wait_timeout(lanes, wait);
                drop(woken.unwrap_or_else(PoisonError::into_inner));
            }
            self.producer().poll(Duration::ZERO);
            self.send_waiting();
            if looked_around.elapsed() >= LOOK_AROUND {
                self.look_around();
                looked_around = Instant::now();
            }
        }
    }

    /// Sends what need not wait any more.
    fn send_waiting(&self) {
        let now = Instant::now();
        let mut batches = vec![];
        {
            let mut lanes = self.lanes();
            if !lanes.is_waiting {
                return;
            }
            let mut is_waiting = false;
            for (topic, topic_lanes) in &mut lanes.topics {
                for (partition, lane) in topic_lanes {
                    if lane.waiting.is_empty() {
                        continue;
                    }
                    if !lane.is_free(now) {
                        is_waiting = true;
                        continue;
                    }
                    let records = std::mem::take(&mut lane.waiting);
                    lane.send(records.len(), now, self.gathering);
                    batches.push((topic.clone(), *partition, records));
                }
            }
            lanes.is_waiting = is_waiting;
        }
        for (topic, partition, records) in batches {
            let producer = self.producer();
            for record in records {
                let sent = if self.undelivered.is_waited_for(record.number) {
                    produce(&producer, &topic, partition, &record)
                } else {
                    Err(KafkaError::Canceled)
                };
                if let Err(error) = sent {
                    self.lanes().arrived(&topic, partition);
                    self.undelivered.give_up(record.number, &error);
                }
            }
        }
    }

    /// Forgets lanes that nothing was sent to for a while. A producer that lost count of what it sent
    /// never sends again: it is replaced.
    fn look_around(&self) {
        let now = Instant::now();
        self.lanes().topics.retain(|_, lanes| {
            lanes.retain(|_, lane| !lane.waiting.is_empty() || !lane.is_free(now));
            !lanes.is_empty()
        });
        let current = self.producer();
        let Some((code, reason)) = current.client().fatal_error() else { return };
        tracing::error!(error = %code, reason, "a producer is replaced");
        match producer(&self.config, &self.undelivered, &self.lanes) {
            Ok(new) => {
                *self.producer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                // What the old one did not deliver is given up, and reported.
                current.purge(PurgeConfig::default().queue().inflight());
                if let Err(error) = current.flush(LOOK_AROUND) {
                    tracing::error!(error = %error, "records were forgotten with their producer");
                }
                for lane in self.lanes().topics.values_mut().flat_map(HashMap::values_mut) {
                    lane.in_flight = 0;
                }
            }
            Err(error) => tracing::error!(error = %error, "no producer can be made"),
        }
    }

    fn producer(&self) -> Arc<BaseProducer<Reports<U>>> {
        Arc::clone(&self.producer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn producer<U: Undelivered>(
    config: &ClientConfig,
    undelivered: &Arc<U>,
    lanes: &Arc<Mutex<Lanes>>,
) -> Result<BaseProducer<Reports<U>>, KafkaError> {
    let (undelivered, lanes) = (Arc::clone(undelivered), Arc::clone(lanes));
    config.create_with_context(Reports { undelivered, lanes })
}

fn produce<U: Undelivered>(
    producer: &BaseProducer<Reports<U>>,
    topic: &str,
    partition: i32,
    record: &Record,
) -> Result<(), KafkaError> {
    let number = usize::try_from(record.number).expect("a number fits a pointer");
    let mut sent = BaseRecord::<str, [u8], usize>::with_opaque_to(topic, number)
        .partition(partition)
        .payload(&record.payload);
    if let Some(key) = &record.key {
        sent = sent.key(key);
    }
    if let Some(signature) = &record.signature {
        let header = Header { key: SIGNATURE, value: Some(signature.as_slice()) };
        sent = sent.headers(OwnedHeaders::new_with_capacity(1).insert(header));
    }
    producer.send(sent).map_err(|(error, _)| error)
}

/// Receives the reports of librdkafka.
struct Reports<U> {
    undelivered: Arc<U>,
    lanes: Arc<Mutex<Lanes>>,
}

impl<U: Undelivered> ClientContext for Reports<U> {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(error = %error, reason, "a Kafka client reports an error");
    }
}

impl<U: Undelivered> ProducerContext for Reports<U> {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let record = match result {
            Ok(record) => record,
            Err((error, record)) => {
                let number = u64::try_from(number).expect("usize has 64 bits or fewer");
                self.undelivered.give_up(number, error);
                record
            }
        };
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.arrived(record.topic(), record.partition());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_gathers_longer_after_more_records() {
        let (now, gathering) = (Instant::now(), Duration::from_millis(20));
        for (records, expected_ms) in [(1, 20), (7, 20), (8, 40), (16, 60), (63, 160), (9_000, 160)]
        {
            let mut lane = Lane::default();
            lane.send(records, now, gathering);
            let until = now + Duration::from_millis(expected_ms);
            assert_eq!((lane.in_flight, lane.gathers_until), (records, Some(until)));
            lane.in_flight = 0;
            assert!(lane.is_free(until) && !lane.is_free(until - Duration::from_millis(1)));
        }
    }
}
