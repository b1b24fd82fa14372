//! Samples the health check during the load, on a connection and a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use tokio::time::interval;

use super::client::Client;
use crate::connection::{Connection, Failure};
use crate::report::Quantiles;
use crate::tally::{ErrorKinds, Latencies};
use command_line::Target;

/// The interval of health checks.
const EVERY: Duration = Duration::from_millis(50);
/// Longer than a load balancer waits.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Health checks under load; latencies count from the instant when each check is due.
#[derive(Debug, Serialize)]
pub struct Health {
    /// Responses with 200.
    pub ok: u64,
    /// Other responses, or none.
    pub errors: u64,
    /// Errors by kind.
    pub error_kinds: ErrorKinds,
    /// Latencies of responses with 200.
    pub latency_ms: Quantiles,
}

/// The thread that checks health.
pub struct Sampler {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<Health>,
}

impl Sampler {
    /// Starts the thread.
    pub fn start(client: &Client) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting a runtime")?;
        let (target, path) = (client.target.clone(), client.operation.health_path());
        let is_stopped = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_stopped);
        let thread = std::thread::spawn(move || runtime.block_on(sample(&target, path, &until)));
        Ok(Self { is_stopped, thread })
    }

    /// Stops after the check in flight and returns the results.
    pub fn stop(self) -> Health {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sampler does not panic")
    }
}

/// Checks health once. The error is the status or the failure.
pub async fn check(target: &Target, path: &str) -> Result<(), String> {
    check_on(target, path, &mut None).await
}

async fn sample(target: &Target, path: &str, is_stopped: &AtomicBool) -> Health {
    let mut latencies = Latencies::default();
    let mut error_kinds = ErrorKinds::default();
    let mut connection = None;
    // Missed ticks are caught up: a stall counts for all checks that were due meanwhile.
    let mut ticks = interval(EVERY);
    while !is_stopped.load(Ordering::Relaxed) {
        let due = ticks.tick().await;
        match check_on(target, path, &mut connection).await {
            Ok(()) => latencies.record(due.elapsed()),
            Err(kind) => error_kinds.count(&kind, 1),
        }
    }
    Health {
        ok: latencies.count(),
        errors: error_kinds.total(),
        error_kinds,
        latency_ms: Quantiles::of(&latencies),
    }
}

async fn check_on(
    target: &Target,
    path: &str,
    idle: &mut Option<Connection>,
) -> Result<(), String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", target.authority);
    let exchange = async {
        let mut connection = Connection::reuse(idle.take(), target.address, TIMEOUT).await?;
        let response = connection.exchange(request.as_bytes(), Instant::now() + TIMEOUT).await?;
        if !response.close {
            *idle = Some(connection);
        }
        Ok::<u16, Failure>(response.status)
    };
    match exchange.await {
        Ok(200) => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(failure) => Err(failure.to_string()),
    }
}
