//! Every setting there is, with its built-in default. `config.default.toml` says the same in prose.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::period::Period;
use super::prefix::Prefix;

/// Kibibyte.
const KIB: usize = 1024;

/// The effective configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where everything durable is kept.
    pub data_dir: PathBuf,
    /// Whether domain time can be set over HTTP, and the simulator answers.
    pub test_clock: bool,
    /// Threads for HTTP; 0: as many as there are cores.
    pub worker_threads: usize,
    /// How long a shutdown waits for requests and gateway calls in progress.
    pub drain_deadline: Period,
    /// TLS.
    pub tls: Tls,
    /// Limits of HTTP.
    pub http: Http,
    /// The gRPC door.
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
    /// Logs.
    pub log: Log,
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

/// The gRPC door.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grpc {
    /// Where to listen; empty: there is no such door.
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
    pub trusted_proxies: Vec<Prefix>,
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
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            data_dir: PathBuf::from("faregate-data"),
            test_clock: false,
            worker_threads: 0,
            drain_deadline: Period::seconds(40),
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
            log: Log { format: LogFormat::Human, level: "info".to_owned() },
        }
    }
}

impl Default for Access {
    fn default() -> Self {
        Self { cache_life: Period::seconds(60), hashing_threads: 2, trusted_proxies: vec![] }
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
    /// Where to listen; `None` where there is no such door.
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
