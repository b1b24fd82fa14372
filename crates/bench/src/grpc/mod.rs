//! `faregate bench grpc`: simultaneous requests to the gRPC API, as "Billing Service with Kafka
//! Middleware" (CS 237) measures them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

mod answers;
pub mod channel;
mod client;
mod delay;
mod floor;
mod plan;
mod report;
mod simultaneous;
mod steady;

use answers::Answers;
use client::Client;
use delay::DelayMs;
use floor::Floor;
use plan::{Accounts, Mix, Plan};
use report::{Report, Round, Steady};

use super::process::own_usage;
use super::report::{Output, exit_code};
use super::schedule::Schedule;
use super::{Credentials, count_up_to, parse_span, raise_open_files};
use command_line::Target;

/// Targets at most.
const TARGETS_MAX: usize = 64;
/// Clients at most: each is a thread.
const CLIENTS_MAX: i64 = 64;
/// Rounds at most.
const ROUNDS_MAX: usize = 32;
/// Requests in progress at most, of all clients: each takes about a kilobyte here.
const IN_PROGRESS_MAX: u32 = 500_000;
/// Accounts at most: the requests of all are built in advance.
const ACCOUNTS_MAX: i64 = 200_000;
/// The highest fixed rate, per second.
const RATE_MAX: f64 = 20_000.0;

/// Options of `faregate bench grpc`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The gRPC servers, used in turn: HOST:PORT,...
    #[arg(long, value_name = "HOST:PORT", required = true, value_delimiter = ',')]
    targets: Vec<String>,
    /// Clients, each with a connection of its own to each target.
    #[arg(long, default_value_t = 3, value_parser = count_up_to(CLIENTS_MAX))]
    clients: u32,
    /// Requests of each client, all at once: one round for each number.
    #[arg(long, value_name = "N", default_value = "5000,10000,25000", value_delimiter = ',',
          value_parser = count_up_to(i64::from(IN_PROGRESS_MAX)))]
    requests: Vec<u32>,
    /// The kind of the requests: payments of 10.00 USD, balances, or half of each with a delay.
    #[arg(long, value_enum, default_value_t = Mix::Payment)]
    mix: Mix,
    /// How long payments take at their gateway, drawn from a range; with `half` 100-1000.
    #[arg(long, value_name = "MS-MS")]
    payment_delay: Option<DelayMs>,
    /// How long balances take, drawn from a range; with `half` 2000-5000.
    #[arg(long, value_name = "MS-MS")]
    balance_delay: Option<DelayMs>,
    /// Accounts that the requests are about; they are created first.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count_up_to(ACCOUNTS_MAX))]
    accounts: u32,
    #[command(flatten)]
    credentials: Credentials,
    /// Requests of each client before the first round, without delays and not counted: brokers that
    /// have just started run their code slowly at first. 0 for none.
    #[arg(long, value_name = "N", default_value_t = 5_000,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(IN_PROGRESS_MAX)))]
    warm_up: u32,
    /// Instead of rounds: single requests at so many per second.
    #[arg(long, value_name = "PER_S", conflicts_with = "requests")]
    rate: Option<f64>,
    /// How long to send at that rate.
    #[arg(long, value_name = "S", default_value_t = 10, requires = "rate",
          value_parser = count_up_to(86_400))]
    seconds: u32,
    /// How long to wait for an answer, counted from the start of the round.
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = parse_span)]
    timeout: Duration,
    /// The Kafka brokers: measure the bare request and reply through them as well.
    #[arg(long, value_name = "HOST:PORT,...")]
    kafka_brokers: Option<String>,
    /// The prefix of the topics' names.
    #[arg(long, value_name = "PREFIX", default_value = "faregate", requires = "kafka_brokers")]
    topic_prefix: String,
    /// The file with the cluster's key, where its records are signed.
    #[arg(long, value_name = "FILE", requires = "kafka_brokers")]
    kafka_key_file: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Exit with 1 where any request failed.
    #[arg(long)]
    strict: bool,
}

/// Creates the accounts, sends the requests and prints the report.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = Arc::new(plan(args)?);
    let schedule = args.rate.map(schedule).transpose()?;
    check_in_progress(args)?;
    let targets = u32::try_from(plan.targets.len()).expect("at most TARGETS_MAX");
    raise_open_files(u64::from(args.clients) * u64::from(targets))?;
    eprintln!("creating {} accounts", args.accounts);
    let accounts = Arc::new(create_accounts(args, &plan)?);
    if args.warm_up > 0 {
        warm_up(args, &plan, &accounts)?;
    }
    let mut report = Report::new(args, &plan);
    match schedule {
        None => {
            for requests in &args.requests {
                report.rounds.push(round(args, &plan, &accounts, *requests)?);
            }
        }
        Some(schedule) => report.steady = Some(steady(args, &plan, &accounts, schedule)?),
    }
    if let Some(brokers) = &args.kafka_brokers {
        report.floor = measure_floors(args, brokers);
    }
    report.spent(own_usage()?.rss_peak_mib);
    args.output.print(&report)?;
    let (ok, errors) = report.counts();
    Ok(exit_code(ok, errors, args.strict))
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let (pays, balances) = match args.mix {
        Mix::Payment => (true, false),
        Mix::Balance => (false, true),
        Mix::Half => (true, true),
    };
    anyhow::ensure!(pays || args.payment_delay.is_none(), "--payment-delay: no payments in --mix");
    anyhow::ensure!(
        balances || args.balance_delay.is_none(),
        "--balance-delay: no balances in --mix"
    );
    let half = args.mix == Mix::Half;
    anyhow::ensure!(args.targets.len() <= TARGETS_MAX, "--targets: at most {TARGETS_MAX}");
    anyhow::ensure!(args.requests.len() <= ROUNDS_MAX, "--requests: at most {ROUNDS_MAX} rounds");
    let targets = args.targets.iter().map(|target| Target::parse("--targets", target));
    Ok(Plan {
        targets: targets.collect::<Result<_, _>>()?,
        metadata: args.credentials.identity().metadata()?,
        mix: args.mix,
        payment_delay: args.payment_delay.or(half.then_some(DelayMs::HALF_PAYMENT)),
        balance_delay: args.balance_delay.or(half.then_some(DelayMs::HALF_BALANCE)),
        timeout: args.timeout,
    })
}

fn schedule(rate: f64) -> anyhow::Result<Schedule> {
    let schedule = Schedule::new(rate).filter(|_| rate <= RATE_MAX);
    schedule.context("--rate: out of range")
}

fn check_in_progress(args: &Args) -> anyhow::Result<()> {
    let most = args.requests.iter().max().copied().unwrap_or_default();
    for (name, requests) in [("--requests", most), ("--warm-up", args.warm_up)] {
        let fits = requests.checked_mul(args.clients).is_some_and(|all| all <= IN_PROGRESS_MAX);
        let clients = args.clients;
        anyhow::ensure!(
            fits,
            "{name} {requests}: with {clients} clients above {IN_PROGRESS_MAX} at once"
        );
    }
    Ok(())
}

fn create_accounts(args: &Args, plan: &Plan) -> anyhow::Result<Accounts> {
    let created = Client::open(plan)?.create_accounts(plan, args.accounts);
    created.map_err(|failure| {
        let hint = match failure.to_string().as_str() {
            "UNAUTHENTICATED" => "\nAre user and tenant right?",
            _ => "",
        };
        anyhow::anyhow!("creating accounts: {failure} {}{hint}", failure.details())
    })
}

/// Sends requests that are not counted.
fn warm_up(args: &Args, plan: &Plan, accounts: &Arc<Accounts>) -> anyhow::Result<()> {
    eprintln!("{} x {} requests to warm up", args.clients, args.warm_up);
    let plan = Arc::new(Plan { payment_delay: None, balance_delay: None, ..plan.clone() });
    let clients = (0..args.clients).map(|_| connected(&plan, accounts));
    let clients = clients.collect::<anyhow::Result<Vec<_>>>()?;
    show_failure(&simultaneous::run(&plan, accounts, clients, args.warm_up));
    Ok(())
}

/// One round: its clients connect, then all send at once.
fn round(
    args: &Args,
    plan: &Arc<Plan>,
    accounts: &Arc<Accounts>,
    requests: u32,
) -> anyhow::Result<Round> {
    eprintln!("{} x {requests} requests at once", args.clients);
    let clients = (0..args.clients).map(|_| connected(plan, accounts));
    let clients = clients.collect::<anyhow::Result<Vec<_>>>()?;
    let before = own_usage()?;
    let answers = simultaneous::run(plan, accounts, clients, requests);
    let cpu = own_usage()?.since(before).cpu;
    show_failure(&answers);
    let round = Round::new(requests, args.clients, &answers, cpu);
    eprintln!("{round}");
    Ok(round)
}

fn steady(
    args: &Args,
    plan: &Plan,
    accounts: &Accounts,
    schedule: Schedule,
) -> anyhow::Result<Steady> {
    let rate = args.rate.unwrap_or_default();
    eprintln!("{rate} requests/s for {} s", args.seconds);
    let client = connected(plan, accounts)?;
    let duration = Duration::from_secs(u64::from(args.seconds));
    let before = own_usage()?;
    let answers = steady::run(plan, accounts, client, schedule, duration);
    let cpu = own_usage()?.since(before).cpu;
    show_failure(&answers);
    Ok(Steady::new(rate, args.seconds, &answers, cpu))
}

fn connected(plan: &Plan, accounts: &Accounts) -> anyhow::Result<Client> {
    let mut client = Client::open(plan)?;
    client.probe(plan, accounts)?;
    Ok(client)
}

fn show_failure(answers: &Answers) {
    if let Some(problem) = &answers.first_problem {
        eprintln!("the first failure: {problem}");
    }
}

/// The floor below each round; `None` where one could not be measured.
fn measure_floors(args: &Args, brokers: &str) -> Option<BTreeMap<u32, Floor>> {
    let measure = |requests: &u32| {
        let all = requests * args.clients;
        let key_file = args.kafka_key_file.as_deref();
        floor::floor((brokers, &args.topic_prefix), key_file, all).map(|floor| (*requests, floor))
    };
    let floors: Result<_, String> = args.requests.iter().map(measure).collect();
    floors.inspect_err(|reason| eprintln!("Kafka's floor: {reason}")).ok()
}
