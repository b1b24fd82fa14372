//! `faregate serve`: everything put together, started, and stopped again without losing anything.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use ::signup::probe::Probe;
use axum::Router;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::config::{Config, Role};
use crate::first_start::{self, Made};
use crate::health::{self, Health};
use crate::http::listener::Arrivals;
use crate::http::{Admission, Bodies, Front, Patience, listener};
use crate::metrics::{self, Exporter, Requests, Streams};
use crate::native::{self, Native};
use crate::node::{self, Node};
use crate::problem::Problem;
use crate::workers::{self, Sorter, Workers};
use crate::{pages, rpc, tls};

/// File descriptors that are not for clients: the database, gateways, push notifications, logs.
const OPEN_FILES_OWN: u64 = 1_024;

/// How long answers may take to be written after the drain deadline.
const LAST_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The share of the drain deadline in which streams of feature flags are told to go, so that not all
/// of them come back at once elsewhere.
const FLAGS_DRAIN_SHARE: f64 = 0.5;

/// How long a stream that was told to go may take to do so.
const FLAGS_FAREWELL: Duration = Duration::from_secs(3);

/// The smallest share of the descriptors that clients get, where there are few.
const CONNECTIONS_MIN: usize = 64;

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory or a gateway cannot be used.
    #[error(transparent)]
    Node(#[from] node::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// The first start failed.
    #[error(transparent)]
    FirstStart(#[from] first_start::Error),
    /// Processes for feature flags do not start.
    #[error("workers of feature flags: {0}")]
    Workers(io::Error),
    /// There is no key to the secrets that workers are to know.
    #[error("`flags.workers` need `flags.key_file`")]
    WorkersWithoutKey,
    /// Signals cannot be waited for.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    /// The runtime cannot be started.
    #[error("cannot start threads: {0}")]
    Runtime(io::Error),
    /// Something else counts in this process already.
    #[error("cannot start metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

/// Serves until SIGTERM or SIGINT, then drains.
///
/// # Errors
/// [`Error`] where it cannot start.
pub fn run(config: &Config) -> Result<(), Error> {
    runtime(config)?.block_on(async {
        let mut signals = Signals::new().map_err(Error::Signals)?;
        let password = first_start::password();
        let server = Server::start(config, password).await?;
        // Read by scripts and tests; the port may have been 0.
        println!("listening on {}", server.url());
        if let Some(url) = &server.grpc_url {
            println!("grpc listening on {url}");
        }
        signals.wait().await;
        tracing::info!("stopping: no new requests; those in progress are finished");
        server.stop().await;
        tracing::info!("stopped");
        Ok(())
    })
}

/// The runtime for everything that waits. The partition has a thread of its own beside it.
///
/// # Errors
/// Where the system gives no threads.
pub fn runtime(config: &Config) -> Result<tokio::runtime::Runtime, Error> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if config.worker_threads > 0 {
        builder.worker_threads(config.worker_threads);
    }
    builder.thread_name("http").enable_all().build().map_err(Error::Runtime)
}

/// The signals that end the process.
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Takes the signals over from the system, which would end the process at once.
    ///
    /// # Errors
    /// Where the system does not give them.
    pub fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for SIGTERM or SIGINT.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    is_tls: bool,
    drain_deadline: Duration,
    stopping: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    grpc_url: Option<String>,
    upkeep: JoinHandle<()>,
    probing: Option<JoinHandle<()>>,
    node: Node,
    workers: Option<Workers>,
}

impl Server {
    /// Opens the data directory, prepares a first start, and listens. Once per process.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn start(config: &Config, password: Option<String>) -> Result<Self, Error> {
        let open_files_max = raise_open_files();
        survive_file_size_limit().map_err(Error::Signals)?;
        let recorder = metrics::install()?;
        let acceptor = tls::acceptor(&config.tls)?;
        // Bound before the data directory is opened: the cheaper refusal comes first.
        let port = Port::take(config)?;
        let address = port.address()?;
        let grpc = rpc::bind(config)?;
        let node = open_node(config).await?;
        metrics::gauge_start(open_files_max, node.engine.clock().real_now());
        if !node.is_among_others() {
            first_start::prepare(&node.engine, &node.access, password, announce).await?;
        }
        node.flags_are_read().await;
        let (stopping, stopped) = watch::channel(false);
        let data_dir = config.data_dir.clone();
        let (engine, flags) = (node.engine.clone(), node.shown_flags());
        let health = Health::watch(engine, data_dir, flags, stopped.clone()).await;
        let upkeep = tokio::spawn(metrics::upkeep(recorder.clone()));
        let is_tls = acceptor.is_some();
        let grpc = grpc.map(|it| it.serve(config, (&node, health.clone()), stopped.clone()));
        let (arrivals, workers) = port.arrivals(config, &node).await?;
        let of_workers = workers.as_ref().map(Workers::streams).unwrap_or_default();
        let (probe, probing) = crate::signup::probe(config, node.sign_up.as_ref()).unzip();
        let web = Web { config, node: &node, health, recorder, of_workers, is_tls, probe };
        let connections_max = connections_max(config, open_files_max, OPEN_FILES_OWN);
        let accepting = web.accept(arrivals, acceptor, connections_max, stopped);
        let (grpc_url, accepting) = rpc::beside(accepting, grpc);
        let drain_deadline = config.drain_deadline.0;
        Ok(Self {
            address,
            is_tls,
            drain_deadline,
            stopping,
            accepting,
            grpc_url,
            upkeep,
            probing,
            node,
            workers,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.address)
    }

    /// Stops accepting, lets what is in progress end until the deadline, and stops the core, which
    /// tells whoever still waits for a gateway that the outcome is not known.
    pub async fn stop(mut self) {
        let until = Instant::now() + self.drain_deadline;
        self.stopping.send_replace(true);
        let spread = self.drain_deadline.mul_f64(FLAGS_DRAIN_SHARE);
        let (drained, (), ()) = tokio::join!(
            tokio::time::timeout(self.drain_deadline, &mut self.accepting),
            self.node.flags.drain(spread, FLAGS_FAREWELL),
            async {
                if let Some(workers) = &mut self.workers {
                    workers.stop(spread, self.drain_deadline).await;
                }
            },
        );
        let drained = drained.is_ok();
        if !drained {
            tracing::warn!("the drain deadline has passed with requests in progress");
        }
        self.upkeep.abort();
        self.probing.iter().for_each(JoinHandle::abort);
        self.node.stop(until.saturating_duration_since(Instant::now())).await;
        let written = tokio::time::timeout(LAST_ANSWERS_WITHIN, self.accepting);
        if !drained && written.await.is_err() {
            tracing::warn!("connections are closed without an answer");
        }
    }
}

/// Opens the node where one may wait: a database server is waited for.
async fn open_node(config: &Config) -> Result<Node, Error> {
    let config = config.clone();
    let opened = tokio::task::spawn_blocking(move || Node::open(&config)).await;
    let opened = opened.map_err(|error| Error::Runtime(io::Error::other(error)))?;
    Ok(opened?)
}

/// Shows what a first start made up; the only time anybody sees it.
pub fn announce(made: &Made) {
    if let Some(password) = &made.password {
        eprintln!("first start: user {}, password {password}", first_start::ADMIN);
    }
    if let Some((api_key, api_secret)) = &made.tenant {
        eprintln!("first start: tenant default, API key {api_key}, API secret {api_secret}");
    }
}

/// Raises the limit of open files as far as this process may, and returns it.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(error = %error, "the limit of open files cannot be raised");
            limit.current.unwrap_or(u64::MAX)
        }
    }
}

/// Makes a write beyond a limit on a file's size fail, as on a full disk, instead of ending the
/// process: what a signal does once somebody listens to it.
fn survive_file_size_limit() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::from_raw(libc::SIGXFSZ)).map(drop)
}

/// The connections that may be open, given how many files may.
pub fn connections_max(config: &Config, open_files_max: u64, own: u64) -> usize {
    let for_clients = open_files_max.saturating_sub(own);
    let possible = usize::try_from(for_clients).unwrap_or(usize::MAX).max(CONNECTIONS_MIN);
    let wanted = config.admission.connections_max;
    if possible < wanted {
        tracing::info!(wanted, possible, "fewer connections: the limit of open files is lower");
    }
    wanted.min(possible)
}

/// The port, before it is known who accepts.
enum Port {
    Mine(TcpListener),
    Workers(workers::Port),
}

impl Port {
    fn take(config: &Config) -> Result<Self, Error> {
        let taken = match config.flags.workers {
            0 => listener::bind(config.listen).map(Self::Mine),
            _ => workers::Port::take(config.listen).map(Self::Workers),
        };
        taken.map_err(|source| Error::Listen { address: config.listen, source })
    }

    fn address(&self) -> Result<SocketAddr, Error> {
        let address = match self {
            Self::Mine(listener) => listener.local_addr(),
            Self::Workers(port) => port.address(),
        };
        address.map_err(Error::Runtime)
    }

    async fn arrivals(
        self,
        config: &Config,
        node: &Node,
    ) -> Result<(Arrivals, Option<Workers>), Error> {
        let port = match self {
            Self::Mine(listener) => return Ok((Arrivals::Listening(listener), None)),
            Self::Workers(port) => port,
        };
        let Some(feed) = node.feed(config) else { return Err(Error::WorkersWithoutKey) };
        let started = Workers::start(port, config, &node.engine, &feed).await;
        let (workers, arrivals) = started.map_err(Error::Workers)?;
        Ok((Arrivals::HandedOver(arrivals), Some(workers)))
    }
}

/// How all connections are treated.
pub fn manners(
    config: &Config,
    tls: Option<TlsAcceptor>,
    connections_max: usize,
    sorter: Option<Sorter>,
) -> listener::Manners {
    let http = &config.http;
    listener::Manners {
        tls,
        patience: Patience {
            idle: http.idle_timeout.0,
            headers: http.headers_timeout.0,
            body: http.body_timeout.0,
        },
        headers_bytes_max: http.headers_bytes_max,
        connections_max,
        sorter,
    }
}

/// What every request passes before it gets to these doors.
pub fn front(
    config: &Config,
    admission: Admission,
    router: impl FnOnce(Arc<Bodies>) -> Router,
) -> Front {
    let http = &config.http;
    let bodies =
        Bodies::new(http.body_bytes_max, http.body_timeout.0, config.admission.bodies_bytes_max);
    Front {
        router: router(Arc::clone(&bodies)),
        admission,
        requests: Requests::new(),
        bodies,
        trusted_proxies: config.access.trusted_proxies.clone(),
    }
}

/// How the doors of feature flags are set up.
pub fn flag_settings(config: &Config) -> ::flags::Settings {
    let limits = config.flags.rate_limits;
    ::flags::Settings {
        prefix: config.flags.path_prefix.clone(),
        rate_limits: ::flags::RateLimits {
            streaming: limits.streaming,
            sdk: limits.sdk,
            insight: limits.insight,
            feature_flag: limits.feature_flag,
            ofrep: limits.ofrep,
        },
        body_error: |error| {
            error.downcast_ref::<killbill::BodyError>().map(|error| match error {
                killbill::BodyError::TooLarge => ::flags::BodyError::TooLarge,
                killbill::BodyError::TimedOut => ::flags::BodyError::TimedOut,
                killbill::BodyError::Broken => ::flags::BodyError::Broken,
                killbill::BodyError::NoRoom => ::flags::BodyError::NoRoom,
            })
        },
        ..::flags::Settings::default()
    }
}

/// What the doors are made of.
struct Web<'a> {
    config: &'a Config,
    node: &'a Node,
    health: Health,
    recorder: PrometheusHandle,
    of_workers: Arc<[AtomicUsize]>,
    is_tls: bool,
    probe: Option<Probe>,
}

impl Web<'_> {
    fn accept(
        self,
        arrivals: Arrivals,
        tls: Option<TlsAcceptor>,
        connections_max: usize,
        stopping: watch::Receiver<bool>,
    ) -> JoinHandle<()> {
        let admission = Admission::new(self.config.admission.requests_max);
        let front = front(self.config, admission.clone(), |bodies| self.router(admission, bodies));
        let manners = manners(self.config, tls, connections_max, None);
        tokio::spawn(listener::serve(arrivals, Arc::new(front), manners, stopping))
    }

    fn router(&self, admission: Admission, bodies: Arc<Bodies>) -> Router {
        let (engine, access) = (self.node.engine.clone(), self.node.access.clone());
        let handle = self.recorder.clone();
        let streams = Streams {
            board: Arc::clone(&self.node.flags),
            of_workers: Arc::clone(&self.of_workers),
        };
        let exporter = Exporter { handle, engine: engine.clone(), admission, bodies, streams };
        let operations = Router::new()
            .route("/metrics", get(metrics::scrape).with_state(Arc::new(exporter)))
            .route("/health/live", get(health::live))
            .route("/health/ready", get(health::ready).with_state(self.health.clone()))
            // The same by FeatBit's names.
            .route("/health/liveness", get(health::live))
            .route("/health/readiness", get(health::ready).with_state(self.health.clone()));
        if self.config.role == Role::Processor {
            return operations.fallback(async || Problem::NoRoute);
        }
        let synthetic = self.probe.clone().map(::signup::probe::router);
        let reach = node::push_reach(self.config);
        let check_callback: killbill::CallbackCheck = Arc::new(move |url| {
            gateway::push::validate_callback(url, reach).map_err(|error| error.to_string())
        });
        let callbacks = Arc::clone(&check_callback);
        let settings = killbill::DoorSettings {
            tls: self.is_tls,
            check_callback,
            ..killbill::DoorSettings::default()
        };
        let kill_bill = killbill::Door::new(engine.clone(), access.clone(), settings);
        let (analytics, sealer) = (self.node.analytics.clone(), self.node.sealer.clone());
        let missing = self.config.flags.missing_attribute.rule();
        let board = Arc::clone(&self.node.flags);
        let turns = Arc::default();
        let native = Native { engine, access, analytics, sealer, board, turns, missing };
        Router::new()
            .merge(operations)
            .merge(synthetic.unwrap_or_default())
            .merge(pages::router())
            .merge(native::router(native))
            .merge(::flags::router(Arc::clone(&self.node.flags), flag_settings(self.config)))
            .merge(crate::signup::router(self.node.sign_up.as_ref(), &self.node.access, callbacks))
            .merge(killbill::router(kill_bill))
            .fallback(async || Problem::NoRoute)
    }
}
