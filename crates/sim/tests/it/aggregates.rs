//! The simulations of aggregates, in seeded runs and with planted bugs.

use sim::aggregates::{AGGREGATES, Aggregate};

/// How many seeds are run.
const SEEDS: u64 = 80;

/// More often than this happens in them whatever a simulation counts.
const OFTEN: usize = 50;

#[test]
fn nothing_is_wrong_and_everything_happens_often() {
    of_each(|aggregate| {
        let all = aggregate.run_seeds(0..SEEDS).unwrap_or_else(|wrong| panic!("{wrong}"));
        for what in aggregate.counts {
            assert!(all.of(what) > OFTEN, "{}: {what} is rare: {all}", aggregate.name);
        }
    });
}

#[test]
fn planted_bugs_are_found() {
    of_each(|aggregate| {
        let mut missed = aggregate.found(SEEDS);
        missed.retain(|it| it.seed.is_none());
        assert!(missed.is_empty(), "{}: {missed:?}", aggregate.name);
    });
}

/// Checks every aggregate, at the same time.
fn of_each(check: impl Fn(&Aggregate) + Sync) {
    std::thread::scope(|scope| {
        for aggregate in AGGREGATES {
            scope.spawn(|| check(aggregate));
        }
    });
}
