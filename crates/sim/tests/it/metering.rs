//! Usage of limits, in seeded runs and with planted bugs.

use sim::metering::{MeteringMutant, Tally, run};

/// How many seeds are run.
const SEEDS: u64 = 80;

#[test]
fn limits_are_counted_and_never_passed() {
    let mut all = Tally::default();
    for seed in 0..SEEDS {
        let tally = run(seed, None).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        all.counted += tally.counted;
        all.duplicates += tally.duplicates;
        all.over_limit += tally.over_limit;
        all.reserved += tally.reserved;
        all.confirmed += tally.confirmed;
        all.released += tally.released;
        all.ended += tally.ended;
        all.late += tally.late;
        all.closed += tally.closed;
        all.set_back += tally.set_back;
        all.deaths += tally.deaths;
    }
    let often = [all.counted, all.duplicates, all.over_limit, all.reserved, all.confirmed];
    let seldom = [all.released, all.ended, all.late, all.closed, all.set_back, all.deaths];
    assert!(often.into_iter().chain(seldom).all(|count| count > 50), "each happens often: {all:?}");
}

/// The check that fails of some seed.
fn check(mutant: MeteringMutant, wrong: &str) {
    let found: Vec<String> = (0..SEEDS).filter_map(|seed| run(seed, Some(mutant)).err()).collect();
    assert!(found.iter().any(|it| it.starts_with(wrong)), "{mutant:?}: {found:?}");
}

#[test]
fn planted_bugs_are_found() {
    check(MeteringMutant::PassesLimit, "a limit is never passed");
    check(MeteringMutant::CountsTwice, "an event is counted once");
    check(MeteringMutant::LosesCounts, "what is counted is what was used");
    check(MeteringMutant::KeepsReleased, "what is reserved comes back");
    check(MeteringMutant::ReachesAgain, "a limit is reached once in a period");
}
