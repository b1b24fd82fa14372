//! Commands on a data directory: backup, restore, verify, reconcile, analytics rebuild, migrate. Each
//! reports to a person, or with `--json` to a script.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use engine::analytics::ReadModels;
use engine::ports::StoreError;
use serde_json::{Value, json};
use store::analytics::{SqliteReadModels, analytics_path};

use crate::config::{Config, Place};
use crate::{node, serve};

mod migrate;
mod reconcile;

pub use migrate::sqlite_to_postgres;
pub use reconcile::reconcile;

/// Why a command could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory or the file cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The database cannot be read or written.
    #[error("the database cannot be used: {0}")]
    Database(#[from] StoreError),
    /// A gateway's journal cannot be read.
    #[error(transparent)]
    Gateway(#[from] gateway::Error),
    /// A file cannot be looked at.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not ours to do.
    #[error(
        "the database is on a server ({server}): {command} is for SQLite in a data directory; use \
         {instead}, see docs/how-to/run-on-postgresql.md"
    )]
    OnServer {
        /// Where the database is.
        server: String,
        /// What was wanted.
        command: &'static str,
        /// Who does it.
        instead: &'static str,
    },
    /// Nobody said where to.
    #[error("--database or FAREGATE_DATABASE_URL names the PostgreSQL database to copy to")]
    NoServer,
    /// What was copied can be changed any moment.
    #[error(
        "{written} rows were copied while a server runs on {}; stop it, and run this again to \
         copy the rest and compare", dir.display()
    )]
    SourceServed {
        /// What is served.
        dir: PathBuf,
        /// Rows written so far by this command.
        written: u64,
    },
    /// Threads cannot be started.
    #[error(transparent)]
    Runtime(#[from] serve::Error),
}

/// Where, and for whom to report.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where the data is.
    #[command(flatten)]
    pub place: Place,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// What a command found or did.
pub struct Report {
    /// For people.
    pub text: String,
    /// For scripts.
    pub json: Value,
    /// Whether something is wrong with the data.
    pub problems: bool,
}

impl Report {
    const fn done(text: String, json: Value) -> Self {
        Self { text, json, problems: false }
    }
}

/// Copies the database into a new file, while a server may go on writing.
///
/// # Errors
/// [`Error`].
pub fn backup(config: &Config, file: &Path, is_quiet: bool) -> Result<Report, Error> {
    refuse_on_server(config, "backup", "pg_dump or a base backup")?;
    let started = Instant::now();
    let mut shown_percent = 0;
    store::backup(&config.data_dir, file, |progress| {
        let done = u64::from(progress.pages.saturating_sub(progress.remaining));
        let percent = done * 100 / u64::from(progress.pages.max(1));
        if !is_quiet && percent >= shown_percent + 10 {
            shown_percent = percent;
            eprintln!("{percent} %");
        }
    })?;
    let bytes = size(file)?;
    let ms = millis(started);
    let text =
        format!("backed up {} to {}: {bytes} bytes in {ms} ms", show(&config.data_dir), show(file));
    let json = json!({ "file": show(file), "bytes": bytes, "ms": ms });
    Ok(Report::done(text, json))
}

/// Makes a data directory from a backup.
///
/// # Errors
/// [`Error`].
pub fn restore(config: &Config, file: &Path) -> Result<Report, Error> {
    refuse_on_server(config, "restore", "pg_restore")?;
    let started = Instant::now();
    store::restore(file, &config.data_dir)?;
    let (bytes, ms) = (size(file)?, millis(started));
    let text =
        format!("restored {} to {}: {bytes} bytes in {ms} ms", show(file), show(&config.data_dir));
    let json = json!({ "dataDir": show(&config.data_dir), "bytes": bytes, "ms": ms });
    Ok(Report::done(text, json))
}

/// Builds the analytics tables anew from the committed rows. A server may run meanwhile: it goes on
/// from what was built.
///
/// # Errors
/// [`Error`].
pub fn rebuild_analytics(config: &Config) -> Result<Report, Error> {
    let started = Instant::now();
    let truth = node::source(config)?;
    // Refused here where there is no data: opening would make an empty database.
    drop(truth.read()?);
    store::make_dir(&config.data_dir)?;
    let path = analytics_path(&config.data_dir);
    let mut models = SqliteReadModels::open(&path, &truth, &store::Options::default())?;
    let upto = models.rebuild()?;
    let ms = millis(started);
    let text = format!("analytics rebuilt up to journal row {} in {ms} ms", upto.0);
    Ok(Report::done(text, json!({ "upto": upto.0, "ms": ms })))
}

/// Recomputes what the database says from its rows, and lists where it says otherwise.
///
/// # Errors
/// [`Error`].
pub fn verify(config: &Config) -> Result<Report, Error> {
    let started = Instant::now();
    let found = store::verify::verify_source(&node::source(config)?)?;
    let ms = millis(started);
    let mut text = format!(
        "{} journal rows, {} accounts, {} payments, {} transactions, {} postings, {} claims in {ms} ms",
        found.journal_rows,
        found.accounts,
        found.payments,
        found.transactions,
        found.postings,
        found.claims
    );
    if found.is_sound() {
        text.push_str("; no problems");
    } else {
        text.push_str(&format!("; {} problems:", found.problems_found));
        for problem in &found.problems {
            text.push_str(&format!("\n  {problem}"));
        }
    }
    let json = json!({
        "journalRows": found.journal_rows,
        "accounts": found.accounts,
        "payments": found.payments,
        "transactions": found.transactions,
        "postings": found.postings,
        "claims": found.claims,
        "problemsFound": found.problems_found,
        "problems": found.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "ms": ms,
    });
    Ok(Report { text, json, problems: !found.is_sound() })
}

fn refuse_on_server(
    config: &Config,
    command: &'static str,
    instead: &'static str,
) -> Result<(), Error> {
    match node::server(config)? {
        Some(server) => Err(Error::OnServer { server: server.shown(), command, instead }),
        None => Ok(()),
    }
}

fn size(file: &Path) -> Result<u64, Error> {
    let found = file.metadata().map_err(|source| Error::Io { path: file.to_owned(), source })?;
    Ok(found.len())
}

fn millis(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn show(path: &Path) -> String {
    path.display().to_string()
}
