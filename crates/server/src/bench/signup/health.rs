//! Asks for health all the while, on a connection and a thread of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use tokio::time::interval;

use super::client::Client;
use crate::bench::connection::{Connection, Failure};
use crate::bench::report::Quantiles;
use crate::bench::tally::Latencies;
use crate::bench::target::Target;

/// A question so often.
const EVERY: Duration = Duration::from_millis(50);
/// A load balancer would have given up by then.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How quickly health was told under load, counted from when each question was due.
#[derive(Debug, Serialize)]
pub struct Health {
    /// Answers with 200.
    pub ok: u64,
    /// All others.
    pub errors: u64,
    /// The others by kind.
    pub error_kinds: BTreeMap<String, u64>,
    /// Latencies of answers with 200.
    pub latency_ms: Quantiles,
}

/// Somebody who asks.
pub struct Sampler {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Health>,
}

impl Sampler {
    /// Begins to ask.
    pub fn start(client: &Client) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting a runtime")?;
        let (target, path) = (client.target.clone(), client.sort.health_path());
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || runtime.block_on(sample(&target, path, &until)));
        Ok(Self { is_over, thread })
    }

    /// Ends with the question that is on its way.
    pub fn stop(self) -> Health {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sampler does not panic")
    }
}

/// Asks once; the reason where the answer is not 200.
pub async fn check(target: &Target, path: &str) -> Result<(), String> {
    ask(target, path, &mut None).await
}

async fn sample(target: &Target, path: &str, is_over: &AtomicBool) -> Health {
    let mut latencies = Latencies::default();
    let mut error_kinds = BTreeMap::new();
    let mut connection = None;
    // What is late stays due: a stall counts for all the questions that came meanwhile.
    let mut ticks = interval(EVERY);
    while !is_over.load(Ordering::Relaxed) {
        let due = ticks.tick().await;
        match ask(target, path, &mut connection).await {
            Ok(()) => latencies.record(due.elapsed()),
            Err(kind) => *error_kinds.entry(kind).or_default() += 1,
        }
    }
    Health {
        ok: latencies.count(),
        errors: error_kinds.values().sum(),
        error_kinds,
        latency_ms: Quantiles::of(&latencies),
    }
}

async fn ask(target: &Target, path: &str, kept: &mut Option<Connection>) -> Result<(), String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", target.authority);
    let exchange = async {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(target.address, TIMEOUT).await?,
        };
        let response = connection.exchange(request.as_bytes(), Instant::now() + TIMEOUT).await?;
        if !response.close {
            *kept = Some(connection);
        }
        Ok::<u16, Failure>(response.status)
    };
    match exchange.await {
        Ok(200) => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(failure) => Err(failure.to_string()),
    }
}
