//! `faregate flags`: feature flags on the command line.

mod feed;
mod judge;

use std::process::ExitCode;

pub use feed::{Feed, documents};

/// Options of `faregate flags`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Hold evaluations against a file of vectors
    Eval(judge::Args),
}

/// Runs a command.
///
/// # Errors
/// Where it cannot run: the message says what to change.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Eval(args) => judge::run(args),
    }
}
