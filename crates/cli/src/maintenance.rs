//! Commands on a data directory: backup, restore, vacuum, verify, reconcile, analytics rebuild, migrate. Each
//! prints a report as text, or with `--json` as JSON.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use config::{Config, Place};
use engine::analytics::ReadModels;
use engine::ports::StoreError;
use serde_json::{Value, json};
use server::{node, serve};
use store::analytics::{SqliteReadModels, analytics_path};
use store::database_path;
use store::verify::Anchor;

mod beside;
mod migrate;
mod reconcile;

pub use migrate::sqlite_to_postgres;
pub use reconcile::{Reconcile, reconcile};

/// Why a command cannot run.
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
    /// There is no such gateway.
    #[error(
        "there is no gateway {name}: `--gateway` is faregate-simulator, faregate-stripe, or NAME of a \
         `[gateway.http.NAME]` of the configuration"
    )]
    NoGateway { name: String },
    /// The program of a gateway does not list its transactions.
    #[error(
        "the program of {name} has no /transactions, which docs/reference/http-gateway.md describes: compare with \
         its own report"
    )]
    NoList { name: String },
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// A line of a file of anchors is none.
    #[error("{}, line {line}: not an anchor; `faregate journal anchor` prints them", path.display())]
    NoAnchor { path: PathBuf, line: usize },
    /// The command is for SQLite only.
    #[error(
        "the database is on a server ({server}): {command} is for SQLite in a data directory; use \
         {instead}, see docs/how-to/run-on-postgresql.md"
    )]
    OnServer {
        /// The database server.
        server: String,
        command: &'static str,
        /// The program to use.
        instead: &'static str,
    },
    /// No target database was given.
    #[error("--database or FAREGATE_DATABASE_URL names the PostgreSQL database to copy to")]
    NoServer,
    /// A server may change the copied rows at any moment.
    #[error(
        "{written} rows were copied while a server runs on {}; stop it, and run this again to \
         copy the rest and compare", dir.display()
    )]
    SourceServed {
        /// The data directory.
        dir: PathBuf,
        /// Rows written so far by this command.
        written: u64,
    },
    /// The key of what is sealed cannot be read.
    #[error(transparent)]
    Key(#[from] secrets::key_file::Error),
    /// Threads cannot be started.
    #[error(transparent)]
    Runtime(#[from] serve::Error),
}

/// Options of all commands on a data directory.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// The result of a command.
pub struct Report {
    pub text: String,
    pub json: Value,
    /// Whether the data has problems.
    pub problems: bool,
}

impl Report {
    const fn done(text: String, json: Value) -> Self {
        Self { text, json, problems: false }
    }
}

/// Writes the database's rows into a new file. A server may write meanwhile.
///
/// # Errors
/// [`Error`].
pub fn backup(config: &Config, file: &Path) -> Result<Report, Error> {
    refuse_on_server(config, "backup", "pg_dump or a base backup")?;
    let started = Instant::now();
    store::backup(&config.data_dir, file)?;
    let (bytes, ms) = (size(file)?, millis(started));
    let text =
        format!("backed up {} to {}: {bytes} bytes in {ms} ms", show(&config.data_dir), show(file));
    let json = json!({ "file": show(file), "bytes": bytes, "ms": ms });
    Ok(Report::done(text, json))
}

/// Writes the database anew in its place, without what erasures leave in unused parts of its pages. No
/// server may use it.
///
/// # Errors
/// [`Error`].
pub fn vacuum(config: &Config) -> Result<Report, Error> {
    refuse_on_server(config, "vacuum", "VACUUM FULL")?;
    let started = Instant::now();
    let file = database_path(&config.data_dir);
    let before = size(&file)?;
    store::vacuum(&config.data_dir)?;
    let (bytes, ms) = (size(&file)?, millis(started));
    let text = format!("{} written anew: {before} to {bytes} bytes in {ms} ms", show(&file));
    let json = json!({ "file": show(&file), "bytesBefore": before, "bytes": bytes, "ms": ms });
    Ok(Report::done(text, json))
}

/// Creates a data directory from a backup.
///
/// # Errors
/// [`Error`].
pub fn restore(config: &Config, file: &Path, end_sessions: bool) -> Result<Report, Error> {
    refuse_on_server(config, "restore", "pg_restore")?;
    let started = Instant::now();
    let ended = match end_sessions {
        true => Some(store::restore_without_sessions(file, &config.data_dir)?),
        false => store::restore(file, &config.data_dir).map(|()| None)?,
    };
    let (bytes, ms) = (size(file)?, millis(started));
    let mut text =
        format!("restored {} to {}: {bytes} bytes in {ms} ms", show(file), show(&config.data_dir));
    let mut json = json!({ "dataDir": show(&config.data_dir), "bytes": bytes, "ms": ms });
    if let Some(ended) = ended {
        text.push_str(&format!("; {ended} sessions ended"));
        json["sessionsEnded"] = ended.into();
    }
    Ok(Report::done(text, json))
}

/// Rebuilds the analytics tables from the committed rows. A server may run meanwhile: it continues
/// from the rebuilt tables.
///
/// # Errors
/// [`Error`].
pub fn rebuild_analytics(config: &Config) -> Result<Report, Error> {
    let started = Instant::now();
    let source = node::source(config)?;
    // Fails without data: opening would create an empty database.
    drop(source.read()?);
    store::make_dir(&config.data_dir)?;
    let path = analytics_path(&config.data_dir);
    let mut models = SqliteReadModels::open(&path, &source, &store::Options::default())?;
    let upto = models.rebuild()?;
    let ms = millis(started);
    let text = format!("analytics rebuilt up to journal row {} in {ms} ms", upto.0);
    Ok(Report::done(text, json!({ "upto": upto.0, "ms": ms })))
}

/// Prints the anchor of each partition's journal, one `<row> <link>` in a line.
///
/// # Errors
/// [`Error`].
pub fn anchor_journal(config: &Config) -> Result<Report, Error> {
    let anchors = store::verify::anchors(&node::source(config)?)?;
    let text = anchors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let anchors = anchors.iter().map(|it| json!({ "row": it.seq.0, "chain": it.chain }));
    Ok(Report::done(text, json!({ "anchors": anchors.collect::<Vec<_>>() })))
}

/// The anchors in a file of lines that [`anchor_journal`] printed.
fn read_anchors(file: &Path) -> Result<Vec<Anchor>, Error> {
    let failed = |source| Error::Io { path: file.to_owned(), source };
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let anchors = lines.map(|(at, line)| {
        let wrong = || Error::NoAnchor { path: file.to_owned(), line: at + 1 };
        line.parse().map_err(|_| wrong())
    });
    anchors.collect()
}

/// Recomputes derived data from the rows and lists the mismatches. The journal must still have the
/// rows of the anchors in a file, and those that other files of the data directory know of.
///
/// # Errors
/// [`Error`].
pub fn verify(config: &Config, anchor: Option<&Path>) -> Result<Report, Error> {
    let started = Instant::now();
    let anchors = anchor.map(read_anchors).transpose()?.unwrap_or_default();
    // A server's database is backed up and restored without what is beside it.
    let beside = match node::server(config)? {
        Some(_) => None,
        None => Some(beside::look(config)),
    };
    let mut found = store::verify::verify_anchored(&node::source(config)?, &anchors)?;
    if let Some(beside) = beside {
        beside.compare(config, &mut found)?;
    }
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
