//! `faregate bench retries`: payments that were declined become due for their retries at the same time, beside
//! the payments of others.

use std::fmt::{self, Display, Formatter};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::connection::Connection;
use super::flow::{Client, Gateway, Outcome, Plan, Requests};
use super::load::{Load, Shape, runtime};
use super::process::usage;
use super::report::{Quantiles, cpu_us_per_flow, per_second, round};
use super::schedule::{Schedule, pace};
use super::tally::{Counted, Recent, Tally};
use super::target::Target;
use super::{Common, parse_span, raise_open_files};

/// Connections at most.
const CONCURRENCY_MAX: i64 = 10_000;
/// The longest wait for a response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How far the clock is set: a decline is retried after eight days unless the tenant says otherwise.
const DAYS: u32 = 9;
/// How often to look how many retries were made. The server's metrics are up to a second old.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Payments of others that may wait for a free connection.
const BACKLOG_MAX: usize = 100_000;
/// Others pay at most so long.
const OTHERS_MAX: Duration = Duration::from_secs(86_400);
/// The metric that counts the retries made.
const FIRED: &str = "faregate_timers_total{kind=\"payment-retry\",result=\"fired\"} ";

/// Options of `faregate bench retries`. The server needs `--test-clock` and the simulated gateway.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Create the tenant first, where there is none with this API key.
    #[arg(long)]
    create_tenant: bool,
    /// Payments that are declined first, and retried at the same time.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    retries: u32,
    /// Connections of others, and of those who make the declined payments.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=CONCURRENCY_MAX))]
    concurrency: u16,
    /// Combo payments of others per second, on a fixed schedule; latencies count from the scheduled start.
    #[arg(long, value_name = "PAYMENTS_PER_S", default_value_t = 100.0)]
    rate: f64,
    /// How long the others are measured before the retries are due.
    #[arg(long, default_value = "10s", value_parser = parse_span)]
    before: Duration,
    /// How long the others pay before they are measured.
    #[arg(long, default_value = "2s", value_parser = parse_span)]
    warm_up: Duration,
    /// The run fails if the retries take longer.
    #[arg(long, default_value = "10m", value_parser = parse_span)]
    within: Duration,
    /// The file with the token of the server's metrics: metrics.token in its data directory.
    #[arg(long, value_name = "FILE")]
    metrics_token_file: PathBuf,
    /// The server's process id: report its CPU per retry and its memory.
    #[arg(long)]
    pid: Option<u32>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Exit with 1 where a payment of others failed.
    #[arg(long)]
    strict: bool,
}

/// Runs the retries and prints the report.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let schedule = Schedule::new(args.rate).context("--rate: out of range")?;
    raise_open_files(u64::from(args.concurrency))?;
    let target = args.common.target()?;
    let plan = |gateway| {
        let identity = args.common.identity();
        Plan::new(target.clone(), &identity, (gateway, "{}", Requests::Combo), TIMEOUT)
            .map(Arc::new)
    };
    let runtime = runtime()?;
    let server = Server::new(args, &target)?;
    if args.create_tenant {
        runtime.block_on(args.common.create_tenant(&target, TIMEOUT))?;
    }
    let began = Instant::now();
    runtime.block_on(decline(args, &plan(Gateway::Declining)?))?;
    eprintln!("{} payments were declined in {:.1?}", args.retries, began.elapsed());

    let shape = Shape {
        concurrency: args.concurrency,
        threads: 1,
        backlog_max: Some(BACKLOG_MAX),
        samples: false,
    };
    let others = Load::spawn(shape, &plan(Gateway::External)?)?;
    let times = others.start(args.warm_up, OTHERS_MAX)?;
    let backlog = Arc::clone(&others.backlog);
    let pacer = std::thread::spawn(move || pace(schedule, &backlog, times));
    std::thread::sleep(times.measured_from.saturating_duration_since(Instant::now()));
    take_recent(&others);
    let before = measure(args, &others, || {
        std::thread::sleep(args.before);
        Ok(())
    })?;
    let during = measure(args, &others, || runtime.block_on(server.retry_all(args)))?;
    others.backlog.close();
    pacer.join().expect("the pacer does not panic");
    let (tally, _) = others.join();
    if let Some(problem) = &tally.first_problem {
        let answer = problem.answer.as_deref().unwrap_or_default();
        eprintln!("the first failure of others: {} {answer}", problem.kind);
    }
    let report = Report::new(args, (&before, &during));
    let text = if args.json { serde_json::to_string(&report)? + "\n" } else { report.to_string() };
    std::io::stdout().write_all(text.as_bytes())?;
    let failed = args.strict && report.others_errors > 0;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Makes the payments that are declined and wait for their retries.
async fn decline(args: &Args, plan: &Arc<Plan>) -> anyhow::Result<()> {
    let next = Arc::new(AtomicU32::new(0));
    let (count, end) = (args.retries, Instant::now() + OTHERS_MAX);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..args.concurrency {
        let (plan, next) = (Arc::clone(plan), Arc::clone(&next));
        clients.spawn(async move {
            let tally = Mutex::new(Tally::new(Counted::ByEnd));
            let mut client = Client::new(&plan, &tally);
            while next.fetch_add(1, Ordering::Relaxed) < count {
                match client.flow(Instant::now(), end).await {
                    Outcome::Done(_) => {}
                    Outcome::Failed(problem) => {
                        let answer = problem.answer.unwrap_or_default();
                        anyhow::bail!("a payment that is to be declined: {} {answer}", problem.kind)
                    }
                    Outcome::Abandoned(step) => {
                        anyhow::bail!("the server refuses a {} request", step.name())
                    }
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client does not panic")?;
    }
    Ok(())
}

/// The payments of others in a part of the run, and what the server took for it.
struct Part {
    took: Duration,
    others: Recent,
    cpu: Option<Duration>,
    rss_mib: Option<f64>,
}

fn measure(
    args: &Args,
    others: &Load,
    part: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Part> {
    let usage_now =
        || args.pid.map(|pid| usage(pid).with_context(|| format!("--pid {pid}"))).transpose();
    let (began, before) = (Instant::now(), usage_now()?);
    part()?;
    let (took, after) = (began.elapsed(), usage_now()?);
    let cpu = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
    Ok(Part { took, others: take_recent(others), cpu, rss_mib: after.map(|it| it.rss_peak_mib) })
}

/// What ended since the last call.
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
}

impl Server {
    fn new(args: &Args, target: &Target) -> anyhow::Result<Self> {
        let path = format!("/1.0/kb/test/clock?days={DAYS}&timeoutSec=0");
        let head = args.common.identity().head(target, "PUT", &path)?;
        let token = read_token(&args.metrics_token_file)?;
        let Target { authority, .. } = target;
        Ok(Self {
            target: target.clone(),
            set_clock: format!("{head}Content-Length: 0\r\n\r\n"),
            scrape: format!(
                "GET /metrics HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\n\r\n"
            ),
        })
    }

    /// Sets the clock and waits until every retry was made.
    async fn retry_all(&self, args: &Args) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.target.address, TIMEOUT).await?;
        let before = self.fired(&mut connection).await?;
        let began = Instant::now();
        let set = self.exchange(&mut connection, &self.set_clock, "setting the clock").await;
        set.context("does the server run with --test-clock?")?;
        let mut shown = began;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let made = self.fired(&mut connection).await?.saturating_sub(before);
            if made >= u64::from(args.retries) {
                return Ok(());
            }
            anyhow::ensure!(
                began.elapsed() < args.within,
                "{made} of {} retries within {:?}",
                args.retries,
                args.within
            );
            if shown.elapsed() >= Duration::from_secs(1) {
                shown = Instant::now();
                eprintln!("{:>4} s  {made} retries", began.elapsed().as_secs());
            }
        }
    }

    /// How many retries the server has made since its start.
    async fn fired(&self, connection: &mut Connection) -> anyhow::Result<u64> {
        let text = self.exchange(connection, &self.scrape, "reading the metrics").await?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(FIRED));
        // Not there before the first one.
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
    retries: u32,
    /// From the moment when they were due until all were made, up to a second more than it took.
    seconds: f64,
    retries_per_s: f64,
    /// Payments of others per second, as scheduled.
    others_per_s: f64,
    /// Their latencies before the retries were due.
    before_ms: Quantiles,
    /// The same until the last retry was made.
    during_ms: Quantiles,
    /// How many times the p99 of before that of during is.
    p99_times: Option<f64>,
    /// Payments of others that failed, before and during.
    others_errors: u64,
    /// Requests of others that were refused, and sent again.
    others_refused: u64,
    /// CPU of the process named by `--pid` while retries were made, less what the others took before, per retry.
    cpu_us_per_retry: Option<f64>,
    /// Its resident memory, at most, since its start.
    rss_mib: Option<f64>,
}

impl Report {
    fn new(args: &Args, (before, during): (&Part, &Part)) -> Self {
        let [before_ms, during_ms] = [before, during].map(|it| Quantiles::of(&it.others.flow));
        let of_others = before.cpu.map(|cpu| {
            cpu.mul_f64(
                during.took.as_secs_f64() / before.took.as_secs_f64().max(f64::MIN_POSITIVE),
            )
        });
        let cpu = during.cpu.zip(of_others).map(|(cpu, of_others)| cpu.saturating_sub(of_others));
        let has_before = before_ms.p99 > 0.0;
        Self {
            retries: args.retries,
            seconds: round(during.took.as_secs_f64(), 100.0),
            retries_per_s: per_second(u64::from(args.retries), during.took),
            others_per_s: args.rate,
            before_ms,
            during_ms,
            p99_times: has_before.then(|| round(during_ms.p99 / before_ms.p99, 100.0)),
            others_errors: before.others.errors + during.others.errors,
            others_refused: before.others.refused + during.others.refused,
            cpu_us_per_retry: cpu.and_then(|cpu| cpu_us_per_flow(cpu, u64::from(args.retries))),
            rss_mib: during.rss_mib.map(|mib| round(mib, 10.0)),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { retries, seconds, retries_per_s, others_per_s, others_errors, .. } = self;
        writeln!(f, "{retries} retries in {seconds:.2} s   {retries_per_s:.1} retries/s")?;
        writeln!(f, "\nothers at {others_per_s} payments/s   {others_errors} errors")?;
        writeln!(f, "latency, ms         p50        p95        p99        max")?;
        writeln!(f, "{:<14}{}", "before", self.before_ms)?;
        writeln!(f, "{:<14}{}", "during", self.during_ms)?;
        if let Some(times) = self.p99_times {
            writeln!(f, "p99 {times:.2} times   {} refused", self.others_refused)?;
        }
        if let (Some(cpu), Some(rss)) = (self.cpu_us_per_retry, self.rss_mib) {
            writeln!(f, "\nserver   {cpu:.1} us CPU per retry, {rss:.1} MiB resident at most")?;
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
        let (took, cpu) = (Duration::from_secs(took_s), Some(Duration::from_millis(cpu_ms)));
        Part { took, others, cpu, rss_mib: Some(100.04) }
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn report() -> Report {
        let line = ["bench", "--retries", "1000", "--metrics-token-file", "/nothing"];
        let Line { args } = clap::Parser::parse_from(line);
        // The others took 100 ms a second before, and as much during.
        Report::new(&args, (&part(2, 200, 2), &part(3, 1_400, 4)))
    }

    #[test]
    fn cpu_of_others_is_not_counted() {
        expect![[r#"{"retries":1000,"seconds":4.0,"retries_per_s":250.0,"others_per_s":100.0,"before_ms":{"p50":2.0,"p95":2.0,"p99":2.0,"max":2.0},"during_ms":{"p50":3.001,"p95":3.001,"p99":3.001,"max":3.001},"p99_times":1.5,"others_errors":0,"others_refused":0,"cpu_us_per_retry":1000.0,"rss_mib":100.0}"#]]
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

            server   1000.0 us CPU per retry, 100.0 MiB resident at most
        "#]]
        .assert_eq(&report().to_string());
    }
}
