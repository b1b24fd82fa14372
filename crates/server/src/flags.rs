//! `faregate flags`: feature flags on the command line.

mod calls;
mod compare;
pub mod due;
mod exchange;
mod explain;
mod feed;
mod judge;
mod keeper;
mod list;
mod remote;
mod toggle;

use std::process::ExitCode;

pub use calls::service;
pub use feed::{Feed, documents};
pub use keeper::{Keeper, Owners};

/// Options of `faregate flags`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the flags of a running server
    Ls(list::Args),
    /// Switch a flag on or off
    Toggle(toggle::Args),
    /// Say why a user gets what they get of a flag
    Explain(explain::Args),
    /// Write the flags and segments of an environment to standard output
    Export(exchange::Export),
    /// Take flags and segments into an environment, all or none
    Import(exchange::Import),
    /// Say what is different in another environment
    Diff(compare::Diff),
    /// Copy flags and segments from another environment, all or none
    Copy(compare::Copy),
    /// Hold evaluations against a file of vectors
    Eval(judge::Args),
}

/// Runs a command.
///
/// # Errors
/// Where it cannot run: the message says what to change.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Ls(args) => list::run(args),
        Command::Toggle(args) => toggle::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Export(args) => exchange::export(args),
        Command::Import(args) => exchange::import(args),
        Command::Diff(args) => compare::diff(args),
        Command::Copy(args) => compare::copy(args),
        Command::Eval(args) => judge::run(args),
    }
}
