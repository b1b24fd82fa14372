//! `faregate flags`: feature flags of a running server, and evaluations of a file.

mod compare;
mod create;
mod current;
mod exchange;
mod explain;
mod history;
mod list;
mod rollout;
mod show;
mod shown;
mod target;
mod toggle;
mod vectors;

use std::process::ExitCode;

/// The commands of `faregate flags`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the flags of a running server
    Ls(list::Args),
    /// Show a flag
    Show(show::Args),
    /// Create a flag, which is off until it is rolled out
    Create(create::Args),
    /// Switch a flag on for a part of the users
    Rollout(rollout::Args),
    /// Give users a value, whatever rules and rollouts say
    Target(target::Args),
    /// Show the versions that a flag had
    History(history::History),
    /// Make an older version of a flag the current one
    Rollback(history::Rollback),
    /// Switch a flag on or off
    Toggle(toggle::Args),
    /// Explain which variation of a flag a user gets, and why
    Explain(explain::Args),
    /// Write the flags and segments of an environment to standard output
    Export(exchange::Export),
    /// Import flags and segments into an environment, all or none
    Import(exchange::Import),
    /// Show the differences from another environment
    Diff(compare::Diff),
    /// Copy flags and segments from another environment, all or none
    Copy(compare::Copy),
    /// Compare evaluations with a file of vectors
    Eval(vectors::Args),
}

/// Runs a command.
///
/// # Errors
/// If an option is invalid, or the server cannot be reached or refuses; the message says what to
/// change.
pub fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Ls(args) => list::run(args),
        Command::Show(args) => show::run(args),
        Command::Create(args) => create::run(args),
        Command::Rollout(args) => rollout::run(args),
        Command::Target(args) => target::run(args),
        Command::History(args) => history::history(args),
        Command::Rollback(args) => history::rollback(args),
        Command::Toggle(args) => toggle::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Export(args) => exchange::export(args),
        Command::Import(args) => exchange::import(args),
        Command::Diff(args) => compare::diff(args),
        Command::Copy(args) => compare::copy(args),
        Command::Eval(args) => vectors::run(args),
    }
}
