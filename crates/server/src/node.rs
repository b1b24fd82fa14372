//! The core with all that it needs from outside: store, gateways, followers of the journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::Settings;
use engine::access::Access;
use engine::analytics::Follower;
use engine::ports::{Gateway, StoreError};
use engine::{Clock, Engine, Options, Parts, Running};
use gateway::external::External;
use gateway::push::{self, Reach};
use gateway::simulator::{self, Notification, Remote, Simulator};
use store::analytics::{AnalyticsQueries, SqliteReadModels, analytics_path};
use store::{Server, Source, SqlStore};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::{Config, Period};
use crate::native::analytics::Models;

/// Transactions that a payment may have.
const TRANSACTIONS_PER_PAYMENT_MAX: usize = 1_000;

/// Where the simulator keeps its journal, within the data directory.
const SIMULATOR_DIR: &str = "simulator";

/// How long to wait before a gateway's notification is written again that could not be.
const NOTIFICATION_RETRY_AFTER: Duration = Duration::from_millis(200);

/// Why the core cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] store::Error),
    /// The database cannot be used.
    #[error("the database cannot be opened: {0}")]
    Store(#[from] StoreError),
    /// A gateway cannot be used.
    #[error("gateway: {0}")]
    Gateway(#[from] gateway::Error),
}

/// A running core.
pub struct Node {
    /// What doors talk to.
    pub engine: Engine,
    /// Who may call.
    pub access: Access,
    /// The read models.
    pub analytics: Models,
    running: Running,
    followers: Followers,
    /// Keeps the data directory ours.
    _dir: Option<File>,
}

/// What follows the core: stopped before it, because they write through it.
struct Followers {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    push: Option<JoinHandle<()>>,
}

impl Node {
    /// Opens the data directory and starts the core on the current runtime.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(config: &Config) -> Result<Self, Error> {
        let clock = Clock::new(config.test_clock);
        let of_store = store::Options::default();
        let (store, dir) = open_store(config, &of_store)?;
        let readers = config.engine.reader_threads;
        // A connection more than readers: the followers read on threads of their own.
        let queries = Arc::new(store.queries(readers + 1)?);
        let (gateways, notifications) = gateways(config, &clock)?;
        let parts = Parts {
            store,
            queries: queries.clone(),
            settings: settings(config, &gateways),
            gateways,
            clock: clock.clone(),
            options: options(config),
        };
        let (engine, running) = Engine::start(parts)?;
        let access =
            Access::new(engine.clone(), config.access.cache_life.0, config.access.hashing_threads);
        let mut followers = Followers::none();
        if let Some(notifications) = notifications {
            let stopped = followers.stopped();
            followers.follow(take_notifications(engine.clone(), notifications, stopped));
        }
        followers.push = Some(push::start(engine.clone(), push_options(config)));
        let path = analytics_path(&config.data_dir);
        let models = SqliteReadModels::open(&path, &source(config)?, &of_store)?;
        let follower = Follower::open(queries, Box::new(models), clock)?;
        engine.waits_for(follower.applied());
        followers.follow(follower.run(engine.head(), until(followers.stopped())));
        let analytics = Models::new(AnalyticsQueries::open(&path, &of_store, readers)?, readers);
        Ok(Self { engine, access, analytics, running, followers, _dir: dir })
    }

    /// Stops the followers, then the core; calls in flight get until the deadline.
    pub async fn stop(self, deadline: Duration) {
        self.followers.stop().await;
        self.running.stop(deadline).await;
    }
}

/// The server of the database, where the configuration names one.
///
/// # Errors
/// [`store::Error`] where a file that its URL names cannot be read.
pub fn server(config: &Config) -> Result<Option<Server>, store::Error> {
    let database = &config.database;
    let (connect, statement) = (database.connect_timeout.0, database.statement_timeout.0);
    let server = database.url.server()?;
    Ok(server.map(|server| server.with_timeouts(connect, Some(statement))))
}

/// The database, for whoever reads all of it.
///
/// # Errors
/// See [`server`].
pub fn source(config: &Config) -> Result<Source, store::Error> {
    let server = server(config)?;
    Ok(match server {
        Some(server) => Source::Server(server.patient()),
        None => Source::in_dir(&config.data_dir),
    })
}

/// The store, and the lock of the data directory where the store does not have it itself.
fn open_store(
    config: &Config,
    options: &store::Options,
) -> Result<(SqlStore, Option<File>), store::Error> {
    let Some(server) = server(config)? else {
        return Ok((store::open_dir(&config.data_dir, options)?, None));
    };
    let dir = store::lock_dir(&config.data_dir)?;
    Ok((store::open_server(&server, options)?, Some(dir)))
}

impl Followers {
    fn none() -> Self {
        Self { stop: watch::Sender::new(false), tasks: Vec::new(), push: None }
    }

    fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    fn follow(&mut self, follower: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(tokio::spawn(follower));
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        if let Some(push) = self.push {
            // Loses nothing: what was not recorded is delivered again after the next start.
            push.abort();
        }
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(error = %error, "a follower ended badly");
            }
        }
    }
}

/// Ready once the followers are to stop.
async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that nobody can say it any more, which says it too.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

type Gateways = BTreeMap<String, Arc<dyn Gateway>>;

/// The gateways there are, and what they tell unasked. The simulator only where somebody wants it:
/// a production tenant must not be able to fake a payment.
fn gateways(
    config: &Config,
    clock: &Clock,
) -> Result<(Gateways, Option<mpsc::Receiver<Notification>>), Error> {
    let mut gateways: Gateways = BTreeMap::new();
    gateways.insert(domain::EXTERNAL_PAYMENT.to_owned(), Arc::new(External));
    let wanted = &config.gateway.simulator;
    if !config.test_clock && !wanted.enabled {
        return Ok((gateways, None));
    }
    let options = simulator_options(config, clock.clone());
    let (gateway, notifications): (Arc<dyn Gateway>, _) = if wanted.url.is_empty() {
        let simulator = Simulator::open(&simulator_dir(&config.data_dir), options)?;
        let notifications = simulator.notifications();
        (Arc::new(simulator), notifications)
    } else {
        let remote = Remote::new(&wanted.url, options)?;
        let notifications = remote.notifications();
        (Arc::new(remote), notifications)
    };
    for name in [simulator::NAME, simulator::KILL_BILL_NAME] {
        gateways.insert(name.to_owned(), Arc::clone(&gateway));
    }
    Ok((gateways, Some(notifications)))
}

/// Where the simulator keeps its journal.
#[must_use]
pub fn simulator_dir(data_dir: &Path) -> std::path::PathBuf {
    data_dir.join(SIMULATOR_DIR)
}

/// How the simulator is set up.
#[must_use]
pub fn simulator_options(config: &Config, clock: Clock) -> simulator::Options {
    let wanted = &config.gateway.simulator;
    simulator::Options { timeout: wanted.timeout.0, settle_after: wanted.settle_after.0, clock }
}

fn settings(config: &Config, gateways: &Gateways) -> Settings {
    let delays = |periods: &[Period]| periods.iter().map(|period| period.as_us()).collect();
    Settings {
        gateways: gateways.iter().map(|(name, it)| (name.clone(), it.settings())).collect(),
        unknown_delays_us: delays(&config.resolver.unknown_delays),
        pending_delays_us: delays(&config.resolver.pending_delays),
        reply_keep_us: config.idempotency.keep.as_us(),
        transactions_per_payment_max: TRANSACTIONS_PER_PAYMENT_MAX,
    }
}

fn options(config: &Config) -> Options {
    Options {
        queue_max: config.engine.queue_commands_max,
        in_flight_max: config.gateway.in_flight_max,
        readers: config.engine.reader_threads,
        reads_waiting_max: config.engine.reads_waiting_max,
        ..Options::default()
    }
}

/// Where notifications may go: public addresses, and receivers inside where that is wanted.
pub const fn push_reach(config: &Config) -> Reach {
    let everywhere = config.push.allow_loopback || config.test_clock;
    if everywhere { Reach::PublicAndPrivate } else { Reach::Public }
}

fn push_options(config: &Config) -> push::Options {
    push::Options {
        lanes: config.push.lanes,
        timeout: config.push.timeout.0,
        ..push::Options::new(push_reach(config))
    }
}

/// Books what a gateway tells unasked, until it is written: that a success was taken back is told
/// here and nowhere else.
async fn take_notifications(
    engine: Engine,
    mut notifications: mpsc::Receiver<Notification>,
    stopped: watch::Receiver<bool>,
) {
    let mut stopped = std::pin::pin!(until(stopped));
    loop {
        let notification = tokio::select! {
            notification = notifications.recv() => notification,
            () = &mut stopped => None,
        };
        let Some(notification) = notification else { return };
        tokio::select! {
            () = book(&engine, notification) => {}
            () = &mut stopped => return,
        }
    }
}

async fn book(engine: &Engine, notification: Notification) {
    let Notification { tenant, payment, transaction, knowledge } = notification;
    while let Err(error) = engine.notified((tenant, payment), transaction, knowledge.clone()).await
    {
        tracing::warn!(
            error = %error,
            tenant = tenant.0,
            payment.id = %payment,
            transaction.id = %transaction,
            "a gateway's notification was not written yet"
        );
        if error.reason.is_parked() {
            return;
        }
        tokio::time::sleep(NOTIFICATION_RETRY_AFTER).await;
    }
}
