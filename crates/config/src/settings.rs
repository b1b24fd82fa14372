//! Every setting with its default; `config.default.toml` documents them for operators.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::database::DatabaseUrl;
use super::http_gateway::HttpGateway;
use super::mail::Mail;
use super::period::Period;
use super::routing::{Breaker, Tries};
use super::secret::Secret;
use super::sign_up::Signup;
use super::stripe::Stripe;
use feature_flags::RateLimits;
use http_server::tls::TlsFiles;
use web::Network;

const KIB: usize = 1024;

/// The effective configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Variables of the environment with our prefix that are no settings, for a warning.
    #[serde(skip)]
    pub unknown_variables: Vec<String>,
    /// Whether to begin anew where the data directory has lost its database; only on the command line.
    #[serde(skip)]
    pub is_new_database: bool,
    /// Whether to go on from the newest journal row however far the clock is behind it; only on the command line.
    #[serde(skip)]
    pub accepts_clock_behind: bool,
    pub role: Role,
    /// The address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// The directory of all durable data that is not in [`Config::database`].
    pub data_dir: PathBuf,
    /// Whether clients may set domain time, and the simulated gateway answers.
    pub test_clock: bool,
    /// Whether [`Config::test_clock`] may be on while others than this machine can reach the server.
    pub test_clock_off_loopback: bool,
    /// Threads for HTTP; 0: one per core.
    pub worker_threads: usize,
    /// The beginning of `Location`; empty: the request's scheme and `Host`.
    pub public_url: String,
    /// How long a shutdown serves on while `/health/ready` answers 503.
    pub drain_delay: Period,
    /// How long a shutdown waits for requests and gateway calls in progress.
    pub drain_deadline: Period,
    /// A database server in place of the data directory's database.
    pub database: Database,
    pub tls: Tls,
    pub http: Http,
    pub grpc: Grpc,
    pub operations: Operations,
    pub admission: Admission,
    pub engine: Engine,
    pub gateway: Gateway,
    pub resolver: Resolver,
    pub push: Push,
    pub webhooks: Webhooks,
    pub idempotency: Idempotency,
    pub access: Access,
    pub queue: Queue,
    /// Used only if the kind of the queue is Kafka.
    pub kafka: Kafka,
    pub flags: Flags,
    pub mail: Mail,
    pub signup: Signup,
    pub log: Log,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flags {
    /// The file with the 32-byte key that encrypts environments' secrets; empty: `secrets.key` in
    /// the data directory, if the database is there too.
    pub key_file: String,
    /// The prefix of the paths of FeatBit's SDKs, such as `/flags`; empty: none.
    pub path_prefix: String,
    /// The value of an attribute that a user lacks.
    pub missing_attribute: MissingAttribute,
    /// Worker processes that hold the streams; 0: the server holds them itself.
    pub workers: usize,
    /// Retention of the counts of evaluations and metrics.
    pub insights_retention: Period,
    /// Open streams of one network.
    pub network_streams_max: usize,
    /// Open streams of one environment in a process.
    pub environment_streams_max: usize,
    pub rate_limits: RateLimits,
}

/// The value of an attribute that a user lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingAttribute {
    /// The empty string, as in FeatBit's server.
    Empty,
    /// No value: every condition is false, as in the newer specification of FeatBit's SDKs.
    Absent,
}

impl MissingAttribute {
    /// The setting as the evaluation crate has it.
    #[must_use]
    pub const fn rule(self) -> evaluation::MissingAttribute {
        match self {
            Self::Empty => evaluation::MissingAttribute::Empty,
            Self::Absent => evaluation::MissingAttribute::Absent,
        }
    }
}

/// A database server in place of the data directory's database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// PostgreSQL's URL; empty: SQLite in the data directory.
    pub url: DatabaseUrl,
    /// Timeout for opening a connection.
    pub connect_timeout: Period,
    /// Timeout of a statement.
    pub statement_timeout: Period,
    /// From one verification while serving to the next; zero: never.
    pub verify_every: Period,
}

/// TLS; both files or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file with the certificate chain; empty: no TLS.
    pub cert: String,
    /// PEM file with the private key; empty: no TLS.
    pub key: String,
}

impl Tls {
    /// The files as the listeners take them.
    #[must_use]
    pub fn files(&self) -> TlsFiles<'_> {
        TlsFiles { cert: &self.cert, key: &self.key }
    }
}

/// Limits of HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Request line and headers together, in bytes; above it 431.
    pub headers_bytes_max: usize,
    /// A request's body, in bytes; above it 413.
    pub body_bytes_max: usize,
    /// Timeout for receiving a request's headers; then the connection is closed.
    pub headers_timeout: Period,
    /// Timeout for receiving a body; then 408.
    pub body_timeout: Period,
    /// How long a connection may stay idle between two requests.
    pub idle_timeout: Period,
    /// Bytes of an answer that a client reads in a second at least, while the server waits for it; 0: any number.
    pub answer_bytes_per_second_min: u64,
}

/// The gRPC API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grpc {
    /// The address to listen on; port 0 selects a free port; empty: no gRPC.
    pub listen: String,
    /// PEM file with the authorities that sign client certificates; empty: none are required.
    pub client_ca: String,
    /// Calls in progress; above it `RESOURCE_EXHAUSTED`.
    pub calls_max: usize,
    /// Calls executed at a time; further ones wait, undecoded, in the order of their arrival.
    pub executing_calls_max: usize,
    /// Calls in progress on one connection; clients queue further calls.
    pub connection_calls_max: u32,
    /// Whether clients may ask which services and messages there are, without credentials.
    pub reflection: bool,
}

/// Metrics, and the listener that serves them beside health without a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operations {
    /// The address to serve health and metrics on without a token, by plain HTTP; port 0 selects a
    /// free port; empty: none.
    pub listen: String,
    /// The file with the token that `/metrics` asks for on [`Config::listen`]; empty: `metrics.token`
    /// in the data directory.
    pub metrics_token_file: String,
}

impl Operations {
    /// Where to listen; `None` where there is no such listener.
    ///
    /// # Panics
    /// Where `listen` is neither empty nor an address: such a configuration is not loaded.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        address(&self.listen)
    }
}

/// The bounds above which requests are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Requests in progress; above it 503. One in eight is reserved for payments.
    pub requests_max: usize,
    /// Open connections; above it only health and metrics are served.
    pub connections_max: usize,
    /// Open connections of one network; more are closed at once.
    pub network_connections_max: usize,
    /// Bytes of request bodies in memory; above it 503.
    pub bodies_bytes_max: usize,
    /// Bytes of answers that clients have not read; above it 503.
    pub answers_bytes_max: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Commands that may wait for their commit; above it 503.
    pub queue_commands_max: usize,
    /// Threads that read the database.
    pub reader_threads: usize,
    /// Reads that may wait for a thread; above it 503.
    pub reads_waiting_max: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Calls of one gateway in flight; above it 503, and nothing is written.
    pub in_flight_max: usize,
    #[serde(default)]
    pub breaker: Breaker,
    #[serde(default)]
    pub tries: Tries,
    pub simulator: Simulator,
    pub stripe: Stripe,
    /// Gateways that are other programs, by name.
    #[serde(default)]
    pub http: BTreeMap<String, HttpGateway>,
}

/// The simulated gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulator {
    /// Whether the simulated gateway answers; with the test clock it always does.
    pub enabled: bool,
    /// Base URL of a `faregate simulator` process; empty: it runs inside this process.
    pub url: String,
    /// Timeout of a call; then its outcome is unknown.
    pub timeout: Period,
    /// How long after a call's deadline "not found" becomes final.
    pub settle_after: Period,
    /// How long a customer is waited for who has a challenge to pass; then the payment is canceled.
    pub action_timeout: Period,
    /// Whether a new payment method is attached at the gateway before it is active, as Stripe's are.
    pub attaches_methods: bool,
}

/// Delays before each inquiry to a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolver {
    /// Inquiries about unknown transactions.
    pub unknown_delays: Vec<Period>,
    /// Inquiries about pending transactions.
    pub pending_delays: Vec<Period>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// Whether callbacks may point to this machine or a private network; the test clock allows it.
    pub allow_loopback: bool,
    /// Notifications delivered to one callback at the same time.
    pub lanes: usize,
    /// Timeout of a delivery.
    pub timeout: Period,
    /// How long after its commit an event is posted to a Kill Bill callback (`registerNotificationCallback`), at most
    /// 10 s: receivers read back what the client writes just after its own answer. `0s`: at once. Webhook endpoints
    /// (`/v1/webhooks`) get events at once in any case.
    pub killbill_delay: Period,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhooks {
    /// About how many bytes the log of deliveries may take; the oldest tries are deleted first. Those of 30 days are
    /// kept at most.
    pub log_max: usize,
    /// Who gets a mail when the server has switched an endpoint off; empty: nobody. Mails are sent as `mail` says.
    pub alert_mail: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idempotency {
    /// Retention of the reply to a request with an idempotency key.
    pub keep: Period,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// How long a verified password or API secret stays cached.
    pub cache_life: Period,
    /// Threads that hash passwords.
    pub hashing_threads: usize,
    /// Reverse proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<Network>,
}

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Has the APIs and owns partitions.
    All,
    /// Has the APIs, and owns no partition.
    Front,
    /// Owns partitions, and has no APIs but health and metrics.
    Processor,
}

/// The queue between APIs and partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    pub kind: QueueKind,
    /// How long a front waits for a reply; a command that has not started by then is not executed.
    pub reply_timeout: Period,
}

/// The kind of queue between APIs and partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// A queue in the memory of this process.
    Memory,
    /// Topics of Kafka, so that fronts and processors are separate processes.
    Kafka,
}

/// Kafka; see also [`kafka::Settings`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kafka {
    /// `HOST:PORT`, separated by commas.
    pub brokers: String,
    /// The prefix of all topics and consumer groups, followed by a dot.
    pub topic_prefix: String,
    /// The front's number, from 0: its partition of the reply topic. Unique among fronts.
    pub front_id: u16,
    /// The classes that a processor serves: `payment`, `balance`.
    pub classes: Vec<String>,
    /// `consumer` or `classic`.
    pub group_protocol: String,
    /// Session timeout of a member of a classic group.
    pub session_timeout: Period,
    /// Timeout for delivering a message to the brokers.
    pub delivery_timeout: Period,
    /// How long messages to one partition gather into a batch after the previous message.
    pub linger: Period,
    /// The maximum size of a message, in bytes.
    pub message_bytes_max: usize,
    /// The file with the 32-byte key that records are signed with; empty: none, with brokers on this
    /// machine.
    pub key_file: String,
    /// The file with another key whose signatures are accepted, while keys change; empty: none.
    pub previous_key_file: String,
    /// `plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`.
    pub security_protocol: String,
    /// Whether connections without TLS may leave this machine.
    pub plaintext_off_loopback: bool,
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`; empty: no SASL.
    pub sasl_mechanism: String,
    pub sasl_username: String,
    pub sasl_password: Secret,
    /// PEM file with the authorities that sign the brokers' certificates; empty: the system's.
    pub ssl_ca: String,
    /// PEM file with this process's client certificate; empty: none.
    pub ssl_cert: String,
    /// PEM file with the private key of the client certificate.
    pub ssl_key: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub format: LogFormat,
    /// The level, or levels by module, in the syntax of `tracing`'s filters.
    pub level: String,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    Human,
    /// One JSON object per line.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            unknown_variables: Vec::new(),
            is_new_database: false,
            accepts_clock_behind: false,
            role: Role::All,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            data_dir: PathBuf::from("faregate-data"),
            test_clock: false,
            test_clock_off_loopback: false,
            worker_threads: 0,
            public_url: String::new(),
            drain_delay: Period::seconds(0),
            drain_deadline: Period::seconds(40),
            database: Database::default(),
            tls: Tls::default(),
            http: Http::default(),
            grpc: Grpc::default(),
            operations: Operations::default(),
            admission: Admission::default(),
            engine: Engine::default(),
            gateway: Gateway::default(),
            resolver: Resolver::default(),
            push: Push {
                allow_loopback: false,
                lanes: 32,
                timeout: Period::seconds(15),
                killbill_delay: Period(Duration::from_millis(250)),
            },
            webhooks: Webhooks { log_max: 2 * KIB * KIB * KIB, alert_mail: String::new() },
            idempotency: Idempotency { keep: Period::seconds(24 * 3_600) },
            access: Access::default(),
            queue: Queue { kind: QueueKind::Memory, reply_timeout: Period::seconds(40) },
            kafka: Kafka::default(),
            flags: Flags {
                key_file: String::new(),
                path_prefix: String::new(),
                missing_attribute: MissingAttribute::Empty,
                workers: 0,
                insights_retention: Period::seconds(30 * 24 * 3_600),
                network_streams_max: 10_000,
                environment_streams_max: 100_000,
                rate_limits: RateLimits::default(),
            },
            mail: Mail::default(),
            signup: Signup::default(),
            log: Log { format: LogFormat::Human, level: "info".to_owned() },
        }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: DatabaseUrl::default(),
            connect_timeout: Period::seconds(5),
            statement_timeout: Period::seconds(30),
            verify_every: Period::seconds(86_400),
        }
    }
}

impl Default for Access {
    fn default() -> Self {
        Self { cache_life: Period::seconds(60), hashing_threads: 2, trusted_proxies: vec![] }
    }
}

impl Default for Kafka {
    fn default() -> Self {
        let classes = ["payment", "balance"];
        Self {
            brokers: String::new(),
            topic_prefix: "faregate".to_owned(),
            front_id: 0,
            classes: classes.map(str::to_owned).to_vec(),
            group_protocol: "consumer".to_owned(),
            session_timeout: Period::seconds(6),
            delivery_timeout: Period::seconds(20),
            linger: Period(Duration::from_millis(20)),
            message_bytes_max: KIB * KIB,
            key_file: String::new(),
            previous_key_file: String::new(),
            security_protocol: "plaintext".to_owned(),
            plaintext_off_loopback: false,
            sasl_mechanism: String::new(),
            sasl_username: String::new(),
            sasl_password: Secret::default(),
            ssl_ca: String::new(),
            ssl_cert: String::new(),
            ssl_key: String::new(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            headers_bytes_max: 64 * KIB,
            body_bytes_max: KIB * KIB,
            headers_timeout: Period::seconds(10),
            body_timeout: Period::seconds(10),
            idle_timeout: Period::seconds(90),
            answer_bytes_per_second_min: 4 * 1024,
        }
    }
}

impl Default for Grpc {
    fn default() -> Self {
        Self {
            listen: String::new(),
            client_ca: String::new(),
            calls_max: 65_536,
            executing_calls_max: 4_096,
            connection_calls_max: 32_768,
            reflection: true,
        }
    }
}

impl Grpc {
    /// Where to listen; `None` where there is no such api.
    ///
    /// # Panics
    /// Where `listen` is neither empty nor an address: such a configuration is not loaded.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        address(&self.listen)
    }
}

fn address(listen: &str) -> Option<SocketAddr> {
    let listen = Some(listen).filter(|listen| !listen.is_empty())?;
    Some(listen.parse().expect("the configuration was checked when it was loaded"))
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            requests_max: 16_384,
            connections_max: 50_000,
            network_connections_max: 1_000,
            bodies_bytes_max: 64 * KIB * KIB,
            answers_bytes_max: 128 * KIB * KIB,
        }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self { queue_commands_max: 16_384, reader_threads: 3, reads_waiting_max: 16_384 }
    }
}

impl Default for Gateway {
    fn default() -> Self {
        let simulator = Simulator {
            enabled: false,
            url: String::new(),
            timeout: Period::seconds(30),
            settle_after: Period::seconds(5),
            action_timeout: Period::seconds(86_400),
            attaches_methods: false,
        };
        let stripe = Stripe::default();
        let (breaker, tries) = (Breaker::default(), Tries::default());
        Self { in_flight_max: 4_096, breaker, tries, simulator, stripe, http: BTreeMap::new() }
    }
}

impl Default for Resolver {
    fn default() -> Self {
        let seconds = |all: &[u64]| all.iter().copied().map(Period::seconds).collect();
        let (minute, hour, day) = (60, 3_600, 86_400);
        Self {
            unknown_delays: seconds(&[2, 10, minute, 5 * minute, hour, day, day, day, day, day]),
            pending_delays: seconds(&[hour, day]),
        }
    }
}
