//! `faregate bench entitlements`: checks of what accounts may do, usage that is counted, purchases, and grants that
//! end.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::{Client, Furniture, Method, TIMEOUT};
use super::process::cpu_between;
use super::random::Random;
use super::report::{LatencyTable, Output, Quantiles, cpu_us_each, exit_code, per_second};
use super::tally::{ErrorKinds, Latencies};
use super::{Common, count_up_to, parse_span, raise_open_files};
use command_line::Target;

mod expire;

/// Connections at most.
const CONCURRENCY_MAX: i64 = 10_000;
/// Accounts at most.
const ACCOUNTS_MAX: i64 = 1_000_000;
/// The limit of an account's usage: more than a run uses.
const LIMIT: i64 = 1_000_000_000_000;
/// The features of each account: a switch and two limits.
const FEATURES: [&str; 3] = ["bench-pro", "bench-calls", "bench-seats"];

/// The offer that is bought, and its price.
const OFFER: &str = "bench-all";
const PRICE: &str = "10.00";

#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Checks whether an account may use a feature.
    Check(Args),
    /// Counts usage: events one by one or in batches, or reservations that are confirmed.
    Usage(UsageArgs),
    /// Buys an offer of three features, through the gateway that settles at once.
    Buy(BuyArgs),
    /// Grants that end in the same second, beside the payments of others.
    Expire(expire::Args),
}

/// Options of `faregate bench entitlements check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Accounts, each with a switch and two limits.
    #[arg(long, default_value_t = 1_000, value_parser = count_up_to(ACCOUNTS_MAX))]
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
    /// The server's process id: report its CPU time.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    #[command(flatten)]
    output: Output,
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

/// Options of `faregate bench entitlements buy`.
#[derive(Debug, clap::Args)]
pub struct BuyArgs {
    #[command(flatten)]
    args: Args,
    /// Pay as much without buying anything instead, by Kill Bill's API.
    #[arg(long)]
    plain: bool,
}

/// The requests that each connection sends.
#[derive(Clone, Copy, Debug)]
enum Work {
    Check,
    Record { batch: u16 },
    Reserve,
    Buy,
    Pay,
}

/// Runs the benchmark and prints the report.
///
/// # Errors
/// Where the server cannot be used.
pub fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    let (args, work) = match bench {
        Bench::Check(args) => (args, Work::Check),
        Bench::Buy(BuyArgs { args, plain: true }) => (args, Work::Pay),
        Bench::Buy(BuyArgs { args, plain: false }) => (args, Work::Buy),
        Bench::Expire(args) => return expire::run(args),
        Bench::Usage(UsageArgs { args, reserve: true, .. }) => (args, Work::Reserve),
        Bench::Usage(UsageArgs { args, batch, .. }) => (args, Work::Record { batch: *batch }),
    };
    let target = args.common.target()?;
    raise_open_files(u64::from(args.concurrency))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let report = runtime.block_on(measure(args, work, target))?;
    args.output.print(&report)?;
    Ok(exit_code(report.ok, report.errors, args.strict))
}

async fn measure(args: &Args, work: Work, target: Target) -> anyhow::Result<Report> {
    args.common.create_tenant(&target, TIMEOUT).await?;
    let client = Client::new(&target, &args.common.identity())?;
    let accounts = Arc::new(furnish(args, work, client.another()).await?);
    let measured_from = Instant::now() + args.warm_up;
    let end = measured_from + args.duration;
    let run = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..args.concurrency {
        let worker = Worker {
            client: client.another(),
            accounts: Arc::clone(&accounts),
            random: Random::new(u64::from(number)),
            name: format!("{run:x}-{number}"),
            sent: 0,
        };
        workers.spawn(worker.work(work, measured_from, end));
    }
    let cpu = cpu_between(args.pid, measured_from, end).await?;
    let mut sum = Found::default();
    while let Some(found) = workers.join_next().await {
        sum.add(&found.context("a client panicked")?);
    }
    Ok(Report::new(&sum, args.duration, cpu))
}

/// Makes what the requests are about, and returns the accounts' ids.
async fn furnish(args: &Args, work: Work, mut client: Client) -> anyhow::Result<Vec<String>> {
    for feature in FEATURES {
        let body = match feature {
            "bench-pro" => json!({ "name": "Bench", "kind": "switch" }),
            _ => json!({ "name": "Bench", "kind": "limit", "unit": "calls", "resets": "month" }),
        };
        client.expect("PUT", &format!("/v1/features/{feature}"), &body).await?;
    }
    let values =
        FEATURES.map(|it| (it, if it == "bench-pro" { json!(true) } else { json!(LIMIT) }));
    let furniture = match work {
        Work::Check | Work::Record { .. } | Work::Reserve => Furniture {
            grants: values
                .into_iter()
                .map(|(feature, value)| json!({ "feature": feature, "value": value, "reason": "bench" }))
                .collect(),
            method: None,
        },
        Work::Buy | Work::Pay => {
            let features: serde_json::Map<_, _> =
                values.into_iter().map(|(feature, value)| (feature.to_owned(), value)).collect();
            let offer = json!({
                "name": "Bench", "price": { "amount": PRICE, "currency": "USD" }, "again": "extend",
                "features": features, "lasts": { "months": 1 },
            });
            client.expect("PUT", &format!("/v1/offers/{OFFER}"), &offer).await?;
            Furniture { grants: vec![], method: Some(Method::External) }
        }
    };
    client.accounts(args.accounts, &furniture).await
}

/// One connection's share of the work.
struct Worker {
    client: Client,
    accounts: Arc<Vec<String>>,
    random: Random,
    /// Begins the ids of its events.
    name: String,
    /// How many events it has sent.
    sent: u64,
}

impl Worker {
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
                Work::Buy => self.buy().await,
                Work::Pay => self.pay().await,
            };
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

    async fn check(&mut self) -> Result<u64, String> {
        let feature = FEATURES[self.below(FEATURES.len())];
        let path = format!("/v1/accounts/{}/entitlements/{feature}", self.any_account());
        let (status, body, _) = self.client.exchange("GET", &path, &Value::Null).await?;
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
        let (status, answer, _) = self.client.exchange("POST", &path, &body).await?;
        let is_right =
            status == 200 && (batch == 1 || answer.starts_with(&format!("{{\"counted\":{batch},")));
        if is_right { Ok(u64::from(batch)) } else { Err(format!("record {status}")) }
    }

    async fn reserve(&mut self) -> Result<u64, String> {
        let path = format!("/v1/accounts/{}/reservations", self.any_account());
        let body = json!({ "feature": "bench-calls", "quantity": 2, "ttlSeconds": 60 });
        let (status, _, location) = self.client.exchange("POST", &path, &body).await?;
        let Some(location) = location.filter(|_| status == 201) else {
            return Err(format!("reserve {status}"));
        };
        let confirm = json!({ "quantity": 1 });
        let path = format!("{location}/confirm");
        let (status, ..) = self.client.exchange("POST", &path, &confirm).await?;
        if status == 200 { Ok(1) } else { Err(format!("confirm {status}")) }
    }

    async fn buy(&mut self) -> Result<u64, String> {
        let path = format!("/v1/accounts/{}/purchases", self.any_account());
        let price = json!({ "amount": PRICE, "currency": "USD" });
        let body = json!({ "offer": OFFER, "expectedPrice": price });
        let (status, answer, _) = self.client.exchange("POST", &path, &body).await?;
        let is_right = status == 201 && answer.contains("\"status\":\"ACTIVE\"");
        if is_right { Ok(1) } else { Err(format!("purchase {status}")) }
    }

    async fn pay(&mut self) -> Result<u64, String> {
        let path = format!("/1.0/kb/accounts/{}/payments", self.any_account());
        let body = json!({ "transactionType": "PURCHASE", "amount": PRICE, "currency": "USD" });
        let (status, ..) = self.client.exchange("POST", &path, &body).await?;
        if status == 201 { Ok(1) } else { Err(format!("payment {status}")) }
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
}

#[derive(Default)]
struct Found {
    latencies: Latencies,
    /// Checks, events, reservations that were confirmed, purchases, or payments.
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
    /// Checks, events, reservations that were confirmed, purchases, or payments, per second.
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
