//! Writes a processor's records: replies, dead-letter records, and records that ask for the broker's
//! time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::periodic::Backoff;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::message::Timestamp;

use crate::client::Logged;
use crate::confirmed::Confirmed;
use crate::dead_letter::DeadLetter;
use crate::envelope::{Command, CommandBody, ReplyBody, ReplyEnvelope, ReplyTo};
use crate::front::partition_count;
use crate::sender::{Record, Sender, Undelivered};
use crate::settings::Settings;
use crate::signature::{Content, Role, Signer};
use crate::topics::{TopicError, Topics};

/// How long a topic that was not there is not asked about again.
const MISSING_FOR: Duration = Duration::from_secs(10);

/// Reply topics remembered; with more, all are forgotten and asked about again.
const TOPICS_MAX: usize = 256;

/// Replies waiting to be sent, at most.
const REPLIES_MAX: &str = "500000";

/// Between two attempts to write a dead-letter record, at first and at most.
const WRITE_AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));

/// Writes a processor's records.
pub(crate) struct Outlet {
    topics: Topics,
    replies: Sender<Replies>,
    sure: Confirmed,
    signer: Signer,
    /// Asks which topics there are, without making any: a producer might.
    metadata_client: BaseConsumer<Logged>,
    known: Mutex<HashMap<String, Known>>,
}

/// A reply topic: its partitions, none where it is missing, and when that was found out.
#[derive(Clone, Copy)]
struct Known {
    partitions: i32,
    at: Instant,
}

impl Outlet {
    pub(crate) fn new(settings: &Settings) -> Result<Self, KafkaError> {
        // Replies too wait for all in-sync replicas: with the leader alone, the first ones after the
        // brokers had started were lost, and each of them was a command in doubt.
        let mut replies = settings.sure_producer();
        replies.set("queue.buffering.max.messages", REPLIES_MAX);
        let mut sure = settings.sure_producer();
        sure.set("linger.ms", "0");
        Ok(Self {
            topics: settings.topics(),
            replies: Sender::start(replies, settings.linger, Arc::new(Replies))?,
            sure: Confirmed::new(&sure)?,
            signer: settings.signer(Role::Processor),
            metadata_client: settings.client().create_with_context(Logged)?,
            known: Mutex::default(),
        })
    }

    /// Sends a reply. One that cannot be sent is counted and forgotten: its front will find that it
    /// got none.
    pub(crate) fn reply(self: &Arc<Self>, to: &ReplyTo, outcome: ReplyBody) {
        if !self.topics.is_reply(&to.topic) {
            return lost("not_a_reply_topic", to);
        }
        let answered = ReplyEnvelope { front: to.front, correlation: to.correlation, outcome };
        let known = self.known().get(&to.topic).copied();
        match known {
            Some(known) if known.partitions > 0 || known.at.elapsed() < MISSING_FOR => {
                self.send(to, &answered, known.partitions);
            }
            Some(_) | None => {
                let (outlet, to) = (Arc::clone(self), to.clone());
                tokio::task::spawn_blocking(move || {
                    let partitions = outlet.ask(&to.topic);
                    outlet.send(&to, &answered, partitions);
                });
            }
        }
    }

    /// Writes a dead-letter record, however long that takes, while it is wanted; says whether it is written.
    pub(crate) async fn write_dead_letter(
        &self,
        dead_letter: &DeadLetter,
        is_wanted: impl Fn() -> bool,
    ) -> bool {
        let reason = dead_letter.reason.clone();
        let mut backoff = Backoff::new(WRITE_AGAIN.0, WRITE_AGAIN.1);
        while let Err(error) = dead_letter.write(&self.sure, &self.topics, &self.signer).await {
            tracing::error!(error = %error, "failed to write a dead-letter record; retried");
            tokio::time::sleep(backoff.pause()).await;
            if !is_wanted() {
                return false;
            }
        }
        metrics::counter!("faregate_queue_dead_letters_total", "reason" => reason).increment(1);
        tracing::error!(
            topic = dead_letter.topic,
            partition = dead_letter.partition,
            offset = dead_letter.offset,
            reason = dead_letter.reason,
            "a record was put into the dead-letter topic"
        );
        true
    }

    /// The time of the broker that leads a partition, in milliseconds; `None` where it does not say.
    pub(crate) async fn time(&self, topic: &str, partition: i32) -> Option<i64> {
        let reply_to = ReplyTo { front: 0, correlation: 0, topic: String::new(), partition: 0 };
        let time_to_live = Duration::ZERO;
        let message = Command { reply_to, time_to_live, body: CommandBody::Clock }.encode();
        let value = Some(message.as_slice());
        let content = Content { topic, partition, key: None, headers: &[], value };
        match self.sure.send(self.signer.record(&content)).await.ok()? {
            Timestamp::LogAppendTime(at) => Some(at),
            Timestamp::CreateTime(_) | Timestamp::NotAvailable => None,
        }
    }

    /// Waits until what was written is delivered, for so long.
    pub(crate) fn flush(&self, timeout: Duration) {
        if let Err(error) = self.replies.flush(timeout) {
            tracing::warn!(error = %error, "not all replies were sent before the end");
        }
    }

    /// How many partitions a reply topic has; none where it is missing.
    fn ask(&self, topic: &str) -> i32 {
        let partitions = match partition_count(&self.metadata_client, topic) {
            Ok(partitions) => partitions,
            Err(TopicError::Missing(_)) => 0,
            // Not known now: sent as to the others, and delivered or not.
            Err(_) => return i32::MAX,
        };
        let mut known = self.known();
        if known.len() >= TOPICS_MAX {
            known.clear();
        }
        known.insert(topic.to_owned(), Known { partitions, at: Instant::now() });
        partitions
    }

    fn send(&self, to: &ReplyTo, answered: &ReplyEnvelope, partitions: i32) {
        if !(0..partitions).contains(&to.partition) {
            return lost("no_such_partition", to);
        }
        let payload = answered.encode();
        let signature = self.signer.sign(&Content {
            topic: &to.topic,
            partition: to.partition,
            key: None,
            headers: &[],
            value: Some(&payload),
        });
        let record = Record { key: None, payload, signature, number: 0 };
        if let Err(error) = self.replies.send(&to.topic, to.partition, record) {
            tracing::warn!(error = %error, topic = to.topic, "a reply was not sent");
            count_lost("not_sent");
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost(reason: &'static str, to: &ReplyTo) {
    tracing::warn!(
        topic = to.topic,
        partition = to.partition,
        reason,
        "failed to address a reply; it is dropped, and the client retries"
    );
    count_lost(reason);
}

fn count_lost(reason: &'static str) {
    metrics::counter!("faregate_queue_replies_lost_total", "reason" => reason).increment(1);
}

/// Counts replies that could not be delivered.
struct Replies;

impl Undelivered for Replies {
    fn is_waited_for(&self, _: u64) -> bool {
        true
    }

    fn give_up(&self, _: u64, error: &KafkaError) {
        tracing::warn!(error = %error, "a reply was not delivered");
        count_lost("not_delivered");
    }
}
