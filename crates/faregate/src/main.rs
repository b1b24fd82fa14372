//! `faregate`: the command line, put together from `server` and `cli`.

mod allocator;
mod bench;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use cli::maintenance::{self, Report};
use cli::{PROBLEMS, Refused, demo, flags, iso8583, queue, resources, simulator, webhooks};
use command_line::{CANNOT_RUN, explain};
use config::{Arguments, Config};
use server::first_start::Given;
use server::{logging, serve, workers};

/// Signs customers up, takes their payments and switches features, in one binary
#[derive(Parser)]
#[command(name = "faregate", version, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the APIs until it is stopped
    Serve(Arguments),
    /// Serve on loopback and run one payment through the API
    Demo(demo::Args),
    /// Measure a running server: starts faregate-bench, which lies beside this binary
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Bench {
        /// The arguments of faregate-bench; `faregate bench --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Copy the database into a file, while a server may be running
    Backup {
        /// A file that does not exist yet
        file: PathBuf,
        #[command(flatten)]
        args: maintenance::Args,
    },
    /// Write the database anew, without what erasures leave in unused parts of its pages; no server may
    /// use it
    Vacuum(maintenance::Args),
    /// Create a data directory from a backup
    Restore {
        /// The backup
        file: PathBuf,
        /// End the customers' sessions that the backup has: some of them may have logged out since
        #[arg(long)]
        end_sessions: bool,
        #[command(flatten)]
        args: maintenance::Args,
    },
    /// Check that sums, postings and journal agree
    Verify {
        /// A file of lines that `journal anchor` printed earlier: the journal must still have these rows
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
        #[command(flatten)]
        args: maintenance::Args,
    },
    /// Print anchors of the journal, against which later changes are found
    Journal {
        #[command(subcommand)]
        command: Journal,
    },
    /// Compare a gateway's own books with the booked transactions
    Reconcile(maintenance::Reconcile),
    /// Rebuild the analytics tables
    Analytics {
        #[command(subcommand)]
        command: Analytics,
    },
    /// Move the data to another database
    Migrate {
        #[command(subcommand)]
        command: Migrate,
    },
    /// Bring data over from another billing system, while no server runs on the data directory
    #[command(subcommand)]
    Import(cli::import::Import),
    /// Run the simulated gateway as a process of its own
    Simulator(simulator::Args),
    /// Decode, encode, check, measure and answer ISO 8583 messages
    #[command(subcommand)]
    Iso8583(iso8583::Command),
    /// List, create, roll out, explain and copy feature flags
    #[command(subcommand)]
    Flags(flags::Command),
    /// Forward a tenant's events to a program on this machine, from now on, until it is interrupted
    Listen(webhooks::Listen),
    /// Make an event happen, on a server with the simulated gateway
    Trigger(webhooks::Trigger),
    /// Create the topics of the queue between fronts and processors
    Topics {
        #[command(subcommand)]
        command: queue::Topics,
    },
    /// List, retry and drop dead-letter records: commands that could not be executed
    Dlq {
        #[command(subcommand)]
        command: queue::DeadLetters,
    },
    /// Print the effective configuration, if it is valid
    Config {
        /// Look into the files that it names too, as `serve` does before it opens a database
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        arguments: Arguments,
    },
    /// Print the completions for a shell, to be put where it looks for them
    Completions { shell: clap_complete::Shell },
    /// Write the manual pages into a directory
    Man { directory: PathBuf },
    /// A process that a server starts for `flags.workers`
    #[command(hide = true)]
    FlagWorker,
}

#[derive(Subcommand)]
enum Analytics {
    /// Rebuild them from the committed payments
    Rebuild(maintenance::Args),
}

#[derive(Subcommand)]
enum Journal {
    /// Print the end of each partition's journal, to be kept where nobody with access to the database
    /// can change it: a row number and its hash
    Anchor(maintenance::Args),
}

#[derive(Subcommand)]
enum Migrate {
    /// Copy a data directory's SQLite to an empty PostgreSQL database, and compare. A server may run
    /// on the data directory meanwhile, but not at the end; an interrupted copy is resumed
    SqliteToPostgres {
        /// Only compare
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        args: maintenance::Args,
    },
}

fn main() -> ExitCode {
    let code = match run() {
        Ok(code) => code,
        Err(error) => {
            logging::print_error(&format!("faregate: {}", explain(&error)));
            ExitCode::from(if error.is::<Refused>() { PROBLEMS } else { CANNOT_RUN })
        }
    };
    logging::finish();
    code
}

/// The whole command line: what is declared here, and the resources of a running server.
fn command_line() -> clap::Command {
    CommandLine::command().subcommands(resources::commands())
}

fn run() -> anyhow::Result<ExitCode> {
    let matches = command_line().get_matches();
    if let Some((name, of_resource)) = matches.subcommand() {
        // Servers report a failed write. Of other commands a reader that goes, such as `head`, is the end.
        if !matches!(name, "serve" | "demo" | "simulator" | "bench" | "flag-worker") {
            sigpipe::reset();
        }
        if let Some(result) = resources::run(name, of_resource) {
            return result;
        }
    }
    execute(CommandLine::from_arg_matches(&matches)?.command)
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(arguments) => {
            let config = Config::load(&arguments)?;
            logging::start(&config)?;
            serve::run(&config)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Iso8583(command) => iso8583::run(command),
        Command::Flags(command) => flags::run(&command),
        Command::Listen(args) => webhooks::listen(args),
        Command::Trigger(args) => webhooks::trigger(&args),
        Command::Topics { command } => queue::run_topics(command).map(|()| ExitCode::SUCCESS),
        Command::Dlq { command } => {
            queue::run_dead_letters(command)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Demo(args) => demo::run(&args),
        Command::Bench { arguments } => Err(bench::exec(&arguments)),
        Command::Backup { file, args } => {
            maintain(&args, |config| maintenance::backup(config, &file))
        }
        Command::Vacuum(args) => maintain(&args, maintenance::vacuum),
        Command::Restore { file, end_sessions, args } => {
            maintain(&args, |config| maintenance::restore(config, &file, end_sessions))
        }
        Command::Verify { anchor, args } => {
            maintain(&args, |config| maintenance::verify(config, anchor.as_deref()))
        }
        Command::Journal { command: Journal::Anchor(args) } => {
            maintain(&args, maintenance::anchor_journal)
        }
        Command::Reconcile(of) => maintain(&of.args, |config| maintenance::reconcile(config, &of)),
        Command::Analytics { command: Analytics::Rebuild(args) } => {
            maintain(&args, maintenance::rebuild_analytics)
        }
        Command::Migrate { command: Migrate::SqliteToPostgres { check, args } } => {
            maintain(&args, |config| maintenance::sqlite_to_postgres(config, check, args.json))
        }
        Command::Import(what) => cli::import::run(what),
        Command::Simulator(args) => {
            logging::start(&Config::default())?;
            simulator::run(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::FlagWorker => workers::run(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut command_line(), "faregate", &mut io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { directory } => {
            std::fs::create_dir_all(&directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
            clap_mangen::generate_to(command_line(), &directory)
                .with_context(|| format!("cannot write to {}", directory.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Config { check, arguments } => {
            let config = Config::load(&arguments)?;
            if check {
                serve::check(&config, &Given::by_environment())?;
            }
            for name in &config.unknown_variables {
                eprintln!("faregate: the environment variable {name} is no setting; it is ignored");
            }
            print!("{}", toml::to_string(&config)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs a command on a data directory and prints its report.
fn maintain(
    args: &maintenance::Args,
    command: impl FnOnce(&Config) -> Result<Report, maintenance::Error>,
) -> anyhow::Result<ExitCode> {
    let arguments = Arguments { place: args.place.clone(), ..Arguments::default() };
    let config = Config::load(&arguments)?;
    logging::start(&config)?;
    let report = command(&config)?;
    if args.json {
        println!("{}", report.json);
    } else {
        println!("{}", report.text);
    }
    Ok(if report.problems { ExitCode::from(PROBLEMS) } else { ExitCode::SUCCESS })
}
