//! Processes that hold streams of feature flags beside the server (`flags.workers`): a process has
//! only so many file descriptors, and a stream takes one.
//!
//! All workers listen on the server's port (`SO_REUSEPORT`). A worker answers what is asked of the
//! APIs of feature flags; any other connection it hands over to the server, unread, with its file
//! descriptor. It has no database, no key and no user: the server sends it the contents of its flag
//! cache, and it ends with the server.

mod channel;

mod supervisor;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use engine::Engine;
use http_server::AcceptedConnection;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

pub use worker::run;

use config::Config;
use feature_flags::FlagFeed;
use supervisor::Supervisor;

/// Connections that were handed over and wait to be served.
const ARRIVALS_WAITING_MAX: usize = 1_024;

/// How long the start waits for the workers to listen.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// How long workers may take to end beyond the time in which they are to.
const END_WITHIN: Duration = Duration::from_secs(2);

/// The workers of a server.
pub struct Workers {
    streams: Arc<[AtomicUsize]>,
    stopping: watch::Sender<Option<Drain>>,
    supervisors: JoinSet<()>,
    /// Kept while no worker listens.
    _port: Port,
}

/// A bound address on which no process listens yet.
pub struct Port(socket2::Socket);

impl Port {
    /// Takes an address.
    ///
    /// # Errors
    /// Where it cannot be had.
    pub fn take(address: SocketAddr) -> io::Result<Self> {
        let socket = sharing(address)?;
        socket.bind(&address.into())?;
        Ok(Self(socket))
    }

    /// Which it is: its port may have been 0.
    ///
    /// # Errors
    /// Where the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let no_address = || io::Error::other("the socket has no address");
        self.0.local_addr()?.as_socket().ok_or_else(no_address)
    }
}

/// How workers are to end.
#[derive(Clone, Copy)]
struct Drain {
    /// The time over which streams are closed.
    over: Duration,
    /// When the rest are closed.
    within: Duration,
}

impl Workers {
    /// Starts `flags.workers` of them and waits until they listen; with the connections that they hand
    /// over.
    ///
    /// # Errors
    /// Where workers cannot be started.
    pub async fn start(
        port: Port,
        config: &Config,
        engine: &Engine,
        feed: &FlagFeed,
    ) -> io::Result<(Self, mpsc::Receiver<AcceptedConnection>)> {
        let address = port.address()?;
        let (arrived, arrivals) = mpsc::channel(ARRIVALS_WAITING_MAX);
        let (stopping, stopped) = watch::channel(None);
        let streams: Arc<[AtomicUsize]> =
            (0..config.flags.workers).map(|_| AtomicUsize::new(0)).collect();
        let (ready, mut readies) = mpsc::channel(config.flags.workers.max(1));
        let mut supervisors = JoinSet::new();
        for number in 0..config.flags.workers {
            let supervisor = Supervisor {
                number,
                config: for_worker(config, address),
                engine: engine.clone(),
                feed: feed.clone(),
                arrived: arrived.clone(),
                streams: Arc::clone(&streams),
                stopped: stopped.clone(),
            };
            supervisors.spawn(supervisor.run(ready.clone()));
        }
        drop(ready);
        let all = async {
            for _ in 0..config.flags.workers {
                readies.recv().await?;
            }
            Some(())
        };
        if tokio::time::timeout(READY_WITHIN, all).await.ok().flatten().is_none() {
            return Err(io::Error::other("workers do not start"));
        }
        Ok((Self { streams, stopping, supervisors, _port: port }, arrivals))
    }

    /// The number of streams of each worker, as last reported.
    pub fn streams(&self) -> Arc<[AtomicUsize]> {
        Arc::clone(&self.streams)
    }

    /// Has them stop accepting, close their streams over a time, and end.
    pub async fn stop(&mut self, over: Duration, within: Duration) {
        self.stopping.send_replace(Some(Drain { over, within }));
        let ended = async { while self.supervisors.join_next().await.is_some() {} };
        if tokio::time::timeout(within + END_WITHIN, ended).await.is_err() {
            tracing::warn!("workers are ended with streams open");
        }
        // A worker's process is killed with its supervisor.
        self.supervisors.shutdown().await;
    }
}

/// A socket that shares its address with others of this user's processes.
fn sharing(address: SocketAddr) -> io::Result<socket2::Socket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The part of the configuration that a worker needs. It contains no secrets.
fn for_worker(config: &Config, listen: SocketAddr) -> Config {
    let mut mine = Config {
        listen,
        worker_threads: threads(config),
        http: config.http.clone(),
        admission: config.admission.clone(),
        flags: config.flags.clone(),
        log: config.log.clone(),
        ..Config::default()
    };
    mine.flags.key_file.clear();
    mine.access.trusted_proxies.clone_from(&config.access.trusted_proxies);
    mine
}

/// Workers share the cores.
fn threads(config: &Config) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / config.flags.workers.max(1)).max(1)
}
