//! Timers that are due at the same time, beside the payments of others: what `faregate bench retries` and
//! `faregate bench entitlements expire` share.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::connection::Connection;
use super::flow::{Flows, Gateway, Plan, Requests};
use super::load::{Load, Shape, runtime};
use super::process::{Usage, spent, usage_of};
use super::report::{LatencyTable, Output, Quantiles, cpu_us_each, per_second, round};
use super::schedule::{Schedule, pace};
use super::tally::Recent;
use super::{Common, parse_span, raise_open_files};
use command_line::Target;

/// Connections at most.
const CONCURRENCY_MAX: i64 = 10_000;
/// The longest wait for a response.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// How often to look how many retries were made. The server's metrics are up to a second old.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Payments of others that may wait for a free connection.
const BACKLOG_MAX: usize = 100_000;
/// Others pay at most so long.
pub const OTHERS_MAX: Duration = Duration::from_secs(86_400);
/// How the metric begins that counts payments without an outcome.
const OUTSTANDING: &str = "faregate_outstanding_transactions ";
/// The timers that become due.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// How many timers.
    pub count: u32,
    /// Their name in the report.
    pub name: &'static str,
    /// Their kind in the server's metrics.
    pub kind: &'static str,
    /// How far the clock is set, in days.
    pub days: u32,
    /// Whether they have payments made, whose outcomes are waited for.
    pub has_payments: bool,
}

/// Options of both. The server needs `--test-clock`.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Create the tenant first, where there is none with this API key.
    #[arg(long)]
    create_tenant: bool,
    /// Connections of others, and of those who make what becomes due.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=CONCURRENCY_MAX))]
    pub concurrency: u16,
    /// Combo payments of others per second, on a fixed schedule; latencies count from the scheduled start.
    #[arg(long, value_name = "PAYMENTS_PER_S", default_value_t = 100.0)]
    rate: f64,
    /// How long the others are measured before the timers are due.
    #[arg(long, default_value = "10s", value_parser = parse_span)]
    before: Duration,
    /// How long the others pay before they are measured.
    #[arg(long, default_value = "2s", value_parser = parse_span)]
    warm_up: Duration,
    /// The run fails if the timers take longer.
    #[arg(long, default_value = "10m", value_parser = parse_span)]
    within: Duration,
    /// The file with the token of the server's metrics: metrics.token in its data directory.
    #[arg(long, value_name = "FILE")]
    metrics_token_file: PathBuf,
    /// The server's process id: report its CPU per timer and its memory.
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    output: Output,
    /// Exit with 1 where a payment of others failed.
    #[arg(long)]
    strict: bool,
}

impl Options {
    /// The plan of flows with these options, by a gateway.
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn plan(&self, gateway: Gateway) -> anyhow::Result<Arc<Plan>> {
        let (target, identity) = (self.common.target()?, self.common.identity());
        let flows = Flows { gateway, plugin_info: "{}", requests: Requests::Combo };
        Ok(Arc::new(Plan::new(target, &identity, flows, TIMEOUT)?))
    }
}

/// Has `prepared` make what becomes due, sets the clock, and prints the report.
///
/// # Errors
/// If an option is invalid, the server cannot be used, or the timers take too long.
pub fn run(
    args: &Options,
    due: Due,
    prepared: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<ExitCode> {
    let schedule = Schedule::new(args.rate).context("--rate: out of range")?;
    raise_open_files(u64::from(args.concurrency))?;
    let target = args.common.target()?;
    let runtime = runtime()?;
    let server = Server::new(args, &target, due)?;
    if args.create_tenant {
        runtime.block_on(args.common.create_tenant(&target, TIMEOUT))?;
    }
    let began = Instant::now();
    runtime.block_on(prepared)?;
    eprintln!("{} {} were prepared in {:.1?}", due.count, due.name, began.elapsed());

    let shape = Shape {
        concurrency: args.concurrency,
        threads: 1,
        backlog_max: Some(BACKLOG_MAX),
        samples: false,
    };
    let others = Load::spawn(shape, &args.plan(Gateway::External)?)?;
    let times = others.start(args.warm_up, OTHERS_MAX)?;
    let backlog = Arc::clone(&others.backlog);
    let pacer = std::thread::spawn(move || pace(schedule, &backlog, times));
    std::thread::sleep(times.measured_from.saturating_duration_since(Instant::now()));
    take_recent(&others);
    let before = measure(args, &others, || {
        std::thread::sleep(args.before);
        Ok(())
    })?;
    let during = measure(args, &others, || runtime.block_on(server.fire_all(args)))?;
    others.backlog.close();
    pacer.join().expect("the pacer does not panic");
    let (tally, _) = others.join();
    if let Some(problem) = &tally.first_problem {
        let answer = problem.answer.as_deref().unwrap_or_default();
        eprintln!("the first failure of others: {} {answer}", problem.kind);
    }
    let report = Report::new((args.rate, due), (&before, &during));
    args.output.print(&report)?;
    let failed = args.strict && report.others_errors > 0;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The payments of others in a part of the run, and what the server took for it.
struct Part {
    took: Duration,
    others: Recent,
    server: Option<Usage>,
}

fn measure(
    args: &Options,
    others: &Load,
    part: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Part> {
    let (began, before) = (Instant::now(), usage_of(args.pid)?);
    part()?;
    let (took, server) = (began.elapsed(), spent(before, usage_of(args.pid)?));
    Ok(Part { took, others: take_recent(others), server })
}

/// Takes the counts of others' payments that ended since the last call.
fn take_recent(others: &Load) -> Recent {
    let mut sum = Recent::default();
    for tally in &others.tallies {
        sum.add(&std::mem::take(&mut tally.lock().expect("no panic while locked").recent));
    }
    sum
}

/// The server's test clock and its metrics.
struct Server {
    target: Target,
    set_clock: String,
    scrape: String,
    due: Due,
    /// How the metric begins that counts the timers that fired.
    fired: String,
}

impl Server {
    fn new(args: &Options, target: &Target, due: Due) -> anyhow::Result<Self> {
        let path = format!("/1.0/kb/test/clock?days={}&timeoutSec=0", due.days);
        let head = args.common.identity().head(target, "PUT", &path)?;
        let token = read_token(&args.metrics_token_file)?;
        let Target { authority, .. } = target;
        Ok(Self {
            target: target.clone(),
            set_clock: format!("{head}Content-Length: 0\r\n\r\n"),
            scrape: format!(
                "GET /metrics HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\n\r\n"
            ),
            due,
            fired: format!("faregate_timers_total{{kind=\"{}\",result=\"fired\"}} ", due.kind),
        })
    }

    /// Sets the clock and waits until every timer has fired.
    async fn fire_all(&self, args: &Options) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.target.address, TIMEOUT).await?;
        let before = self.fired(&mut connection).await?;
        let began = Instant::now();
        let set = self.exchange(&mut connection, &self.set_clock, "setting the clock").await;
        set.context("does the server run with --test-clock?")?;
        let mut shown = began;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let fired = self.fired(&mut connection).await?.saturating_sub(before);
            let Due { count, name, .. } = self.due;
            if fired >= u64::from(count) && !self.awaits_outcomes(&mut connection).await? {
                return Ok(());
            }
            anyhow::ensure!(
                began.elapsed() < args.within,
                "{fired} of {count} {name} within {:?}",
                args.within
            );
            if shown.elapsed() >= Duration::from_secs(1) {
                shown = Instant::now();
                eprintln!("{:>4} s  {fired} {name}", began.elapsed().as_secs());
            }
        }
    }

    /// How many timers of this kind have fired since the server's start.
    async fn fired(&self, connection: &mut Connection) -> anyhow::Result<u64> {
        self.metric(connection, &self.fired).await
    }

    /// Whether payments that they had made have no outcome yet.
    async fn awaits_outcomes(&self, connection: &mut Connection) -> anyhow::Result<bool> {
        Ok(self.due.has_payments && self.metric(connection, OUTSTANDING).await? > 0)
    }

    /// The value of a metric; 0 where it is not there.
    async fn metric(&self, connection: &mut Connection, name: &str) -> anyhow::Result<u64> {
        let text = self.exchange(connection, &self.scrape, "reading the metrics").await?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().map_or(Ok(0), |count| count.parse().context("reading the metrics"))
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        request: &str,
        what: &str,
    ) -> anyhow::Result<String> {
        let deadline = Instant::now() + TIMEOUT;
        let response = connection.exchange(request.as_bytes(), deadline).await?;
        let body = String::from_utf8_lossy(&response.body(connection.received())).into_owned();
        anyhow::ensure!(response.status == 200, "{what}: {} {body}", response.status);
        Ok(body)
    }
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let token = std::fs::read_to_string(path);
    let token = token.with_context(|| format!("--metrics-token-file {}", path.display()))?;
    Ok(token.trim().to_owned())
}

/// The figures of a run. Scripts rely on the JSON's keys.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(skip)]
    name: &'static str,
    timers: u32,
    /// From the moment when they were due until all had fired, up to a second more than it took.
    seconds: f64,
    timers_per_s: f64,
    /// Payments of others per second, as scheduled.
    others_per_s: f64,
    /// Their latencies before the timers were due.
    before_ms: Quantiles,
    /// The same until the last one fired.
    during_ms: Quantiles,
    /// How many times the p99 of before that of during is.
    p99_times: Option<f64>,
    /// Payments of others that failed, before and during.
    others_errors: u64,
    /// Requests of others that were refused, and sent again.
    others_refused: u64,
    /// CPU of the process named by `--pid` meanwhile, less what the others took before, per timer.
    cpu_us_per_timer: Option<f64>,
    /// Its resident memory, at most, since its start.
    rss_mib: Option<f64>,
}

impl Report {
    fn new((rate, due): (f64, Due), (before, during): (&Part, &Part)) -> Self {
        let [before_ms, during_ms] = [before, during].map(|it| Quantiles::of(&it.others.flow));
        let longer = during.took.as_secs_f64() / before.took.as_secs_f64().max(f64::MIN_POSITIVE);
        let cpu = during.server.zip(before.server);
        let cpu = cpu.map(|(all, others)| all.cpu.saturating_sub(others.cpu.mul_f64(longer)));
        let has_before = before_ms.p99 > 0.0;
        Self {
            name: due.name,
            timers: due.count,
            seconds: round(during.took.as_secs_f64(), 100.0),
            timers_per_s: per_second(u64::from(due.count), during.took),
            others_per_s: rate,
            before_ms,
            during_ms,
            p99_times: has_before.then(|| round(during_ms.p99 / before_ms.p99, 100.0)),
            others_errors: before.others.errors + during.others.errors,
            others_refused: before.others.refused + during.others.refused,
            cpu_us_per_timer: cpu.and_then(|cpu| cpu_us_each(cpu, u64::from(due.count))),
            rss_mib: during.server.map(|server| round(server.rss_peak_mib, 10.0)),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, timers, seconds, timers_per_s, others_per_s, others_errors, .. } = self;
        writeln!(f, "{timers} {name} in {seconds:.2} s   {timers_per_s:.1} {name}/s")?;
        writeln!(f, "\nothers at {others_per_s} payments/s   {others_errors} errors")?;
        let rows = [("before", self.before_ms), ("during", self.during_ms)];
        write!(f, "{}", LatencyTable { heading: "latency, ms", name_width: 14, rows: &rows })?;
        if let Some(times) = self.p99_times {
            writeln!(f, "p99 {times:.2} times   {} refused", self.others_refused)?;
        }
        if let (Some(cpu), Some(rss)) = (self.cpu_us_per_timer, self.rss_mib) {
            writeln!(f, "\nserver   {cpu:.1} us CPU each, {rss:.1} MiB resident at most")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn part(ms: u64, cpu_ms: u64, took_s: u64) -> Part {
        let mut others = Recent::default();
        others.flow.record(Duration::from_millis(ms));
        let cpu = Duration::from_millis(cpu_ms);
        let server = Some(Usage { cpu, rss_mib: 0.0, rss_peak_mib: 100.04 });
        Part { took: Duration::from_secs(took_s), others, server }
    }

    fn report() -> Report {
        let due = Due {
            count: 1_000,
            name: "retries",
            kind: "payment-retry",
            days: 9,
            has_payments: false,
        };
        // The others took 100 ms a second before, and as much during.
        Report::new((100.0, due), (&part(2, 200, 2), &part(3, 1_400, 4)))
    }

    #[test]
    fn cpu_of_others_is_not_counted() {
        expect![[r#"{"timers":1000,"seconds":4.0,"timers_per_s":250.0,"others_per_s":100.0,"before_ms":{"p50":2.0,"p95":2.0,"p99":2.0,"max":2.0},"during_ms":{"p50":3.001,"p95":3.001,"p99":3.001,"max":3.001},"p99_times":1.5,"others_errors":0,"others_refused":0,"cpu_us_per_timer":1000.0,"rss_mib":100.0}"#]]
        .assert_eq(&serde_json::to_string(&report()).unwrap());
    }

    #[test]
    fn text_is_aligned() {
        expect![[r#"
            1000 retries in 4.00 s   250.0 retries/s

            others at 100 payments/s   0 errors
            latency, ms         p50        p95        p99        max
            before             2.00       2.00       2.00       2.00
            during             3.00       3.00       3.00       3.00
            p99 1.50 times   0 refused

            server   1000.0 us CPU each, 100.0 MiB resident at most
        "#]]
        .assert_eq(&report().to_string());
    }
}
