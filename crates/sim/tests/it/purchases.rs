//! Purchases and what they grant, in seeded runs and with planted bugs.

use sim::purchases::{PurchaseMutant, Tally, run};

/// How many seeds are run.
const SEEDS: u64 = 60;

#[test]
fn accounts_have_what_they_paid_for() {
    let mut all = Tally::default();
    for seed in 0..SEEDS {
        let tally = run(seed, None).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        all.paid += tally.paid;
        all.returned += tally.returned;
        all.duplicates += tally.duplicates;
        all.late += tally.late;
        all.refused += tally.refused;
        all.corrected += tally.corrected;
        all.newcomers += tally.newcomers;
        all.mapped += tally.mapped;
        all.fired += tally.fired;
        all.deaths += tally.deaths;
        all.moves += tally.moves;
        all.seen += tally.seen;
        all.returns += tally.returns;
    }
    let Tally { paid, returned, duplicates, late, refused, corrected, .. } = all;
    let Tally { newcomers, mapped, fired, deaths, moves, seen, returns, .. } = all;
    let money = [paid, returned, duplicates, late, refused, corrected];
    let mut counts =
        money.into_iter().chain([newcomers, mapped, fired, deaths, moves, seen, returns]);
    assert!(counts.all(|count| count > 50), "each happens often: {all:?}");
}

/// The check that fails of some seed.
fn check(mutant: PurchaseMutant, wrong: &str) {
    let found = (0..SEEDS).find_map(|seed| run(seed, Some(mutant)).err());
    let found = found.unwrap_or_else(|| panic!("{mutant:?} is not found"));
    assert!(found.starts_with(wrong), "{mutant:?}: {found}");
}

#[test]
fn planted_bugs_are_found() {
    check(PurchaseMutant::LosesGrants, "an account has what it paid for");
    check(PurchaseMutant::GrantsUnpaid, "an account has what it paid for");
    check(PurchaseMutant::ForgetsBought, "what may not be bought is refused");
    check(PurchaseMutant::StaysOn, "an account has what it paid for");
    check(PurchaseMutant::ForgetsEnds, "an account has what it paid for");
    check(PurchaseMutant::DropsTimer, "the last event says what the account has");
    check(PurchaseMutant::ForgetsNewcomers, "an account has what it paid for");
    check(PurchaseMutant::ForgetsKeys, "a key is of one account");
    check(PurchaseMutant::KeepsUsers, "a user is of the account that has it");
    check(PurchaseMutant::ForgetsClosing, "a purchase says that its account was closed");
    check(PurchaseMutant::PushesEarly, "what a user sees is durable");
    check(PurchaseMutant::MissesWhileAway, "a user sees what the account has");
    check(PurchaseMutant::WakesOthers, "only its users are woken by an account");
}
