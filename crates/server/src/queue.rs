//! How this process takes part in the queue between fronts and processors.

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use engine::ports::BoxFuture;
use engine::queue::{Message, Queue, Reply, Route};
use engine::{Reason, Unavailable};
use kafka::processor::{ProcessorOptions, RunningProcessor};
use kafka::topics::Class;
use kafka::{Front, FrontOptions, Secret, Security, Settings};
use store::{Server, SqlQueries};

use crate::engine_parts::EngineParts;
use crate::processing::Processing;
use config::Config;

/// The pause before another attempt to read from Kafka what the start needs.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The maximum number of these attempts.
const ASKED_MAX: u32 = 30;

/// Why the queue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Settings(#[from] kafka::SettingsError),
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

/// How Kafka is reached.
///
/// # Errors
/// [`Error::Settings`] names the setting.
pub fn settings(config: &Config) -> Result<Settings, Error> {
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

/// The end of the queue for a process with APIs.
///
/// # Errors
/// [`Error`].
pub fn front(config: &Config) -> Result<Front, Error> {
    let settings = settings(config)?;
    let options = FrontOptions {
        waiting_max: config.engine.queue_commands_max,
        time_to_live: config.queue.reply_timeout.0,
        ..FrontOptions::new(&settings.topics(), i32::from(config.kafka.front_id))
    };
    Front::start(&settings, options).map_err(client)
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
        config: &Config,
        core: EngineParts,
        place: (Server, store::Options),
        queries: Arc<SqlQueries>,
        reads: Engine,
    ) -> Result<Self, Error> {
        let settings = settings(config)?;
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
