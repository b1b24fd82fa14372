//! `faregate bench flags write`: clients that switch flags of one environment, each as fast as it is
//! answered, and optionally a bystander of another tenant that pays meanwhile.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::{JoinSet, LocalSet};

use super::closed_loop::{Counts, Exchange, TIMEOUT, send};
use crate::connection::Connection;
use crate::flow::{Client, Flows, Gateway, Plan, Requests};
use crate::outcome::{Outcome, Step};
use crate::report::{LatencyTable, Output, Quantiles, exit_code, per_second};
use crate::request::Identity;
use crate::tally::{Counted, ErrorKinds, Tally};
use crate::{Common, parse_span, raise_open_files};
use command_line::Target;

/// Options of `faregate bench flags write`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Clients, each with one connection and one request at a time.
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=10_000))]
    clients: u16,
    /// All clients switch the same flag; otherwise each has a flag of its own.
    #[arg(long)]
    same_flag: bool,
    /// The environment.
    #[arg(long, value_name = "KEY", default_value = "dev")]
    environment: String,
    /// How long to measure.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    duration: Duration,
    /// How long to run before measuring.
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = parse_span)]
    warm_up: Duration,
    /// The API key of another tenant, as which a bystander pays meanwhile.
    #[arg(long, value_name = "KEY", requires = "bystander_api_secret")]
    bystander_api_key: Option<String>,
    /// That tenant's API secret.
    #[arg(long, allow_hyphen_values = true, value_name = "SECRET", requires = "bystander_api_key")]
    bystander_api_secret: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Report {
    writes_per_s: f64,
    ok: u64,
    errors: u64,
    error_kinds: ErrorKinds,
    latency_ms: Quantiles,
    #[serde(skip_serializing_if = "Option::is_none")]
    bystander_payment_ms: Option<Quantiles>,
}

/// Measures a server.
///
/// # Errors
/// If an option is invalid or the server cannot be used; the message says what to change.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    raise_open_files(u64::from(args.clients) + 1)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = LocalSet::new().block_on(&runtime, args.measure())?;
    args.output.print(&report)?;
    Ok(exit_code(report.ok, report.errors, true))
}

impl Args {
    async fn measure(&self) -> anyhow::Result<Report> {
        let target = self.common.target()?;
        let keys: Vec<String> = (0..self.clients).map(|number| self.key(number)).collect();
        let distinct = if self.same_flag { &keys[..1] } else { &keys[..] };
        let mut connection = Connection::open(target.address, TIMEOUT).await?;
        for key in distinct {
            self.create(&mut connection, &target, key).await?;
        }
        drop(connection);
        let from = Instant::now() + self.warm_up;
        let end = from + self.duration;
        let mut clients = JoinSet::new();
        for key in &keys {
            let requests = self.requests(&target, key)?;
            clients.spawn_local(send(target.clone(), requests, from, end));
        }
        let bystander = self.bystander(&target, from, end)?;
        let mut sum = Counts::sum(clients).await?;
        let bystander_payment_ms = match bystander {
            Some(paying) => {
                let paid = paying.await?;
                sum.errors.add(&paid.errors.prefixed("bystander: "));
                Some(Quantiles::of(&paid.latencies))
            }
            None => None,
        };
        let ok = sum.latencies.count();
        Ok(Report {
            writes_per_s: per_second(ok, self.duration),
            ok,
            errors: sum.errors.total(),
            error_kinds: sum.errors,
            latency_ms: Quantiles::of(&sum.latencies),
            bystander_payment_ms,
        })
    }

    fn key(&self, number: u16) -> String {
        let number = if self.same_flag { 0 } else { number };
        format!("bench-write-{number}")
    }

    /// Creates a boolean flag, unless an earlier run did.
    async fn create(
        &self,
        connection: &mut Connection,
        target: &Target,
        key: &str,
    ) -> anyhow::Result<()> {
        let path = format!("/v1/flags?environment={}", self.environment);
        let variations = [("on", "true"), ("off", "false")]
            .map(|(id, value)| serde_json::json!({ "id": id, "name": id, "value": value }));
        let body = serde_json::json!({
            "key": key,
            "name": key,
            "variationType": "boolean",
            "variations": variations,
            "disabledVariationId": "off",
            "fallthrough": { "variations": [{ "id": "on", "rollout": [0, 1], "exptRollout": 1 }] },
        });
        let request = self.request(target, ("POST", &path), &body.to_string())?;
        let response = connection.exchange(request.as_bytes(), Instant::now() + TIMEOUT).await?;
        anyhow::ensure!(
            matches!(response.status, 201 | 409),
            "creating {key}: {} {}",
            response.status,
            String::from_utf8_lossy(&response.body(connection.received()))
        );
        Ok(())
    }

    /// The two requests that a client alternates.
    fn requests(&self, target: &Target, key: &str) -> anyhow::Result<Rc<[Exchange]>> {
        let path = format!("/v1/flags/{key}?environment={}", self.environment);
        let request = |is_enabled: bool| {
            let body = serde_json::json!({ "isEnabled": is_enabled }).to_string();
            let request = self.request(target, ("PATCH", &path), &body)?;
            anyhow::Ok(Exchange { request, expected: String::new() })
        };
        Ok([request(true)?, request(false)?].into())
    }

    fn request(
        &self,
        target: &Target,
        (method, path): (&str, &str),
        body: &str,
    ) -> anyhow::Result<String> {
        let head = self.common.identity().head(target, method, path)?;
        Ok(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
    }

    /// Starts the bystander, where one is wanted.
    fn bystander(
        &self,
        target: &Target,
        from: Instant,
        end: Instant,
    ) -> anyhow::Result<Option<tokio::task::JoinHandle<Counts>>> {
        let tenant = self.bystander_api_key.clone().zip(self.bystander_api_secret.clone());
        let Some((api_key, api_secret)) = tenant else { return Ok(None) };
        let identity = Identity { api_key, api_secret, ..self.common.identity() };
        let flows =
            Flows { gateway: Gateway::External, plugin_info: "{}", requests: Requests::Three };
        let plan = Plan::new(target.clone(), &identity, flows, TIMEOUT)?;
        Ok(Some(tokio::task::spawn_local(pay(plan, from, end))))
    }
}

/// Runs payment flows one after the other until `end`; counts the payment of each.
async fn pay(plan: Plan, from: Instant, end: Instant) -> Counts {
    let tally = Mutex::new(Tally::new(Counted::ByEnd));
    let mut client = Client::new(&plan, &tally);
    let mut counts = Counts::default();
    loop {
        let started = Instant::now();
        if started >= end {
            return counts;
        }
        let outcome = client.flow(started, end).await;
        if started < from {
            continue;
        }
        match outcome {
            Outcome::Done(done) => {
                let took = done.took[Step::Payment as usize];
                took.into_iter().for_each(|took| counts.latencies.record(took));
            }
            Outcome::Failed(problem) => counts.errors.count(&problem.kind, 1),
            Outcome::Abandoned(_) => {}
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { writes_per_s, ok, errors, .. } = self;
        writeln!(f, "{writes_per_s:.1} writes/s   {ok} ok   {errors} errors")?;
        let mut rows = vec![("writes", self.latency_ms)];
        rows.extend(self.bystander_payment_ms.map(|payments| ("bystander", payments)));
        write!(f, "{}", LatencyTable { heading: "latency, ms", name_width: 12, rows: &rows })?;
        write!(f, "{}", self.error_kinds)
    }
}
