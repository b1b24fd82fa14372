//! `faregate flags eval`: evaluates the flags of a file and compares with its vectors.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use evaluation::{MissingAttribute, Snapshot, User, Vector, Vectors};
use serde::Serialize;

/// Options of `faregate flags eval`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file: {"flags", "segments", "users", "vectors"} as FeatBit's JSON has them
    #[arg(long, value_name = "FILE")]
    vectors: PathBuf,
    /// How a missing attribute of a user evaluates: as an empty text, like FeatBit's server, or as
    /// absent, so that no condition holds, like the newer specification of its SDKs
    #[arg(long, value_name = "RULE", default_value = "both")]
    missing_attribute: Rules,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Rules {
    Empty,
    Absent,
    Both,
}

/// The result of a file with one rule for missing attributes.
#[derive(Default, Serialize)]
struct Outcome {
    passed: usize,
    failed: usize,
    failures: Vec<String>,
}

/// Failures listed one by one; the rest is counted.
const LISTED_MAX: usize = 100;

/// Compares the file and prints the result; the exit code is [`crate::PROBLEMS`] if any evaluation
/// differs.
///
/// # Errors
/// If the file cannot be read, or a vector names an unknown flag or user.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.vectors.display();
    let text = std::fs::read_to_string(&args.vectors);
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let file: Vectors = serde_json::from_str(&text).with_context(|| name.to_string())?;
    let rules: &[(&str, MissingAttribute)] = match args.missing_attribute {
        Rules::Empty => &[EMPTY],
        Rules::Absent => &[ABSENT],
        Rules::Both => &[EMPTY, ABSENT],
    };
    let mut outcomes = BTreeMap::new();
    for (rule, missing) in rules {
        outcomes.insert(*rule, compare(&file, *missing)?);
    }
    if args.json {
        println!("{}", serde_json::to_string(&outcomes)?);
    } else {
        for (rule, outcome) in &outcomes {
            let Outcome { passed, failed, failures } = outcome;
            println!("{name}, an absent attribute {rule}: {passed} passed, {failed} failed");
            failures.iter().for_each(|failure| println!("  failed: {failure}"));
        }
    }
    let has_failed = outcomes.values().any(|outcome| outcome.failed > 0);
    Ok(if has_failed { ExitCode::from(crate::PROBLEMS) } else { ExitCode::SUCCESS })
}

const EMPTY: (&str, MissingAttribute) = ("empty", MissingAttribute::Empty);
const ABSENT: (&str, MissingAttribute) = ("absent", MissingAttribute::Absent);

fn compare(file: &Vectors, missing: MissingAttribute) -> anyhow::Result<Outcome> {
    let snapshot =
        Snapshot::new(missing).with(file.flags.iter().cloned(), file.segments.iter().cloned());
    let users: BTreeMap<&str, &User> =
        file.users.iter().map(|user| (user.key_id.as_str(), user)).collect();
    let mut outcome = Outcome::default();
    for vector in &file.vectors {
        let Vector { flag, user, .. } = vector;
        let user = users.get(user.as_str()).with_context(|| format!("there is no user {user}"))?;
        let found = snapshot.evaluate(flag, user);
        let found = found.with_context(|| format!("there is no flag {flag}"))?;
        match vector.difference(&found, missing) {
            None => outcome.passed += 1,
            Some(difference) => {
                outcome.failed += 1;
                if outcome.failures.len() < LISTED_MAX {
                    outcome.failures.push(format!("{flag} for {}: {difference}", vector.user));
                }
            }
        }
    }
    Ok(outcome)
}
