//! `faregate flags toggle`: switches a flag, unless it has changed since it was read.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::current::Current;
use super::shown::state;
use crate::output::{self, plain};
use crate::remote::{ReasonArgs, RemoteArgs, block_on};

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
    let current = Current::read(&args.remote, &args.key, &args.reason).await?;
    let before = is_enabled(&current.document)?;
    let wanted = match (args.on, args.off) {
        (true, _) => true,
        (_, true) => false,
        (false, false) => !before,
    };
    match wanted == before {
        true => Ok((before, current.document)),
        false => Ok((before, current.patch(&json!({ "isEnabled": wanted })).await?)),
    }
}

fn is_enabled(flag: &Value) -> anyhow::Result<bool> {
    let found = flag.get("isEnabled").and_then(Value::as_bool);
    found.context("the server's answer is no flag")
}
