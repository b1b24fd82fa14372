//! Every check fails with a bug that was planted for it. While one check is looked at, whatever the
//! others find is passed over: so each is shown to find its bug by itself.

use sim::mutant::{MUTANTS, Mutant};
use sim::run::{self, Kind};
use sim::world::Plan;

/// Seeds that a planted bug may take to be found.
const SEEDS_MAX: u64 = 24;

/// Every check, and the bugs that it finds.
const FOUND_BY: &[(&str, &[Mutant])] = &[
    (
        "every answer is what the model expects",
        &[
            Mutant::AnswersDeclineAsSuccess,
            Mutant::CascadesAfterUnknown,
            Mutant::CascadesWhileActing,
            Mutant::FindsNoIds,
            Mutant::ForgetsClosing,
            Mutant::ForgetsTries,
            Mutant::KeepsAddress,
            Mutant::LoadsStale,
            Mutant::LosesClaim,
            Mutant::LosesReply,
        ],
    ),
    ("nothing is answered before it is durable", &[Mutant::AnswersTooEarly]),
    ("no command breaks an invariant", &[Mutant::LoadsWithoutAccount]),
    ("a repeated request gets the same answer", &[Mutant::RewordsReply]),
    ("who asks is answered", &[Mutant::LosesWaiter, Mutant::WaitsForEver]),
    ("rows carry the time of their batch", &[Mutant::ClockGoesBack]),
    ("the journal has no gaps", &[Mutant::SkipsJournalRow]),
    ("histories are complete", &[Mutant::BreaksHistory]),
    ("a follower keeps its place", &[Mutant::ForgetsFollower]),
    ("what was committed is stored", &[Mutant::LiesAboutCommit]),
    ("what is stored was committed", &[Mutant::DoublesPayment]),
    ("what was acknowledged is there", &[Mutant::LiesAboutCommit]),
    ("accounts and methods are what the model says", &[Mutant::MixesUpTenants]),
    ("payments are what the model says", &[Mutant::ForgetsOrder, Mutant::TearsBatch]),
    (
        "transactions are what the model says",
        &[
            Mutant::ForgetsCalledAmount,
            Mutant::InflatesAmount,
            Mutant::MixesUpMethods,
            Mutant::TurnsDeclineIntoSuccess,
        ],
    ),
    ("sums are those of the transactions", &[Mutant::MiscountsSums]),
    ("amounts are conserved", &[Mutant::LoadsStale]),
    ("an address has one customer", &[Mutant::LosesAddress]),
    ("a customer has one account", &[Mutant::LosesTag]),
    ("nothing is left of who is forgotten", &[Mutant::KeepsPerson]),
    ("customers are what the model says", &[Mutant::KeepsSession]),
    ("mails are those that were asked for", &[Mutant::LosesMail]),
    ("what was kept for later is what the model says", &[Mutant::KeepsOperation]),
    ("tags are what the model says", &[Mutant::LosesTag]),
    ("custom fields are what the model says", &[Mutant::LosesField]),
    ("blocking states are what the model says", &[Mutant::LosesState]),
    ("attempts are what the model says", &[Mutant::ForgetsAttempt]),
    ("timers are what the model says", &[Mutant::DropsTimer, Mutant::KeepsTimer]),
    ("disputes are what the model says", &[Mutant::BelievesOlderNews, Mutant::BooksDisputeTwice]),
    ("a warning is given once, and in time", &[Mutant::WarnsTwice]),
    ("a warning moves no money", &[Mutant::BooksWarnings]),
    ("no other try begins while a customer acts", &[Mutant::CascadesWhileActing]),
    ("a transaction has one call at a time", &[Mutant::LoadsRunningAsPending]),
    ("who does nothing is given up", &[Mutant::DropsTimer, Mutant::ForgetsToCancel]),
    (
        "excess is posted as disputes say",
        &[Mutant::BelievesAnothersDispute, Mutant::BooksDisputeTwice],
    ),
    ("velocities are what the model says", &[Mutant::ForgetsVelocity]),
    ("velocity is never exceeded", &[Mutant::ForgetsVelocity]),
    ("postings balance", &[Mutant::PostsOneSided]),
    (
        "no payment without its postings",
        &[Mutant::ForgetsPosting, Mutant::PostsTwice, Mutant::PostsAnotherAmount],
    ),
    ("no posting without its payment", &[Mutant::PostsElsewhere]),
    ("no payment without its account and its method", &[Mutant::TearsCombo]),
    (
        "what is open is waited for, and nothing else",
        &[
            Mutant::DropsOutstanding,
            Mutant::KeepsOutstanding,
            Mutant::ClockRunsAhead,
            Mutant::ForgetsAction,
        ],
    ),
    ("nothing is stuck", &[Mutant::DropsOutstanding, Mutant::NeverAsks]),
    ("the world comes to rest", &[Mutant::NeverAsks]),
    ("a transaction key succeeds once", &[Mutant::LosesClaim]),
    ("a call goes where the money is", &[Mutant::SendsElsewhere, Mutant::StampsNoHealth]),
    ("a transaction is charged once", &[Mutant::GatewayForgetsIds]),
    (
        "the gateway's charges are the store's successes",
        &[Mutant::BelievesMisnamed, Mutant::IgnoresPending, Mutant::ResendsWithNewId],
    ),
    ("a seed repeats", &[Mutant::ForgetsItsSeed]),
];

/// The same for what only matters where partitions go from one owner to another.
const FOUND_IN_PARTITIONS_BY: &[(&str, &[Mutant])] = &[
    ("who has lost a partition writes nothing", &[Mutant::ForgetsEpochs]),
    ("what a request makes is made once", &[Mutant::ForgetsKeys]),
    ("a record is dealt with once", &[Mutant::ForgetsOffset]),
    ("no record is passed over", &[Mutant::SkipsRecord]),
    ("every answer is what the model expects", &[Mutant::LosesReply]),
    ("a warning is given once, and in time", &[Mutant::WarnsTwice]),
    ("no other try begins while a customer acts", &[Mutant::CascadesWhileActing]),
    ("who does nothing is given up", &[Mutant::ForgetsToCancel]),
];

/// The seed with which a check finds a bug, if it does.
fn found(check: &'static str, mutant: Mutant, partitions: u16) -> Option<u64> {
    (0..SEEDS_MAX).find(|seed| {
        let mutant = Some(mutant);
        let plan = Plan { partitions, mutant, only: Some(check), ..Plan::new(*seed, 220) };
        let failure = run::seed_twice(Kind::Memory, plan).err();
        failure.is_some_and(|failure| failure.wrong.check == check)
    })
}

#[test]
fn each_check_finds_the_bugs_planted_for_it() {
    assert_eq!(missed(FOUND_BY, 1), Vec::<String>::new());
}

#[test]
fn each_check_of_partitions_finds_the_bugs_planted_for_it() {
    assert_eq!(missed(FOUND_IN_PARTITIONS_BY, 3), Vec::<String>::new());
}

/// The bugs that a check does not find.
fn missed(found_by: &[(&'static str, &[Mutant])], partitions: u16) -> Vec<String> {
    let planted = found_by
        .iter()
        .flat_map(|(check, mutants)| mutants.iter().map(move |mutant| (*check, *mutant)));
    planted
        .filter(|(check, mutant)| found(check, *mutant, partitions).is_none())
        .map(|(check, mutant)| format!("{check}: {mutant:?}"))
        .collect()
}

#[test]
fn no_planted_bug_is_left_out() {
    let planted = MUTANTS.iter().map(|(_, mutant)| *mutant);
    let left_out: Vec<Mutant> = planted
        .filter(|mutant| {
            let mut lists = FOUND_BY.iter().chain(FOUND_IN_PARTITIONS_BY);
            !lists.any(|(_, mutants)| mutants.contains(mutant))
        })
        .collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

#[test]
fn the_stores_own_verification_finds_what_the_simulation_finds() {
    let check = "the store's own verification finds nothing";
    for mutant in [Mutant::ForgetsPosting, Mutant::PostsTwice, Mutant::MiscountsSums] {
        let plan = Plan { mutant: Some(mutant), only: Some(check), ..Plan::new(2000, 100) };
        let failure = run::seed(Kind::Sqlite, plan).unwrap_err();
        assert_eq!(failure.wrong.check, check, "{mutant:?}");
    }
}

#[test]
fn the_documentation_lists_every_check_and_every_planted_bug() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/simulation.md");
    let text = std::fs::read_to_string(path).unwrap();
    let row = |check: &str| text.lines().find(|line| is_row_of(line, check));
    for (check, mutants) in FOUND_BY.iter().chain(FOUND_IN_PARTITIONS_BY) {
        let row = row(check).unwrap_or_else(|| panic!("{check} is not listed"));
        for mutant in *mutants {
            let name = MUTANTS.iter().find(|(_, it)| it == mutant).map(|(name, _)| *name).unwrap();
            assert!(row.contains(&format!("`{name}`")), "{check}: {name} is not listed");
        }
    }
}

/// Where a check needs some mode of the simulation, its row names it in parentheses.
fn is_row_of(line: &str, check: &str) -> bool {
    line.starts_with(&format!("| {check} |")) || line.starts_with(&format!("| {check} (`"))
}
