//! A front's end of the queue: sends commands and questions to the partitions, and hands the
//! replies, which come in on a partition of its own, for their waiters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::ports::BoxFuture;
use engine::queue::{Message, Queue, Reply, Route};
use engine::{Reason, Unavailable};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::watch;

use crate::client::{STATISTICS_MS, Watched};
use crate::envelope::{Command, CommandBody, ReplyBody, ReplyEnvelope, ReplyTo};
use crate::pending::Pending;
use crate::refused::RefusedRecords;
use crate::sender::{Record, Sender, Undelivered};
use crate::settings::Settings;
use crate::signature::{Content, Role, SignatureError, Signer};
use crate::topics::{Class, TopicError, Topics};

/// How long a front waits for a reply after the command's time to live: by then a processor has
/// said that it expired.
const GRACE: Duration = Duration::from_secs(2);

/// How long the receiving thread waits for replies before it looks around.
const POLL: Duration = Duration::from_millis(100);

/// Between two attempts to find the topics.
const PREPARE_AGAIN: Duration = Duration::from_millis(250);

/// How long the brokers may take to answer a question about a topic.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// How a front is set up.
#[derive(Clone, Debug)]
pub struct FrontOptions {
    /// The topic of its replies.
    pub reply_topic: String,
    /// The partition of its replies, which belongs to it alone. Should another front use it too, each
    /// drops the other's replies.
    pub reply_partition: i32,
    /// Requests that wait for their reply; more are refused.
    pub waiting_max: usize,
    /// How long after Kafka has taken it a command may still be begun.
    pub time_to_live: Duration,
}

impl FrontOptions {
    /// The defaults for the front with this number, from 0: its partition of the reply topic.
    #[must_use]
    pub fn new(topics: &Topics, front_id: i32) -> Self {
        Self {
            reply_topic: topics.reply(),
            reply_partition: front_id,
            waiting_max: 65_536,
            time_to_live: Duration::from_secs(30),
        }
    }
}

/// A front's end of the queue. Dropped, it fails requests that still wait.
pub struct Front {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    settings: Settings,
    options: FrontOptions,
    topics: [String; 2],
    /// Drawn at random: replies to an earlier process with the same partition are distinguished.
    instance: u64,
    pending: Arc<Pending>,
    sender: Sender<Deliveries>,
    signer: Signer,
    /// Partitions of the command topics, once replies can be received.
    prepared: OnceLock<[i32; 2]>,
    connected: watch::Receiver<bool>,
    available: watch::Sender<bool>,
    stopping: AtomicBool,
    metrics: Metrics,
}

struct Metrics {
    asked: [metrics::Counter; 2],
    unanswered: [metrics::Counter; 2],
    seconds: [metrics::Histogram; 2],
    stray: metrics::Counter,
    refused: RefusedRecords,
    waiting: metrics::Gauge,
}

const CLASSES: [Class; 2] = [Class::Payment, Class::Balance];

const fn index(class: Class) -> usize {
    match class {
        Class::Payment => 0,
        Class::Balance => 1,
    }
}

impl Front {
    /// Starts a front. It is available once Kafka is there and has its topics, and again after each
    /// time that Kafka was away.
    ///
    /// # Errors
    /// Where librdkafka does not take the settings.
    ///
    /// # Panics
    /// Where no thread can be started.
    pub fn start(settings: &Settings, options: FrontOptions) -> Result<Self, KafkaError> {
        let pending = Arc::new(Pending::new(options.waiting_max));
        let sender = sender(settings, &options, &pending)?;
        let topics = settings.topics();
        let group = topics.name(&format!("front.{}", options.reply_partition));
        let mut config = settings.consumer(&group);
        config.set("statistics.interval.ms", STATISTICS_MS);
        let consumer: BaseConsumer<Watched> = config.create_with_context(Watched::default())?;
        let shared = Arc::new(Shared {
            topics: CLASSES.map(|class| topics.commands(class)),
            instance: getrandom::u64().map_err(|error| {
                KafkaError::ClientCreation(format!("the system gives no randomness: {error}"))
            })?,
            pending,
            sender,
            signer: settings.signer(Role::Front),
            prepared: OnceLock::new(),
            connected: consumer.context().connected(),
            available: watch::Sender::new(false),
            stopping: AtomicBool::new(false),
            metrics: Metrics::new(),
            settings: settings.clone(),
            options,
        });
        let receiving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("kafka-replies".to_owned())
            .spawn(move || receiving.receive(&consumer))
            .expect("the system gives one more thread");
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Whether it is available, and when that changes.
    #[must_use]
    pub fn availability(&self) -> watch::Receiver<bool> {
        self.shared.available.subscribe()
    }

    /// Partitions of a command topic; `None` until the front has been available.
    #[must_use]
    pub fn partitions(&self, class: Class) -> Option<i32> {
        self.shared.prepared.get().map(|it| it[index(class)])
    }

    /// Sends bytes to a partition and waits until they come back: what a request costs that does
    /// nothing.
    ///
    /// # Errors
    /// As [`Queue::ask`].
    pub async fn echo(
        &self,
        class: Class,
        partition: i32,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, Unavailable> {
        let destination = Destination { class, partition, key: "echo" };
        match self.shared.ask(destination, CommandBody::Echo(bytes)).await? {
            ReplyBody::Echo(bytes) => Ok(bytes),
            ReplyBody::Reply(_) | ReplyBody::Unavailable(..) | ReplyBody::Expired => {
                Err(Reason::QueueAway.into())
            }
        }
    }
}

impl Queue for Front {
    fn ask(&self, route: Route, message: Message) -> BoxFuture<'_, Result<Reply, Unavailable>> {
        Box::pin(async move {
            let class = match &message {
                Message::Request(_) | Message::Inquire(_) | Message::Resend(_) => Class::Payment,
                Message::Balance { .. } => Class::Balance,
            };
            let partitions = self.partitions(class).ok_or(Reason::QueueAway)?;
            let key = route.key();
            // A topic has no more partitions than a database may have: see `topics`.
            let partition = route.partition(u16::try_from(partitions).unwrap_or(u16::MAX));
            let partition = i32::try_from(partition.number()).unwrap_or_default();
            let destination = Destination { class, partition, key: &key };
            match self.shared.ask(destination, CommandBody::Ask(message)).await? {
                ReplyBody::Reply(reply) => Ok(reply),
                ReplyBody::Unavailable(reason, retry_after) => {
                    Err(Unavailable { reason, retry_after })
                }
                // It waited longer than it may, and was dropped: there is too much before it.
                ReplyBody::Expired => Err(Reason::Expired.into()),
                ReplyBody::Echo(_) => Err(Reason::CommitInDoubt.into()),
            }
        })
    }

    fn is_available(&self) -> bool {
        *self.shared.available.borrow()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that receives replies panicked");
        }
    }
}

/// Where a command goes.
struct Destination<'a> {
    class: Class,
    partition: i32,
    key: &'a str,
}

/// Forgets a request when its caller goes away.
struct Waiting<'a> {
    pending: &'a Pending,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.pending.forget(self.number);
    }
}

impl Shared {
    async fn ask(
        &self,
        destination: Destination<'_>,
        body: CommandBody,
    ) -> Result<ReplyBody, Unavailable> {
        if !*self.available.borrow() {
            return Err(Reason::QueueAway.into());
        }
        let Some((number, reply)) = self.pending.begin() else {
            return Err(Reason::QueueFull.into());
        };
        let _waiting = Waiting { pending: &self.pending, number };
        let started = Instant::now();
        let at = index(destination.class);
        self.send(&destination, number, body)?;
        self.metrics.asked[at].increment(1);
        let timeout = self.options.time_to_live + GRACE;
        let reply = tokio::time::timeout(timeout, reply).await;
        let reason = match reply {
            Ok(Ok(Ok(outcome))) => {
                self.metrics.seconds[at].record(started.elapsed().as_secs_f64());
                return Ok(outcome);
            }
            Ok(Ok(Err(reason))) => reason,
            // No reply came in time, or the front ends.
            Err(_) | Ok(Err(_)) => Reason::CommitInDoubt,
        };
        self.metrics.unanswered[at].increment(1);
        // A question changes nothing, so that it is never in doubt.
        let is_question = destination.class == Class::Balance;
        let reason =
            if is_question && reason == Reason::CommitInDoubt { Reason::QueueAway } else { reason };
        Err(reason.into())
    }

    fn send(
        &self,
        destination: &Destination<'_>,
        number: u64,
        body: CommandBody,
    ) -> Result<(), Reason> {
        let reply_to = ReplyTo {
            front: self.instance,
            correlation: number,
            topic: self.options.reply_topic.clone(),
            partition: self.options.reply_partition,
        };
        let time_to_live = self.options.time_to_live;
        let message = Command { reply_to, time_to_live, body }.encode();
        if message.len() > self.settings.message_bytes_max {
            return Err(Reason::MessageTooLarge);
        }
        let topic = &self.topics[index(destination.class)];
        let signature = self.signer.sign(&Content {
            topic,
            partition: destination.partition,
            key: Some(destination.key.as_bytes()),
            headers: &[],
            value: Some(&message),
        });
        let key = Some(destination.key.to_owned());
        let record = Record { key, payload: message, signature, number };
        self.sender.send(topic, destination.partition, record).map_err(|error| not_sent(&error))
    }

    /// The thread that receives.
    fn receive(&self, consumer: &BaseConsumer<Watched>) {
        let mut last_error = String::new();
        while !self.stopping.load(Ordering::Relaxed) && self.prepared.get().is_none() {
            match self.prepare(consumer) {
                Ok(partitions) => drop(self.prepared.set(partitions)),
                Err(error) => {
                    let error = error.to_string();
                    if error != last_error {
                        tracing::warn!(error, "the queue is not available yet");
                        last_error = error;
                    }
                    let until = Instant::now() + PREPARE_AGAIN;
                    while Instant::now() < until {
                        self.poll(consumer, PREPARE_AGAIN);
                    }
                }
            }
        }
        let mut looked_at = Instant::now();
        while !self.stopping.load(Ordering::Relaxed) {
            self.poll(consumer, POLL);
            if looked_at.elapsed() >= POLL {
                self.look_around();
                looked_at = Instant::now();
            }
        }
    }

    /// Finds the topics, and begins to receive replies where they end now.
    fn prepare(&self, consumer: &BaseConsumer<Watched>) -> Result<[i32; 2], TopicError> {
        let mut partitions = [0; 2];
        for (partitions, topic) in partitions.iter_mut().zip(&self.topics) {
            *partitions = partition_count(consumer, topic)?;
        }
        let (topic, partition) = (&self.options.reply_topic, self.options.reply_partition);
        let found = partition_count(consumer, topic)?;
        if !(0..found).contains(&partition) {
            let expected = partition.saturating_add(1);
            return Err(TopicError::WrongPartitions { topic: topic.clone(), found, expected });
        }
        let (_, end) = consumer.fetch_watermarks(topic, partition, QUESTION_TIMEOUT)?;
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(topic, partition, Offset::Offset(end))?;
        consumer.assign(&assignment)?;
        Ok(partitions)
    }

    fn poll(&self, consumer: &BaseConsumer<Watched>, timeout: Duration) {
        match consumer.poll(timeout) {
            None => {}
            Some(Ok(record)) => self.hand_over(&record),
            Some(Err(error)) => {
                consumer.context().failed(&error);
                tracing::debug!(error = %error, "replies cannot be read at the moment");
            }
        }
        let available = self.prepared.get().is_some() && *self.connected.borrow();
        self.available.send_if_modified(|before| std::mem::replace(before, available) != available);
    }

    fn hand_over(&self, record: &BorrowedMessage<'_>) {
        match self.signer.verify(record) {
            Ok(None) => {}
            Ok(Some(signed)) if signed.role == Role::Processor => {}
            Ok(Some(_)) => return self.metrics.refused.count(SignatureError::WrongRole),
            Err(error) => return self.metrics.refused.count(error),
        }
        let found = match ReplyEnvelope::decode(record.payload().unwrap_or_default()) {
            Ok(it) if it.front == self.instance => {
                self.pending.complete(it.correlation, Ok(it.outcome))
            }
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(error = %error, "a reply cannot be read");
                false
            }
        };
        if !found {
            self.metrics.stray.increment(1);
        }
    }

    fn look_around(&self) {
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        self.metrics.waiting.set(self.pending.waiting() as f64);
    }
}

/// How many partitions a topic has.
pub(crate) fn partition_count<C: rdkafka::consumer::ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
) -> Result<i32, TopicError> {
    let metadata = consumer.fetch_metadata(Some(topic), QUESTION_TIMEOUT)?;
    let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
    if partitions == 0 {
        return Err(TopicError::Missing(topic.to_owned()));
    }
    Ok(i32::try_from(partitions).unwrap_or(i32::MAX))
}

fn sender(
    settings: &Settings,
    options: &FrontOptions,
    pending: &Arc<Pending>,
) -> Result<Sender<Deliveries>, KafkaError> {
    let mut config = settings.sure_producer();
    config.set("queue.buffering.max.messages", (options.waiting_max * 2).max(1000).to_string());
    let undelivered = metrics::counter!("faregate_queue_undelivered_total");
    let deliveries = Deliveries { pending: Arc::clone(pending), undelivered };
    Sender::start(config, settings.linger, Arc::new(deliveries))
}

/// Fails requests whose commands could not be delivered.
struct Deliveries {
    pending: Arc<Pending>,
    undelivered: metrics::Counter,
}

impl Undelivered for Deliveries {
    /// A request whose caller has gone away before it was sent is dropped.
    fn is_waited_for(&self, number: u64) -> bool {
        self.pending.is_waiting(number)
    }

    fn give_up(&self, number: u64, error: &KafkaError) {
        self.undelivered.increment(1);
        self.pending.complete(number, Err(undelivered(error)));
    }
}

/// The caller's reason for a record that librdkafka did not take for sending.
fn not_sent(error: &KafkaError) -> Reason {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::QueueFull) => Reason::QueueFull,
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => Reason::MessageTooLarge,
        _ => Reason::QueueAway,
    }
}

/// The caller's reason for a failed delivery. A record whose delivery timed out may lie in Kafka all the same.
fn undelivered(error: &KafkaError) -> Reason {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => Reason::MessageTooLarge,
        Some(RDKafkaErrorCode::QueueFull) => Reason::QueueFull,
        Some(
            RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::PolicyViolation
            | RDKafkaErrorCode::PurgeQueue
            | RDKafkaErrorCode::NotEnoughReplicas,
        ) => Reason::QueueAway,
        _ => Reason::CommitInDoubt,
    }
}

impl Metrics {
    fn new() -> Self {
        let name = Class::name;
        Self {
            asked: CLASSES
                .map(|it| metrics::counter!("faregate_queue_asked_total", "class" => name(it))),
            unanswered: CLASSES.map(
                |it| metrics::counter!("faregate_queue_unanswered_total", "class" => name(it)),
            ),
            seconds: CLASSES.map(
                |it| metrics::histogram!("faregate_queue_round_trip_seconds", "class" => name(it)),
            ),
            stray: metrics::counter!("faregate_queue_stray_replies_total"),
            refused: RefusedRecords::new("reply"),
            waiting: metrics::gauge!("faregate_queue_waiting"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_that_kafka_surely_lacks_are_undone() {
        let reason = |code| undelivered(&KafkaError::MessageProduction(code));
        assert_eq!(reason(RDKafkaErrorCode::MessageTimedOut), Reason::CommitInDoubt);
        assert_eq!(reason(RDKafkaErrorCode::PurgeInflight), Reason::CommitInDoubt);
        assert_eq!(reason(RDKafkaErrorCode::NotEnoughReplicasAfterAppend), Reason::CommitInDoubt);
        assert_eq!(reason(RDKafkaErrorCode::UnknownTopic), Reason::QueueAway);
        assert_eq!(reason(RDKafkaErrorCode::MessageSizeTooLarge), Reason::MessageTooLarge);
    }
}
