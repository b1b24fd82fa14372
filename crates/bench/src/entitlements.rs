//! `faregate bench entitlements`: checks of what accounts may do, and usage that is counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::connection::Connection;
use super::random::Random;
use super::report::{Quantiles, per_second};
use super::request::Identity;
use super::tally::Latencies;
use super::target::Target;
use super::{Common, parse_span, raise_open_files};

/// Connections at most.
const CONCURRENCY_MAX: i64 = 10_000;
/// Accounts at most.
const ACCOUNTS_MAX: i64 = 100_000;
/// Connections that make the accounts.
const MAKERS: usize = 32;
/// The longest wait for a response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What an account may use: more than a run uses.
const LIMIT: i64 = 1_000_000_000_000;
/// The features of each account: a switch and two limits.
const FEATURES: [&str; 3] = ["bench-pro", "bench-calls", "bench-seats"];

#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Checks whether an account may use a feature.
    Check(Args),
    /// Counts usage: events one by one or in batches, or reservations that are confirmed.
    Usage(UsageArgs),
}

/// Options of `faregate bench entitlements check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Accounts, each with a switch and two limits.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=ACCOUNTS_MAX))]
    accounts: u32,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=CONCURRENCY_MAX))]
    concurrency: u16,
    /// How long to measure.
    #[arg(long, default_value = "10s", value_parser = parse_span)]
    duration: Duration,
    /// How long to run before measuring.
    #[arg(long, default_value = "2s", value_parser = parse_span)]
    warm_up: Duration,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Exit with 1 where anything failed.
    #[arg(long)]
    strict: bool,
}

/// Options of `faregate bench entitlements usage`.
#[derive(Debug, clap::Args)]
pub struct UsageArgs {
    #[command(flatten)]
    args: Args,
    /// Events of a request.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    batch: u16,
    /// Reserve and confirm instead: a pair of requests counts as one.
    #[arg(long, conflicts_with = "batch")]
    reserve: bool,
}

/// What each connection sends.
#[derive(Clone, Copy, Debug)]
enum Work {
    Check,
    Record { batch: u16 },
    Reserve,
}

/// Runs the benchmark and prints the report.
///
/// # Errors
/// Where the server cannot be used.
pub fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    let (args, work) = match bench {
        Bench::Check(args) => (args, Work::Check),
        Bench::Usage(UsageArgs { args, reserve: true, .. }) => (args, Work::Reserve),
        Bench::Usage(UsageArgs { args, batch, .. }) => (args, Work::Record { batch: *batch }),
    };
    let target = args.common.target()?;
    raise_open_files(u64::from(args.concurrency))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let found = runtime.block_on(measure(args, work, target))?;
    let report = Report::new(&found, args.duration);
    let text = if args.json { serde_json::to_string(&report)? + "\n" } else { report.text() };
    std::io::stdout().write_all(text.as_bytes())?;
    let failed = report.ok == 0 || (args.strict && report.errors > 0);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn measure(args: &Args, work: Work, target: Target) -> anyhow::Result<Found> {
    args.common.create_tenant(&target, TIMEOUT).await?;
    let identity = args.common.identity();
    let accounts = Arc::new(furnish(args, &target, &identity).await?);
    let started = Instant::now();
    let measured_from = started + args.warm_up;
    let end = measured_from + args.duration;
    let run = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..args.concurrency {
        let client = Client {
            heads: Heads::of(&identity, &target)?,
            target: target.clone(),
            accounts: Arc::clone(&accounts),
            connection: None,
            random: Random::new(u64::from(number)),
            name: format!("{run:x}-{number}"),
            sent: 0,
        };
        clients.spawn(client.work(work, measured_from, end));
    }
    let mut sum = Found::default();
    while let Some(found) = clients.join_next().await {
        sum.add(&found.context("a client panicked")?);
    }
    Ok(sum)
}

/// Makes the features and the accounts.
async fn furnish(args: &Args, target: &Target, identity: &Identity) -> anyhow::Result<Vec<String>> {
    let mut client = Client {
        heads: Heads::of(identity, target)?,
        target: target.clone(),
        accounts: Arc::default(),
        connection: None,
        random: Random::new(0),
        name: String::new(),
        sent: 0,
    };
    for feature in FEATURES {
        let body = match feature {
            "bench-pro" => json!({ "name": "Bench", "kind": "switch" }),
            _ => json!({ "name": "Bench", "kind": "limit", "unit": "calls", "resets": "month" }),
        };
        let answer = client.send("PUT", &format!("/v1/features/{feature}"), &body).await;
        anyhow::ensure!(matches!(answer, Ok((200 | 201, _))), "making a feature: {answer:?}");
    }
    let wanted = usize::try_from(args.accounts)?;
    let mut makers = tokio::task::JoinSet::new();
    for maker in 0..MAKERS.min(wanted) {
        let share = (wanted - maker).div_ceil(MAKERS);
        let mut client = client.clone_closed();
        makers.spawn(async move {
            let mut made = vec![];
            for _ in 0..share {
                made.push(client.account().await?);
            }
            anyhow::Ok(made)
        });
    }
    let mut accounts = vec![];
    while let Some(made) = makers.join_next().await {
        accounts.extend(made.context("a client panicked")??);
    }
    Ok(accounts)
}

/// The heads of requests, up to and without `Content-Length`; `{path}` stands for the path.
#[derive(Clone)]
struct Heads {
    get: String,
    post: String,
    put: String,
}

impl Heads {
    fn of(identity: &Identity, target: &Target) -> anyhow::Result<Self> {
        let head = |method| identity.head(target, method, "{path}");
        Ok(Self { get: head("GET")?, post: head("POST")?, put: head("PUT")? })
    }
}

/// One connection's share of the work.
struct Client {
    heads: Heads,
    target: Target,
    accounts: Arc<Vec<String>>,
    connection: Option<Connection>,
    random: Random,
    /// Begins the ids of its events.
    name: String,
    /// How many events it has sent.
    sent: u64,
}

impl Client {
    fn clone_closed(&self) -> Self {
        Self {
            heads: self.heads.clone(),
            target: self.target.clone(),
            accounts: Arc::clone(&self.accounts),
            connection: None,
            random: self.random,
            name: self.name.clone(),
            sent: 0,
        }
    }

    /// Makes an account with its grants; its id.
    async fn account(&mut self) -> anyhow::Result<String> {
        let body = json!({ "currency": "USD" });
        let answer = self.exchange("POST", "/1.0/kb/accounts", &body).await;
        let location = match answer {
            Ok((201, _, Some(location))) => location,
            other => anyhow::bail!("making an account: {other:?}"),
        };
        let id = location.rsplit('/').next().unwrap_or_default().to_owned();
        for feature in FEATURES {
            let value = if feature == "bench-pro" { json!(true) } else { json!(LIMIT) };
            let grant = json!({ "feature": feature, "value": value, "reason": "bench" });
            let answer = self.send("POST", &format!("/v1/accounts/{id}/grants"), &grant).await;
            anyhow::ensure!(matches!(answer, Ok((201, _))), "granting a feature: {answer:?}");
        }
        Ok(id)
    }

    async fn work(mut self, work: Work, measured_from: Instant, end: Instant) -> Found {
        let mut found = Found::default();
        loop {
            let sent = Instant::now();
            if sent >= end {
                return found;
            }
            let done = match work {
                Work::Check => self.check().await,
                Work::Record { batch } => self.record(batch).await,
                Work::Reserve => self.reserve().await,
            };
            if sent < measured_from {
                continue;
            }
            match done {
                Ok(count) => {
                    found.latencies.record(sent.elapsed());
                    found.done += count;
                }
                Err(kind) => *found.kinds.entry(kind).or_default() += 1,
            }
        }
    }

    async fn check(&mut self) -> Result<u64, String> {
        let feature = FEATURES[self.below(FEATURES.len())];
        let path = format!("/v1/accounts/{}/entitlements/{feature}", self.any_account());
        let (status, body) = self.send("GET", &path, &Value::Null).await?;
        let is_right = status == 200 && body.contains("\"allowed\":true");
        if is_right { Ok(1) } else { Err(format!("check {status}")) }
    }

    async fn record(&mut self, batch: u16) -> Result<u64, String> {
        let path = format!("/v1/accounts/{}/usage", self.any_account());
        let mut events: Vec<Value> = (0..batch).map(|_| self.event()).collect();
        let body = match events.len() {
            1 => events.remove(0),
            _ => json!({ "events": events }),
        };
        let (status, answer) = self.send("POST", &path, &body).await?;
        let is_right =
            status == 200 && (batch == 1 || answer.starts_with(&format!("{{\"counted\":{batch},")));
        if is_right { Ok(u64::from(batch)) } else { Err(format!("record {status}")) }
    }

    async fn reserve(&mut self) -> Result<u64, String> {
        let path = format!("/v1/accounts/{}/reservations", self.any_account());
        let body = json!({ "feature": "bench-calls", "quantity": 2, "ttlSeconds": 60 });
        let (status, _, location) = self.exchange("POST", &path, &body).await?;
        let Some(location) = location.filter(|_| status == 201) else {
            return Err(format!("reserve {status}"));
        };
        let confirm = json!({ "quantity": 1 });
        let (status, _) = self.send("POST", &format!("{location}/confirm"), &confirm).await?;
        if status == 200 { Ok(1) } else { Err(format!("confirm {status}")) }
    }

    fn event(&mut self) -> Value {
        self.sent += 1;
        let id = format!("{}-{}", self.name, self.sent);
        json!({ "feature": FEATURES[1 + self.below(2)], "quantity": 1, "eventId": id })
    }

    fn any_account(&mut self) -> String {
        let at = self.below(self.accounts.len());
        self.accounts[at].clone()
    }

    fn below(&mut self, count: usize) -> usize {
        let number = self.random.next() % u64::try_from(count).unwrap_or(u64::MAX);
        usize::try_from(number).unwrap_or_default()
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<(u16, String), String> {
        self.exchange(method, path, body).await.map(|(status, body, _)| (status, body))
    }

    /// Sends a request; status, body and `Location`'s path of its response.
    async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<(u16, String, Option<String>), String> {
        let mut open = match self.connection.take() {
            Some(open) => open,
            None => Connection::open(self.target.address, TIMEOUT)
                .await
                .map_err(|failure| failure.to_string())?,
        };
        let head = match method {
            "GET" => &self.heads.get,
            "PUT" => &self.heads.put,
            _ => &self.heads.post,
        };
        let head = head.replacen("{path}", path, 1);
        let request = match method {
            "GET" => format!("{head}\r\n"),
            _ => {
                let body = body.to_string();
                format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
            }
        };
        let response = open
            .exchange(request.as_bytes(), Instant::now() + TIMEOUT)
            .await
            .map_err(|failure| failure.to_string())?;
        let received = open.received();
        let body = String::from_utf8_lossy(&response.body(received)).into_owned();
        let location = location(received);
        if !response.close {
            self.connection = Some(open);
        }
        Ok((response.status, body, location))
    }
}

/// The path of a response's `Location`.
fn location(received: &[u8]) -> Option<String> {
    let head = received.split(|byte| *byte == b'\n').take_while(|line| line.len() > 1);
    for line in head {
        let line = std::str::from_utf8(line).ok()?.trim_end();
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("location") {
            let path =
                value.find("://").and_then(|at| value[at + 3..].find('/').map(|it| at + 3 + it));
            return Some(value[path.unwrap_or_default()..].to_owned());
        }
    }
    None
}

#[derive(Default)]
struct Found {
    latencies: Latencies,
    /// Checks, events, or reservations that were confirmed.
    done: u64,
    kinds: BTreeMap<String, u64>,
}

impl Found {
    fn add(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        self.done += other.done;
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
    }
}

#[derive(Serialize)]
struct Report {
    /// Checks, events, or reservations that were confirmed, per second.
    per_s: f64,
    /// Requests, or pairs of them, that succeeded.
    ok: u64,
    errors: u64,
    error_kinds: BTreeMap<String, u64>,
    latency_ms: Quantiles,
}

impl Report {
    fn new(found: &Found, measured: Duration) -> Self {
        Self {
            per_s: per_second(found.done, measured),
            ok: found.latencies.count(),
            errors: found.kinds.values().sum(),
            error_kinds: found.kinds.clone(),
            latency_ms: Quantiles::of(&found.latencies),
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{:.1} per s   {} ok   {} errors\n\n{:<16}{:>9}  {:>9}  {:>9}  {:>9}\n{:<16}{}\n",
            self.per_s,
            self.ok,
            self.errors,
            "latency, ms",
            "p50",
            "p95",
            "p99",
            "max",
            "request",
            self.latency_ms
        );
        for (kind, count) in &self.error_kinds {
            writeln!(text, "error    {count:>8} x {kind}")
                .expect("writing to a String does not fail");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_path() {
        let of =
            |line: &str| location(format!("HTTP/1.1 201 Created\r\n{line}\r\n\r\n").as_bytes());
        assert_eq!(of("Location: /v1/a").as_deref(), Some("/v1/a"));
        assert_eq!(of("location: http://h:1/v1/a").as_deref(), Some("/v1/a"));
        assert_eq!(of("Date: x"), None);
    }
}
