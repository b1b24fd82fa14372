//! `faregate import killbill`: brings a tenant of a Kill Bill over, from its API or from its exports.
//!
//! It executes commands that no API has, on a data directory that no server uses or, with a queue, through it.
//! Objects that were brought over before stay as they are, so that an import that was cut short can be run again.

mod outcome;
mod report;
mod source;
mod target;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use config::{Arguments, Config, Place, Role};
use import::Found;
use server::node::Node;
use server::{logging, serve};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::outcome::Outcome;
use self::report::Report;
use self::source::{Api, File};
use self::target::Target;
use crate::remote::read_secret;

/// Accounts that are read and not yet written.
const FOUND_MAX: usize = 64;
/// Accounts that are written at a time.
const WRITTEN_AT_ONCE_MAX: usize = 32;
/// How long the core may take to stop.
const STOP_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// The sources of an import.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Import {
    /// A tenant of a Kill Bill 0.22 to 0.24, from its API or from its exports
    Killbill(Args),
}

/// Options of `faregate import killbill`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Kill Bill's API: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with = "dump", required_unless_present = "dump")]
    url: Option<String>,
    /// Kill Bill's user; the environment variable FAREGATE_SOURCE_PASSWORD has the password
    #[arg(long, value_name = "NAME", default_value = "admin")]
    user: String,
    /// A file that has the user's password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// A directory with Kill Bill's exports: one file per tenant, KEY.export
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// The tenant's API key with its secret, which it has here too: KEY:SECRET. Without `:SECRET` the environment
    /// variable `FAREGATE_SOURCE_API_SECRET` has it
    #[arg(long, value_name = "KEY:SECRET")]
    tenant: Option<String>,
    /// Users to bring with their roles: a line NAME:PASSWORD for each, with a password for here
    #[arg(long, value_name = "FILE", conflicts_with = "dump")]
    users: Option<PathBuf>,
    /// Connections to the API
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Read everything, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

/// A tenant's credentials.
#[derive(Clone)]
struct Credentials {
    key: String,
    secret: String,
}

/// Runs the command and prints its report.
///
/// # Errors
/// If the source or the data directory cannot be used. What was written stays, and the same command goes on.
pub fn run(Import::Killbill(args): Import) -> anyhow::Result<ExitCode> {
    let arguments = Arguments { place: args.place.clone(), ..Arguments::default() };
    let mut config = Config::load(&arguments)?;
    logging::start(&config)?;
    // With a queue, processors write: this process only asks them.
    config.role = Role::Front;
    let reports = serve::runtime(&config)?.block_on(import(&args, &config))?;
    let is_equal = reports.iter().all(Report::is_equal);
    for report in &reports {
        match args.json {
            true => println!("{}", report.json()),
            false => print!("{}", report.text()),
        }
    }
    Ok(if is_equal { ExitCode::SUCCESS } else { ExitCode::from(crate::PROBLEMS) })
}

async fn import(args: &Args, config: &Config) -> anyhow::Result<Vec<Report>> {
    // What cannot be read is said before anything is opened.
    let files = args.dump.as_deref().map(|dir| File::all(dir, args.tenant.as_deref()));
    let files = files.transpose()?.unwrap_or_default();
    let api = match &args.url {
        Some(url) => Some(Api::connect(args, url, credentials(args.tenant.as_deref())?).await?),
        None => None,
    };
    let node = match args.dry_run {
        true => None,
        false => Some(serve::open_node(config).await.context("the store cannot be opened")?),
    };
    let imported = import_into(node.as_ref(), args, (api, files)).await;
    if let Some(node) = node {
        node.stop(STOP_WITHIN).await;
    }
    imported
}

async fn import_into(
    node: Option<&Node>,
    args: &Args,
    (api, files): (Option<Api>, Vec<File>),
) -> anyhow::Result<Vec<Report>> {
    let mut reports = vec![];
    if let Some(api) = api {
        let target = match node {
            Some(node) => Some(Target::open(node, &api.tenant).await?),
            None => None,
        };
        let mut report = Report::new(&api.tenant.key, target.is_none());
        if let Some(file) = &args.users {
            let users = source::users(&api, file).await?;
            report.users = users.len();
            if let Some(target) = &target {
                target.bring_users(users, &mut report).await?;
            }
        }
        let definitions = api.definitions().await?;
        write(target, definitions, &mut report, |sender| api.read(sender)).await?;
        reports.push(report);
    }
    for file in files {
        let tenant = credentials(Some(args.tenant.as_deref().unwrap_or(&file.key)))
            .with_context(|| format!("tenant {}", file.key));
        let target = match node {
            Some(node) => Some(Target::open(node, &tenant?).await?),
            None => None,
        };
        let mut report = Report::new(&file.key, target.is_none());
        report.take_orphans(file.dump.orphans()?);
        let definitions = file.dump.definitions()?;
        write(target, definitions, &mut report, |sender| file.hand_out(sender)).await?;
        reports.push(report);
    }
    Ok(reports)
}

/// Writes what a source finds, while it finds more.
async fn write<R: Future<Output = anyhow::Result<()>>>(
    target: Option<Target>,
    definitions: Vec<domain::import::ImportTagDefinition>,
    report: &mut Report,
    read: impl FnOnce(mpsc::Sender<Result<Found, import::Error>>) -> R,
) -> anyhow::Result<()> {
    if let Some(target) = &target {
        target.bring_definitions(definitions, report).await?;
    }
    let target = target.map(Arc::new);
    let (sender, found) = mpsc::channel::<Result<Found, import::Error>>(FOUND_MAX);
    let writing = async {
        // It ends with the writing: the source would wait for room for ever.
        let mut found = found;
        let mut running: JoinSet<anyhow::Result<Outcome>> = JoinSet::new();
        while let Some(found) = found.recv().await {
            match (found, &target) {
                (Err(error), _) => report.leave_out(error.to_string()),
                (Ok(found), None) => report.take(Outcome::unwritten(&found)),
                (Ok(found), Some(target)) => {
                    let target = Arc::clone(target);
                    running.spawn(async move { target.bring(found).await });
                }
            }
            while running.len() >= WRITTEN_AT_ONCE_MAX {
                report.take(running.join_next().await.expect("some run")??);
            }
        }
        while let Some(outcome) = running.join_next().await {
            report.take(outcome??);
        }
        anyhow::Ok(())
    };
    let (read, written) = tokio::join!(read(sender), writing);
    // A source that was cut off because nothing is written any more is not what went wrong.
    written.and(read)
}

/// A tenant's credentials, of `KEY:SECRET` or of a key and the environment.
fn credentials(tenant: Option<&str>) -> anyhow::Result<Credentials> {
    let tenant = tenant.context("which tenant? --tenant KEY:SECRET")?;
    if let Some((key, secret)) = tenant.split_once(':') {
        return Ok(Credentials { key: key.to_owned(), secret: secret.to_owned() });
    }
    let secret = std::env::var("FAREGATE_SOURCE_API_SECRET").ok().context(
        "its secret is missing: --tenant KEY:SECRET, or the variable FAREGATE_SOURCE_API_SECRET",
    )?;
    Ok(Credentials { key: tenant.to_owned(), secret })
}

/// The password of Kill Bill's user.
fn password(args: &Args) -> anyhow::Result<String> {
    match &args.password_file {
        Some(file) => read_secret(file),
        None => std::env::var("FAREGATE_SOURCE_PASSWORD").ok().context(
            "the user's password is missing: --password-file, or the variable FAREGATE_SOURCE_PASSWORD",
        ),
    }
}
