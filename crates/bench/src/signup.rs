//! `faregate bench signup`: registrations of users, a fixed number at once or per second.

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::task::LocalSet;

use super::process::{own_usage, spent, usage_of};
use super::report::{Output, exit_code};
use super::request::basic;
use super::schedule::Schedule;
use super::{Credentials, count_up_to, parse_span, raise_open_files};
use command_line::Target;

mod client;
mod hash;
mod health;
mod load;
mod report;
mod requests;

use client::Client;
use health::Sampler;
use report::{Circumstances, Report};
use requests::Operation;

/// Connections at most: one address cannot open more to one port.
const CONNECTIONS_MAX: i64 = 28_000;
/// Users of one run at most.
const USERS_MAX: i64 = 10_000_000;
/// Users where neither their number nor a duration is given.
const USERS_USUAL: u64 = 500;

/// Options of `faregate bench signup`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    load: Load,
}

/// A part of a registration.
#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Registrations, as without a name.
    Register(Load),
    /// Accounts alone: POST /billing/api/billing/accounts/, each for another customer.
    Account(Accounts),
    /// Passwords alone, in this process: argon2id with 19 MiB and two passes.
    Hash(hash::Args),
}

/// The user who creates accounts: unless configured as trusting, the API requires an operator.
#[derive(Debug, clap::Args)]
struct Accounts {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    credentials: Credentials,
}

/// The load of a run.
#[derive(Debug, clap::Args)]
struct Load {
    /// The server: http://HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
    /// How many users register; 500 without --duration.
    #[arg(long, value_name = "N", value_parser = count_up_to(USERS_MAX))]
    users: Option<u32>,
    /// Closed loop: so many at once; the next starts when one has ended.
    #[arg(long, value_name = "C", default_value_t = 50, conflicts_with = "rate",
        value_parser = clap::value_parser!(u16).range(1..=CONNECTIONS_MAX))]
    concurrency: u16,
    /// Open loop: so many per second on a fixed schedule, latencies from the scheduled time.
    #[arg(long, value_name = "USERS_PER_S")]
    rate: Option<f64>,
    /// No registration starts after this, such as 60, 60s or 1m.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    duration: Option<Duration>,
    /// Open loop: requests in flight at most; one that is due beyond them is an error.
    #[arg(long, value_name = "N", default_value_t = 5_000,
        value_parser = clap::value_parser!(u16).range(1..=CONNECTIONS_MAX))]
    in_flight: u16,
    /// A new TCP connection for each request.
    #[arg(long)]
    new_connection: bool,
    /// How long to wait for a response, connecting included.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = parse_span)]
    timeout: Duration,
    /// The server's process id: report its CPU per user and its memory.
    #[arg(long)]
    pid: Option<u32>,
    /// How long to measure bare password hashes before the load; 0: not at all.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = parse_span)]
    hash_for: Duration,
    #[command(flatten)]
    output: Output,
    /// Exit with 1 if any request failed or was refused.
    #[arg(long)]
    strict: bool,
}

/// Runs the load and prints the report.
///
/// # Errors
/// If an option is invalid or the server cannot be used; the message says what to change.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.part {
        None => args.load.run(Operation::Registration, None),
        Some(Part::Register(load)) => load.run(Operation::Registration, None),
        Some(Part::Account(Accounts { load, credentials })) => {
            let Credentials { user, password, api_key, api_secret } = credentials;
            let basic = basic(user, password)?;
            let credentials = format!(
                "Authorization: {basic}\r\nX-Faregate-ApiKey: {api_key}\r\n\
                 X-Faregate-ApiSecret: {api_secret}\r\n"
            );
            load.run(Operation::Account, Some(credentials))
        }
        Some(Part::Hash(args)) => hash::run(args),
    }
}

impl Load {
    fn run(&self, operation: Operation, credentials: Option<String>) -> anyhow::Result<ExitCode> {
        let target = Target::parse("--url", &self.url)?;
        let pace = self.pace()?;
        let connections = if pace.schedule.is_some() { self.in_flight } else { self.concurrency };
        raise_open_files(u64::from(connections))?;
        let mut client = Client::new(target, operation, self.timeout);
        client.opens_anew = self.new_connection;
        client.credentials = credentials;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let report = LocalSet::new().block_on(&runtime, self.measure(Rc::new(client), pace))?;
        self.output.print_titled(|| self.title(operation), &report)?;
        Ok(exit_code(report.ok, report.refused + report.errors, self.strict))
    }

    fn pace(&self) -> anyhow::Result<load::Pace> {
        let schedule = match self.rate {
            None => None,
            Some(rate) => Some(Schedule::new(rate).context("--rate: out of range")?),
        };
        let usual = if self.duration.is_some() { u64::MAX } else { USERS_USUAL };
        Ok(load::Pace {
            schedule,
            users: self.users.map_or(usual, u64::from),
            duration: self.duration,
            concurrency: usize::from(self.concurrency),
            in_flight_max: usize::from(self.in_flight),
        })
    }

    async fn measure(&self, client: Rc<Client>, pace: load::Pace) -> anyhow::Result<Report> {
        let unloaded = load::preflight(&client).await?;
        let hash = (!self.hash_for.is_zero()).then(|| hash::measure(None, self.hash_for));
        let hash = hash.transpose()?;
        let (server_before, client_before) = (usage_of(self.pid)?, own_usage()?);
        let sampler = Sampler::start(&client)?;
        let outcome = load::run(&client, pace, unloaded).await;
        let health = sampler.stop();
        let server = spent(server_before, usage_of(self.pid)?);
        let client = own_usage()?.since(client_before);
        Ok(Report::new(outcome, Circumstances { unloaded, health, server, client, hash }))
    }

    /// The load, as the report's first line.
    fn title(&self, operation: Operation) -> String {
        let pace = match self.rate {
            None => format!("closed loop, {} at once", self.concurrency),
            Some(rate) => format!("open loop at {rate} per second"),
        };
        let connections = if self.new_connection { ", a connection each" } else { "" };
        format!("{}, {pace}{connections}\n", operation.plural())
    }
}
