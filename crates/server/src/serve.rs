//! `faregate serve`: everything put together, started, and stopped again without losing anything.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use ::mail::Mailer;
use ::sign_up::operations::CallbackCheck;
use ::sign_up::probe::Probe;
use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use secrets::token_file::Token;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use web::NetworkPermits;

pub use crate::error::Error;
pub use crate::process::{Signal, Signals, raise_open_files, runtime};
use config::{Config, MailTransport, Role};

use crate::engine_parts::push_reach;
use crate::first_start::{self, Given, Made};
use crate::health::Health;
use crate::metrics::{self, Exporter, LastAnswer, Streams};
use http_server::listener::Incoming;
use http_server::tls::ServedCertificate;
use http_server::{CertificateWatch, listener, with_route_labels};

use crate::background::all_of;
use crate::http_setup::{
    Memory, Networks, connection_options, connections_max, flag_settings, front,
};
use crate::node::Node;
use crate::process::survive_file_size_limit;
use crate::workers::{self, Workers};
use crate::{operations, pages, probe, rpc};

/// File descriptors that are not for clients: the database, gateways, push notifications, logs.
const OPEN_FILES_OWN: u64 = 1_024;

/// How long answers may take to be written after the drain deadline.
const LAST_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The share of the drain deadline in which streams of feature flags are closed, so that not all
/// of them come back at once elsewhere.
const FLAGS_DRAIN_SHARE: f64 = 0.5;

/// How long a closing stream may take.
const FLAGS_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Serves until SIGTERM or SIGINT, then drains. On SIGHUP the certificate is read again.
///
/// # Errors
/// [`Error`] where it cannot start.
pub fn run(config: &Config) -> Result<(), Error> {
    runtime(config)?.block_on(async {
        let mut signals = Signals::new().map_err(Error::Signals)?;
        let given = Given::by_environment();
        let server = Server::start(config, given).await?;
        // Read by scripts and tests; the port may have been 0.
        say(&format!("listening on {}", server.url()));
        if let Some(url) = &server.grpc_url {
            say(&format!("grpc listening on {url}"));
        }
        if let Some(url) = &server.operations_url {
            say(&format!("operations listening on {url}"));
        }
        say(&next_steps(&server.url(), config));
        while signals.next().await == Signal::Reload {
            server.reload();
        }
        tracing::info!(
            delay_s = config.drain_delay.0.as_secs_f64(),
            "stopping: /health/ready answers 503; new connections are refused after drain_delay"
        );
        server.stop().await;
        tracing::info!("stopped");
        Ok(())
    })
}

/// Prints a line to standard output. A server serves also where nobody reads it.
pub fn say(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        tracing::warn!(%error, line, "standard output cannot be written");
    }
}

/// Checks what can be checked without opening the database or a port: TLS files, a given administrator's
/// password, and the SMTP server's password. Returns the certificate, `None` without TLS.
///
/// # Errors
/// [`Error`].
pub fn check(config: &Config, given: &Given) -> Result<Option<Arc<ServedCertificate>>, Error> {
    first_start::check_given(config, given)?;
    if config.mail.transport == MailTransport::Smtp && config.role != Role::Front {
        Mailer::new(&config.mail.options(&config.data_dir)).map_err(crate::node::Error::from)?;
    }
    Ok(ServedCertificate::read(config.tls.files())?)
}

/// Says whom the limits of sign-up count.
fn report_exempt(config: &Config, node: &Node) {
    if node.sign_up.is_none() {
        return;
    }
    match config.exempts_local() {
        true => tracing::info!(
            "programs on this machine are exempt from the limits of sign-up, where they name no client: no other \
             machine reaches the server, and no proxy is trusted"
        ),
        false => tracing::info!(
            "the limits of sign-up count for this machine too: other machines reach the server, or a proxy is \
             trusted"
        ),
    }
}

/// The next steps, for people who start the server for the first time.
fn next_steps(url: &str, config: &Config) -> String {
    let secrets = config.data_dir.join(first_start::CREDENTIALS);
    let secrets = match secrets.exists() {
        true => format!("credentials of the first start: {}", secrets.display()),
        false => format!("keys and secrets: {}", config.data_dir.display()),
    };
    let mails = match config.role {
        Role::Front => String::new(),
        Role::All | Role::Processor => {
            format!("\nmails: {}", config.mail.destination(&config.data_dir))
        }
    };
    format!(
        "API reference: {url}/docs\ncreate a tenant: faregate tenants create --key NAME --url {url}\n\
         {secrets}{mails}"
    )
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    drain_delay: Duration,
    drain_deadline: Duration,
    leaving: watch::Sender<bool>,
    stopping: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    grpc_url: Option<String>,
    operations_url: Option<String>,
    upkeep: JoinHandle<()>,
    probing: Option<JoinHandle<()>>,
    certificate: Option<CertificateWatch>,
    node: Node,
    workers: Option<Workers>,
}

impl Server {
    /// Opens the data directory, prepares a first start, and listens. Once per process.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn start(config: &Config, given: Given) -> Result<Self, Error> {
        for name in &config.unknown_variables {
            tracing::warn!(name, "an environment variable is no setting; it is ignored");
        }
        let open_files_max = raise_open_files();
        survive_file_size_limit().map_err(Error::Signals)?;
        let recorder = metrics::install()?;
        let certificate = check(config, &given)?;
        let acceptor = certificate.as_ref().map(http_server::tls::acceptor).transpose()?;
        // Bound before the data directory is opened: the cheaper refusal comes first.
        let port = Port::take(config)?;
        let address = port.address()?;
        let grpc = rpc::bind(config, certificate.as_ref())?;
        let operations = operations::bind(config)?;
        let node = open_node(config).await?;
        let token = Arc::new(operations::token(config)?);
        metrics::gauge_start(open_files_max, node.engine.clock().real_now());
        first_start::check_stored(config, &node.access).await?;
        if !node.is_among_others() {
            let keep = |made: &Made| first_start::keep(&config.data_dir, made);
            first_start::prepare(&node.engine, &node.access, given, keep).await?;
        }
        node.flags_are_read().await;
        report_exempt(config, &node);
        let (leaving, left) = watch::channel(false);
        let (stopping, stopped) = watch::channel(false);
        let data_dir = config.data_dir.clone();
        let (engine, flags) = (node.engine.clone(), node.shown_flags());
        let health = Health::watch(engine, data_dir, flags, left).await.warned_of(config);
        let upkeep = tokio::spawn(metrics::upkeep(recorder.clone()));
        let networks = Networks::new(config);
        let of_grpc = (&node, health.clone());
        let grpc = grpc.map(|it| it.serve(config, of_grpc, networks.clone(), stopped.clone()));
        let (grpc_url, grpc) = grpc.map(|it| (it.url, it.accepting)).unzip();
        let operations_url = operations.as_ref().map(operations::Bound::url);
        let (arrivals, workers) = port.arrivals(config, &node).await?;
        let of_workers = workers.as_ref().map(Workers::streams).unwrap_or_default();
        let certificate = certificate.map(CertificateWatch::start);
        let (probe, probing) = crate::sign_up::probe(config, node.sign_up.as_ref()).unzip();
        let Networks { connections, streams, answers, .. } = networks;
        let web = Web {
            config,
            node: &node,
            health,
            recorder,
            of_workers,
            is_tls: certificate.is_some(),
            probe,
            token,
            streams,
            memory: Memory::new(config, answers),
        };
        let limits = (connections_max(config, open_files_max, OPEN_FILES_OWN), connections);
        let http = web.accept((arrivals, operations), acceptor, limits, stopped);
        let accepting = all_of(http.into_iter().chain(grpc));
        Ok(Self {
            address,
            drain_delay: config.drain_delay.0,
            drain_deadline: config.drain_deadline.0,
            leaving,
            stopping,
            accepting,
            grpc_url,
            operations_url,
            upkeep,
            probing,
            certificate,
            node,
            workers,
        })
    }

    /// Reads again what can be replaced while it serves: the certificate.
    pub fn reload(&self) {
        match &self.certificate {
            Some(certificate) => certificate.reload(),
            None => tracing::info!("SIGHUP: there is no certificate to read again"),
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.certificate.is_some() { "https" } else { "http" }, self.address)
    }

    /// Reports that it is not ready and serves on for the drain delay. Then stops accepting, lets what is in progress end until the deadline, and stops the core, which
    /// answers requests that still wait for a gateway: their outcome is unknown.
    pub async fn stop(mut self) {
        self.leaving.send_replace(true);
        tokio::time::sleep(self.drain_delay).await;
        let until = Instant::now() + self.drain_deadline;
        self.stopping.send_replace(true);
        self.node.engine.drain();
        let spread = self.drain_deadline.mul_f64(FLAGS_DRAIN_SHARE);
        let (drained, (), ()) = tokio::join!(
            tokio::time::timeout(self.drain_deadline, &mut self.accepting),
            self.node.flags.drain(spread, FLAGS_CLOSE_TIMEOUT),
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
        drop(self.certificate);
        self.probing.iter().for_each(JoinHandle::abort);
        self.node.stop(until.saturating_duration_since(Instant::now())).await;
        web::refusal_log::report_dropped();
        let written = tokio::time::timeout(LAST_ANSWERS_WITHIN, self.accepting);
        if !drained && written.await.is_err() {
            tracing::warn!("connections are closed without an answer");
        }
    }
}

/// Opens the node where one may wait: a database server is waited for.
///
/// # Errors
/// [`Error`] where a part of it cannot be opened.
pub async fn open_node(config: &Config) -> Result<Node, Error> {
    let config = config.clone();
    let opened = tokio::task::spawn_blocking(move || Node::open(&config)).await;
    let opened = opened.map_err(|error| Error::Runtime(io::Error::other(error)))?;
    Ok(opened?)
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
    ) -> Result<(Incoming, Option<Workers>), Error> {
        let port = match self {
            Self::Mine(listener) => return Ok((Incoming::Listening(listener), None)),
            Self::Workers(port) => port,
        };
        let Some(feed) = node.feed(config) else { return Err(Error::WorkersWithoutKey) };
        let started = Workers::start(port, config, &node.engine, &feed).await;
        let (workers, arrivals) = started.map_err(Error::Workers)?;
        Ok((Incoming::HandedOver(arrivals), Some(workers)))
    }
}

/// The parts that the APIs are made of.
struct Web<'a> {
    config: &'a Config,
    node: &'a Node,
    health: Health,
    recorder: PrometheusHandle,
    of_workers: Arc<[AtomicUsize]>,
    is_tls: bool,
    probe: Option<Probe>,
    /// The token that requests for metrics on the main port must have.
    token: Arc<Token>,
    /// Streams of feature flags by network.
    streams: Arc<NetworkPermits>,
    memory: Memory,
}

impl Web<'_> {
    /// Accepts connections on the main port, and on that of operations where there is one.
    fn accept(
        self,
        (arrivals, operations): (Incoming, Option<operations::Bound>),
        tls: Option<TlsAcceptor>,
        connections: (usize, Arc<NetworkPermits>),
        stopping: watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let exporter = Arc::new(self.exporter());
        let router = self.router(&exporter);
        let front = Arc::new(front(self.config, self.memory.clone(), router));
        let options = connection_options(self.config, tls, connections, None);
        let main = tokio::spawn(listener::serve(arrivals, front, options, stopping.clone()));
        let operations =
            operations.map(|it| it.serve(self.config, (&self.health, exporter), stopping));
        std::iter::once(main).chain(operations).collect()
    }

    fn exporter(&self) -> Exporter {
        let streams = Streams {
            cache: Arc::clone(&self.node.flags),
            of_workers: Arc::clone(&self.of_workers),
        };
        let (handle, engine) = (self.recorder.clone(), self.node.engine.clone());
        let memory = self.memory.clone();
        Exporter { handle, engine, memory, streams, last: LastAnswer::default() }
    }

    fn router(&self, exporter: &Arc<Exporter>) -> Router {
        let (engine, access) = (self.node.engine.clone(), self.node.access.clone());
        let operations = operations::routes(&self.health, exporter, &self.token);
        if self.config.role == Role::Processor {
            return with_route_labels(operations).fallback(async || v1::Error::NoRoute);
        }
        let synthetic = self.probe.clone().map(probe::router);
        let reach = push_reach(self.config);
        let check_callback: killbill::CallbackCheck = Arc::new(move |url| {
            outbound::validate_callback(url, reach).map_err(|error| error.to_string())
        });
        let callbacks: CallbackCheck = Arc::new(move |url| {
            let valid = outbound::validate_request_callback(url, reach);
            valid.map_err(|error| error.to_string())
        });
        let settings = killbill::Settings {
            tls: self.is_tls,
            public_url: self.config.public_url.clone(),
            check_callback,
            sealer: self.node.sealer.clone(),
            rotation: self.health.rotation(),
            calls_gateways: self.config.role != Role::Front,
            process_figures: Arc::new(metrics::process_figures),
            scripts: self.node.scripts.clone(),
            ..killbill::Settings::default()
        };
        let kill_bill = killbill::KillBillApi::new(engine.clone(), access.clone(), settings);
        let (analytics, sealer) = (self.node.analytics.clone(), self.node.sealer.clone());
        let missing = self.config.flags.missing_attribute.rule();
        let cache = Arc::clone(&self.node.flags);
        let (streams, answers) = (Arc::clone(&self.streams), Arc::clone(&self.memory.answers));
        let flag_settings = flag_settings(self.config, streams, answers);
        let write_locks = Arc::default();
        let webhooks = v1::webhooks::Settings {
            reach,
            log: self.node.delivery_log.clone(),
            replays: self.node.log_source.clone().map(v1::webhooks::replays::Stored::new),
        };
        let http = self.config.gateway.http.keys().cloned().collect();
        let (public_url, unlimited) =
            (self.config.public_url.clone(), self.config.unlimited_networks());
        let gateways = v1::gateways::Settings::new(http, public_url, unlimited);
        let v1 = v1::Api {
            engine,
            access,
            analytics,
            sealer,
            cache,
            write_locks,
            missing,
            webhooks,
            event_streams: v1::events::Streams::default(),
            gateways,
        };
        let counted = Router::new()
            .merge(operations)
            .merge(synthetic.unwrap_or_default())
            .merge(pages::router())
            .merge(v1::router(v1))
            .merge(::flags::router(Arc::clone(&self.node.flags), flag_settings))
            .merge(crate::sign_up::router(
                self.node.sign_up.as_ref(),
                &self.node.access,
                callbacks,
                self.node.sealer.as_ref(),
            ));
        with_route_labels(counted)
            .merge(killbill::router(kill_bill))
            .fallback(async || v1::Error::NoRoute)
    }
}
