//! `faregate bench payments`: each flow creates an account, a payment method and a payment, in three
//! requests or in one combo payment.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::flow::{Client, Flows, Gateway, Plan, Requests};
use super::load::{Load, Shape, runtime};
use super::monitor::{Measured, Monitor};
use super::outcome::{Outcome, Problem};
use super::reads::write_sample;
use super::report::{Output, exit_code};
use super::schedule::{Schedule, Times, pace};
use super::tally::{Counted, Tally};
use super::{Common, parse_span, raise_open_files};

mod report;

use report::{BacklogReport, Circumstances, Report};

/// Connections at most: what one address can open towards one port.
const CONCURRENCY_MAX: i64 = 28_000;
/// Threads at most. One drives more flows than a server on the same machine can serve.
const THREADS_MAX: i64 = 64;

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
    /// The `pluginInfo` of each payment method, as JSON: its properties for its gateway.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    plugin_info: String,
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
    /// Give the tenant rules that every payment has to keep to (`faregate-rules`).
    #[arg(long)]
    rules: bool,
    /// The server's process id: report its CPU per flow and its memory.
    #[arg(long)]
    pid: Option<u32>,
    /// Write a sample of the created rows, evenly from the whole run, to this file for `bench reads`.
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
    /// Threads that send.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    threads: u16,
    #[command(flatten)]
    output: Output,
    /// Exit with 1 where any flow failed.
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GatewayName {
    External,
    Simulator,
    /// `gateway.http.bench` of the server, which leads to `faregate bench http-gateway`.
    Http,
    /// Stripe, with the tenant's configuration that the server has.
    Stripe,
    /// The gateway that the rules of the tenant choose, which the server has; --plugin-info names what each knows.
    Router,
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
    let shape = Shape {
        concurrency: args.concurrency,
        threads: args.threads,
        backlog_max: args.rate.map(|_| args.backlog_max),
        samples: args.sample.is_some(),
    };
    let load = Load::spawn(shape, &plan)?;
    let times = load.start(args.warm_up, args.duration)?;
    let pacer = schedule.map(|schedule| {
        let backlog = Arc::clone(&load.backlog);
        std::thread::spawn(move || pace(schedule, &backlog, times))
    });
    let monitor = Monitor { times, pid: args.pid, tallies: &load.tallies, backlog: &load.backlog };
    let measured = monitor.watch()?;
    if let Some(pacer) = pacer {
        pacer.join().expect("the pacer does not panic");
    }
    let report = finish(load, args, times, measured)?;
    args.output.print_titled(|| args.title(), &report)?;
    Ok(exit_code(report.ok, report.errors, args.strict))
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let gateway = match (args.gateway, args.gateway_delay) {
        (GatewayName::External, None) => Gateway::External,
        (GatewayName::Http, None) => Gateway::Http,
        (GatewayName::Stripe, None) => Gateway::Stripe,
        (GatewayName::Router, None) => Gateway::Router,
        (
            GatewayName::External | GatewayName::Http | GatewayName::Stripe | GatewayName::Router,
            Some(_),
        ) => {
            anyhow::bail!("--gateway-delay: only the simulator can delay its answers")
        }
        (GatewayName::Simulator, delay) => {
            Gateway::Simulator(delay.unwrap_or(Duration::from_secs(1)))
        }
    };
    let target = args.common.target()?;
    let requests = if args.combo { Requests::Combo } else { Requests::Three };
    let flows = Flows { gateway, plugin_info: &args.plugin_info, requests };
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
        if args.rules {
            args.common.set_rules(&plan.target, args.timeout).await?;
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

/// Waits for the threads and builds the report.
fn finish(load: Load, args: &Args, times: Times, measured: Measured) -> anyhow::Result<Report> {
    let backlog = Arc::clone(&load.backlog);
    let (mut sum, sample) = load.join();
    if let Some(path) = &args.sample {
        write_sample(path, &sample).with_context(|| format!("--sample {}", path.display()))?;
    }
    let backlog =
        args.rate.map(|_| BacklogReport { deepest: backlog.deepest(), dropped: backlog.dropped() });
    if let Some(BacklogReport { dropped, .. }) = backlog {
        sum.errors.count("dropped from a full backlog", dropped);
    }
    if let Some(problem) = &sum.first_problem {
        let answer = problem.answer.as_deref().unwrap_or_default();
        eprintln!("the first failure: {} {answer}", problem.kind);
    }
    let Measured { server, client } = measured;
    let measured = times.end.duration_since(times.measured_from);
    Ok(Report::new(&sum, Circumstances { measured, server, client, backlog }))
}

impl Args {
    /// The load, as the report's first line.
    fn title(&self) -> String {
        let loop_kind = match self.rate {
            None => "closed loop".to_owned(),
            Some(rate) => format!("open loop at {rate} flows/s"),
        };
        let gateway = match self.gateway {
            GatewayName::External => "external",
            GatewayName::Simulator => "simulator",
            GatewayName::Http => "http",
            GatewayName::Stripe => "stripe",
            GatewayName::Router => "router",
        };
        let requests = if self.combo { "combo payments" } else { "three requests per flow" };
        format!(
            "{} connections, {loop_kind}, gateway {gateway}, {requests}, {:?}\n",
            self.concurrency, self.duration
        )
    }
}
