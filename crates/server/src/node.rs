//! The core with all that it needs from outside: store, gateways, followers of the journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::flags::Board;
use ::signup::tokens::TokenKey;
use ::signup::{SignUp, operations};
use domain::{PartitionNo, Settings};
use engine::access::Access;
use engine::analytics::Follower;
use engine::ports::{Gateway, StoreError};
use engine::queue::Queue;
use engine::{Clock, Engine, FrontParts, Options, Parts, Running};
use gateway::external::External;
use gateway::mail::SetupError;
use gateway::push::{self, Reach};
use gateway::simulator::{self, Notification, Remote, Simulator};
use store::analytics::{AnalyticsQueries, SqliteReadModels, analytics_path};
use store::{Server, Share, Source, SqlQueries, SqlStore};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::{Config, MailTransport, Period, QueueKind, Role};
use crate::flags::{Feed, Keeper, Owners, due};
use crate::held_key::CheckValue;
use crate::mail::{self, Post, backlog, over, sweep};
use crate::native::analytics::Models;
use crate::queue::{self, Member};
use crate::seal::{self, Sealer};
use crate::{held_key, signup};

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
    /// The key of environments' secrets cannot be used.
    #[error(transparent)]
    Seal(#[from] seal::Error),
    /// Sign-up cannot be started.
    #[error(transparent)]
    Signup(#[from] signup::Error),
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

/// How long the start waits for the feature flags.
const FLAGS_READ_WITHIN: Duration = Duration::from_secs(5);

/// How often it looks whether they are there.
const FLAGS_LOOK_EVERY: Duration = Duration::from_millis(2);

/// A running core.
pub struct Node {
    /// What doors talk to.
    pub engine: Engine,
    /// Who may call.
    pub access: Access,
    /// The read models; a front has none.
    pub analytics: Option<Models>,
    /// What the secrets of environments are stored with, where there is a key.
    pub sealer: Option<Arc<Sealer>>,
    /// Sign-up, where there is a key.
    pub sign_up: Option<SignUp>,
    /// What the doors of feature flags show.
    pub flags: Arc<Board>,
    has_doors: bool,
    part: Part,
    followers: Followers,
    /// Keeps the data directory ours.
    _dir: Option<File>,
}

/// What of the core runs in this process.
enum Part {
    /// The one partition.
    Partition(Running),
    /// What the queue assigns to this process; nothing, on a front.
    Queue(Option<Box<Member>>),
}

/// What every engine of a process is made of.
#[derive(Clone)]
pub struct Core {
    /// The domain's settings.
    pub settings: Settings,
    /// Payment gateways by name.
    pub gateways: Gateways,
    /// The time.
    pub clock: Clock,
    /// The engine's own settings.
    pub options: Options,
    push: push::Options,
    post: Option<Arc<Post>>,
    signup_key: Option<CheckValue>,
    /// On whatever engine: that of a partition takes its place.
    sign_up: Option<SignUp>,
}

impl Core {
    fn new(
        config: &Config,
        gateways: Gateways,
        clock: Clock,
        key: Option<&signup::Key>,
    ) -> Result<Self, Error> {
        let (options, push) = (options(config), push_options(config));
        let settings = settings(config, &gateways);
        // Without the key there is no sign-up, and no mail.
        let tokens = key.map(|key| TokenKey::new(&key.root));
        let post = tokens.map(|tokens| Post::new(&config.mail, &config.data_dir, tokens));
        let post = post.transpose()?.map(Arc::new);
        if post.is_some() && is_mail_scattered(config) {
            tracing::warn!("mails are files of this process alone: set `mail.transport`");
        }
        let signup_key = key.map(|key| key.check.clone());
        Ok(Self { settings, gateways, clock, options, push, post, signup_key, sign_up: None })
    }

    /// The same, which makes registrations that are kept as this sign-up would.
    fn with_sign_up(self, sign_up: Option<&SignUp>) -> Self {
        Self { sign_up: sign_up.cloned(), ..self }
    }

    /// What runs beside a partition wherever it is owned. The first one's owner does what is to be
    /// done once.
    pub fn follow(&self, engine: &Engine, share: Share) -> Followers {
        let mut followers = Followers::none();
        followers.push = Some(push::start(engine.clone(), self.push.clone()));
        followers.follow(sweep::run(engine.clone(), share, until(followers.stopped())));
        if let Some(sign_up) = &self.sign_up {
            let worker = signup::worker(sign_up.on(engine.clone()), share, &self.push);
            followers.follow(operations::run(worker, until(followers.stopped())));
        }
        if share.partition == PartitionNo::FIRST {
            followers.follow(due::run(engine.clone(), until(followers.stopped())));
            followers.follow(backlog::run(engine.clone(), until(followers.stopped())));
            if let Some(check) = self.signup_key.clone() {
                followers.follow(held_key::hold(engine.clone(), check, until(followers.stopped())));
            }
            followers.follow(over::run(engine.clone(), until(followers.stopped())));
            if let Some(post) = self.post.clone() {
                followers.follow(mail::run(engine.clone(), post, until(followers.stopped())));
            }
        }
        followers
    }
}

/// Whether mails are written into files, although others than this machine may be asked for them: with
/// a database on a server any process may be the one that sends.
fn is_mail_scattered(config: &Config) -> bool {
    config.mail.transport == MailTransport::File
        && !config.database.url.is_empty()
        && config.role != Role::Front
}

/// What follows the core: stopped before it, because they write through it.
pub struct Followers {
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
        let readers = config.engine.reader_threads;
        // A connection more than readers: the followers read on threads of their own.
        let queries = Arc::new(store.queries(readers + 1)?);
        let (gateways, notifications) = gateways(config, &clock)?;
        let key = signup::key(config, &*queries)?;
        let core = Core::new(config, gateways, clock.clone(), key.as_ref())?;
        let parts = Parts {
            store,
            queries: queries.clone(),
            settings: core.settings.clone(),
            gateways: core.gateways.clone(),
            clock: clock.clone(),
            options: core.options.clone(),
        };
        let (engine, running) = Engine::start(parts)?;
        let sign_up = signup::open(config, key.as_ref(), &engine)?;
        let core = core.with_sign_up(sign_up.as_ref());
        let mut followers = core.follow(&engine, Share::WHOLE);
        if let Some(notifications) = notifications {
            let stopped = followers.stopped();
            followers.follow(take_notifications(engine.clone(), notifications, stopped));
        }
        let path = analytics_path(&config.data_dir);
        let models = SqliteReadModels::open(&path, &source(config)?, &of_store)?;
        let follower = Follower::open(queries, Box::new(models), clock)?;
        engine.waits_for(follower.applied());
        followers.follow(follower.run(engine.head(), until(followers.stopped())));
        let flags = feed(config, (&engine, sealer.as_ref()), &mut followers)?;
        let analytics = Models::new(AnalyticsQueries::open(&path, &of_store, readers)?, readers);
        Ok(Self {
            access: access(config, &engine),
            sign_up,
            engine,
            analytics: Some(analytics),
            sealer,
            flags,
            has_doors: true,
            part: Part::Partition(running),
            followers,
            _dir: dir,
        })
    }

    /// One of several processes with a queue between them.
    fn among_others(config: &Config) -> Result<Self, Error> {
        let server = server(config)?.ok_or(Error::NoServer)?;
        let dir = store::lock_dir(&config.data_dir)?;
        let sealer = sealer(config)?;
        let clock = Clock::new(config.test_clock);
        let (gateways, _) = gateways(config, &clock)?;
        let options = store::Options::default();
        let queries = Arc::new(SqlQueries::of_server(&server, config.engine.reader_threads + 1)?);
        let key = signup::key(config, &*queries)?;
        let core = Core::new(config, gateways, clock, key.as_ref())?;
        let has_doors = config.role != Role::Processor;
        let queue: Arc<dyn Queue> = match has_doors {
            true => Arc::new(queue::front(config)?),
            false => Arc::new(queue::Nobody),
        };
        let engine = Engine::front(FrontParts {
            queue,
            queries: queries.clone(),
            clock: core.clock.clone(),
            settings: core.settings.clone(),
            options: core.options.clone(),
        });
        let sign_up = signup::open(config, key.as_ref(), &engine)?;
        let core = core.with_sign_up(sign_up.as_ref());
        let member = match config.role {
            Role::Front => None,
            Role::All | Role::Processor => {
                let place = (server, options);
                Some(Box::new(Member::join(config, core, place, queries, engine.clone())?))
            }
        };
        let mut followers = Followers::none();
        let flags = match has_doors {
            true => feed(config, (&engine, sealer.as_ref()), &mut followers)?,
            false => Arc::default(),
        };
        Ok(Self {
            access: access(config, &engine),
            sign_up,
            engine,
            analytics: None,
            sealer,
            flags,
            has_doors,
            part: Part::Queue(member),
            followers,
            _dir: Some(dir),
        })
    }

    /// Whether somebody else makes the administrator and the first tenant: whoever gets the first
    /// partition does.
    #[must_use]
    pub const fn is_among_others(&self) -> bool {
        matches!(self.part, Part::Queue(_))
    }

    /// Waits until the feature flags that there are have been read, but not for long: whoever asks
    /// for them meanwhile is told to come again.
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

    /// The feature flags, where doors show them and there is a key to their secrets.
    #[must_use]
    pub fn shown_flags(&self) -> Option<Arc<Board>> {
        let are_shown = self.sealer.is_some() && self.has_doors;
        are_shown.then(|| Arc::clone(&self.flags))
    }

    /// What reads the feature flags of the store, where there is a key to their secrets.
    #[must_use]
    pub fn feed(&self, config: &Config) -> Option<Feed> {
        let (board, missing) = (Arc::clone(&self.flags), config.flags.missing_attribute.rule());
        let owners = Arc::default();
        self.sealer.clone().map(|sealer| Feed { board, sealer, missing, owners })
    }

    /// Stops the followers, then the core; calls in flight get until the deadline.
    pub async fn stop(self, deadline: Duration) {
        self.followers.stop().await;
        match self.part {
            Part::Partition(running) => running.stop(deadline).await,
            Part::Queue(Some(member)) => member.leave(deadline).await,
            Part::Queue(None) => {}
        }
    }
}

/// The key of environments' secrets: a file of its own in the data directory, where all is there.
fn sealer(config: &Config) -> Result<Option<Arc<Sealer>>, seal::Error> {
    let sealer = match (config.flags.key_file.as_str(), config.database.url.is_empty()) {
        ("", true) => Sealer::in_dir(&config.data_dir)?,
        ("", false) => return Ok(None),
        (path, _) => Sealer::read(Path::new(path))?,
    };
    Ok(Some(Arc::new(sealer)))
}

/// A board that shows the flags of the store and follows them, and whose insights are kept.
fn feed(
    config: &Config,
    (engine, sealer): (&Engine, Option<&Arc<Sealer>>),
    followers: &mut Followers,
) -> Result<Arc<Board>, store::Error> {
    let board = Arc::<Board>::default();
    let missing = config.flags.missing_attribute.rule();
    // Without the key no secret opens anything: streams are told to come again.
    if let Some(sealer) = sealer {
        let owners = Arc::<Owners>::default();
        let counted = (Arc::clone(&board), Arc::clone(&owners));
        let database = server(config)?.map(Source::Server);
        let database = database.unwrap_or_else(|| Source::in_dir(&config.data_dir));
        let retention = config.flags.insights_retention.0;
        let keeper = Keeper::new(counted, database, engine.clock().clone(), retention);
        followers.follow(keeper.keep(followers.stopped()));
        let feed = Feed { board: Arc::clone(&board), sealer: Arc::clone(sealer), missing, owners };
        let stopped = until(followers.stopped());
        followers.follow(engine::flags::follow(engine.clone(), Arc::new(feed), stopped));
    }
    Ok(board)
}

fn access(config: &Config, engine: &Engine) -> Access {
    Access::new(engine.clone(), config.access.cache_life.0, config.access.hashing_threads)
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
    /// Nobody.
    pub fn none() -> Self {
        Self { stop: watch::Sender::new(false), tasks: Vec::new(), push: None }
    }

    /// Turns true when they are to stop.
    pub fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// One more.
    pub fn follow(&mut self, follower: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(tokio::spawn(follower));
    }

    /// Ends them all.
    pub async fn stop(self) {
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
pub async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that nobody can say it any more, which says it too.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// Payment gateways by name.
pub type Gateways = BTreeMap<String, Arc<dyn Gateway>>;

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
