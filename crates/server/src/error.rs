//! Why the server cannot start.

use std::io;
use std::net::SocketAddr;

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory or a gateway cannot be used.
    #[error(transparent)]
    Node(#[from] crate::node::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}{}", is_taken(source))]
    Listen { address: SocketAddr, source: io::Error },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] http_server::tls::Error),
    /// The token for metrics cannot be used.
    #[error("metrics: {0}")]
    MetricsToken(#[from] secrets::token_file::Error),
    /// The first start failed.
    #[error(transparent)]
    FirstStart(#[from] crate::first_start::Error),
    /// Processes for feature flags do not start.
    #[error("workers of feature flags: {0}")]
    Workers(io::Error),
    /// Workers need the key of the secrets of environments.
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

/// The advice where another server has the address; empty for all other errors.
fn is_taken(source: &io::Error) -> &'static str {
    if source.kind() != io::ErrorKind::AddrInUse {
        return "";
    }
    ": stop the other server, or choose another port (--listen 127.0.0.1:8090; for commands, \
     FAREGATE_URL=http://127.0.0.1:8090)"
}
