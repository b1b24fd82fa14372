//! The command line of the simulation and of the crash tests.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand, ValueEnum};
use sim::aggregates::{AGGREGATES, Aggregate};
use sim::crash;
use sim::mutant::{MUTANTS, Mutant};
use sim::run::{self, Kind, Seeds};
use sim::world::Plan;

/// Simulates Faregate's core from seeds, and crashes the real binary.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs simulated worlds and stops at the first thing that is wrong.
    Run(Run),
    /// Runs the simulation of one aggregate and stops at the first thing that is wrong.
    Aggregate(Single),
    /// Kills the real binary with SIGKILL under load, and looks for what got lost.
    Crash(Crash),
}

#[derive(clap::Args)]
struct Run {
    /// How many seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many steps each world lives.
    #[arg(long, default_value_t = 300)]
    steps: u32,
    /// Into how many partitions the data is split. With more than one, requests come from a queue,
    /// and partitions go from one owner to another; a database file has only one.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    partitions: u16,
    /// On what the worlds store their data.
    #[arg(long, value_enum, default_value_t = Store::Memory)]
    store: Store,
    /// How many lines of what happened are shown where something is wrong.
    #[arg(long, default_value_t = 80)]
    trace: usize,
    /// Plants a bug, to see it found.
    #[arg(long, value_parser = mutant)]
    mutant: Option<Mutant>,
}

#[derive(clap::Args)]
struct Single {
    /// Which one.
    #[arg(value_parser = aggregate)]
    aggregate: Aggregate,
    /// How many seeds.
    #[arg(long, default_value_t = 80)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Plants each of its bugs, and says in which seed the check that is for it finds it.
    #[arg(long)]
    mutants: bool,
}

#[derive(clap::Args)]
struct Crash {
    /// How often the server is killed.
    #[arg(long, default_value_t = 100)]
    kills: u32,
    /// The seed of all that is random; drawn from the clock where it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Clients at the same time.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// So many subscriptions are due at once when the server is killed, instead of the usual load.
    #[arg(long, value_name = "SUBSCRIPTIONS")]
    billing_day: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Store {
    /// Maps and lists.
    Memory,
    /// The real store, in a temporary directory.
    Sqlite,
    /// The real store, on the server that FAREGATE_TEST_POSTGRES names: see conformance/postgres.
    Postgres,
}

fn mutant(name: &str) -> Result<Mutant, String> {
    let names = || MUTANTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    Mutant::named(name).ok_or_else(|| format!("there are: {}", names()))
}

fn aggregate(name: &str) -> Result<Aggregate, String> {
    let names = || AGGREGATES.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
    Aggregate::named(name).ok_or_else(|| format!("there are: {}", names()))
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Run(it) => {
            let store = match it.store {
                Store::Memory => Kind::Memory,
                Store::Sqlite => Kind::Sqlite,
                Store::Postgres => Kind::Postgres,
            };
            if it.partitions > 1 && store == Kind::Sqlite {
                anyhow::bail!("a database file has one partition");
            }
            let plan = Plan {
                partitions: it.partitions,
                mutant: it.mutant,
                trace_max: it.trace,
                ..Plan::new(it.from, it.steps)
            };
            let seeds = Seeds { from: it.from, count: it.seeds, store, plan };
            let sound = run::seeds(seeds, &mut std::io::stdout())?;
            Ok(exit(sound))
        }
        Command::Aggregate(it) if it.mutants => {
            let found = it.aggregate.found(it.seeds);
            for it in &found {
                let seed = it.seed.map_or("no seed".to_owned(), |seed| format!("seed {seed}"));
                println!("{}: {seed}: {}", it.mutant, it.check);
            }
            Ok(exit(found.iter().all(|it| it.seed.is_some())))
        }
        Command::Aggregate(it) => {
            let seeds = it.from..it.from.saturating_add(it.seeds);
            let ran = it.aggregate.run_seeds(seeds);
            match &ran {
                Ok(tally) => println!("{} seeds of {}: {tally}", it.seeds, it.aggregate.name),
                Err(wrong) => println!("{wrong}"),
            }
            Ok(exit(ran.is_ok()))
        }
        Command::Crash(it) => {
            let seed = it.seed.unwrap_or_else(clock);
            let options = crash::Options { kills: it.kills, seed, clients: it.clients };
            let out = &mut std::io::stdout();
            Ok(exit(match it.billing_day {
                Some(subscriptions) => crash::billing_day::run(options, subscriptions, out)?,
                None => crash::run(options, out)?,
            }))
        }
    }
}

fn exit(sound: bool) -> ExitCode {
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn clock() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_secs()
}
