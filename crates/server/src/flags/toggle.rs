//! `faregate flags toggle`: switches a flag, as it was when it was read.

use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use super::list::{plain, state};
use super::remote::{Place, encoded, wait};

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
    place: Place,
}

/// Switches.
///
/// # Errors
/// Where the server cannot be asked, or refuses: also where somebody else changed the flag meanwhile.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (before, flag) = wait(switch(args))?;
    if args.place.json {
        println!("{flag}");
        return Ok(ExitCode::SUCCESS);
    }
    let (key, environment) = (plain(&args.key), plain(&args.place.environment));
    match is_enabled(&flag)? {
        after if after == before => println!("{key} in {environment}: is {} already", state(after)),
        after => println!("{key} in {environment}: {} -> {}", state(before), state(after)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the flag was on, and the flag as it is now.
async fn switch(args: &Args) -> anyhow::Result<(bool, Value)> {
    let mut remote = args.place.connect().await?;
    let path = format!("/v1/flags/{}?{}", encoded(&args.key), args.place.parameters());
    let found = remote.get(&path).await?;
    let flag = found.json()?;
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
    let answer = remote.call(Method::PATCH, &path, Some(&version), body).await?;
    Ok((before, answer.done()?.json()?))
}

fn is_enabled(flag: &Value) -> anyhow::Result<bool> {
    let found = flag.get("isEnabled").and_then(Value::as_bool);
    found.context("the server's answer is no flag")
}
