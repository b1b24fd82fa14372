//! `faregate flags export` and `import`: a whole environment in FeatBit's format.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::Value;

use crate::client::Response;
use crate::output::{self, plain};
use crate::remote::{ReasonArgs, RemoteArgs, block_on, succeeded};

/// The largest file that is read, in bytes; the server has a limit of its own.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Options of `faregate flags export`.
#[derive(Debug, clap::Args)]
pub struct Export {
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Options of `faregate flags import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// The file, as `export` writes it; - for standard input
    file: PathBuf,
    /// Validate only
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Writes the environment to standard output, as JSON with or without --json.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn export(args: &Export) -> anyhow::Result<ExitCode> {
    let path = args.remote.path("export");
    let answer = block_on(async { args.remote.connect().await?.get(&path).await })?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &answer.json::<Value>()?)?;
    writeln!(out)?;
    Ok(ExitCode::SUCCESS)
}

/// Imports a file; prints the problems of its flags and segments.
///
/// # Errors
/// If the file cannot be read, or the server cannot be reached or refuses.
pub fn import(args: &Import) -> anyhow::Result<ExitCode> {
    let name = args.file.display();
    let body = read(args).with_context(|| format!("cannot read {name}"))?;
    let answer = block_on(send(args, body.into()))?;
    if answer.status == StatusCode::UNPROCESSABLE_ENTITY {
        print_problems(args, &answer.json()?);
        return Ok(ExitCode::from(crate::PROBLEMS));
    }
    let imported: Value = succeeded(answer)?.json()?;
    if args.remote.server.json {
        println!("{}", output::json(&imported));
        return Ok(ExitCode::SUCCESS);
    }
    let count = |what| imported.get(what).and_then(Value::as_u64).unwrap_or_default();
    let (flags, segments) = (count("featureFlags"), count("segments"));
    let (version, environment) = (count("version"), plain(&args.remote.environment));
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

async fn send(args: &Import, body: Bytes) -> anyhow::Result<Response> {
    let path = format!("{}&dryRun={}", args.remote.path("import"), args.dry_run);
    let mut remote = args.remote.connect().await?;
    remote.set_reason(&args.reason)?;
    remote.send(Method::POST, &path, None, body).await
}

fn print_problems(args: &Import, problem: &Value) {
    if args.remote.server.json {
        println!("{}", output::json(problem));
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
