//! How this process takes part in the queue between fronts and processors.

pub mod commands;

use std::sync::Arc;
use std::time::Duration;

use domain::Seq;
use engine::Engine;
use engine::ports::{Bookkeeping, BoxFuture, JournalRow, Queries};
use engine::queue::{Message, Queue, Reply, Route};
use engine::{Reason, Unavailable};
use kafka::events::{EventPublisher, FOLLOWER};
use kafka::processor::{ProcessorOptions, RunningProcessor};
use kafka::topics::Class;
use kafka::{Front, FrontOptions, Secret, Security, Settings};
use store::{Server, SqlQueries};
use tokio::sync::watch;

use crate::config::Config;
use crate::node::Core;
use crate::processing::Processing;

/// How long to wait before Kafka is asked again for what a start needs, and how often at most.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// See [`ASK_AGAIN`].
const ASKED_MAX: u32 = 30;

/// How many journal rows are published before it is recorded that they were.
const ROWS_MAX: usize = 4_000;

/// How long events gather before they are published, and how long where more than [`BUSY_ROWS`] came
/// in that time: a few large batches cost the brokers and the database far less.
const GATHERED: Duration = Duration::from_millis(200);
/// See [`GATHERED`].
const GATHERED_WHILE_BUSY: Duration = Duration::from_secs(2);
/// See [`GATHERED`].
const BUSY_ROWS: i64 = 100;

/// How long to wait before events are published again after a failure.
const PUBLISH_AGAIN: Duration = Duration::from_secs(1);

/// Why this process takes no part in the queue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be.
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

/// The end of the queue for a process with doors.
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

/// The queue of a process without doors: it asks nothing.
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
        core: Core,
        place: (Server, store::Options),
        queries: Arc<SqlQueries>,
        reads: Engine,
    ) -> Result<Self, Error> {
        let settings = settings(config)?;
        let partitions = partitions(&settings)?;
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

/// Publishes the events of a partition's journal, from where it was recorded last, until `stopped`.
pub async fn publish_events(engine: Engine, settings: Settings, stopped: watch::Receiver<bool>) {
    let mut stopping = stopped.clone();
    tokio::select! {
        () = publish(&engine, &settings) => {}
        // Whoever could say it may have gone, which says it too.
        _ = stopping.wait_for(|stopped| *stopped) => {}
    }
}

async fn publish(engine: &Engine, settings: &Settings) {
    loop {
        if let Err(error) = publish_on(engine, settings).await {
            tracing::warn!(error = %error, "events wait to be published");
        }
        tokio::time::sleep(PUBLISH_AGAIN).await;
    }
}

/// Publishes until something fails: the rows that were not recorded are published again then.
async fn publish_on(engine: &Engine, settings: &Settings) -> Result<(), Error> {
    let publisher = EventPublisher::new(settings).await?;
    let mut position = engine.read(|queries| queries.followed(FOLLOWER)).await.map_err(client)?;
    let mut head = engine.head();
    loop {
        if *head.borrow_and_update() <= position {
            head.changed().await.map_err(client)?;
            continue;
        }
        let (rows, upto) = rows_after(engine, position).await?;
        publisher.publish(&rows).await.map_err(client)?;
        let followed = Bookkeeping::Followed { follower: FOLLOWER, upto };
        engine.record(vec![followed]).await.map_err(client)?;
        position = upto;
        gather(position, &mut head).await.map_err(client)?;
    }
}

/// Waits before the next batch.
async fn gather(
    position: Seq,
    head: &mut watch::Receiver<Seq>,
) -> Result<(), watch::error::RecvError> {
    tokio::time::sleep(GATHERED).await;
    if head.borrow().0 - position.0 > BUSY_ROWS {
        let enough = i64::try_from(ROWS_MAX).unwrap_or(i64::MAX);
        let filled = head.wait_for(|head| head.0 - position.0 >= enough);
        // What there is by then is published.
        if let Ok(ended) = tokio::time::timeout(GATHERED_WHILE_BUSY - GATHERED, filled).await {
            ended?;
        }
    }
    Ok(())
}

async fn rows_after(engine: &Engine, position: Seq) -> Result<(Vec<JournalRow>, Seq), Error> {
    let rows = engine.read(move |queries: &dyn Queries| queries.journal_after(position, ROWS_MAX));
    rows.await.map_err(client)
}
