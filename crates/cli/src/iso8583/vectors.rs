//! `faregate iso8583 vectors`: checks files of golden vectors.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use iso8583::vectors::{Outcome, check};

/// Options of `faregate iso8583 vectors`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files of vectors
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Checks each file; the exit code is [`crate::PROBLEMS`] if a case fails.
///
/// # Errors
/// If a file cannot be read or holds no vectors.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut has_failed = false;
    for file in &args.files {
        let name = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        let outcome = check(&text).with_context(|| name.to_string())?;
        println!("{name}: {outcome}");
        print_cases(&outcome);
        has_failed |= !outcome.failed.is_empty();
    }
    Ok(if has_failed { ExitCode::from(crate::PROBLEMS) } else { ExitCode::SUCCESS })
}

fn print_cases(outcome: &Outcome) {
    for (reason, cases) in &outcome.stricter {
        println!("  stricter: {reason} ({})", cases.len());
        for case in cases {
            println!("    {case}");
        }
    }
    for case in &outcome.other_fields {
        println!("  other field: {case}");
    }
    for case in &outcome.failed {
        println!("  failed: {case}");
    }
}
