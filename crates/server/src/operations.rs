//! Health and metrics: on the main port, where metrics need a token, and on a listener of their own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use config::Config;
use http::{HeaderMap, StatusCode};
use http_server::listener::{self, Incoming};
use http_server::{Admission, with_route_labels};
use secrets::token_file::{self, Token};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use web::problem::{BEARER_CHALLENGE, ProblemBody};
use web::{NetworkPermits, Problem};

use crate::error::Error;
use crate::health::{self, Health};
use crate::http_setup::{Memory, Networks, connection_options, front};
use crate::metrics::{self, Exporter};

/// The file in the data directory with the token for metrics, where no other is configured.
pub const TOKEN_FILE: &str = "metrics.token";

/// Open connections of the listener for operations, and requests in progress there.
const CONNECTIONS_MAX: usize = 64;

/// The token that the main port asks for metrics with.
///
/// # Errors
/// [`token_file::Error`] where it cannot be read or created.
pub fn token(config: &Config) -> Result<Token, token_file::Error> {
    match config.operations.metrics_token_file.as_str() {
        "" => token_file::in_dir(&config.data_dir, TOKEN_FILE),
        path => token_file::read(Path::new(path)),
    }
}

/// The routes of the main port: health is anonymous, metrics need the token.
pub fn routes(health: &Health, exporter: &Arc<Exporter>, token: &Arc<Token>) -> Router {
    let guarded = Guarded { exporter: Arc::clone(exporter), token: Arc::clone(token) };
    health_routes(health).route(METRICS, get(scrape).with_state(guarded))
}

/// The path of the metrics.
pub const METRICS: &str = "/metrics";

/// A check's path and handler.
type Check = (&'static str, fn(&Health) -> MethodRouter);

/// The checks of health.
pub static HEALTH: [Check; 4] = [
    ("/health/live", |it| get(health::live).with_state(it.clone())),
    ("/health/ready", |it| get(health::ready).with_state(it.clone())),
    // The same by FeatBit's names.
    ("/health/liveness", |it| get(health::live).with_state(it.clone())),
    ("/health/readiness", |it| get(health::ready).with_state(it.clone())),
];

fn health_routes(health: &Health) -> Router {
    HEALTH.iter().fold(Router::new(), |router, (path, check)| router.route(path, check(health)))
}

/// The metrics with the token that they need.
#[derive(Clone)]
pub struct Guarded {
    exporter: Arc<Exporter>,
    token: Arc<Token>,
}

/// `GET /metrics` on the main port.
#[utoipa::path(get, path = "/metrics", tag = "Operations", operation_id = "operations_scrape",
    summary = "Metrics in Prometheus' text format, at most a second old",
    responses(
        (status = 200, description = "The metrics", body = String, content_type = "text/plain"),
        (status = 401, description = "Without the token of `metrics.token` in the data directory",
            body = ProblemBody<'static>)),
    security(("metricsToken" = [])))]
pub async fn scrape(State(guarded): State<Guarded>, headers: HeaderMap) -> Response {
    if web::headers::bearer(&headers).is_some_and(|given| guarded.token.is(given)) {
        return metrics::scrape(State(guarded.exporter)).await;
    }
    let detail = "Authorization: the token for metrics is missing or wrong; see operations.metrics_token_file";
    Problem::new(StatusCode::UNAUTHORIZED, "metrics-token-invalid", detail)
        .challenge(BEARER_CHALLENGE)
        .into_response()
}

/// The bound socket of the listener for operations, before the node is open.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Binds the socket, where the configuration has one.
///
/// # Errors
/// Where the address cannot be had.
pub fn bind(config: &Config) -> Result<Option<Bound>, Error> {
    let Some(wanted) = config.operations.address() else { return Ok(None) };
    let refused = |source| Error::Listen { address: wanted, source };
    let listener = listener::bind(wanted).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok(Some(Bound { listener, address }))
}

impl Bound {
    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves health and metrics without a token until `stopping` turns true.
    pub fn serve(
        self,
        config: &Config,
        (health, exporter): (&Health, Arc<Exporter>),
        stopping: watch::Receiver<bool>,
    ) -> JoinHandle<()> {
        let scrape = get(metrics::scrape).with_state(exporter);
        let routes = health_routes(health).route(METRICS, scrape);
        let routes = with_route_labels(routes).fallback(async || v1::Error::NoRoute);
        let admission = Admission::new(CONNECTIONS_MAX);
        let memory = Memory { admission, ..Memory::new(config, Networks::new(config).answers) };
        let front = front(config, memory, routes);
        // Few, and from networks that operators alone can reach.
        let networks = NetworkPermits::new(CONNECTIONS_MAX, vec![]);
        let options = connection_options(config, None, (CONNECTIONS_MAX, networks), None);
        let incoming = Incoming::Listening(self.listener);
        tokio::spawn(listener::serve(incoming, Arc::new(front), options, stopping))
    }
}
