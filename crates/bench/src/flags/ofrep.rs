//! `faregate bench flags ofrep`: evaluations by OpenFeature's remote protocol.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use tokio::task::{JoinSet, LocalSet};

use super::closed_loop::{Counts, Exchange, error_lines, exit_code, print, send};
use crate::process::usage;
use crate::report::{Quantiles, per_second};
use crate::target::Target;
use crate::{parse_span, raise_open_files};

/// Different users per connection.
const USERS: usize = 64;

/// Options of `faregate bench flags ofrep`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// A secret of the environment, of either type.
    #[arg(long)]
    secret: String,
    /// The flag to evaluate; without it, each request evaluates all flags.
    #[arg(long, value_name = "KEY")]
    flag: Option<String>,
    /// Connections, each with one request at a time.
    #[arg(long, value_name = "N", default_value = "16",
        value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,
    /// How long to measure.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    duration: Duration,
    /// How long to run before measuring.
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = parse_span)]
    warm_up: Duration,
    /// The server's process id: report its CPU time.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    requests_per_s: f64,
    ok: u64,
    errors: u64,
    error_kinds: BTreeMap<String, u64>,
    latency_ms: Quantiles,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_us_per_request: Option<f64>,
}

/// Measures a server.
///
/// # Errors
/// If an option is invalid or the server cannot be used; the message says what to change.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let target = Target::parse("--url", &args.url)?;
    raise_open_files(u64::from(args.concurrency))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = LocalSet::new().block_on(&runtime, args.measure(&target))?;
    print(&report, &report.text(), args.json)?;
    Ok(exit_code(report.ok, report.errors))
}

impl Args {
    async fn measure(&self, target: &Target) -> anyhow::Result<Report> {
        let used = || self.pid.map(usage).transpose().context("cannot read /proc");
        let from = Instant::now() + self.warm_up;
        let end = from + self.duration;
        let mut connections = JoinSet::new();
        for number in 0..self.concurrency {
            let requests = self.requests(target, number);
            connections.spawn_local(send(target.clone(), requests, from, end));
        }
        tokio::time::sleep_until(from.into()).await;
        let before = used()?;
        tokio::time::sleep_until(end.into()).await;
        let after = used()?;
        let sum = Counts::sum(connections).await?;
        let ok = sum.latencies.count();
        let cpu = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        #[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
        let per_request = |cpu: Duration| cpu.as_secs_f64() * 1e6 / ok.max(1) as f64;
        Ok(Report {
            requests_per_s: per_second(ok, self.duration),
            ok,
            errors: sum.errors.values().sum(),
            error_kinds: sum.errors,
            latency_ms: Quantiles::of(&sum.latencies),
            server_cpu_us_per_request: cpu.map(per_request),
        })
    }

    /// The requests of one connection, each with text that a correct response contains.
    fn requests(&self, target: &Target, number: u16) -> Rc<[Exchange]> {
        let Self { secret, flag, .. } = self;
        let path = flag.as_ref().map_or_else(String::new, |key| format!("/{key}"));
        let request = |user| {
            let key = format!("user-{number}-{user}");
            let body = format!(r#"{{"context":{{"targetingKey":"{key}","country":"uy"}}}}"#);
            let request = format!(
                "POST /ofrep/v1/evaluate/flags{path} HTTP/1.1\r\nHost: {}\r\nX-API-Key: {secret}\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                target.authority,
                body.len()
            );
            let expected =
                flag.as_ref().map_or(r#"{"flags":["#.to_owned(), |key| format!(r#""key":"{key}""#));
            Exchange { request, expected }
        };
        (0..USERS).map(request).collect()
    }
}

impl Report {
    fn text(&self) -> String {
        let Self { requests_per_s, ok, errors, latency_ms, .. } = self;
        let mut text = format!(
            "{requests_per_s:.1} requests/s   {ok} ok   {errors} errors\n{:<12}{:>9}  {:>9}  {:>9}  \
             {:>9}\n{:<12}{latency_ms}\n",
            "latency, ms", "p50", "p95", "p99", "max", ""
        );
        if let Some(cpu) = self.server_cpu_us_per_request {
            text += &format!("server: {cpu:.1} us of CPU per request\n");
        }
        text + &error_lines(&self.error_kinds)
    }
}
