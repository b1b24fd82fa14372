//! `faregate bench payments`: each flow creates an account, a payment method and a payment, in three
//! requests or in one combo payment.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::watch;

use super::connection::Failure;
use super::flow::{Client, Gateway, Outcome, Plan, Problem, Requests};
use super::monitor::{Measured, Monitor};
use super::reads::write_sample;
use super::report::{BacklogReport, Circumstances, Report};
use super::sample::Sample;
use super::schedule::{Backlog, Schedule, Times, pace};
use super::tally::{Counted, Tally};
use super::{Common, parse_span, raise_open_files};

/// Connections at most: what one address can open towards one port.
const CONCURRENCY_MAX: i64 = 28_000;
/// Threads at most. One drives more flows than a server on the same machine can serve.
const THREADS_MAX: i64 = 64;
/// A client waits so long after a failed flow: failing must not become a busy loop.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(20);
/// The run is aborted if opening all connections takes longer.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);
/// Flows that `--sample` writes at most, per thread.
const SAMPLE_FLOWS_MAX: usize = 10_000;
/// Between the last connection and the first flow: time for every thread to receive the start.
const START_DELAY: Duration = Duration::from_millis(20);

/// Options of `faregate bench payments`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=CONCURRENCY_MAX))]
    concurrency: u16,
    /// How long to measure, such as 60, 60s or 1m.
    #[arg(long, default_value = "10s", value_parser = parse_span)]
    duration: Duration,
    /// How long to run before measuring.
    #[arg(long, default_value = "2s", value_parser = parse_span)]
    warm_up: Duration,
    /// Open loop: start so many flows per second on a fixed schedule, and measure latencies from
    /// the scheduled start. Without it each connection starts a flow when its last one ended.
    #[arg(long, value_name = "FLOWS_PER_S")]
    rate: Option<f64>,
    /// Open loop: flows that may wait for a free connection; those beyond are errors.
    #[arg(long, value_name = "FLOWS", default_value_t = 10_000)]
    backlog_max: usize,
    /// The gateway of the payments.
    #[arg(long, value_enum, default_value_t = GatewayName::External)]
    gateway: GatewayName,
    /// Create account, payment method and payment by one request each, a combo payment.
    #[arg(long, conflicts_with = "sample")]
    combo: bool,
    /// How long the simulator takes to answer.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    gateway_delay: Option<Duration>,
    /// How long to wait for a response.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = parse_span)]
    timeout: Duration,
    /// Count a refusal (503 or 429 with Retry-After) as an error instead of retrying.
    #[arg(long)]
    ignore_retry_after: bool,
    /// Create the tenant first, where there is none with this API key.
    #[arg(long)]
    create_tenant: bool,
    /// The server's process id: report its CPU per flow and its memory.
    #[arg(long)]
    pid: Option<u32>,
    /// Write a sample of the created rows, evenly from the whole run, to this file for `bench reads`.
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
    /// Threads that send.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    threads: u16,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Exit with 1 where any flow failed.
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GatewayName {
    External,
    Simulator,
}

/// Runs the load and prints the report.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = Arc::new(plan(args)?);
    let schedule = match args.rate {
        None => None,
        Some(rate) => Some(Schedule::new(rate).context("--rate: out of range")?),
    };
    raise_open_files(u64::from(args.concurrency))?;
    preflight(args, &plan)?;
    let load = Load::spawn(args, &plan, schedule)?;
    let times = load.start(args)?;
    let pacer = schedule.map(|schedule| {
        let backlog = Arc::clone(&load.backlog);
        std::thread::spawn(move || pace(schedule, &backlog, times))
    });
    let monitor = Monitor { times, pid: args.pid, tallies: &load.tallies, backlog: &load.backlog };
    let measured = monitor.watch()?;
    if let Some(pacer) = pacer {
        pacer.join().expect("the pacer does not panic");
    }
    let report = load.finish(args, times, measured)?;
    print(args, &report)?;
    let failed = report.ok == 0 || (args.strict && report.errors > 0);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let gateway = match (args.gateway, args.gateway_delay) {
        (GatewayName::External, None) => Gateway::External,
        (GatewayName::External, Some(_)) => {
            anyhow::bail!("--gateway-delay: only the simulator can delay its answers")
        }
        (GatewayName::Simulator, delay) => {
            Gateway::Simulator(delay.unwrap_or(Duration::from_secs(1)))
        }
    };
    let target = args.common.target()?;
    let requests = if args.combo { Requests::Combo } else { Requests::Three };
    let flows = (gateway, requests);
    let mut plan = Plan::new(target, &args.common.identity(), flows, args.timeout)?;
    plan.honours_retry_after = !args.ignore_retry_after;
    Ok(plan)
}

/// Runs one flow before the load, so that a wrong setting fails with its reason.
fn preflight(args: &Args, plan: &Plan) -> anyhow::Result<()> {
    let runtime = runtime()?;
    runtime.block_on(async {
        if args.create_tenant {
            args.common.create_tenant(&plan.target, args.timeout).await?;
        }
        let tally = Mutex::new(Tally::new(Counted::ByEnd));
        let now = Instant::now();
        match Client::new(plan, &tally).flow(now, now + args.timeout).await {
            Outcome::Done(_) => Ok(()),
            Outcome::Failed(problem) => Err(preflight_error(&problem)),
            Outcome::Abandoned(step) => {
                anyhow::bail!("the server refuses the first {} request", step.name())
            }
        }
    })
}

fn preflight_error(problem: &Problem) -> anyhow::Error {
    let hint = if problem.kind.ends_with(" 401") {
        "\nAre user and tenant right? --create-tenant creates the tenant."
    } else {
        ""
    };
    let answer = problem.answer.as_deref().unwrap_or_default();
    anyhow::anyhow!("the first flow failed: {} {answer}{hint}", problem.kind)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("starting a runtime")
}

/// The sending threads.
struct Load {
    tallies: Vec<Arc<Mutex<Tally>>>,
    threads: Vec<JoinHandle<()>>,
    backlog: Arc<Backlog>,
    connected: Arc<AtomicUsize>,
    failed: Arc<Mutex<Option<Failure>>>,
    begin: watch::Sender<Option<Times>>,
}

impl Load {
    fn spawn(args: &Args, plan: &Arc<Plan>, schedule: Option<Schedule>) -> anyhow::Result<Self> {
        let counted = if schedule.is_some() { Counted::ByDue } else { Counted::ByEnd };
        let (begin, _) = watch::channel(None);
        let mut load = Self {
            tallies: Vec::new(),
            threads: Vec::new(),
            backlog: Arc::new(Backlog::new(args.backlog_max)),
            connected: Arc::default(),
            failed: Arc::default(),
            begin,
        };
        for thread in 0..args.threads {
            let clients = args.concurrency / args.threads
                + u16::from(thread < args.concurrency % args.threads);
            let mut tally = Tally::new(counted);
            tally.sample = args.sample.as_ref().map(|_| Sample::new(SAMPLE_FLOWS_MAX));
            let tally = Arc::new(Mutex::new(tally));
            load.tallies.push(Arc::clone(&tally));
            let runtime = runtime()?;
            let worker = Worker {
                plan: Arc::clone(plan),
                tally,
                backlog: schedule.map(|_| Arc::clone(&load.backlog)),
                connected: Arc::clone(&load.connected),
                failed: Arc::clone(&load.failed),
                begin: load.begin.subscribe(),
            };
            load.threads.push(std::thread::spawn(move || {
                runtime.block_on(async {
                    let tasks: Vec<_> =
                        (0..clients).map(|_| tokio::spawn(worker.clone().run())).collect();
                    for task in tasks {
                        task.await.expect("a worker does not panic");
                    }
                });
            }));
        }
        Ok(load)
    }

    /// Waits until all are connected, then starts the run.
    fn start(&self, args: &Args) -> anyhow::Result<Times> {
        let deadline = Instant::now() + CONNECT_WITHIN;
        let all = usize::from(args.concurrency);
        loop {
            if let Some(failure) = self.failed.lock().expect("no panic while locked").take() {
                anyhow::bail!("opening {all} connections: {failure}");
            }
            let connected = self.connected.load(Ordering::Relaxed);
            if connected == all {
                break;
            }
            if Instant::now() >= deadline {
                anyhow::bail!("only {connected} of {all} connections within {CONNECT_WITHIN:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let start = Instant::now() + START_DELAY;
        let measured_from = start + args.warm_up;
        let times = Times { start, measured_from, end: measured_from + args.duration };
        for tally in &self.tallies {
            tally.lock().expect("no panic while locked").set_times(times);
        }
        self.begin.send_replace(Some(times));
        Ok(times)
    }

    /// Waits for the threads and builds the report.
    fn finish(self, args: &Args, times: Times, measured: Measured) -> anyhow::Result<Report> {
        let open_loop = args.rate.is_some();
        for thread in self.threads {
            thread.join().expect("a sending thread does not panic");
        }
        let counted = if open_loop { Counted::ByDue } else { Counted::ByEnd };
        let mut sum = Tally::new(counted);
        let mut sample = Vec::new();
        for tally in self.tallies {
            let tally = Arc::into_inner(tally).expect("its thread has ended");
            let mut tally = tally.into_inner().expect("no panic while locked");
            sample.extend(tally.sample.take().map(Sample::into_kept).unwrap_or_default());
            sum.add(tally);
        }
        if let Some(path) = &args.sample {
            write_sample(path, &sample).with_context(|| format!("--sample {}", path.display()))?;
        }
        let backlog = open_loop.then(|| BacklogReport {
            deepest: self.backlog.deepest(),
            dropped: self.backlog.dropped(),
        });
        if let Some(BacklogReport { dropped: dropped @ 1.., .. }) = backlog {
            sum.count_kind("dropped from a full backlog", dropped);
        }
        if let Some(problem) = &sum.first_problem {
            let answer = problem.answer.as_deref().unwrap_or_default();
            eprintln!("the first failure: {} {answer}", problem.kind);
        }
        let Measured { server, client } = measured;
        let measured = times.end.duration_since(times.measured_from);
        Ok(Report::new(&sum, Circumstances { measured, server, client, backlog }))
    }
}

/// One connection's share of the load.
#[derive(Clone)]
struct Worker {
    plan: Arc<Plan>,
    tally: Arc<Mutex<Tally>>,
    /// The source of flows in an open loop.
    backlog: Option<Arc<Backlog>>,
    connected: Arc<AtomicUsize>,
    failed: Arc<Mutex<Option<Failure>>>,
    begin: watch::Receiver<Option<Times>>,
}

impl Worker {
    async fn run(mut self) {
        let mut client = Client::new(&self.plan, &self.tally);
        match client.connect().await {
            Ok(()) => self.connected.fetch_add(1, Ordering::Relaxed),
            Err(failure) => {
                self.failed.lock().expect("no panic while locked").get_or_insert(failure);
                return;
            }
        };
        let begun = self.begin.wait_for(Option::is_some).await.map(|times| *times);
        let Ok(Some(times)) = begun else { return };
        tokio::time::sleep_until(times.start.into()).await;
        match &self.backlog {
            None => closed_loop(&mut client, &self.tally, times).await,
            Some(backlog) => open_loop(&mut client, &self.tally, backlog, times).await,
        }
    }
}

async fn closed_loop(client: &mut Client<'_>, tally: &Mutex<Tally>, times: Times) {
    let mut started = Instant::now();
    while started < times.end {
        let outcome = client.flow(started, times.end).await;
        let failed = matches!(outcome, Outcome::Failed(_));
        let ended = Instant::now();
        tally.lock().expect("no panic while locked").flow_ended(started, ended, outcome);
        if failed {
            tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        }
        started = Instant::now();
    }
}

async fn open_loop(client: &mut Client<'_>, tally: &Mutex<Tally>, backlog: &Backlog, times: Times) {
    while let Some(due) = backlog.next().await {
        let outcome = client.flow(due, times.end).await;
        let failed = matches!(outcome, Outcome::Failed(_));
        let ended = Instant::now();
        tally.lock().expect("no panic while locked").flow_ended(due, ended, outcome);
        if failed {
            tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        }
    }
}

fn print(args: &Args, report: &Report) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(report)?)?;
    } else {
        let loop_kind = match args.rate {
            None => "closed loop".to_owned(),
            Some(rate) => format!("open loop at {rate} flows/s"),
        };
        let gateway = match args.gateway {
            GatewayName::External => "external",
            GatewayName::Simulator => "simulator",
        };
        let requests = if args.combo { "combo payments" } else { "three requests per flow" };
        writeln!(
            out,
            "{} connections, {loop_kind}, gateway {gateway}, {requests}, {:?}",
            args.concurrency, args.duration
        )?;
        write!(out, "{report}")?;
    }
    Ok(())
}
