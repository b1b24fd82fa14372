//! A fixed number of connections, each with one request at a time: what is done per second, and how long each takes.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::client::{Client, TIMEOUT};
use super::process::cpu_between;
use super::report::{LatencyTable, Output, Quantiles, cpu_us_each, exit_code, per_second};
use super::tally::{ErrorKinds, Latencies};
use super::{Common, count_up_to, parse_span, raise_open_files};

/// Connections at most.
const CONCURRENCY_MAX: i64 = 10_000;
/// Accounts at most.
pub const ACCOUNTS_MAX: i64 = 1_000_000;

/// Options of a closed loop.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Accounts that the requests are about.
    #[arg(long, default_value_t = 1_000, value_parser = count_up_to(ACCOUNTS_MAX))]
    pub accounts: u32,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=CONCURRENCY_MAX))]
    pub concurrency: u16,
    /// How long to measure.
    #[arg(long, default_value = "10s", value_parser = parse_span)]
    duration: Duration,
    /// How long to run before measuring.
    #[arg(long, default_value = "2s", value_parser = parse_span)]
    warm_up: Duration,
    /// The server's process id: report its CPU time.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    #[command(flatten)]
    output: Output,
    /// Exit with 1 where anything failed.
    #[arg(long)]
    strict: bool,
}

/// One connection's share of the work.
pub trait Worker: Send + 'static {
    /// Sends a request, or a few that belong together: how much was done, or the kind of the failure.
    fn once(&mut self) -> impl Future<Output = Result<u64, String>> + Send;
}

/// Makes what the requests are about, has one worker for each connection send them, and prints the report.
///
/// # Errors
/// Where the server cannot be used.
pub fn run<F, W: Worker>(
    args: &Options,
    furnished: impl AsyncFnOnce(Client) -> anyhow::Result<F>,
    worker: impl Fn(Client, u16, &F) -> W,
) -> anyhow::Result<ExitCode> {
    raise_open_files(u64::from(args.concurrency))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let report = runtime.block_on(measure(args, furnished, worker))?;
    args.output.print(&report)?;
    Ok(exit_code(report.ok, report.errors, args.strict))
}

async fn measure<F, W: Worker>(
    args: &Options,
    furnished: impl AsyncFnOnce(Client) -> anyhow::Result<F>,
    worker: impl Fn(Client, u16, &F) -> W,
) -> anyhow::Result<Report> {
    let target = args.common.target()?;
    args.common.create_tenant(&target, TIMEOUT).await?;
    let client = Client::new(&target, &args.common.identity())?;
    let of = furnished(client.another()).await?;
    let measured_from = Instant::now() + args.warm_up;
    let end = measured_from + args.duration;
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..args.concurrency {
        workers.spawn(work(worker(client.another(), number, &of), measured_from, end));
    }
    let cpu = cpu_between(args.pid, measured_from, end).await?;
    let mut sum = Found::default();
    while let Some(found) = workers.join_next().await {
        sum.add(&found.context("a client panicked")?);
    }
    Ok(Report::new(&sum, args.duration, cpu))
}

async fn work(mut worker: impl Worker, measured_from: Instant, end: Instant) -> Found {
    let mut found = Found::default();
    loop {
        let sent = Instant::now();
        if sent >= end {
            return found;
        }
        let done = worker.once().await;
        if sent < measured_from {
            continue;
        }
        match done {
            Ok(count) => {
                found.latencies.record(sent.elapsed());
                found.done += count;
            }
            Err(kind) => found.errors.count(&kind, 1),
        }
    }
}

#[derive(Default)]
struct Found {
    latencies: Latencies,
    done: u64,
    errors: ErrorKinds,
}

impl Found {
    fn add(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        self.done += other.done;
        self.errors.add(&other.errors);
    }
}

#[derive(Serialize)]
struct Report {
    /// What was done, per second.
    per_s: f64,
    /// Requests, or pairs of them, that succeeded.
    ok: u64,
    errors: u64,
    error_kinds: ErrorKinds,
    latency_ms: Quantiles,
    /// CPU of the process named by `--pid`, for each of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_us_each: Option<f64>,
}

impl Report {
    fn new(found: &Found, measured: Duration, cpu: Option<Duration>) -> Self {
        Self {
            per_s: per_second(found.done, measured),
            ok: found.latencies.count(),
            errors: found.errors.total(),
            error_kinds: found.errors.clone(),
            latency_ms: Quantiles::of(&found.latencies),
            server_cpu_us_each: cpu.and_then(|cpu| cpu_us_each(cpu, found.done)),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { per_s, ok, errors, .. } = self;
        writeln!(f, "{per_s:.1} per s   {ok} ok   {errors} errors\n")?;
        let rows = [("request", self.latency_ms)];
        write!(f, "{}", LatencyTable { heading: "latency, ms", name_width: 16, rows: &rows })?;
        if let Some(cpu) = self.server_cpu_us_each {
            writeln!(f, "server: {cpu:.1} us of CPU each")?;
        }
        write!(f, "{}", self.error_kinds)
    }
}
