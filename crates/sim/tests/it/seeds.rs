//! 200 seeds on the store in memory, some with partitions that move, and a few on the real one.

use sim::run::{Kind, Seeds, seed_twice, seeds};
use sim::world::Plan;

#[track_caller]
fn check(store: Kind, from: u64, count: u64) {
    check_partitions(1, store, from, count);
}

#[track_caller]
fn check_partitions(partitions: u16, store: Kind, from: u64, count: u64) {
    let mut out = Vec::new();
    let plan = Plan { partitions, ..Plan::new(from, 220) };
    let sound = seeds(Seeds { from, count, store, plan }, &mut out).expect("a list can be written");
    assert!(sound, "{}", String::from_utf8_lossy(&out));
}

// Four tests, so that they use the cores there are.
#[test]
fn seeds_0_to_49() {
    check(Kind::Memory, 0, 50);
}

#[test]
fn seeds_50_to_99() {
    check(Kind::Memory, 50, 50);
}

#[test]
fn seeds_100_to_149() {
    check(Kind::Memory, 100, 50);
}

#[test]
fn seeds_150_to_199() {
    check(Kind::Memory, 150, 50);
}

#[test]
fn seeds_with_partitions_that_move() {
    check_partitions(3, Kind::Memory, 200, 40);
}

#[test]
fn a_few_seeds_on_the_real_store() {
    check(Kind::Sqlite, 1000, 6);
}

#[test]
fn a_seed_gives_the_same_world_on_either_store() {
    for seed in [1, 2, 3] {
        let plan = Plan::new(seed, 100);
        let memory = seed_twice(Kind::Memory, plan).unwrap();
        let sqlite = seed_twice(Kind::Sqlite, plan).unwrap();
        assert_eq!(memory.transactions, sqlite.transactions, "seed {seed}");
        assert_eq!(memory.successes, sqlite.successes, "seed {seed}");
        assert_eq!(memory.commits, sqlite.commits, "seed {seed}");
    }
}

/// Fresh seeds in which something did not hold once: a field refused while the payment's outcome was open, a
/// retry held by an outcome that the gateway was asked about no more, a charge that came after an operator
/// had looked for it and before what the operator said was recorded, a method chosen by rules that were being
/// replaced, and a refusal that was not kept in place of an expired one.
#[test]
fn seeds_in_which_something_was_found() {
    let found = [
        (557_284_268_331, 3),
        (510_279_568_838, 1),
        (622_854_312_062, 3),
        (774_711_139_746, 3),
        (1_013_316_268_388, 3),
    ];
    for (seed, partitions) in found {
        seed_twice(Kind::Memory, Plan { partitions, ..Plan::new(seed, 300) }).unwrap();
    }
}
