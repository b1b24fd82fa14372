//! `faregate flags history` and `rollback`: the versions of a flag, and the way back to one of them.

use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::shown::served;
use crate::client::NOT_JSON;
use crate::output::{self, plain, table};
use crate::remote::{ReasonArgs, Remote, RemoteArgs, block_on, encoded, succeeded};

/// Options of `faregate flags history`.
#[derive(Debug, clap::Args)]
pub struct History {
    /// The flag
    key: String,
    /// Show at most so many versions; 0: all of them
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
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
struct Page<T> {
    versions: Vec<T>,
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
    let (versions, more) = block_on(versions(args))?;
    if args.remote.server.json {
        let texts: Vec<&str> = versions.iter().map(|it| it.get()).collect();
        let versions = format!("{{\"versions\":[{}],\"more\":{more}}}", texts.join(","));
        println!("{}", output::raw(&versions));
        return Ok(ExitCode::SUCCESS);
    }
    let versions = versions.iter().map(|it| serde_json::from_str(it.get()));
    let versions = versions.collect::<Result<Vec<Version>, _>>().context(NOT_JSON)?;
    let rows: Vec<Vec<String>> = versions.iter().map(row).collect();
    print!("{}", table(&["VERSION", "AT", "USER", "CHANGED", "SERVES", "REASON"], &rows));
    if more {
        eprintln!("there are older ones: --limit N shows N of them");
    }
    Ok(ExitCode::SUCCESS)
}

/// The newest versions, and whether there are older ones.
async fn versions(args: &History) -> anyhow::Result<(Vec<Box<RawValue>>, bool)> {
    let mut remote = args.remote.connect().await?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let mut found = vec![];
    loop {
        let page = remote.get(&path(&args.key, &args.remote, found.len())).await?;
        let Page { versions, more } = page.json()?;
        found.extend(versions);
        if found.len() > limit || !more {
            let more = more || found.len() > limit;
            found.truncate(limit);
            return Ok((found, more));
        }
    }
}

fn row(version: &Version) -> Vec<String> {
    let changed = version.changed.as_ref().map_or_else(|| "created".to_owned(), |it| it.join(","));
    let reason = version.reason.clone().unwrap_or_default();
    let texts = [version.version.to_string(), version.at.clone(), version.user.clone()];
    texts
        .into_iter()
        .chain([changed, served_by(&version.document), reason])
        .map(|it| plain(&it))
        .collect()
}

/// The values that a version of a flag gave its users, as a text; empty where the document is no flag.
fn served_by(document: &Value) -> String {
    serde_json::from_value(document.clone()).map_or_else(|_| String::new(), |it| served(&it))
}

/// Makes an older version the current one.
///
/// # Errors
/// If there is no such version, or the server cannot be reached or refuses, also because another client
/// has changed the flag meanwhile.
pub fn rollback(args: &Rollback) -> anyhow::Result<ExitCode> {
    let (to, is_changed, flag) = block_on(roll_back(args))?;
    let now = served_by(&flag);
    if args.remote.server.json {
        println!("{}", output::json(&flag));
        return Ok(ExitCode::SUCCESS);
    }
    let (key, environment) = (plain(&args.key), plain(&args.remote.environment));
    let word = if is_changed { "as" } else { "already as" };
    println!("{key} in {environment}: {}, {word} in version {to}", plain(&now));
    Ok(ExitCode::SUCCESS)
}

/// Returns the version, whether the flag was different, and the flag as it is now.
async fn roll_back(args: &Rollback) -> anyhow::Result<(i64, bool, Value)> {
    let mut remote = args.remote.connect().await?;
    remote.set_reason(&args.reason)?;
    let at = format!("/v1/flags/{}?{}", encoded(&args.key), args.remote.parameters());
    // Read first: a change after it is refused by its version.
    let current = remote.get(&at).await?;
    let version = current.etag.clone().context("the server's answer has no version")?;
    let flag: Value = current.json()?;
    let now = content(flag.clone());
    let wanted = find(&mut remote, args, &now).await?;
    if content(wanted.document.clone()) == now {
        return Ok((wanted.version, false, flag));
    }
    let body = Bytes::from(wanted.document.to_string());
    let answer = remote.send(Method::PUT, &at, Some(&version), body).await?;
    Ok((wanted.version, true, succeeded(answer)?.json()?))
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
        let page: Page<Version> =
            remote.get(&path(&args.key, &args.remote, offset)).await?.json()?;
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
