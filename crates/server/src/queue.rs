//! How this process takes part in the queue between fronts and processors.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use engine::ports::BoxFuture;
use engine::queue::{Message, Queue, Reply, Route};
use engine::{Reason, Unavailable};
use kafka::processor::{ProcessorOptions, RunningProcessor};
use kafka::topics::Class;
use kafka::{ClusterKeys, Front, FrontOptions, Secret, Security, Settings};
use secrets::key_file;
use store::{Server, SqlQueries};

use crate::engine_parts::EngineParts;
use crate::processing::Processing;
use config::Config;

/// The pause before another attempt to read from Kafka what the start needs.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The maximum number of these attempts.
const ASKED_MAX: u32 = 30;

/// A record is sent within seconds of being signed, and clocks differ by as many.
const SIGNED_WITHIN_MIN: Duration = Duration::from_secs(60);

/// Why the queue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Settings(#[from] kafka::SettingsError),
    /// A key that records are signed with cannot be read.
    #[error("`kafka.key_file`, `kafka.previous_key_file`: {0}")]
    Key(#[from] key_file::Error),
    /// Without a key every client that can write to the topics commands everything.
    #[error(
        "`kafka.key_file` is needed where `kafka.brokers` are not loopback: put the same 32 random bytes \
         on every machine of the cluster (head -c 32 /dev/urandom)"
    )]
    NoKey,
    /// The topics are not there, or not what they should be.
    #[error(transparent)]
    Topics(#[from] kafka::topics::TopicError),
    /// The client refused its settings.
    #[error("kafka: {0}")]
    Client(String),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] engine::ports::StoreError),
}

/// How Kafka is reached by those who exchange commands, and what they sign them with.
///
/// # Errors
/// As [`reach`]; [`Error::Key`], [`Error::NoKey`].
pub fn settings(config: &Config) -> Result<Settings, Error> {
    let settings = reach(config)?;
    let path = |file: &'_ str| (!file.is_empty()).then(|| Path::new(file).to_owned());
    let Some(current) = path(&config.kafka.key_file) else {
        if !settings.is_on_loopback() {
            return Err(Error::NoKey);
        }
        tracing::warn!(
            "records of the queue are not signed: every user of this machine can command everything; \
             set `kafka.key_file`"
        );
        return Ok(settings);
    };
    let previous = path(&config.kafka.previous_key_file);
    let keys = Some(ClusterKeys::read(&current, previous.as_deref())?);
    Ok(Settings { keys, ..settings })
}

/// How Kafka is reached.
///
/// # Errors
/// [`Error::Settings`] names the setting.
pub fn reach(config: &Config) -> Result<Settings, Error> {
    let kafka = &config.kafka;
    let settings = Settings {
        topic_prefix: kafka.topic_prefix.clone(),
        security: Security {
            protocol: kafka.security_protocol.parse()?,
            sasl_mechanism: kafka.sasl_mechanism.clone(),
            sasl_username: kafka.sasl_username.clone(),
            sasl_password: Secret::new(kafka.sasl_password.expose().to_owned()),
            ssl_ca_location: kafka.ssl_ca.clone(),
            ssl_certificate_location: kafka.ssl_cert.clone(),
            ssl_key_location: kafka.ssl_key.clone(),
            ..Security::default()
        },
        plaintext_off_loopback: kafka.plaintext_off_loopback,
        signed_within: signed_within(config.idempotency.keep.0),
        group_protocol: kafka.group_protocol.parse()?,
        session_timeout: kafka.session_timeout.0,
        delivery_timeout: kafka.delivery_timeout.0,
        linger: kafka.linger.0,
        message_bytes_max: kafka.message_bytes_max,
        ..Settings::new(kafka.brokers.clone())
    };
    settings.validate()?;
    Ok(settings)
}

/// How far a signature's time may be from its record's: what was executed is remembered for so long
/// that a copy of its record finds it, however the clocks differ.
fn signed_within(kept: Duration) -> Duration {
    (kept / 2).clamp(SIGNED_WITHIN_MIN, kafka::SIGNED_WITHIN)
}

/// The end of the queue for a process with APIs.
///
/// # Errors
/// [`Error`].
pub fn front(config: &Config, settings: &Settings) -> Result<Front, Error> {
    let options = FrontOptions {
        waiting_max: config.engine.queue_commands_max,
        time_to_live: config.queue.reply_timeout.0,
        ..FrontOptions::new(&settings.topics(), i32::from(config.kafka.front_id))
    };
    Front::start(settings, options).map_err(client)
}

/// The queue of a process without APIs: it asks nothing.
pub struct Nobody;

impl Queue for Nobody {
    fn ask(&self, _: Route, _: Message) -> BoxFuture<'_, Result<Reply, Unavailable>> {
        Box::pin(std::future::ready(Err(Reason::QueueAway.into())))
    }

    fn is_available(&self) -> bool {
        true
    }
}

/// A process that executes what the queue brings.
pub struct Member {
    processing: Arc<Processing>,
    running: Vec<RunningProcessor>,
}

impl Member {
    /// Joins the groups of the classes that this process serves. Waits for the topics, for a while.
    ///
    /// # Errors
    /// [`Error`].
    pub fn join(
        (config, settings): (&Config, Settings),
        core: EngineParts,
        place: (Server, store::Options),
        queries: Arc<SqlQueries>,
        reads: Engine,
    ) -> Result<Self, Error> {
        let partitions = partitions(&settings)?;
        let reads = (reads, config.data_dir.clone());
        let processing =
            Processing::new(core, place, queries, (partitions, settings.clone()), reads);
        let processing = Arc::new(processing);
        let classes = [Class::Payment, Class::Balance];
        let served = |class: &Class| config.kafka.classes.iter().any(|it| it == class.name());
        let running = classes.into_iter().filter(served).map(|class| {
            let options =
                ProcessorOptions { class, in_flight_max: config.engine.queue_commands_max };
            kafka::processor::start(&settings, options, processing.clone()).map_err(client)
        });
        let running = running.collect::<Result<_, Error>>()?;
        Ok(Self { processing, running })
    }

    /// Takes nothing new, lets what is in progress end until the deadline, and leaves the groups.
    pub async fn leave(self, deadline: Duration) {
        let leaving = self.running.into_iter().map(|it| it.stop(deadline));
        futures_util::future::join_all(leaving).await;
        self.processing.stop(deadline).await;
    }
}

fn client(error: impl std::fmt::Display) -> Error {
    Error::Client(error.to_string())
}

/// How many partitions commands have.
fn partitions(settings: &Settings) -> Result<u16, Error> {
    let runtime = tokio::runtime::Handle::current();
    let mut asked = 0;
    loop {
        asked += 1;
        match runtime.block_on(kafka::topics::check(settings)) {
            Ok((partitions, _)) => return Ok(u16::try_from(partitions).unwrap_or(u16::MAX)),
            Err(error) if asked == ASKED_MAX => return Err(error.into()),
            Err(error) => tracing::warn!(error = %error, "waiting for the topics"),
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use config::{Config, Period};

    /// Whether records are signed, or why the queue cannot be used.
    fn check(change: impl FnOnce(&mut Config), expected: Result<bool, &str>) {
        let mut config = Config::default();
        config.kafka.brokers = "127.0.0.1:9092".to_owned();
        change(&mut config);
        let outcome = settings(&config).map(|it| it.keys.is_some());
        match (outcome, expected) {
            (Ok(signs), Ok(expected)) => assert_eq!(signs, expected),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{error}");
            }
            (outcome, _) => panic!("{outcome:?}"),
        }
    }

    #[test]
    fn off_loopback_the_queue_needs_a_key_and_tls() {
        let dir = std::env::temp_dir().join(format!("faregate-queue-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let key = |name: &str, mode| {
            let path = dir.join(name);
            std::fs::write(&path, [7; secrets::KEY_BYTES]).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (good, open) = (key("good.key", 0o640), key("open.key", 0o644));
        let far = |it: &mut Config| it.kafka.brokers = "kafka-1:9092".to_owned();
        check(|_| {}, Ok(false));
        check(|it| it.kafka.key_file.clone_from(&good), Ok(true));
        check(far, Err("kafka.plaintext_off_loopback"));
        let allowed = |it: &mut Config| {
            far(it);
            it.kafka.plaintext_off_loopback = true;
        };
        check(allowed, Err("`kafka.key_file` is needed where `kafka.brokers` are not loopback"));
        let signed = |it: &mut Config| {
            allowed(it);
            it.kafka.key_file.clone_from(&good);
        };
        check(signed, Ok(true));
        check(|it| it.kafka.key_file.clone_from(&open), Err("open.key: its mode is 644"));
        check(
            |it| {
                signed(it);
                it.kafka.previous_key_file = dir.join("missing.key").to_str().unwrap().to_owned();
            },
            Err("missing.key"),
        );
        // Making topics signs nothing.
        let mut config = Config::default();
        allowed(&mut config);
        assert!(reach(&config).is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_was_executed_is_remembered_for_longer_than_a_copy_of_it_is_accepted() {
        let within = |kept_s| {
            let mut config = Config::default();
            config.kafka.brokers = "localhost:9092".to_owned();
            config.idempotency.keep = Period::seconds(kept_s);
            reach(&config).unwrap().signed_within.as_secs()
        };
        assert_eq!([86_400, 7_200, 10, 7 * 86_400].map(within), [43_200, 3_600, 60, 43_200]);
    }
}
