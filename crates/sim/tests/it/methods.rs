//! Payment methods at their gateway, in seeded runs and with planted bugs.

use sim::methods::{MethodMutant, Tally, run};

/// How many seeds are run.
const SEEDS: u64 = 60;

#[test]
fn what_is_active_here_is_attached_there() {
    let mut all = Tally::default();
    for seed in 0..SEEDS {
        let tally = run(seed, None).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        all.active += tally.active;
        all.refused += tally.refused;
        all.deleted += tally.deleted;
        all.charged += tally.charged;
        all.asked += tally.asked;
        all.deaths += tally.deaths;
    }
    let Tally { active, refused, deleted, charged, asked, deaths } = all;
    let counts = [active, refused, deleted, charged, asked, deaths];
    assert!(counts.into_iter().all(|count| count > 100), "each happens often: {all:?}");
}

/// The check that fails of some seed.
fn check(mutant: MethodMutant, wrong: &str) {
    let found = (0..SEEDS).find_map(|seed| run(seed, Some(mutant)).err());
    let found = found.unwrap_or_else(|| panic!("{mutant:?} is not found"));
    assert!(found.starts_with(wrong), "{mutant:?}: {found}");
}

#[test]
fn planted_bugs_are_found() {
    check(MethodMutant::ChargesUnattached, "a method that is charged is attached");
    check(MethodMutant::DropsTimer, "no step is left");
    check(MethodMutant::SendsNoDetach, "what is active here is attached there");
    check(MethodMutant::AsksTooEarly, "what is active here is attached there");
    check(MethodMutant::TakesLostForRefused, "what is active here is attached there");
}
