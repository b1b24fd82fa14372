//! `faregate iso8583`: messages of ISO 8583 read, written, judged and answered.

mod fields;
mod format;
mod input;
mod judge;
mod read;
mod responder;
mod wire;
mod write;

use std::process::ExitCode;

use ::iso8583::Packager;

pub use format::{Channel, Format};
pub use wire::Wire;

/// Options of `faregate iso8583`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show a message, card data masked
    Decode(read::Args),
    /// Write a message of fields
    Encode(write::Args),
    /// List the built-in formats, or show one
    Packagers {
        /// Print this one's description (TOML); a file in another form is shown in ours
        #[arg(long, value_name = "NAME")]
        show: Option<String>,
    },
    /// Judge files of golden vectors
    Vectors(judge::Args),
    /// Answer requests, for tests of other programs
    Serve(responder::Args),
}

/// Runs a command.
///
/// # Errors
/// Where it cannot run: the message says what to change.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Decode(args) => read::run(&args),
        Command::Encode(args) => write::run(&args),
        Command::Packagers { show: None } => {
            for name in Packager::built_in_names() {
                let title = Packager::built_in(name).map(|it| it.title().to_owned());
                println!("{name:<16} {}", title.unwrap_or_default());
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Packagers { show: Some(name) } => {
            print!("{}", format::packager(&name)?.description());
            Ok(ExitCode::SUCCESS)
        }
        Command::Vectors(args) => judge::run(&args),
        Command::Serve(args) => responder::run(&args),
    }
}

/// Tells what is wrong with the data.
fn wrong(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("faregate: {error}");
    ExitCode::from(crate::PROBLEMS)
}
