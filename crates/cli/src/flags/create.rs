//! `faregate flags create`: a new flag, which is off until it is rolled out.

use std::process::ExitCode;

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use crate::output::{self, plain};
use crate::remote::{ReasonArgs, RemoteArgs, block_on, succeeded};

/// Options of `faregate flags create`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name by which programs evaluate the flag
    key: String,
    /// The type of its values
    #[arg(long = "type", value_name = "TYPE", default_value = "boolean")]
    #[arg(value_parser = ["boolean", "string", "number", "json"])]
    kind: String,
    /// A value that users can get; repeat for more. The first is the one while the flag is off
    /// [default for boolean: false, true]
    #[arg(long = "value", value_name = "VALUE", allow_hyphen_values = true)]
    values: Vec<String>,
    /// The feature that users need to have bought: without it they get the value of the flag that is off
    #[arg(long, value_name = "FEATURE")]
    gate: Option<String>,
    /// The display name
    #[arg(long)]
    name: Option<String>,
    /// The purpose of the flag
    #[arg(long)]
    description: Option<String>,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Creates the flag.
///
/// # Errors
/// If values are missing, or the server cannot be reached or refuses.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let flag = document(args)?;
    let made: Value = block_on(async {
        let mut remote = args.remote.connect().await?;
        remote.set_reason(&args.reason)?;
        let path = format!("/v1/flags?{}", args.remote.parameters());
        let body = Bytes::from(flag.to_string());
        succeeded(remote.send(Method::POST, &path, None, body).await?)?.json()
    })?;
    if args.remote.server.json {
        println!("{}", output::json(&made));
        return Ok(ExitCode::SUCCESS);
    }
    let (key, environment) = (plain(&args.key), plain(&args.remote.environment));
    println!("{key} in {environment}: created, off");
    Ok(ExitCode::SUCCESS)
}

fn document(args: &Args) -> anyhow::Result<Value> {
    let values = match (args.kind.as_str(), args.values.as_slice()) {
        ("boolean", []) => vec!["false".to_owned(), "true".to_owned()],
        (kind, []) => anyhow::bail!("a flag of the type {kind} needs values: --value VALUE, twice"),
        (_, values) => values.to_vec(),
    };
    let id = |at: usize| match (args.kind.as_str(), values.get(at).map(String::as_str)) {
        ("boolean", Some("true")) => "on".to_owned(),
        ("boolean", Some("false")) => "off".to_owned(),
        _ => format!("v{at}"),
    };
    anyhow::ensure!(values.len() > 1, "a flag needs two values at least: --value VALUE, twice");
    let variations = values.iter().enumerate();
    let variations = variations.map(|(at, value)| json!({ "id": id(at), "value": value }));
    let variations: Vec<Value> = variations.collect();
    let mut flag = json!({
        "key": args.key,
        "variationType": args.kind,
        "variations": variations,
        "isEnabled": false,
        "disabledVariationId": id(0),
        "fallthrough": { "variations": [{ "id": id(values.len() - 1), "rollout": [0, 1] }] },
    });
    let texts = [("name", &args.name), ("description", &args.description), ("gate", &args.gate)];
    for (field, text) in texts {
        if let Some(text) = text {
            flag[field] = text.as_str().into();
        }
    }
    Ok(flag)
}
