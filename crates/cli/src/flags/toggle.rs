//! `faregate flags toggle`: switches a flag, unless it has changed since it was read.

use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use super::shown::state;
use crate::output::{self, plain};
use crate::remote::{ReasonArgs, RemoteArgs, block_on, encoded, succeeded};

/// Options of `faregate flags toggle`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The flag
    key: String,
    /// Switch it on, if it is not
    #[arg(long, conflicts_with = "off")]
    on: bool,
    /// Switch it off, if it is not
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Switches the flag and prints its state before and after.
///
/// # Errors
/// If the server cannot be reached or refuses, also because another client has changed the flag
/// meanwhile.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (before, flag) = block_on(switch(args))?;
    if args.remote.server.json {
        println!("{}", output::json(&flag));
        return Ok(ExitCode::SUCCESS);
    }
    let (key, environment) = (plain(&args.key), plain(&args.remote.environment));
    match is_enabled(&flag)? {
        after if after == before => println!("{key} in {environment}: is {} already", state(after)),
        after => println!("{key} in {environment}: {} -> {}", state(before), state(after)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns whether the flag was on, and the flag as it is now.
async fn switch(args: &Args) -> anyhow::Result<(bool, Value)> {
    let mut remote = args.remote.connect().await?;
    remote.set_reason(&args.reason)?;
    let path = format!("/v1/flags/{}?{}", encoded(&args.key), args.remote.parameters());
    let found = remote.get(&path).await?;
    let flag: Value = found.json()?;
    let before = is_enabled(&flag)?;
    let wanted = match (args.on, args.off) {
        (true, _) => true,
        (_, true) => false,
        (false, false) => !before,
    };
    if wanted == before {
        return Ok((before, flag));
    }
    let version = found.etag.context("the server's answer has no version")?;
    let body = Bytes::from(json!({ "isEnabled": wanted }).to_string());
    let answer = remote.send(Method::PATCH, &path, Some(&version), body).await?;
    Ok((before, succeeded(answer)?.json()?))
}

fn is_enabled(flag: &Value) -> anyhow::Result<bool> {
    let found = flag.get("isEnabled").and_then(Value::as_bool);
    found.context("the server's answer is no flag")
}
