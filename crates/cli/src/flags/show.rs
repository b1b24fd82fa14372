//! `faregate flags show`: one flag, a line for each thing that decides.

use std::process::ExitCode;

use anyhow::Context as _;
use evaluation::Flag;
use serde_json::Value;

use super::shown::{default_value, rule, state, value};
use crate::client::NOT_JSON;
use crate::output::{self, plain};
use crate::remote::{RemoteArgs, block_on, encoded};

/// Options of `faregate flags show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The flag
    key: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Prints the flag.
///
/// # Errors
/// If there is no such flag, or the server cannot be reached or refuses.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = format!("/v1/flags/{}?{}", encoded(&args.key), args.remote.parameters());
    let document: Value =
        block_on(async { args.remote.connect().await?.get(&path).await })?.json()?;
    if args.remote.server.json {
        println!("{}", output::json(&document));
        return Ok(ExitCode::SUCCESS);
    }
    let flag: Flag = serde_json::from_value(document).context(NOT_JSON)?;
    for (name, text) in lines(&flag) {
        println!("{name:11}  {}", plain(&text));
    }
    Ok(ExitCode::SUCCESS)
}

/// The headings and texts of a flag that are shown; empty texts are left out.
fn lines(flag: &Flag) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("key", flag.key.clone()),
        ("name", flag.name.clone()),
        ("description", flag.description.clone().unwrap_or_default()),
        ("tags", flag.tags.join(",")),
        ("type", flag.variation_type.clone()),
        ("state", state(flag.is_enabled).to_owned()),
        ("default", default_value(flag)),
        ("gate", flag.gate.clone().unwrap_or_default()),
    ];
    let variations = flag.variations.iter();
    lines.extend(variations.map(|it| ("variation", format!("{} = {}", it.id, it.value))));
    lines.extend(flag.target_users.iter().map(|it| {
        let value = value(flag, &it.variation_id);
        ("target", format!("{value} for {}", it.key_ids.join(", ")))
    }));
    lines.extend(flag.rules.iter().map(|it| ("rule", rule(flag, it))));
    lines.push(("updated", flag.updated_at.clone()));
    lines.retain(|(_, text)| !text.is_empty());
    lines
}
