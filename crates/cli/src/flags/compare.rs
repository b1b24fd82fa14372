//! `faregate flags diff` and `copy`: compares and copies environments.

use std::process::ExitCode;

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use crate::client::Response;
use crate::output::{self, plain};
use crate::remote::{ReasonArgs, RemoteArgs, block_on, encoded, succeeded};

/// How much of a value is shown, in characters.
const VALUE_CHARS_MAX: usize = 64;

/// How much of it is what both have, before the first difference.
const EQUAL_CHARS: usize = 24;

/// Options of `faregate flags diff`.
#[derive(Debug, clap::Args)]
pub struct Diff {
    /// The environment to compare with
    #[arg(long, value_name = "KEY")]
    from: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Options of `faregate flags copy`.
#[derive(Debug, clap::Args)]
pub struct Copy {
    /// The environment to copy from
    #[arg(long, value_name = "KEY")]
    from: String,
    /// Flags, with the segments that their rules use; without flags and segments, everything
    #[arg(value_name = "FLAG")]
    flags: Vec<String>,
    /// A segment; again for more
    #[arg(long = "segment", value_name = "ID")]
    segments: Vec<String>,
    /// Only if the environment still has this version
    #[arg(long = "upon", value_name = "VERSION")]
    if_version: Option<i64>,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Prints the differences; the exit code is [`crate::PROBLEMS`] if there are any.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn diff(args: &Diff) -> anyhow::Result<ExitCode> {
    let path = format!("{}&from={}", args.remote.path("diff"), encoded(&args.from));
    let answer = block_on(async { args.remote.connect().await?.get(&path).await })?;
    let found: Value = answer.json()?;
    let lines = lines(&found, &args.remote.environment, &args.from);
    if args.remote.server.json {
        println!("{}", output::json(&found));
    } else {
        lines.iter().for_each(|line| println!("{line}"));
    }
    Ok(if lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(crate::PROBLEMS) })
}

/// Copies and prints the changes.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn copy(args: &Copy) -> anyhow::Result<ExitCode> {
    let copied: Value = succeeded(block_on(send(args))?)?.json()?;
    if args.remote.server.json {
        println!("{}", output::json(&copied));
        return Ok(ExitCode::SUCCESS);
    }
    let mut changes = 0;
    for (kind, word) in KINDS {
        for change in ["made", "replaced"] {
            for key in list(&copied, &format!("/{kind}/{change}")) {
                changes += 1;
                println!("{change} {word} {}", plain(key.as_str().unwrap_or_default()));
            }
        }
    }
    let environment = plain(&args.remote.environment);
    match copied.get("version") {
        Some(version) if changes > 0 => println!("{environment} is in the version {version} now"),
        Some(_) | None => println!("{environment} has all of it already"),
    }
    Ok(ExitCode::SUCCESS)
}

const KINDS: [(&str, &str); 2] = [("flags", "flag"), ("segments", "segment")];

async fn send(args: &Copy) -> anyhow::Result<Response> {
    let mut body = json!({ "from": args.from });
    if !args.flags.is_empty() || !args.segments.is_empty() {
        body = json!({ "from": args.from, "flags": args.flags, "segments": args.segments });
    }
    let version = args.if_version.map(|version| format!("\"{version}\""));
    let (path, body) = (args.remote.path("copy"), Bytes::from(body.to_string()));
    let mut remote = args.remote.connect().await?;
    remote.set_reason(&args.reason)?;
    remote.send(Method::POST, &path, version.as_deref(), body).await
}

/// One line per difference; those of fields are indented below their flag or segment.
fn lines(found: &Value, here: &str, there: &str) -> Vec<String> {
    let (here, there) = (plain(here), plain(there));
    let mut lines = vec![];
    for (kind, word) in KINDS {
        let at = |what: &str| list(found, &format!("/{kind}/{what}"));
        let title = |it: &Value| match (text(it, "key"), text(it, "name")) {
            (key, name) if name.is_empty() => format!("{word} {key}"),
            (key, name) => format!("{word} {key} ({name})"),
        };
        let only = |it: &Value, environment| format!("{}: only in {environment}", title(it));
        lines.extend(at("onlyHere").iter().map(|it| only(it, &here)));
        lines.extend(at("onlyThere").iter().map(|it| only(it, &there)));
        for it in at("different") {
            lines.push(format!("{}: different", title(it)));
            lines.extend(list(it, "/fields").iter().map(|field| {
                let value = |side| plain(&field.get(side).unwrap_or(&Value::Null).to_string());
                let (ours, theirs) = around_difference(&value("here"), &value("there"));
                format!("  {}: {ours} in {here}, {theirs} in {there}", text(field, "field"))
            }));
        }
    }
    lines
}

fn list<'a>(it: &'a Value, at: &str) -> &'a [Value] {
    it.pointer(at).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(it: &Value, field: &str) -> String {
    plain(it.get(field).and_then(Value::as_str).unwrap_or_default())
}

/// Two values, each from a little before the first difference on, for [`VALUE_CHARS_MAX`].
fn around_difference(ours: &str, theirs: &str) -> (String, String) {
    let equal = ours.chars().zip(theirs.chars()).take_while(|(our, their)| our == their).count();
    let longest = ours.chars().count().max(theirs.chars().count());
    let from = if longest <= VALUE_CHARS_MAX { 0 } else { equal.saturating_sub(EQUAL_CHARS) };
    let shown = |text: &str| {
        let part: String = text.chars().skip(from).take(VALUE_CHARS_MAX).collect();
        let before = if from > 0 { "..." } else { "" };
        let after = if text.chars().count() > from + VALUE_CHARS_MAX { "..." } else { "" };
        format!("{before}{part}{after}")
    };
    (shown(ours), shown(theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let shown = |ours: &str, theirs: &str| around_difference(ours, theirs);
        assert_eq!(shown("[1]", "[2]"), ("[1]".to_owned(), "[2]".to_owned()));
        let long = |it: &str| format!("{}{it}{}", "x".repeat(100), "y".repeat(100));
        let expected = |it: &str| {
            format!(
                "...{}{it}{}...",
                "x".repeat(EQUAL_CHARS),
                "y".repeat(VALUE_CHARS_MAX - EQUAL_CHARS - 1)
            )
        };
        assert_eq!(shown(&long("1"), &long("2")), (expected("1"), expected("2")));
    }
}
