//! The gRPC listener beside the HTTP listener: bound, served, and drained with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::periodic::{Pass, Periodic};
use feature_flags::WatchLimits;
use http_server::listener;
use http_server::tls::{ServedCertificate, grpc_acceptor};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use web::client_address;

use crate::background::until;
use crate::error::Error;
use crate::health::Health;
use crate::http_setup::Networks;
use crate::node::Node;
use config::Config;

/// How often the gRPC health service is updated.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// Open connections: each carries thousands of calls at a time.
const CONNECTIONS_MAX: usize = 4_096;

/// The bound socket, before the node is open.
pub struct Bound {
    listener: TcpListener,
    tls: Option<tokio_rustls::TlsAcceptor>,
    address: SocketAddr,
}

/// The listener, serving.
pub struct Serving {
    pub url: String,
    /// Ends once the listener has drained.
    pub accepting: JoinHandle<()>,
}

/// Binds the socket, where the configuration has one.
///
/// # Errors
/// Where the address cannot be had, or TLS cannot be set up.
pub fn bind(
    config: &Config,
    certificate: Option<&Arc<ServedCertificate>>,
) -> Result<Option<Bound>, Error> {
    let Some(wanted) = config.grpc.address() else { return Ok(None) };
    let tls = certificate.map(|it| grpc_acceptor(it, &config.grpc.client_ca)).transpose()?;
    let refused = |source| Error::Listen { address: wanted, source };
    let listener = listener::bind(wanted).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok(Some(Bound { listener, tls, address }))
}

impl Bound {
    /// Serves until `stopping` turns true.
    pub fn serve(
        self,
        config: &Config,
        (node, health): (&Node, Health),
        networks: Networks,
        stopping: watch::Receiver<bool>,
    ) -> Serving {
        let trusted = config.access.trusted_proxies.clone();
        let message_bytes_max = config.http.body_bytes_max;
        let cache = Arc::clone(&node.flags);
        let limits = WatchLimits {
            environment_streams_max: config.flags.environment_streams_max,
            ..WatchLimits::default()
        };
        let limits = (limits, config.flags.rate_limits);
        let api = grpc::GrpcApi::new(grpc::Parts {
            engine: node.engine.clone(),
            access: node.access.clone(),
            flags: grpc::flags::service(
                cache,
                limits,
                (Arc::clone(&networks.streams), networks.answers),
                message_bytes_max,
            ),
            simulates_work: config.simulates(),
            client_of: Arc::new(move |peer, headers| {
                client_address::address(peer, headers, &trusted)
            }),
            watched: Arc::clone(&node.watched),
            networks: networks.grpc_connections,
            streams: networks.streams,
            limits: grpc::Limits {
                calls_max: config.grpc.calls_max,
                executing_calls_max: config.grpc.executing_calls_max,
                connection_calls_max: config.grpc.connection_calls_max,
                reflection: config.grpc.reflection,
                message_bytes_max,
                connections_max: CONNECTIONS_MAX,
            },
        });
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", self.address);
        tokio::spawn(report_health(api.clone(), health, stopping.clone()));
        let accepting = tokio::spawn(grpc::listener::serve(self.listener, api, self.tls, stopping));
        Serving { url, accepting }
    }
}

/// Reports the server's readiness to the gRPC health service until the server stops.
async fn report_health(api: grpc::GrpcApi, health: Health, stopping: watch::Receiver<bool>) {
    let job = || async {
        api.report_health(health.is_ready()).await;
        Pass::Idle
    };
    Periodic::every(HEALTH_EVERY).run(until(stopping), job).await;
}
