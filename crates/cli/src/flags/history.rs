//! `faregate flags history` and `rollback`: the versions of a flag, and the way back to one of them.

use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use evaluation::{Flag, RolloutVariation};
use hyper::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::output::{self, plain, table};
use crate::remote::{ReasonArgs, Remote, RemoteArgs, block_on, encoded, succeeded};

/// Options of `faregate flags history`.
#[derive(Debug, clap::Args)]
pub struct History {
    /// The flag
    key: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Options of `faregate flags rollback`.
#[derive(Debug, clap::Args)]
pub struct Rollback {
    /// The flag
    key: String,
    /// The version to go back to, as `history` shows it [default: the last one that was different]
    #[arg(long, value_name = "VERSION")]
    to: Option<i64>,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// A page of versions, newest first.
#[derive(Deserialize)]
struct Page {
    versions: Vec<Version>,
    more: bool,
}

#[derive(Deserialize)]
struct Version {
    version: i64,
    at: String,
    user: String,
    reason: Option<String>,
    changed: Option<Vec<String>>,
    document: Value,
}

/// Prints the last versions.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn history(args: &History) -> anyhow::Result<ExitCode> {
    let answer = block_on(async {
        args.remote.connect().await?.get(&path(&args.key, &args.remote, 0)).await
    })?;
    if args.remote.server.json {
        println!("{}", output::json(&answer.json()?));
        return Ok(ExitCode::SUCCESS);
    }
    let page: Page = answer.json()?;
    let rows: Vec<Vec<String>> = page.versions.iter().map(row).collect();
    print!("{}", table(&["VERSION", "AT", "USER", "CHANGED", "SERVES", "REASON"], &rows));
    if page.more {
        eprintln!("there are older ones");
    }
    Ok(ExitCode::SUCCESS)
}

fn row(version: &Version) -> Vec<String> {
    let changed = version.changed.as_ref().map_or_else(|| "created".to_owned(), |it| it.join(","));
    let reason = version.reason.clone().unwrap_or_default();
    let texts = [version.version.to_string(), version.at.clone(), version.user.clone()];
    texts
        .into_iter()
        .chain([changed, served(&version.document), reason])
        .map(|it| plain(&it))
        .collect()
}

/// What a flag's document serves those whom no target and no rule names: `off: false`, or
/// `10 % true, 90 % false`.
pub(super) fn served(document: &Value) -> String {
    let Ok(flag) = serde_json::from_value::<Flag>(document.clone()) else { return String::new() };
    let value = |id: &str| {
        let found = flag.variations.iter().find(|it| it.id == id);
        found.map_or_else(|| id.to_owned(), |it| it.value.clone())
    };
    if !flag.is_enabled {
        return format!("off: {}", value(&flag.disabled_variation_id));
    }
    let part = |it: &RolloutVariation| {
        // Without the digits that a difference of two fractions adds.
        let percent = ((it.rollout[1] - it.rollout[0]) * 1e6).round() / 1e4;
        if percent >= 100.0 { value(&it.id) } else { format!("{percent} % {}", value(&it.id)) }
    };
    flag.fallthrough.variations.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Makes an older version the current one.
///
/// # Errors
/// If there is no such version, or the server cannot be reached or refuses, also because another client
/// has changed the flag meanwhile.
pub fn rollback(args: &Rollback) -> anyhow::Result<ExitCode> {
    let (to, flag) = block_on(roll_back(args))?;
    let now = served(&flag);
    if args.remote.server.json {
        println!("{}", output::json(&flag));
        return Ok(ExitCode::SUCCESS);
    }
    let (key, environment) = (plain(&args.key), plain(&args.remote.environment));
    println!("{key} in {environment}: {}, as in version {to}", plain(&now));
    Ok(ExitCode::SUCCESS)
}

/// Returns the version, and the flag as it is now.
async fn roll_back(args: &Rollback) -> anyhow::Result<(i64, Value)> {
    let mut remote = args.remote.connect().await?;
    remote.set_reason(&args.reason)?;
    let at = format!("/v1/flags/{}?{}", encoded(&args.key), args.remote.parameters());
    // Read first: a change after it is refused by its version.
    let current = remote.get(&at).await?;
    let version = current.etag.clone().context("the server's answer has no version")?;
    let wanted = find(&mut remote, args, &content(current.json()?)).await?;
    let body = Bytes::from(wanted.document.to_string());
    let answer = remote.send(Method::PUT, &at, Some(&version), body).await?;
    Ok((wanted.version, succeeded(answer)?.json()?))
}

/// A flag without what differs in each version.
fn content(mut document: Value) -> Value {
    for name in ["version", "updatedAt"] {
        document.as_object_mut().and_then(|it| it.remove(name));
    }
    document
}

async fn find(remote: &mut Remote, args: &Rollback, current: &Value) -> anyhow::Result<Version> {
    let mut offset = 0;
    loop {
        let page: Page = remote.get(&path(&args.key, &args.remote, offset)).await?.json()?;
        offset += page.versions.len();
        let more = page.more;
        let mut versions = page.versions.into_iter();
        let found = match args.to {
            Some(wanted) => versions.find(|it| it.version == wanted),
            None => versions.find(|it| content(it.document.clone()) != *current),
        };
        match (found, args.to) {
            (Some(found), _) => return Ok(found),
            (None, _) if more => {}
            (None, Some(wanted)) => anyhow::bail!("the flag had no version {wanted}"),
            (None, None) => anyhow::bail!("the flag was never different from what it is"),
        }
    }
}

fn path(key: &str, remote: &RemoteArgs, offset: usize) -> String {
    format!("/v1/flags/{}/history?{}&offset={offset}", encoded(key), remote.parameters())
}
