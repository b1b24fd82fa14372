//! `faregate bench flags ofrep`: evaluations by OpenFeature's remote protocol.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use tokio::task::{JoinSet, LocalSet};

use super::closed_loop::{Counts, Exchange, TIMEOUT, once, send};
use super::paid::shop::{Sample, Shop};
use crate::process::cpu_between;
use crate::report::{LatencyTable, Output, Quantiles, exit_code, per_second};
use crate::tally::{ErrorKinds, Latencies};
use crate::{count_up_to, parse_span, raise_open_files};
use command_line::Target;

/// Different users per connection.
const USERS: usize = 64;

/// Options of `faregate bench flags ofrep`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// A secret of the environment, of either type.
    #[arg(long, allow_hyphen_values = true, required_unless_present = "accounts")]
    secret: Option<String>,
    /// Ask for the users of so many accounts, each of which has bought what flags depend on, instead. The tenant and
    /// its flags are made for the run; each user is asked for once, alone, before the run.
    #[arg(long, value_name = "N", conflicts_with = "secret", value_parser = count_up_to(100_000))]
    accounts: Option<u32>,
    /// With --accounts: no flag depends on what was bought.
    #[arg(long, requires = "accounts")]
    plain: bool,
    /// With --accounts: a user who may create tenants.
    #[arg(long, default_value = "admin")]
    user: String,
    /// The user's password.
    #[arg(long, allow_hyphen_values = true, default_value = "password", hide_default_value = true)]
    password: String,
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
    #[command(flatten)]
    output: Output,
}

/// The secret of all requests, and the users that they are about.
struct Subjects {
    secret: String,
    /// The prefix of the users' keys.
    users: String,
}

#[derive(Serialize)]
struct Report {
    requests_per_s: f64,
    ok: u64,
    errors: u64,
    error_kinds: ErrorKinds,
    latency_ms: Quantiles,
    /// Of each user's first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_ms: Option<Quantiles>,
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
    args.output.print(&report)?;
    Ok(exit_code(report.ok, report.errors, true))
}

impl Args {
    async fn measure(&self, target: &Target) -> anyhow::Result<Report> {
        let subjects = self.subjects(target).await?;
        let first_ms = match self.accounts {
            Some(count) => Some(self.first(target, &subjects, count).await?),
            None => None,
        };
        let from = Instant::now() + self.warm_up;
        let end = from + self.duration;
        let mut connections = JoinSet::new();
        for number in 0..self.concurrency {
            let requests = self.requests(target, &subjects, number);
            connections.spawn_local(send(target.clone(), requests, from, end));
        }
        let cpu = cpu_between(self.pid, from, end).await?;
        let sum = Counts::sum(connections).await?;
        let ok = sum.latencies.count();
        #[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
        let per_request = |cpu: Duration| cpu.as_secs_f64() * 1e6 / ok.max(1) as f64;
        Ok(Report {
            requests_per_s: per_second(ok, self.duration),
            ok,
            errors: sum.errors.total(),
            error_kinds: sum.errors,
            latency_ms: Quantiles::of(&sum.latencies),
            first_ms,
            server_cpu_us_per_request: cpu.map(per_request),
        })
    }

    /// The secret and the users of all requests; with `--accounts` they are created.
    async fn subjects(&self, target: &Target) -> anyhow::Result<Subjects> {
        let Some(count) = self.accounts else {
            let secret = self.secret.clone().context("--secret")?;
            return Ok(Subjects { secret, users: "user-".to_owned() });
        };
        let sample = if self.plain { Sample::Plain } else { Sample::Entitled };
        let credentials = (self.user.as_str(), self.password.as_str());
        let shop = Shop::open(target.clone(), credentials, sample, TIMEOUT).await?;
        for account in shop.accounts(count).await? {
            shop.buy(&account).await?;
        }
        Ok(Subjects { secret: shop.secret("client").await?, users: shop.prefix.clone() })
    }

    /// How long the first request for each user takes, one at a time.
    async fn first(
        &self,
        target: &Target,
        subjects: &Subjects,
        count: u32,
    ) -> anyhow::Result<Quantiles> {
        let mut latencies = Latencies::default();
        let mut connection = None;
        for n in 0..count {
            let exchange = self.request(target, subjects, &n.to_string());
            let sent = Instant::now();
            let answered = once(&mut connection, target, &exchange).await;
            answered.map_err(|kind| anyhow::anyhow!("a user's first request: {kind}"))?;
            latencies.record(sent.elapsed());
        }
        Ok(Quantiles::of(&latencies))
    }

    /// The requests of one connection.
    fn requests(&self, target: &Target, subjects: &Subjects, number: u16) -> Rc<[Exchange]> {
        let user = |user: usize| match self.accounts {
            Some(count) => ((usize::from(number) * USERS + user) % count as usize).to_string(),
            None => format!("{number}-{user}"),
        };
        (0..USERS).map(|it| self.request(target, subjects, &user(it))).collect()
    }

    /// A request, with text that a correct response contains.
    fn request(&self, target: &Target, subjects: &Subjects, user: &str) -> Exchange {
        let Subjects { secret, users } = subjects;
        let flag = self.flag.as_ref();
        let path = flag.map_or_else(String::new, |key| format!("/{key}"));
        let body = format!(r#"{{"context":{{"targetingKey":"{users}{user}","country":"uy"}}}}"#);
        let request = format!(
            "POST /ofrep/v1/evaluate/flags{path} HTTP/1.1\r\nHost: {}\r\nX-API-Key: {secret}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            target.authority,
            body.len()
        );
        let expected = match (flag, self.accounts) {
            (None, Some(_)) => r#""key":"paid","value":true"#.to_owned(),
            (None, None) => r#"{"flags":["#.to_owned(),
            (Some(key), _) => format!(r#""key":"{key}""#),
        };
        Exchange { request, expected }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { requests_per_s, ok, errors, .. } = self;
        writeln!(f, "{requests_per_s:.1} requests/s   {ok} ok   {errors} errors")?;
        let mut rows = vec![("", self.latency_ms)];
        rows.extend(self.first_ms.map(|first| ("first", first)));
        write!(f, "{}", LatencyTable { heading: "latency, ms", name_width: 12, rows: &rows })?;
        if let Some(cpu) = self.server_cpu_us_per_request {
            writeln!(f, "server: {cpu:.1} us of CPU per request")?;
        }
        write!(f, "{}", self.error_kinds)
    }
}
