//! The HTTP server's options by configuration, for the server and its flag workers.

use std::sync::Arc;

use axum::Router;
use http_server::{Admission, Bodies, Front, Requests, Sorter, Timeouts, listener};
use tokio_rustls::TlsAcceptor;
use web::{AnswerBudget, NetworkPermits};

use config::Config;

/// The smallest share of the descriptors that clients get, where there are few.
const CONNECTIONS_MIN: usize = 64;

/// Connections that are too few for production.
const FEW_CONNECTIONS: usize = 1_000;

/// The connections that may be open, given how many files may.
pub fn connections_max(config: &Config, open_files_max: u64, own: u64) -> usize {
    let for_clients = open_files_max.saturating_sub(own);
    let possible = usize::try_from(for_clients).unwrap_or(usize::MAX).max(CONNECTIONS_MIN);
    let wanted = config.admission.connections_max;
    if possible < wanted {
        // The default is more than most systems allow, and nobody has asked for it.
        let is_asked_for = wanted != Config::default().admission.connections_max;
        if is_asked_for || possible < FEW_CONNECTIONS {
            tracing::warn!(wanted, possible, "fewer connections: raise the limit of open files");
        } else {
            tracing::debug!(
                wanted,
                possible,
                "fewer connections: the limit of open files is lower"
            );
        }
    }
    wanted.min(possible)
}

/// How all connections are treated.
pub fn connection_options(
    config: &Config,
    tls: Option<TlsAcceptor>,
    (connections_max, networks): (usize, Arc<NetworkPermits>),
    sorter: Option<Sorter>,
) -> listener::ConnectionOptions {
    let http = &config.http;
    listener::ConnectionOptions {
        tls,
        timeouts: Timeouts {
            idle: http.idle_timeout.0,
            headers: http.headers_timeout.0,
            body: http.body_timeout.0,
            answer_bytes_per_second_min: http.answer_bytes_per_second_min,
        },
        headers_bytes_max: http.headers_bytes_max,
        connections_max,
        networks,
        sorter,
    }
}

/// Open gRPC connections of one network, or fewer where `admission.network_connections_max` says so: a few
/// networks cannot keep all others out.
const GRPC_NETWORK_CONNECTIONS_MAX: usize = 256;

/// The limits of each network, counted for a process.
#[derive(Clone)]
pub struct Networks {
    pub connections: Arc<NetworkPermits>,
    pub grpc_connections: Arc<NetworkPermits>,
    /// Streams of feature flags.
    pub streams: Arc<NetworkPermits>,
    /// Bytes of answers.
    pub answers: Arc<AnswerBudget>,
}

impl Networks {
    pub fn new(config: &Config) -> Self {
        let permits = |network_max| NetworkPermits::new(network_max, config.unlimited_networks());
        Self {
            connections: permits(config.admission.network_connections_max),
            grpc_connections: permits(
                config.admission.network_connections_max.min(GRPC_NETWORK_CONNECTIONS_MAX),
            ),
            streams: permits(config.flags.network_streams_max),
            answers: answers(config),
        }
    }
}

/// The limits of request bodies.
fn bodies(config: &Config) -> Arc<Bodies> {
    let http = &config.http;
    Bodies::new(http.body_bytes_max, http.body_timeout.0, config.admission.bodies_bytes_max)
}

/// The memory for answers of this process: workers of flags have equal parts of it.
fn answers(config: &Config) -> Arc<AnswerBudget> {
    let bytes_max = config.admission.answers_bytes_max / (1 + config.flags.workers);
    AnswerBudget::new(bytes_max, config.unlimited_networks())
}

/// The admission and the memory that all requests of a process share.
#[derive(Clone)]
pub struct Memory {
    pub admission: Admission,
    pub bodies: Arc<Bodies>,
    pub answers: Arc<AnswerBudget>,
}

impl Memory {
    /// With the limits of the configuration.
    pub fn new(config: &Config, answers: Arc<AnswerBudget>) -> Self {
        let admission = Admission::new(config.admission.requests_max);
        Self { admission, bodies: bodies(config), answers }
    }
}

/// The front that every request passes before it gets to these APIs.
pub fn front(config: &Config, memory: Memory, router: Router) -> Front {
    let Memory { admission, bodies, answers } = memory;
    Front {
        router,
        admission,
        requests: Requests::new(),
        bodies,
        answers,
        trusted_proxies: config.access.trusted_proxies.clone(),
        exempts_local: config.exempts_local(),
    }
}

/// How the APIs of feature flags are set up.
pub fn flag_settings(
    config: &Config,
    networks: Arc<NetworkPermits>,
    answers: Arc<AnswerBudget>,
) -> ::flags::Settings {
    ::flags::Settings {
        prefix: config.flags.path_prefix.clone(),
        environment_streams_max: config.flags.environment_streams_max,
        networks,
        answers,
        rate_limits: config.flags.rate_limits,
        ..::flags::Settings::default()
    }
}
