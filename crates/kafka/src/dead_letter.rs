//! Dead-letter records: records that could not be processed, kept until an operator has decided
//! about each.
//!
//! The topic is compacted and has one partition. A dead letter's key names the original record, so
//! that one written twice is one; retrying or dropping it leaves a record without a value under the
//! key, which is how the topic itself remembers what was decided.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset, TopicPartitionList};

use crate::client::Logged;
use crate::confirmed::Confirmed;
use crate::settings::Settings;
use crate::signature::{Content, HeaderPart, Role, SignatureError, Signer, headers_of};
use crate::topics::Topics;

/// Dead letters listed at once, at most.
pub const DEAD_LETTERS_MAX: usize = 10_000;

/// The header that counts how often a record was tried.
pub(crate) const ATTEMPTS: &str = "faregate-attempts";

const TOPIC: &str = "faregate-topic";
const PARTITION: &str = "faregate-partition";
const OFFSET: &str = "faregate-offset";
const REASON: &str = "faregate-reason";

const KEY: &str = "faregate-key";

/// The longest stored value of a record that no member of the cluster has signed, in bytes; the rest is cut off.
const UNSIGNED_VALUE_MAX: usize = 4 * 1024;
const UNSIGNED_KEY_MAX: usize = 256;

/// How long the brokers may take for one step.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The topic has one partition.
const ONLY: i32 = 0;

/// A record that could not be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The topic in which it lay.
    pub topic: String,
    /// Its partition there.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// Why it is here: `garbage`, `unknown_version`, `bug`, `quarantined`, or a [`SignatureError`].
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Its key, where it had one.
    pub key: Option<Vec<u8>>,
    /// Its value; of a record that was not believed, the beginning.
    pub value: Vec<u8>,
}

/// Names a dead letter: its position in the dead-letter topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeadLetterId {
    pub partition: i32,
    pub offset: i64,
}

impl std::fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.partition, self.offset)
    }
}

impl std::str::FromStr for DeadLetterId {
    type Err = DeadLetterError;
    fn from_str(text: &str) -> Result<Self, DeadLetterError> {
        let parsed = text.split_once('@').and_then(|(partition, offset)| {
            Some(Self { partition: partition.parse().ok()?, offset: offset.parse().ok()? })
        });
        parsed.ok_or_else(|| DeadLetterError::NoId(text.to_owned()))
    }
}

/// A dead letter in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub id: DeadLetterId,
    /// When it was written, in milliseconds since 1970 by the broker's clock; 0 where that is unknown.
    pub at_ms: i64,
    pub dead_letter: DeadLetter,
}

/// The contents of the dead-letter topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The dead letters that wait for a decision, oldest first.
    pub waiting: Vec<Listed>,
    /// Records whose signature does not hold: they are none, and nothing is done with them.
    pub refused: usize,
}

/// Why a dead letter was not retried or discarded.
#[derive(Debug, thiserror::Error)]
pub enum DeadLetterError {
    /// It is not the name of a dead letter.
    #[error("{0} is not PARTITION@OFFSET")]
    NoId(String),
    /// It is not there, or was dealt with.
    #[error("there is no dead letter {0}, or it was retried or dropped")]
    NotFound(DeadLetterId),
    /// Sending it again would sign what no member of the cluster had signed.
    #[error("dead letter {id} is not sent again: {error}")]
    NotBelieved { id: DeadLetterId, error: SignatureError },
    /// More wait than are looked at.
    #[error("more than {DEAD_LETTERS_MAX} dead letters wait: retry or drop some of them first")]
    TooMany,
    /// The brokers failed.
    #[error("kafka: {0}")]
    Kafka(#[from] KafkaError),
}

impl DeadLetter {
    /// A record as it was found.
    pub(crate) fn of(record: &BorrowedMessage<'_>, reason: &str) -> Self {
        Self {
            topic: record.topic().to_owned(),
            partition: record.partition(),
            offset: record.offset(),
            reason: reason.to_owned(),
            attempts: attempts_before(record).saturating_add(1),
            key: record.key().map(<[u8]>::to_vec),
            value: record.payload().unwrap_or_default().to_vec(),
        }
    }

    /// A record that was refused: its beginning, for the operator who looks for its producer.
    pub(crate) fn refused(record: &BorrowedMessage<'_>, error: SignatureError) -> Self {
        let cut = |bytes: &[u8], max: usize| bytes[..bytes.len().min(max)].to_vec();
        Self {
            topic: record.topic().to_owned(),
            partition: record.partition(),
            offset: record.offset(),
            reason: error.label().to_owned(),
            attempts: 1,
            key: record.key().map(|key| cut(key, UNSIGNED_KEY_MAX)),
            value: cut(record.payload().unwrap_or_default(), UNSIGNED_VALUE_MAX),
        }
    }

    /// Why it was not believed, if that is why it is here.
    fn not_believed(&self) -> Option<SignatureError> {
        SignatureError::ALL.into_iter().find(|error| error.label() == self.reason)
    }

    fn name(&self) -> String {
        format!("{}-{}-{}", self.topic, self.partition, self.offset)
    }

    /// Writes it to the dead-letter topic; returns once it is durable.
    pub(crate) async fn write(
        &self,
        producer: &Confirmed,
        topics: &Topics,
        signer: &Signer,
    ) -> Result<(), KafkaError> {
        let numbers =
            [self.partition.to_string(), self.offset.to_string(), self.attempts.to_string()];
        let mut headers = vec![
            (TOPIC, self.topic.as_bytes()),
            (PARTITION, numbers[0].as_bytes()),
            (OFFSET, numbers[1].as_bytes()),
            (REASON, self.reason.as_bytes()),
            (ATTEMPTS, numbers[2].as_bytes()),
        ];
        headers.extend(self.key.as_deref().map(|key| (KEY, key)));
        let (topic, name) = (topics.dead_letter(), self.name());
        let record = signer.record(&Content {
            topic: &topic,
            partition: ONLY,
            key: Some(name.as_bytes()),
            headers: &headers,
            value: Some(&self.value),
        });
        producer.send(record).await.map(drop)
    }

    /// A record of the dead-letter topic; `None` where it is not one of ours.
    fn found(record: &BorrowedMessage<'_>) -> Option<Self> {
        let headers = headers_of(record.headers())?;
        let text = |name| find(&headers, name).and_then(|it| std::str::from_utf8(it).ok());
        Some(Self {
            topic: text(TOPIC)?.to_owned(),
            partition: text(PARTITION)?.parse().ok()?,
            offset: text(OFFSET)?.parse().ok()?,
            reason: text(REASON)?.to_owned(),
            attempts: text(ATTEMPTS)?.parse().ok()?,
            key: find(&headers, KEY).map(<[u8]>::to_vec),
            value: record.payload()?.to_vec(),
        })
    }
}

/// How often a record was tried before it came here.
fn attempts_before(record: &BorrowedMessage<'_>) -> u32 {
    let headers = headers_of(record.headers()).unwrap_or_default();
    let text = find(&headers, ATTEMPTS).and_then(|it| std::str::from_utf8(it).ok());
    text.and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn find<'a>(headers: &[HeaderPart<'a>], name: &str) -> Option<&'a [u8]> {
    headers.iter().find(|(it, _)| *it == name).map(|(_, value)| *value)
}

/// The dead letters that wait for a decision.
///
/// # Errors
/// [`DeadLetterError`].
pub async fn list(settings: &Settings) -> Result<Listing, DeadLetterError> {
    let settings = settings.clone();
    let reading = tokio::task::spawn_blocking(move || read(&settings));
    let mut listing = reading.await.expect("reading does not panic")?;
    listing.waiting.sort_by_key(|it| it.id);
    Ok(listing)
}

/// Sends a dead letter back to the partition that it came from, at its end, and forgets it here. It is
/// tried as a new command: it is signed again, and its time to live begins again.
///
/// # Errors
/// [`DeadLetterError`]; where the brokers failed, it may be there and here.
pub async fn retry(settings: &Settings, id: DeadLetterId) -> Result<DeadLetter, DeadLetterError> {
    let dead_letter = listed(settings, id).await?;
    if let Some(error) = dead_letter.not_believed() {
        return Err(DeadLetterError::NotBelieved { id, error });
    }
    let producer = Confirmed::new(&settings.sure_producer())?;
    let attempts = dead_letter.attempts.to_string();
    let headers = [(ATTEMPTS, attempts.as_bytes())];
    let record = settings.signer(Role::Operator).record(&Content {
        topic: &dead_letter.topic,
        partition: dead_letter.partition,
        key: dead_letter.key.as_deref(),
        headers: &headers,
        value: Some(&dead_letter.value),
    });
    producer.send(record).await?;
    forget(settings, &producer, &dead_letter).await?;
    Ok(dead_letter)
}

/// Discards a dead letter.
///
/// # Errors
/// [`DeadLetterError`].
pub async fn discard(settings: &Settings, id: DeadLetterId) -> Result<DeadLetter, DeadLetterError> {
    let dead_letter = listed(settings, id).await?;
    let producer = Confirmed::new(&settings.sure_producer())?;
    forget(settings, &producer, &dead_letter).await?;
    Ok(dead_letter)
}

async fn listed(settings: &Settings, id: DeadLetterId) -> Result<DeadLetter, DeadLetterError> {
    let found = list(settings).await?.waiting.into_iter().find(|it| it.id == id);
    Ok(found.ok_or(DeadLetterError::NotFound(id))?.dead_letter)
}

async fn forget(
    settings: &Settings,
    producer: &Confirmed,
    dead_letter: &DeadLetter,
) -> Result<(), DeadLetterError> {
    let (topic, name) = (settings.topics().dead_letter(), dead_letter.name());
    let record = settings.signer(Role::Operator).record(&Content {
        topic: &topic,
        partition: ONLY,
        key: Some(name.as_bytes()),
        headers: &[],
        value: None,
    });
    producer.send(record).await?;
    Ok(())
}

/// Reads the topic from its beginning to where it ends now. Processors write dead letters, operators
/// remove them.
fn read(settings: &Settings) -> Result<Listing, DeadLetterError> {
    let signer = settings.signer(Role::Operator);
    let mut refused = 0;
    let topics = settings.topics();
    let topic = topics.dead_letter();
    let mut config = settings.consumer(&topics.name("dlq"));
    config.set("enable.partition.eof", "true");
    let consumer: BaseConsumer<Logged> = config.create_with_context(Logged)?;
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(&topic, ONLY, Offset::Beginning)?;
    consumer.assign(&assignment)?;
    let mut dead_letters = BTreeMap::new();
    loop {
        let record = match consumer.poll(TIMEOUT) {
            Some(Ok(record)) => record,
            Some(Err(KafkaError::PartitionEOF(_))) => {
                return Ok(Listing { waiting: dead_letters.into_values().collect(), refused });
            }
            Some(Err(error)) => return Err(error.into()),
            None => {
                let code = rdkafka::error::RDKafkaErrorCode::OperationTimedOut;
                return Err(KafkaError::MessageConsumption(code).into());
            }
        };
        let may_say = match signer.verify(&record) {
            Ok(signed) => signed.is_none_or(|it| it.role != Role::Front),
            Err(_) => false,
        };
        if !may_say {
            refused += 1;
            continue;
        }
        let Some(key) = record.key().map(<[u8]>::to_vec) else { continue };
        match DeadLetter::found(&record) {
            Some(dead_letter) => {
                let id = DeadLetterId { partition: record.partition(), offset: record.offset() };
                let at_ms = record.timestamp().to_millis().unwrap_or(0);
                dead_letters.insert(key, Listed { id, at_ms, dead_letter });
            }
            None if record.payload().is_none() => drop(dead_letters.remove(&key)),
            None => {}
        }
        if dead_letters.len() > DEAD_LETTERS_MAX {
            return Err(DeadLetterError::TooMany);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_is_named_by_its_position() {
        let id: DeadLetterId = "0@42".parse().unwrap();
        assert_eq!(id, DeadLetterId { partition: 0, offset: 42 });
        assert_eq!(id.to_string(), "0@42");
        for text in ["", "42", "@", "a@1", "1@b"] {
            let error = text.parse::<DeadLetterId>().unwrap_err();
            assert_eq!(error.to_string(), format!("{text} is not PARTITION@OFFSET"));
        }
    }
}
