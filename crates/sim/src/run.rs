//! Runs seeds and reports what went wrong.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::aggregates::billing;
use crate::audit::Wrong;
use crate::disk::Disk;
use crate::memory::MemoryDisk;
use crate::real::RealDisk;
use crate::world::{Failure, Plan, Summary, World};

/// How often `run` says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The environment variable that names a PostgreSQL server, as `conformance/postgres` does.
pub const SERVER: &str = "FAREGATE_TEST_POSTGRES";

/// So many steps of payments are one of billing, in which days pass.
const STEPS_PER_BILLING: u32 = 6;

/// Every so many seeds are run twice, to see that a seed repeats.
const REPEAT_EVERY: u64 = 16;

/// On what the simulated process stores its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Maps and lists.
    Memory,
    /// The real store, in a temporary directory.
    Sqlite,
    /// The real store, on the server that [`SERVER`] names.
    Postgres,
}

impl Kind {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Which seeds are to be run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// The first seed.
    pub from: u64,
    pub count: u64,
    /// On which store.
    pub store: Kind,
    /// The plan of each run; its seed is replaced.
    pub plan: Plan,
}

/// Runs one seed: a world of payments, and one of subscriptions.
///
/// # Errors
/// The [`Failure`] that it came upon.
///
/// # Panics
/// Where the store cannot be opened.
pub fn seed(store: Kind, plan: Plan) -> Result<Summary, Failure> {
    let summary = match store {
        Kind::Memory => payments(plan, MemoryDisk::new(plan.mutant))?,
        Kind::Sqlite | Kind::Postgres => payments(plan, real(store, plan))?,
    };
    // The planted bugs are those of payments: billing has its own.
    if plan.mutant.is_some() {
        return Ok(summary);
    }
    let billing = match store {
        Kind::Memory => bills(plan, MemoryDisk::new(None))?,
        Kind::Sqlite | Kind::Postgres => bills(plan, real(store, plan))?,
    };
    Ok(Summary { billing, ..summary })
}

const OPENS: &str = "an empty store can be opened";

fn payments<D: Disk>(plan: Plan, disk: D) -> Result<Summary, Failure> {
    World::new(plan, disk).expect(OPENS).run()
}

/// The hash of all that happened to subscriptions.
fn bills<D: Disk>(plan: Plan, disk: D) -> Result<u64, Failure> {
    let steps = usize::try_from(plan.steps / STEPS_PER_BILLING).unwrap_or(usize::MAX);
    let ran = billing::run(disk, plan.partitions, plan.seed, steps);
    ran.map_err(|wrong| {
        let mut lines = wrong.lines().map(str::to_owned);
        let context = lines.next().unwrap_or_default();
        let trace: Vec<String> = lines.collect();
        let trace = trace[trace.len().saturating_sub(plan.trace_max)..].to_vec();
        let wrong = Wrong::new("subscriptions are billed as the model of days says", &context);
        Failure { seed: plan.seed, wrong, trace }
    })
}

/// An empty store of the plan's own.
fn real(store: Kind, plan: Plan) -> RealDisk {
    if store == Kind::Sqlite {
        return RealDisk::in_dir(&scratch(plan.seed)).expect(OPENS);
    }
    let server = std::env::var(SERVER).expect("conformance/postgres names a server");
    let name = format!("faregate_sim_{}_{}", std::process::id(), plan.seed);
    RealDisk::on_server(&server, &name, plan.partitions).expect(OPENS)
}

/// Runs a seed twice.
///
/// # Errors
/// The [`Failure`] that it came upon, or that it did not repeat.
pub fn seed_twice(store: Kind, plan: Plan) -> Result<Summary, Failure> {
    let (first, second) = (seed(store, plan)?, seed(store, plan)?);
    if first == second {
        return Ok(first);
    }
    let context = format!("{first:x?}, then {second:x?}");
    let wrong = Wrong::new("a seed repeats", &context);
    Err(Failure { seed: plan.seed, wrong, trace: vec![] })
}

/// Runs seeds one after the other; stops at the first failure.
///
/// # Errors
/// Where `out` cannot be written.
pub fn seeds(seeds: Seeds, out: &mut impl Write) -> std::io::Result<bool> {
    let (started, mut said) = (Instant::now(), Instant::now());
    let mut total = Total::default();
    for at in seeds.from..seeds.from.saturating_add(seeds.count) {
        let plan = Plan { seed: at, ..seeds.plan };
        let twice = (at - seeds.from).is_multiple_of(REPEAT_EVERY);
        let ran = if twice { seed_twice(seeds.store, plan) } else { seed(seeds.store, plan) };
        match ran {
            Ok(summary) => {
                total.add(&summary);
            }
            Err(failure) => {
                report(&failure, seeds, out)?;
                return Ok(false);
            }
        }
        if said.elapsed() >= PROGRESS_EVERY {
            said = Instant::now();
            writeln!(out, "{} of {} seeds", at - seeds.from + 1, seeds.count)?;
        }
    }
    let Total { transactions, cascades, crashes, moves, fenced, keys_taken, repeated, digest } =
        total;
    let moved = match seeds.plan.partitions {
        1 => String::new(),
        many => format!(
            " {many} partitions, {moves} moves, {fenced} owners fenced, {keys_taken} keys taken, \
             {repeated} commands passed that came twice,"
        ),
    };
    writeln!(
        out,
        "{} seeds from {} on {}:{moved} {transactions} transactions, {cascades} cascades, {crashes} crashes, nothing \
         wrong, digest {digest:016x}, {:.1} s",
        seeds.count,
        seeds.from,
        seeds.store.name(),
        started.elapsed().as_secs_f64(),
    )?;
    Ok(true)
}

/// The totals over all seeds.
#[derive(Default)]
struct Total {
    transactions: u64,
    cascades: u64,
    crashes: u64,
    moves: u64,
    fenced: u64,
    keys_taken: u64,
    repeated: u64,
    digest: u64,
}

impl Total {
    const fn add(&mut self, summary: &Summary) {
        self.transactions += summary.transactions;
        self.cascades += summary.cascades;
        self.crashes += summary.crashes;
        self.moves += summary.moves;
        self.fenced += summary.fenced;
        self.keys_taken += summary.keys_taken;
        self.repeated += summary.repeated;
        self.digest = self.digest.rotate_left(1) ^ summary.digest ^ summary.billing;
    }
}

fn report(failure: &Failure, seeds: Seeds, out: &mut impl Write) -> std::io::Result<()> {
    for line in &failure.trace {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "\nseed {}: this does not hold: {}", failure.seed, failure.wrong.check)?;
    writeln!(out, "{}", failure.wrong.context)?;
    writeln!(
        out,
        "\nto see all of it: cargo run --release -p sim -- run --seeds 1 --from {} --steps {} \
         --partitions {} --store {} --trace 1000000",
        failure.seed,
        seeds.plan.steps,
        seeds.plan.partitions,
        seeds.store.name(),
    )
}

fn scratch(seed: u64) -> PathBuf {
    std::env::temp_dir().join(format!("faregate-sim-{}-{seed}", std::process::id()))
}
