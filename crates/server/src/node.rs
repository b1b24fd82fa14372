//! The core with all that it needs from outside: store, gateways, tasks of the journal.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::mail::SetupError;
use ::sign_up::SignUp;
use engine::access::{Access, follow_changes};
use engine::analytics::Follower;
use engine::ports::{DeliveryLogSource, EntitlementAudience, FollowerQueries, StoreError};
use engine::queue::Queue;
use engine::watched_accounts::WatchedAccounts;
use engine::{Clock, ClockBehind, Engine, FrontParts, Parts, Running, StartError};
use feature_flags::{FlagCache, FlagFeed, InsightsFlusher, account_lookup, key_lookup};
use gateway::simulator::script::Scripts;
use gateway::simulator::take_notifications;
use secrets::{Sealer, key_file};
use store::analytics::{SqliteAnalyticsQueries, SqliteReadModels, analytics_path};
use store::delivery_log::{LogSource, SqlDeliveryLogQueries};
use store::insights::SqlInsightWriter;
use store::{Server, Share, Source, SqlQueries, SqlStore};

use crate::background::BackgroundTasks;
use crate::engine_parts::EngineParts;
use crate::gateways::{GatewaySetup, SIMULATOR_DIR};
use crate::integrity::Schedule;
use crate::queue::{self, Member};
use crate::sign_up;
use config::{Config, QueueKind, Role};
use v1::webhooks::deliveries::{Log, READS_MAX};

/// Why the core cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] store::Error),
    /// The database cannot be used.
    #[error("the database cannot be opened: {0}")]
    Store(#[from] StoreError),
    /// The clock is behind what was written already.
    #[error(transparent)]
    ClockBehind(#[from] ClockBehind),
    /// A gateway cannot be used.
    #[error("gateway: {0}")]
    Gateway(#[from] gateway::Error),
    /// The key of environments' secrets cannot be used.
    #[error("the flags' secrets: {0}")]
    Secrets(#[from] key_file::Error),
    /// Sign-up cannot be started.
    #[error(transparent)]
    Signup(#[from] sign_up::Error),
    /// Mail cannot be sent.
    #[error("mail: {0}")]
    Mail(#[from] SetupError),
    /// The queue cannot be used.
    #[error(transparent)]
    Queue(#[from] queue::Error),
    /// Several processes share a database on a server, or none.
    #[error("`queue.kind = \"kafka\"` needs a database on a server: set `database.url`")]
    NoServer,
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(error) => error.into(),
            StartError::ClockBehind(error) => error.into(),
        }
    }
}

/// The key file of environments' secrets in the data directory, where no other is configured.
const SECRETS_KEY_FILE: &str = "secrets.key";

/// How long the start waits for the feature flags.
const FLAGS_READ_WITHIN: Duration = Duration::from_secs(5);

/// How often it looks whether they are there.
const FLAGS_LOOK_EVERY: Duration = Duration::from_millis(2);

/// A running core.
pub struct Node {
    /// The engine, which executes the APIs' commands and queries.
    pub engine: Engine,
    /// Who may call.
    pub access: Access,
    /// The read models; a front has none.
    pub analytics: Option<v1::analytics::Models>,
    /// Encrypts and decrypts the secrets of environments, where there is a key.
    pub sealer: Option<Arc<Sealer>>,
    /// Sign-up, where there is a key.
    pub sign_up: Option<SignUp>,
    /// The feature flags that their APIs serve.
    pub flags: Arc<FlagCache>,
    /// Accounts that gRPC's callers watch.
    pub watched: Arc<WatchedAccounts>,
    /// The tenants' scripts for the simulated gateway.
    pub scripts: Scripts,
    /// The log of webhook deliveries.
    pub delivery_log: Option<Log>,
    /// Where the log and replays are.
    pub log_source: Option<Arc<dyn DeliveryLogSource>>,
    serves_apis: bool,
    part: Part,
    tasks: BackgroundTasks,
    /// Keeps the data directory ours.
    _dir: Option<store::DirLock>,
}

/// The part of the core that runs in this process.
enum Part {
    /// The one partition.
    Partition(Running),
    /// The partitions that the queue assigns to this process; `None` on a front.
    Queue(Option<Box<Member>>),
}

impl Node {
    /// Opens the data directory and starts the core on the current runtime.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(config: &Config) -> Result<Self, Error> {
        match config.queue.kind {
            QueueKind::Memory => Self::alone(config),
            QueueKind::Kafka => Self::among_others(config),
        }
    }

    /// One process, one partition.
    fn alone(config: &Config) -> Result<Self, Error> {
        let clock = Clock::new(config.test_clock);
        let of_store = store::Options::default();
        let (store, dir) = open_store(config, &of_store)?;
        let sealer = sealer(config)?;
        warn_of_missing_keys(config);
        let readers = config.engine.reader_threads;
        let queries = Arc::new(store.queries(connections_max(config))?);
        let GatewaySetup { gateways, notifications, tenants, scripts } =
            GatewaySetup::new(config, &clock, sealer.as_ref())?;
        let key = sign_up::key(config, &*queries)?;
        let core = EngineParts::new(config, gateways, clock.clone(), key.as_ref())?;
        let parts = Parts {
            store,
            queries: queries.clone(),
            settings: core.settings.clone(),
            gateways: core.gateways.clone(),
            clock: clock.clone(),
            options: core.options.clone(),
        };
        let (engine, running) = Engine::start(parts)?;
        tenants.read_with(&engine);
        let sign_up = sign_up::open(config, key.as_ref(), &engine)?;
        let core = core.with_sign_up(sign_up.as_ref()).verifying(integrity(config)?);
        let log = log_source(config)?;
        let core = core.delivering(config, sealer.clone(), Arc::new(log.clone()));
        let mut tasks = core.start_tasks(&engine, Share::WHOLE);
        if let Some(notifications) = notifications {
            let stop = tasks.until_stopped();
            tasks.spawn(take_notifications(engine.clone(), notifications, stop));
        }
        let path = analytics_path(&config.data_dir);
        let models = SqliteReadModels::open(&path, &source(config)?, &of_store)?;
        let follower = Follower::open(queries, Box::new(models), clock)?;
        engine.waits_for(follower.applied());
        tasks.spawn(follower.run(engine.head(), tasks.until_stopped()));
        let watched = Arc::default();
        let flags = feed(config, (&engine, sealer.as_ref()), &watched, &mut tasks)?;
        let analytics = Arc::new(SqliteAnalyticsQueries::open(&path, &of_store, readers)?);
        Ok(Self {
            access: access(config, &engine),
            sign_up,
            engine,
            analytics: Some(v1::analytics::Models::new(analytics, readers)),
            sealer,
            flags,
            watched,
            scripts,
            delivery_log: Some(delivery_log(&log)?),
            log_source: Some(Arc::new(log)),
            serves_apis: true,
            part: Part::Partition(running),
            tasks,
            _dir: dir,
        })
    }

    /// One of several processes with a queue between them.
    fn among_others(config: &Config) -> Result<Self, Error> {
        let server = server(config)?.ok_or(Error::NoServer)?;
        let kafka = queue::settings(config)?;
        let dir = store::lock_dir(&config.data_dir)?;
        let sealer = sealer(config)?;
        let clock = Clock::new(config.test_clock);
        let GatewaySetup { gateways, notifications, tenants, scripts } =
            GatewaySetup::new(config, &clock, sealer.as_ref())?;
        let options = store::Options::default();
        let queries = Arc::new(SqlQueries::of_server(&server, connections_max(config))?);
        if let Some(journal) = queries.journal_heads_at()? {
            clock.go_on_from(journal, config.accepts_clock_behind)?;
        }
        let key = sign_up::key(config, &*queries)?;
        let core = EngineParts::new(config, gateways, clock, key.as_ref())?;
        let serves_apis = config.role != Role::Processor;
        if serves_apis {
            warn_of_missing_keys(config);
        }
        let engine = Engine::front(FrontParts {
            queue: queue_to_owners(config, &kafka, serves_apis)?,
            queries: queries.clone(),
            gateways: core.gateways.clone(),
            clock: core.clock.clone(),
            settings: core.settings.clone(),
            options: core.options.clone(),
        });
        tenants.read_with(&engine);
        let sign_up = sign_up::open(config, key.as_ref(), &engine)?;
        let core = core.with_sign_up(sign_up.as_ref()).verifying(integrity(config)?);
        let log = log_source(config)?;
        let core = core.delivering(config, sealer.clone(), Arc::new(log.clone()));
        let member = match config.role {
            Role::Front => None,
            Role::All | Role::Processor => {
                let (place, reads) = ((server, options), engine.clone());
                Some(Box::new(Member::join((config, kafka), core, place, queries, reads)?))
            }
        };
        let mut tasks = BackgroundTasks::new();
        if serves_apis {
            tasks.spawn(follow_changes(engine.clone(), tasks.until_stopped()));
            if let Some(notifications) = notifications {
                let stop = tasks.until_stopped();
                tasks.spawn(take_notifications(engine.clone(), notifications, stop));
            }
        }
        let watched = Arc::default();
        let flags = match serves_apis {
            true => feed(config, (&engine, sealer.as_ref()), &watched, &mut tasks)?,
            false => Arc::default(),
        };
        Ok(Self {
            access: access(config, &engine),
            sign_up,
            engine,
            analytics: None,
            sealer,
            flags,
            watched,
            scripts,
            delivery_log: if serves_apis { Some(delivery_log(&log)?) } else { None },
            log_source: serves_apis.then(|| Arc::new(log) as _),
            serves_apis,
            part: Part::Queue(member),
            tasks,
            _dir: Some(dir),
        })
    }

    /// Whether another process creates the administrator and the first tenant: the one that gets the first
    /// partition does.
    #[must_use]
    pub const fn is_among_others(&self) -> bool {
        matches!(self.part, Part::Queue(_))
    }

    /// Waits until the feature flags are read, for a bounded time: until then, SDKs are refused and retry.
    pub async fn flags_are_read(&self) {
        let given_up_at = tokio::time::Instant::now() + FLAGS_READ_WITHIN;
        let Some(flags) = self.shown_flags() else { return };
        while !flags.is_available() {
            if tokio::time::Instant::now() >= given_up_at {
                tracing::warn!("the feature flags are not read yet");
                return;
            }
            tokio::time::sleep(FLAGS_LOOK_EVERY).await;
        }
    }

    /// The feature flags, where APIs show them and there is a key to their secrets.
    #[must_use]
    pub fn shown_flags(&self) -> Option<Arc<FlagCache>> {
        let are_shown = self.sealer.is_some() && self.serves_apis;
        are_shown.then(|| Arc::clone(&self.flags))
    }

    /// The follower that reads the store's feature flags, where there is a key to their secrets.
    #[must_use]
    pub fn feed(&self, config: &Config) -> Option<FlagFeed> {
        let (cache, missing) = (Arc::clone(&self.flags), config.flags.missing_attribute.rule());
        self.sealer.clone().map(|sealer| FlagFeed { cache, sealer, missing })
    }

    /// Stops the tasks, then the core; calls in flight get until the deadline.
    pub async fn stop(self, deadline: Duration) {
        self.tasks.stop().await;
        match self.part {
            Part::Partition(running) => running.stop(deadline).await,
            Part::Queue(Some(member)) => member.leave(deadline).await,
            Part::Queue(None) => {}
        }
    }
}

/// The sealer of environments' secrets. With SQLite its key is made in the data directory; with a
/// database server the key has to be given, because all processes need the same.
///
/// # Errors
/// The file of the key cannot be used.
pub fn sealer(config: &Config) -> Result<Option<Arc<Sealer>>, key_file::Error> {
    let key = match (config.flags.key_file.as_str(), config.database.url.is_empty()) {
        ("", true) => key_file::in_dir(&config.data_dir, SECRETS_KEY_FILE)?,
        ("", false) => return Ok(None),
        (path, _) => key_file::read(Path::new(path))?,
    };
    Ok(Some(Arc::new(Sealer::new(&key))))
}

/// A cache that shows the flags of the store and follows them, and whose insights are kept. Watched accounts are
/// followed too.
fn feed(
    config: &Config,
    (engine, sealer): (&Engine, Option<&Arc<Sealer>>),
    watched: &Arc<WatchedAccounts>,
    tasks: &mut BackgroundTasks,
) -> Result<Arc<FlagCache>, store::Error> {
    let cache = Arc::<FlagCache>::default();
    let missing = config.flags.missing_attribute.rule();
    let mut audiences: Vec<Arc<dyn EntitlementAudience>> =
        vec![Arc::<WatchedAccounts>::clone(watched)];
    // Without the key no secret grants access: SDKs are refused and retry.
    if let Some(sealer) = sealer {
        let counted = Arc::clone(&cache);
        let database = server(config)?.map(Source::Server);
        let database = database.unwrap_or_else(|| Source::in_dir(&config.data_dir));
        let retention = config.flags.insights_retention.0;
        let open = Box::new(move || Ok(Box::new(SqlInsightWriter::open(&database)?) as _));
        let flusher = InsightsFlusher::new(counted, open, engine.clock().clone(), retention);
        tasks.spawn(flusher.run(tasks.until_stopped()));
        let feed = FlagFeed { cache: Arc::clone(&cache), sealer: Arc::clone(sealer), missing };
        cache.accounts.set_clock(engine.clock().clone());
        let feed = Arc::new(feed);
        let accounts = Arc::clone(&cache.accounts);
        let stopped = || tasks.until_stopped();
        let looking_up = account_lookup::look_up(engine.clone(), accounts, stopped());
        let keys = key_lookup::keep(engine.clone(), Arc::clone(&cache), stopped());
        audiences.push(Arc::<FlagFeed>::clone(&feed));
        let flags = engine::flags::follow(engine.clone(), feed, stopped());
        tasks.spawn(looking_up);
        tasks.spawn(keys);
        tasks.spawn(flags);
    }
    tasks.spawn(engine::accounts::follow(engine.clone(), audiences, tasks.until_stopped()));
    Ok(cache)
}

/// The queue that a front sends commands into; a processor without APIs sends none.
fn queue_to_owners(
    config: &Config,
    kafka: &kafka::Settings,
    serves_apis: bool,
) -> Result<Arc<dyn Queue>, Error> {
    Ok(match serves_apis {
        true => Arc::new(queue::front(config, kafka)?),
        false => Arc::new(queue::Nobody),
    })
}

/// Where webhook deliveries are logged: in a file beside the database's, or in the server's tables.
fn log_source(config: &Config) -> Result<LogSource, store::Error> {
    match server(config)? {
        Some(server) => Ok(LogSource::of_server(server)),
        None => LogSource::in_dir(&config.data_dir),
    }
}

fn delivery_log(source: &LogSource) -> Result<Log, store::Error> {
    let queries = SqlDeliveryLogQueries::open(source, READS_MAX)?;
    Ok(Log::new(Arc::new(queries)))
}

fn access(config: &Config, engine: &Engine) -> Access {
    Access::new(engine.clone(), config.access.cache_life.0, config.access.hashing_threads)
}

/// Connections to read with: one more than readers for the tasks, which read on threads of their own,
/// and those of scans.
const fn connections_max(config: &Config) -> usize {
    config.engine.reader_threads + 1 + engine::SCANS_MAX
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

/// The database, for commands that read all of it.
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

/// When the database is verified; `None` for never.
fn integrity(config: &Config) -> Result<Option<Schedule>, store::Error> {
    let every = config.database.verify_every.0;
    Ok(if every.is_zero() { None } else { Some(Schedule { source: source(config)?, every }) })
}

/// Says which keys a database server's process was not given, and what it does not do without them.
fn warn_of_missing_keys(config: &Config) {
    let keys = [
        (
            "flags.key_file",
            &config.flags.key_file,
            "feature flags, webhooks and gateways with stored secrets",
        ),
        ("signup.key_file", &config.signup.key_file, "sign-up"),
    ];
    for (setting, path, what) in keys {
        if path.is_empty() && !config.database.url.is_empty() {
            tracing::warn!(
                setting,
                "no key is set: {what} answer 501; give all processes of the database the same file"
            );
        }
    }
}

/// A data directory that has lost its database is not a new one, unless somebody says so.
fn find_lost_database(config: &Config) -> Result<(), store::Error> {
    let dir = &config.data_dir;
    if config.is_new_database {
        // Nobody's log is moved who still serves from it.
        let _lock = store::lock_dir(dir)?;
        if let Some(aside) = store::put_lost_log_aside(dir)? {
            tracing::warn!(log = %aside.display(), "the write-ahead log of a lost database is kept");
        }
        return Ok(());
    }
    let mut others = vec![store::analytics::DATABASE, store::delivery_log::DATABASE, SIMULATOR_DIR];
    // A key that the configuration names may have been there before.
    if config.flags.key_file.is_empty() {
        others.push(SECRETS_KEY_FILE);
    }
    if config.signup.key_file.is_empty() {
        others.push(sign_up::KEY_FILE);
    }
    store::refuse_lost_database(dir, &others)
}

/// The store, and the lock of the data directory where the store does not have it itself.
fn open_store(
    config: &Config,
    options: &store::Options,
) -> Result<(SqlStore, Option<store::DirLock>), store::Error> {
    let Some(server) = server(config)? else {
        find_lost_database(config)?;
        return Ok((store::open_dir(&config.data_dir, options)?, None));
    };
    let dir = store::lock_dir(&config.data_dir)?;
    Ok((store::open_server(&server, options)?, Some(dir)))
}
