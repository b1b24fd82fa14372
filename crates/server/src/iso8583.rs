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
    /// Measure packing and reading, per second of CPU time
    Bench {
        /// How long each operation is measured
        #[arg(long, value_name = "SECONDS", default_value = "1")]
        seconds: f64,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
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
        Command::Bench { seconds, json } => {
            anyhow::ensure!((0.01..=60.0).contains(&seconds), "--seconds takes 0.01 to 60");
            let report = ::iso8583::bench::run(seconds)?;
            if json {
                println!("{}", report.to_json());
            } else {
                print!("{}", table(&report));
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Serve(args) => responder::run(&args),
    }
}

fn table(report: &::iso8583::bench::Report) -> String {
    let mut text = format!(
        "{:8}{:>14}{:>14}{:>14}{:>20}\n",
        "", "pack", "unpack", "pack_unpack", "update_pack_unpack"
    );
    for (name, it) in &report.0 {
        text += &format!(
            "{name:8}{:>14.0}{:>14.0}{:>14.0}{:>20.0}\n",
            it.pack, it.unpack, it.pack_unpack, it.update_pack_unpack
        );
    }
    text
}

/// Tells what is wrong with the data.
fn wrong(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("faregate: {error}");
    ExitCode::from(crate::PROBLEMS)
}
