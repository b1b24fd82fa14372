//! The gRPC door beside the HTTP doors: bound, served, and drained with them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::flags;
use crate::health::Health;
use crate::http::{client, listener};
use crate::node::Node;
use crate::serve::Error;
use crate::tls;

/// How often the door's own health service hears how the server is.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// Open connections: each carries thousands of calls at a time.
const CONNECTIONS_MAX: usize = 1_024;

/// The door's socket, before there is anything to answer with.
pub struct Bound {
    listener: TcpListener,
    tls: Option<tokio_rustls::TlsAcceptor>,
    address: SocketAddr,
}

/// The door, serving.
pub struct Serving {
    url: String,
    accepting: JoinHandle<()>,
}

/// Where the gRPC door listens, if there is one, and what ends once both doors have drained.
pub fn beside(http: JoinHandle<()>, grpc: Option<Serving>) -> (Option<String>, JoinHandle<()>) {
    let Some(Serving { url, accepting }) = grpc else { return (None, http) };
    let both = tokio::spawn(async {
        let (http, grpc) = tokio::join!(http, accepting);
        for ended in [http, grpc] {
            if let Err(error) = ended {
                tracing::error!(error = %error, "a door ended by itself");
            }
        }
    });
    (Some(url), both)
}

/// Binds the socket, where the configuration has one.
///
/// # Errors
/// Where the address cannot be had, or TLS cannot be set up.
pub fn bind(config: &Config) -> Result<Option<Bound>, Error> {
    let Some(wanted) = config.grpc.address() else { return Ok(None) };
    let tls = tls::grpc_acceptor(&config.tls, &config.grpc.client_ca)?;
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
        stopping: watch::Receiver<bool>,
    ) -> Serving {
        let trusted = config.access.trusted_proxies.clone();
        let message_bytes_max = config.http.body_bytes_max;
        let board = Arc::clone(&node.flags);
        let door = grpc::Door::new(grpc::Parts {
            engine: node.engine.clone(),
            access: node.access.clone(),
            flags: flags::service(board, &::flags::Settings::default(), message_bytes_max),
            simulates_work: config.test_clock || config.gateway.simulator.enabled,
            client_of: Arc::new(move |peer, headers| client::address(peer, headers, &trusted)),
            limits: grpc::Limits {
                calls_max: config.grpc.calls_max,
                connection_calls_max: config.grpc.connection_calls_max,
                message_bytes_max,
                connections_max: CONNECTIONS_MAX,
            },
        });
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", self.address);
        tokio::spawn(tell_health(door.clone(), health, stopping.clone()));
        let accepting =
            tokio::spawn(grpc::listener::serve(self.listener, door, self.tls, stopping));
        Serving { url, accepting }
    }
}

/// Tells the door's health service how the server is, until it stops.
async fn tell_health(door: grpc::Door, health: Health, mut stopping: watch::Receiver<bool>) {
    loop {
        door.report_health(health.is_ready()).await;
        tokio::select! {
            () = tokio::time::sleep(HEALTH_EVERY) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}
