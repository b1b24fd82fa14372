//! The topics: their names, how they are made, and whether those that exist will do. No client
//! makes one by accident; `faregate topics create` makes them.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::client::Logged;
use crate::settings::Settings;

/// How long the brokers may take to answer a question about topics.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often brokers are asked about a topic of which one of them said that it exists.
const ASKED_MAX: u32 = 50;
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// How long events are kept unless an operator decides otherwise, and commands, which a processor
/// that was away still has to read.
const WEEK_MS: &str = "604800000";
/// How long a segment is written to: what is expired, or was replaced, goes with a segment that has ended.
/// Commands and dead-letter records may say something of a person, which must not stay for long.
const DAY_MS: &str = "86400000";
/// How long questions for balances are kept: the answer is of no use later.
const HOUR_MS: &str = "3600000";
/// How long replies are kept: they are read at once or never.
const REPLIES_MS: &str = "600000";

/// The kind of a command topic's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Commands: each partition has one owner.
    Payment,
    /// Questions for balances: any processor answers.
    Balance,
}

impl Class {
    /// Its name in topics, groups and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Balance => "balance",
        }
    }
}

/// The topics of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    prefix: String,
}

impl Topics {
    /// Those that begin with `prefix` and a dot.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Commands of a class; also the name of the group that reads them.
    #[must_use]
    pub fn commands(&self, class: Class) -> String {
        self.name(class.name())
    }

    /// Replies: one partition per front.
    #[must_use]
    pub fn reply(&self) -> String {
        self.name("reply")
    }

    /// Whether replies may go there. A command cannot make us write anywhere else.
    #[must_use]
    pub fn is_reply(&self, topic: &str) -> bool {
        let rest = topic.strip_prefix(self.prefix.as_str());
        let rest = rest.and_then(|rest| rest.strip_prefix(".reply"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// The topic of published events.
    #[must_use]
    pub fn events(&self) -> String {
        self.name("events")
    }

    /// The topic of dead-letter records.
    #[must_use]
    pub fn dead_letter(&self) -> String {
        self.name("dead-letter")
    }

    pub(crate) fn name(&self, last: &str) -> String {
        format!("{}.{last}", self.prefix)
    }
}

impl Settings {
    /// The topics of this prefix.
    #[must_use]
    pub fn topics(&self) -> Topics {
        Topics::new(&self.topic_prefix)
    }
}

/// How the topics are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Partitions of the command topics and of the events. Never changed afterwards: the partition of
    /// an account depends on it.
    pub partitions: i32,
    /// Partitions of the reply topic: so many fronts can there be.
    pub fronts: i32,
    /// Copies of each partition, on as many brokers.
    pub replication: i32,
    /// Copies without which nothing is written.
    pub in_sync_min: i32,
}

impl Layout {
    /// Five partitions and 16 fronts; three copies where there are as many brokers, and a write needs
    /// all but one.
    #[must_use]
    pub fn for_brokers(brokers: usize) -> Self {
        let replication = i32::try_from(brokers).unwrap_or(3).clamp(1, 3);
        Self { partitions: 5, fronts: 16, replication, in_sync_min: (replication - 1).max(1) }
    }
}

/// A topic that was made, or was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub topic: String,
    /// How many partitions it has.
    pub partitions: i32,
    /// Whether it was there before.
    pub existed: bool,
}

/// Why the topics will not do.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// One is missing.
    #[error("topic {0} does not exist: faregate topics create makes it")]
    Missing(String),
    /// One has the wrong number of partitions.
    #[error(
        "topic {topic} has {found} partitions, not {expected}: the number cannot be changed, \
             because an account's partition depends on it"
    )]
    WrongPartitions {
        topic: String,
        /// How many it has.
        found: i32,
        /// How many it should have.
        expected: i32,
    },
    /// One is set up in a way that cannot work.
    #[error("topic {topic} has {name}={found}, but needs {expected}")]
    WrongSetting {
        topic: String,
        /// The topic's setting.
        name: &'static str,
        /// As it is.
        found: String,
        /// As it must be.
        expected: String,
    },
    /// The brokers refused.
    #[error("topic {topic}: {code}")]
    Refused { topic: String, code: RDKafkaErrorCode },
    /// The brokers could not be asked.
    #[error("kafka: {0}")]
    Kafka(#[from] KafkaError),
}

/// Makes the topics that are missing, and checks those that exist. The reply topic gets the partitions that
/// it lacks: no account depends on them.
///
/// # Errors
/// [`TopicError`]; the topics before the one it names may have been made.
pub async fn create(settings: &Settings, layout: Layout) -> Result<Vec<Made>, TopicError> {
    let admin = admin(settings)?;
    let mut existing = partition_counts(settings).await?;
    let replies = settings.topics().reply();
    let fronts = existing.get(&replies).copied();
    if let Some(fronts) = fronts.filter(|it| *it < layout.fronts) {
        add_partitions(&admin, &replies, layout.fronts).await?;
        tracing::info!(
            topic = replies,
            before = fronts,
            now = layout.fronts,
            "partitions were added"
        );
        existing.insert(replies, layout.fronts);
    }
    // Partitions cannot be removed, and more than there are fronts do no harm.
    let fronts = layout.fronts.max(fronts.unwrap_or_default());
    let planned = planned(settings, Layout { fronts, ..layout });
    let missing: Vec<_> = planned.iter().filter(|it| !existing.contains_key(&it.topic)).collect();
    let new: Vec<NewTopic> = missing.iter().map(|it| it.new_topic(layout)).collect();
    if !new.is_empty() {
        for made in admin.create_topics(&new, &options()).await? {
            match made {
                Ok(_) => {}
                // Another process was quicker: it is checked like those that existed.
                Err((topic, RDKafkaErrorCode::TopicAlreadyExists)) => {
                    let partitions = partition_count_soon(settings, &topic).await?;
                    existing.insert(topic, partitions);
                }
                Err((topic, code)) => return Err(TopicError::Refused { topic, code }),
            }
        }
    }
    let existed: Vec<_> =
        planned.iter().filter(|it| existing.contains_key(&it.topic)).cloned().collect();
    check_planned(&admin, &existing, &existed).await?;
    let made = planned.into_iter().map(|it| Made {
        existed: existing.contains_key(&it.topic),
        topic: it.topic,
        partitions: it.partitions,
    });
    Ok(made.collect())
}

async fn add_partitions(
    admin: &AdminClient<Logged>,
    topic: &str,
    count: i32,
) -> Result<(), TopicError> {
    let wanted = usize::try_from(count).unwrap_or_default();
    let partitions = [NewPartitions::new(topic, wanted)];
    for made in admin.create_partitions(&partitions, &options()).await? {
        made.map_err(|(topic, code)| TopicError::Refused { topic, code })?;
    }
    Ok(())
}

/// Checks that all topics are there and will do, and answers with their layout's numbers of
/// partitions: of the commands, and of the replies.
///
/// # Errors
/// [`TopicError`] names the topic.
pub async fn check(settings: &Settings) -> Result<(i32, i32), TopicError> {
    let existing = partition_counts(settings).await?;
    let topics = settings.topics();
    let count = |topic: String| match existing.get(&topic) {
        Some(count) => Ok(*count),
        None => Err(TopicError::Missing(topic)),
    };
    let partitions = count(topics.commands(Class::Payment))?;
    let fronts = count(topics.reply())?;
    let planned = planned(settings, Layout { partitions, fronts, replication: 1, in_sync_min: 1 });
    check_planned(&admin(settings)?, &existing, &planned).await?;
    Ok((partitions, fronts))
}

/// Removes topics, for those who made them for a while.
///
/// # Errors
/// [`TopicError`].
pub async fn delete(settings: &Settings, topics: &[&str]) -> Result<(), TopicError> {
    for gone in admin(settings)?.delete_topics(topics, &options()).await? {
        gone.map_err(|(topic, code)| TopicError::Refused { topic, code })?;
    }
    Ok(())
}

/// Makes a topic for replies with one partition, for a front that comes and goes.
///
/// # Errors
/// [`TopicError`].
pub async fn create_reply(settings: &Settings, topic: &str) -> Result<(), TopicError> {
    let new = NewTopic::new(topic, 1, TopicReplication::Fixed(-1)).set("retention.ms", REPLIES_MS);
    for made in admin(settings)?.create_topics([&new], &options()).await? {
        made.map_err(|(topic, code)| TopicError::Refused { topic, code })?;
    }
    Ok(())
}

#[derive(Clone, Debug)]
struct Planned {
    topic: String,
    partitions: i32,
    settings: Vec<(&'static str, String)>,
}

impl Planned {
    fn new_topic(&self, layout: Layout) -> NewTopic<'_> {
        let replication = TopicReplication::Fixed(layout.replication);
        let topic = NewTopic::new(&self.topic, self.partitions, replication);
        self.settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value))
    }
}

fn planned(settings: &Settings, layout: Layout) -> Vec<Planned> {
    let topics = settings.topics();
    let record_bytes = settings.record_bytes_max();
    let topic = |topic: String, partitions, particular: &[(&'static str, &str)]| {
        let mut settings = vec![
            ("message.timestamp.type", "LogAppendTime".to_owned()),
            ("max.message.bytes", record_bytes.clone()),
            ("min.insync.replicas", layout.in_sync_min.to_string()),
        ];
        settings.extend(particular.iter().map(|(name, value)| (*name, (*value).to_owned())));
        Planned { topic, partitions, settings }
    };
    let deleted = |retention| [("cleanup.policy", "delete"), ("retention.ms", retention)];
    let commands =
        [("cleanup.policy", "delete"), ("retention.ms", WEEK_MS), ("segment.ms", DAY_MS)];
    // Each is kept until an operator has decided about it, and then for a day or so.
    let dead_letters =
        [("cleanup.policy", "compact"), ("max.compaction.lag.ms", DAY_MS), ("segment.ms", DAY_MS)];
    let replies =
        [("cleanup.policy", "delete"), ("retention.ms", REPLIES_MS), ("segment.ms", REPLIES_MS)];
    vec![
        topic(topics.commands(Class::Payment), layout.partitions, &commands),
        topic(topics.commands(Class::Balance), layout.partitions, &deleted(HOUR_MS)),
        topic(topics.reply(), layout.fronts, &replies),
        topic(topics.events(), layout.partitions, &deleted(WEEK_MS)),
        topic(topics.dead_letter(), 1, &dead_letters),
    ]
}

/// Retention, replication and the like are the operators' own affair.
async fn check_planned(
    admin: &AdminClient<Logged>,
    existing: &BTreeMap<String, i32>,
    planned: &[Planned],
) -> Result<(), TopicError> {
    for topic in planned {
        let Some(found) = existing.get(&topic.topic) else {
            return Err(TopicError::Missing(topic.topic.clone()));
        };
        if *found != topic.partitions {
            return Err(TopicError::WrongPartitions {
                topic: topic.topic.clone(),
                found: *found,
                expected: topic.partitions,
            });
        }
    }
    if planned.is_empty() {
        return Ok(());
    }
    let resources = planned.iter().map(|it| ResourceSpecifier::Topic(&it.topic));
    let resources: Vec<_> = resources.collect();
    let described = admin.describe_configs(&resources, &question()).await?;
    for (topic, described) in planned.iter().zip(described) {
        let refused = |code| TopicError::Refused { topic: topic.topic.clone(), code };
        check_settings(topic, &described.map_err(refused)?)?;
    }
    Ok(())
}

fn check_settings(topic: &Planned, described: &ConfigResource) -> Result<(), TopicError> {
    for (name, expected) in &topic.settings {
        let found = described.get(name).and_then(|it| it.value.clone()).unwrap_or_default();
        let is_right = match *name {
            "message.timestamp.type" | "cleanup.policy" => found == *expected,
            "max.message.bytes" => found.parse::<u64>().ok() >= expected.parse().ok(),
            _ => true,
        };
        if !is_right {
            let (topic, expected) = (topic.topic.clone(), expected.clone());
            return Err(TopicError::WrongSetting { topic, name, found, expected });
        }
    }
    Ok(())
}

/// How many partitions each topic has that exists.
async fn partition_counts(settings: &Settings) -> Result<BTreeMap<String, i32>, TopicError> {
    let client: BaseConsumer<Logged> = settings.client().create_with_context(Logged)?;
    let asked = tokio::task::spawn_blocking(move || {
        let metadata = client.fetch_metadata(None, TIMEOUT)?;
        let counts = metadata.topics().iter().map(|topic| {
            let partitions = i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
            (topic.name().to_owned(), partitions)
        });
        Ok::<_, KafkaError>(counts.collect())
    });
    Ok(asked.await.expect("asking does not panic")?)
}

/// How many partitions a topic has that was made a moment ago: brokers learn of it one by one.
async fn partition_count_soon(settings: &Settings, topic: &str) -> Result<i32, TopicError> {
    for _ in 0..ASKED_MAX {
        if let Some(count) = partition_counts(settings).await?.get(topic) {
            return Ok(*count);
        }
        tokio::time::sleep(ASKED_EVERY).await;
    }
    Err(TopicError::Missing(topic.to_owned()))
}

fn admin(settings: &Settings) -> Result<AdminClient<Logged>, TopicError> {
    Ok(settings.client().create_with_context(Logged)?)
}

/// For what changes something: it is waited for until all brokers know.
fn options() -> AdminOptions {
    question().operation_timeout(Some(TIMEOUT))
}

fn question() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(TIMEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_go_to_reply_topics_only() {
        let topics = Topics::new("x");
        assert_eq!(topics.commands(Class::Balance), "x.balance");
        for topic in ["x.reply", "x.reply.bench-1"] {
            assert!(topics.is_reply(topic), "{topic}");
        }
        for topic in ["", "x", "x.payment", "x.replying", "y.reply", "reply"] {
            assert!(!topics.is_reply(topic), "{topic}");
        }
    }

    #[test]
    fn copies_depend_on_the_brokers() {
        let copies = |brokers| {
            let layout = Layout::for_brokers(brokers);
            (layout.replication, layout.in_sync_min)
        };
        assert_eq!([0, 1, 2, 3, 9].map(copies), [(1, 1), (1, 1), (2, 1), (3, 2), (3, 2)]);
    }
}
