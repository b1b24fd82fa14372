//! `faregate iso8583`: decodes, encodes, compares and answers ISO 8583 messages.

mod decode;
mod encode;
mod fields;
mod input;
mod responder;
mod vectors;

use std::process::ExitCode;

use ::iso8583::Packager;
use command_line::message_format::packager;

/// The commands of `faregate iso8583`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show a message, card data masked
    Decode(decode::Args),
    /// Build a message from fields
    Encode(encode::Args),
    /// List the built-in formats, or show one
    Packagers {
        /// Print the description of this one as TOML, whatever the format of its file
        #[arg(long, value_name = "NAME")]
        show: Option<String>,
    },
    /// Check files of golden vectors
    Vectors(vectors::Args),
    /// Measure packing and reading, per second of CPU time
    Bench {
        /// The time for each operation
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
/// If an option or a file is invalid; the message says what to change.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Decode(args) => decode::run(&args),
        Command::Encode(args) => encode::run(&args),
        Command::Packagers { show: None } => {
            for name in Packager::built_in_names() {
                let title = Packager::built_in(name).map(|it| it.title().to_owned());
                println!("{name:<16} {}", title.unwrap_or_default());
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Packagers { show: Some(name) } => {
            print!("{}", packager(&name)?.description());
            Ok(ExitCode::SUCCESS)
        }
        Command::Vectors(args) => vectors::run(&args),
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

/// Reports invalid data.
fn invalid(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("faregate: {error}");
    ExitCode::from(crate::PROBLEMS)
}
