//! Every setting there is, with its built-in default. `config.default.toml` says the same in prose.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::database::DatabaseUrl;
use super::mail::Mail;
use super::period::Period;
use super::secret::Secret;
use super::sign_up::Signup;
use feature_flags::RateLimits;
use http_server::tls::TlsFiles;
use web::Network;

/// Kibibyte.
const KIB: usize = 1024;

/// The effective configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What this process does.
    pub role: Role,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where everything durable is kept that is not in [`Config::database`].
    pub data_dir: PathBuf,
    /// Whether domain time can be set over HTTP, and the simulator answers.
    pub test_clock: bool,
    /// Threads for HTTP; 0: as many as there are cores.
    pub worker_threads: usize,
    /// How long a shutdown waits for requests and gateway calls in progress.
    pub drain_deadline: Period,
    /// A database server in place of the data directory's database.
    pub database: Database,
    /// TLS.
    pub tls: Tls,
    /// Limits of HTTP.
    pub http: Http,
    /// The gRPC api.
    pub grpc: Grpc,
    /// How much is let in.
    pub admission: Admission,
    /// The core.
    pub engine: Engine,
    /// Payment gateways.
    pub gateway: Gateway,
    /// When gateways are asked about outcomes.
    pub resolver: Resolver,
    /// Push notifications.
    pub push: Push,
    /// Idempotency keys.
    pub idempotency: Idempotency,
    /// Credentials.
    pub access: Access,
    /// What stands between APIs and partitions.
    pub queue: Queue,
    /// Kafka, where it is the queue.
    pub kafka: Kafka,
    /// Feature flags.
    pub flags: Flags,
    /// Mail.
    pub mail: Mail,
    /// Sign-up.
    pub signup: Signup,
    /// Logs.
    pub log: Log,
}

/// Feature flags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flags {
    /// The file with the key that environments' secrets are stored with; empty: one in the data
    /// directory, where the database is there too.
    pub key_file: String,
    /// What stands before the paths of FeatBit's SDKs, such as `/flags`; empty: nothing.
    pub path_prefix: String,
    /// What an attribute is that conditions ask about and a user lacks.
    pub missing_attribute: MissingAttribute,
    /// Processes that hold the streams, beside the server's own; 0: the server holds them itself.
    pub workers: usize,
    /// How long what programs tell of flags is kept.
    pub insights_retention: Period,
    /// How often a secret may be used.
    pub rate_limits: RateLimits,
}

/// What an attribute is that a user lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingAttribute {
    /// An empty text, as FeatBit's server has it.
    Empty,
    /// Nothing, which no condition holds for, as the newer specification of its SDKs has it.
    Absent,
}

impl MissingAttribute {
    /// In the words of evaluations.
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
    /// How long it may take to connect.
    pub connect_timeout: Period,
    /// How long a statement may take.
    pub statement_timeout: Period,
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
    /// How long a client may take to send the headers.
    pub headers_timeout: Period,
    /// How long a client may take to send the body.
    pub body_timeout: Period,
    /// How long an idle connection is kept.
    pub idle_timeout: Period,
}

/// The gRPC api.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grpc {
    /// Where to listen; empty: there is no such api.
    pub listen: String,
    /// PEM file with the authorities that clients' certificates are signed by; empty: clients need none.
    pub client_ca: String,
    /// Calls in progress; above it `RESOURCE_EXHAUSTED`.
    pub calls_max: usize,
    /// Calls in progress on one connection; a client keeps what is above it to itself.
    pub connection_calls_max: u32,
}

/// How much is let in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Requests in progress; above it 503.
    pub requests_max: usize,
    /// Open connections; above it only health and metrics are served.
    pub connections_max: usize,
    /// Bytes of request bodies in memory; above it 503.
    pub bodies_bytes_max: usize,
}

/// The core.
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

/// Payment gateways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Calls of one gateway in flight; above it 503, and nothing is written.
    pub in_flight_max: usize,
    /// The simulator.
    pub simulator: Simulator,
}

/// The simulated gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulator {
    /// Whether it answers; with the test clock it does anyway.
    pub enabled: bool,
    /// A `faregate simulator` process to call; empty: it runs inside this one.
    pub url: String,
    /// How long a call may take.
    pub timeout: Period,
    /// How long after a call's deadline "not found" becomes final.
    pub settle_after: Period,
}

/// When gateways are asked about outcomes: the delay before each question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolver {
    /// About unknown transactions.
    pub unknown_delays: Vec<Period>,
    /// About pending transactions.
    pub pending_delays: Vec<Period>,
}

/// Push notifications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// Whether callbacks may name this machine; with the test clock they may anyway.
    pub allow_loopback: bool,
    /// Notifications delivered to one callback at the same time.
    pub lanes: usize,
    /// How long a receiver may take.
    pub timeout: Period,
}

/// Idempotency keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idempotency {
    /// How long the reply to a keyed request is kept.
    pub keep: Period,
}

/// Credentials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// How long a verified credential is believed without another look.
    pub cache_life: Period,
    /// Threads that hash passwords.
    pub hashing_threads: usize,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Network>,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything.
    All,
    /// Has the APIs, and owns no partition.
    Front,
    /// Owns partitions, and has no APIs but health and metrics.
    Processor,
}

/// What stands between APIs and partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Which.
    pub kind: QueueKind,
    /// How long a front waits for a reply; what was not begun by then is not executed.
    pub reply_timeout: Period,
}

/// Which queue stands between APIs and partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// None but the memory of the one process.
    Memory,
    /// Topics of Kafka.
    Kafka,
}

/// Kafka: see [`kafka::Settings`] for what is not said here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kafka {
    /// `HOST:PORT`, several with commas.
    pub brokers: String,
    /// What all topics and groups begin with.
    pub topic_prefix: String,
    /// The front's number: its partition of the topic of replies.
    pub front_id: u16,
    /// What a processor serves: `payment`, `balance`.
    pub classes: Vec<String>,
    /// `consumer` or `classic`.
    pub group_protocol: String,
    /// After how long without a sign of life a member of a classic group is given up.
    pub session_timeout: Period,
    /// How long a message may take to reach the brokers.
    pub delivery_timeout: Period,
    /// After a message, those that follow it to the same partition gather for so long.
    pub linger: Period,
    /// The largest message, in bytes.
    pub message_bytes_max: usize,
    /// `plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`.
    pub security_protocol: String,
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    pub sasl_mechanism: String,
    /// The name.
    pub sasl_username: String,
    /// Its password.
    pub sasl_password: Secret,
    /// PEM file with the authorities that vouch for brokers.
    pub ssl_ca: String,
    /// PEM file with this process's certificate.
    pub ssl_cert: String,
    /// PEM file with its key.
    pub ssl_key: String,
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// How they are written.
    pub format: LogFormat,
    /// What is written, in the syntax of `tracing`'s filters.
    pub level: String,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line for people.
    Human,
    /// A JSON object per line.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            role: Role::All,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            data_dir: PathBuf::from("faregate-data"),
            test_clock: false,
            worker_threads: 0,
            drain_deadline: Period::seconds(40),
            database: Database::default(),
            tls: Tls::default(),
            http: Http::default(),
            grpc: Grpc::default(),
            admission: Admission::default(),
            engine: Engine::default(),
            gateway: Gateway::default(),
            resolver: Resolver::default(),
            push: Push { allow_loopback: false, lanes: 32, timeout: Period::seconds(15) },
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
            security_protocol: "plaintext".to_owned(),
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
        }
    }
}

impl Default for Grpc {
    fn default() -> Self {
        Self {
            listen: String::new(),
            client_ca: String::new(),
            calls_max: 65_536,
            connection_calls_max: 32_768,
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
        let listen = Some(self.listen.as_str()).filter(|listen| !listen.is_empty())?;
        Some(listen.parse().expect("the configuration was checked when it was loaded"))
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self { requests_max: 16_384, connections_max: 50_000, bodies_bytes_max: 64 * KIB * KIB }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self { queue_commands_max: 16_384, reader_threads: 2, reads_waiting_max: 16_384 }
    }
}

impl Default for Gateway {
    fn default() -> Self {
        let simulator = Simulator {
            enabled: false,
            url: String::new(),
            timeout: Period::seconds(30),
            settle_after: Period::seconds(5),
        };
        Self { in_flight_max: 4_096, simulator }
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
