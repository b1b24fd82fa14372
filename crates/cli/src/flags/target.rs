//! `faregate flags target`: users who get a value whatever rules and rollouts say.

use std::process::ExitCode;

use anyhow::Context as _;
use evaluation::{Flag, TargetUsers};
use serde_json::{Value, json};

use super::current::Current;
use super::shown::value;
use crate::client::NOT_JSON;
use crate::output::{self, plain};
use crate::remote::{ReasonArgs, RemoteArgs, block_on};

/// Options of `faregate flags target`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The flag
    key: String,
    /// The users' keys
    #[arg(required = true, value_name = "USER")]
    users: Vec<String>,
    /// The value that they get from now on
    #[arg(long, allow_hyphen_values = true, required_unless_present = "remove")]
    value: Option<String>,
    /// They get what rules and rollouts say again
    #[arg(long, conflicts_with = "value")]
    remove: bool,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Targets the users, and prints whom the flag targets now.
///
/// # Errors
/// If the flag has no such value, or the server cannot be reached or refuses, also because another client
/// has changed the flag meanwhile.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let document: Value = block_on(target(args))?;
    if args.remote.server.json {
        println!("{}", output::json(&document));
        return Ok(ExitCode::SUCCESS);
    }
    let flag: Flag = serde_json::from_value(document).context(NOT_JSON)?;
    let (key, environment) = (plain(&args.key), plain(&args.remote.environment));
    let targets = flag.target_users.iter().map(|it| {
        format!("{} for {}", value(&flag, &it.variation_id), plain(&it.key_ids.join(", ")))
    });
    let off = if flag.is_enabled { "" } else { ", once it is on" };
    match targets.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => println!("{key} in {environment}: no user is targeted"),
        targets => println!("{key} in {environment}: {targets}{off}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the flag as it is now.
async fn target(args: &Args) -> anyhow::Result<Value> {
    let current = Current::read(&args.remote, &args.key, &args.reason).await?;
    let flag = current.flag()?;
    let targets = targets(&flag, args.value.as_deref(), &args.users)?;
    match targets == flag.target_users {
        true => Ok(current.document),
        false => current.patch(&json!({ "targetUsers": targets })).await,
    }
}

/// The flag's targets with these users at the variation of `wanted`, or at none.
fn targets(
    flag: &Flag,
    wanted: Option<&str>,
    users: &[String],
) -> anyhow::Result<Vec<TargetUsers>> {
    let id = wanted.map(|wanted| variation_with(flag, wanted)).transpose()?;
    let mut targets = flag.target_users.clone();
    for it in targets.iter_mut().filter(|it| Some(&it.variation_id) != id.as_ref()) {
        it.key_ids.retain(|user| !users.contains(user));
    }
    if let Some(variation_id) = id {
        if !targets.iter().any(|it| it.variation_id == variation_id) {
            targets.push(TargetUsers { key_ids: vec![], variation_id: variation_id.clone() });
        }
        let target = targets.iter_mut().find(|it| it.variation_id == variation_id);
        let held = &mut target.expect("it is there now").key_ids;
        held.extend(users.iter().filter(|user| !held.contains(user)).cloned().collect::<Vec<_>>());
    }
    targets.retain(|it| !it.key_ids.is_empty());
    Ok(targets)
}

/// The id of the variation with this value.
fn variation_with(flag: &Flag, wanted: &str) -> anyhow::Result<String> {
    let variation = flag.variations.iter().find(|it| it.value == wanted);
    let variation = variation.with_context(|| {
        let values: Vec<String> = flag.variations.iter().map(|it| plain(&it.value)).collect();
        let values = values.join(", ");
        format!("--value {wanted}: the flag has no such value; one of: {values}")
    })?;
    Ok(variation.id.clone())
}
