//! The simulations of single aggregates: each has a workload and a model, and runs on the one [`kernel`](crate::kernel).

pub mod billing;
mod commands;
pub mod metering;
pub mod methods;
pub mod purchases;

use std::ops::Range;

use crate::kernel::{Tally, Workload, run};

/// All of them: a new aggregate is a workload, a model, and a line here.
pub const AGGREGATES: &[Aggregate] = &[
    Aggregate::of::<billing::Billing>(),
    Aggregate::of::<metering::Metering>(),
    Aggregate::of::<methods::Methods>(),
    Aggregate::of::<purchases::Purchases>(),
];

/// The simulation of an aggregate.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate {
    pub name: &'static str,
    /// The counts of a run.
    pub counts: &'static [&'static str],
    run: fn(u64) -> Result<Tally, String>,
    found: fn(u64) -> Vec<Found>,
}

impl Aggregate {
    const fn of<W: Workload>() -> Self {
        Self {
            name: W::NAME,
            counts: W::COUNTS,
            run: |seed| run::<W>(seed, None),
            found: found::<W>,
        }
    }

    /// The simulation of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        AGGREGATES.iter().find(|it| it.name == name).copied()
    }

    /// Runs seeds, and adds up what they counted.
    ///
    /// # Errors
    /// The first seed in which something was wrong, with the check that failed.
    pub fn run_seeds(&self, seeds: Range<u64>) -> Result<Tally, String> {
        let mut all = Tally::default();
        for seed in seeds {
            let tally = (self.run)(seed);
            all.add_all(&tally.map_err(|wrong| format!("{} of seed {seed}: {wrong}", self.name))?);
        }
        Ok(all)
    }

    /// Every planted bug, with the first of so many seeds that finds it.
    #[must_use]
    pub fn found(&self, seeds: u64) -> Vec<Found> {
        (self.found)(seeds)
    }
}

/// A planted bug, and the first seed in which the check that is for it finds it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The bug.
    pub mutant: String,
    pub check: &'static str,
    /// `None`: none of the seeds.
    pub seed: Option<u64>,
}

fn found<W: Workload>(seeds: u64) -> Vec<Found> {
    let finds = |mutant, check: &str, seed: &u64| {
        run::<W>(*seed, Some(mutant)).is_err_and(|wrong| wrong.starts_with(check))
    };
    let found = W::MUTANTS.iter().map(|(mutant, check)| Found {
        mutant: format!("{mutant:?}"),
        check,
        seed: (0..seeds).find(|seed| finds(*mutant, check, seed)),
    });
    found.collect()
}
