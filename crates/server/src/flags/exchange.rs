//! `faregate flags export` and `import`: a whole environment in FeatBit's shape.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::list::plain;
use super::remote::{Answer, Place, wait};

/// The largest file that is read, in bytes; what the server takes is its own matter.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Options of `faregate flags export`.
#[derive(Debug, clap::Args)]
pub struct Export {
    #[command(flatten)]
    place: Place,
}

/// Options of `faregate flags import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// The file, as `export` writes it; - for standard input
    file: PathBuf,
    /// Only say what is wrong with it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Place,
}

/// Writes everything to standard output: it is JSON in any case.
///
/// # Errors
/// Where the server cannot be asked, or refuses.
pub fn export(args: &Export) -> anyhow::Result<ExitCode> {
    let answer = wait(async { args.place.connect().await?.get(&args.place.path("export")).await })?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &answer.json()?)?;
    writeln!(out)?;
    Ok(ExitCode::SUCCESS)
}

/// Has a file taken in.
///
/// # Errors
/// Where the file cannot be read, or the server cannot be asked or refuses. What is wrong with the
/// flags and segments of the file is told, and no error.
pub fn import(args: &Import) -> anyhow::Result<ExitCode> {
    let name = args.file.display();
    let body = read(args).with_context(|| format!("cannot read {name}"))?;
    let answer = wait(ask(args, body.into()))?;
    if answer.status == StatusCode::UNPROCESSABLE_ENTITY {
        tell(args, &answer.json()?);
        return Ok(ExitCode::from(crate::PROBLEMS));
    }
    let taken = answer.done()?.json()?;
    if args.place.json {
        println!("{taken}");
        return Ok(ExitCode::SUCCESS);
    }
    let count = |what| taken.get(what).and_then(Value::as_u64).unwrap_or_default();
    let (flags, segments) = (count("featureFlags"), count("segments"));
    let (version, environment) = (count("version"), plain(&args.place.environment));
    match args.dry_run {
        true => println!(
            "{name}: {flags} flags and {segments} segments can be taken into {environment}"
        ),
        false => println!(
            "{name}: {flags} flags and {segments} segments are in {environment} now, in the version {version}"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

fn read(args: &Import) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    if args.file.as_os_str() == "-" {
        std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    } else {
        let file = std::fs::File::open(&args.file)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    }
    match bytes.len() as u64 <= FILE_BYTES_MAX {
        true => Ok(bytes),
        false => Err(std::io::Error::other(format!("more than {FILE_BYTES_MAX} bytes"))),
    }
}

async fn ask(args: &Import, body: Bytes) -> anyhow::Result<Answer> {
    let path = format!("{}&dryRun={}", args.place.path("import"), args.dry_run);
    args.place.connect().await?.call(Method::POST, &path, None, body).await
}

/// Tells what is wrong.
fn tell(args: &Import, problem: &Value) {
    if args.place.json {
        println!("{problem}");
        return;
    }
    let problems = problem.get("problems").and_then(Value::as_array);
    let problems = problems.map_or(&[][..], Vec::as_slice);
    let text = |it: &Value, field| plain(it.get(field).and_then(Value::as_str).unwrap_or_default());
    println!("{}: nothing was taken in", args.file.display());
    for it in problems {
        println!("  {}: {}", text(it, "field"), text(it, "reason"));
    }
}
