//! `faregate flags rollout`: the part of the users who get a variation.

use std::process::ExitCode;

use anyhow::Context as _;
use evaluation::{Flag, RolloutVariation};
use serde_json::{Value, json};

use super::current::Current;
use super::shown::{has_exceptions, value};
use crate::client::NOT_JSON;
use crate::output::{self, plain};
use crate::remote::{ReasonArgs, RemoteArgs, block_on};

/// Options of `faregate flags rollout`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The flag
    key: String,
    /// The part of the users, from 0% to 100%
    #[arg(value_parser = percent)]
    percent: f64,
    /// The value that they get; the others get the value of the flag that is off. Needed where the flag has
    /// more than two, of which the API gives each a part [default: the one of the two that users do not get
    /// while the flag is off]
    #[arg(long, allow_hyphen_values = true)]
    value: Option<String>,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    number
        .filter(|it| (0.0..=100.0).contains(it))
        .ok_or_else(|| "a part from 0% to 100% was expected, such as 10%".to_owned())
}

/// Switches the flag on for that part; the others get the value that everyone gets while it is off.
///
/// # Errors
/// If the server cannot be reached or refuses, also because another client has changed the flag
/// meanwhile.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (value, flag) = block_on(roll_out(args))?;
    if args.remote.server.json {
        println!("{}", output::json(&flag));
        return Ok(ExitCode::SUCCESS);
    }
    let (key, environment) = (plain(&args.key), plain(&args.remote.environment));
    let flag: Flag = serde_json::from_value(flag).context(NOT_JSON)?;
    let others = if has_exceptions(&flag) { " whom no target and no rule names" } else { "" };
    println!(
        "{key} in {environment}: {} for {} % of the users{others}",
        plain(&value),
        args.percent
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns the value that the part gets, and the flag as it is now.
async fn roll_out(args: &Args) -> anyhow::Result<(String, Value)> {
    let current = Current::read(&args.remote, &args.key, &args.reason).await?;
    let flag = current.flag()?;
    let (id, value) = variation(&flag, args.value.as_deref())?;
    let share = args.percent / 100.0;
    let part = |id: &str, from, to| RolloutVariation {
        id: id.to_owned(),
        rollout: [from, to],
        expt_rollout: 1.0,
    };
    let mut fallthrough = flag.fallthrough.clone();
    fallthrough.variations =
        vec![part(&id, 0.0, share), part(&flag.disabled_variation_id, share, 1.0)];
    fallthrough.variations.retain(|it| it.rollout[0] < it.rollout[1]);
    let fields = json!({ "isEnabled": true, "fallthrough": fallthrough });
    Ok((value, current.patch(&fields).await?))
}

/// The id and the value of the variation that is rolled out.
fn variation(flag: &Flag, wanted: Option<&str>) -> anyhow::Result<(String, String)> {
    let others = || flag.variations.iter().filter(|it| it.id != flag.disabled_variation_id);
    let found = match wanted {
        Some(value) => others().find(|it| it.value == value),
        None if others().count() == 1 => others().next(),
        None => None,
    };
    let found = found.with_context(|| {
        let values: Vec<String> = others().map(|it| plain(&it.value)).collect();
        let values = values.join(", ");
        match wanted {
            None => format!("which value? --value, one of: {values}"),
            Some(wanted) if value(flag, &flag.disabled_variation_id) == *wanted => {
                format!("--value {wanted}: the others get it, it is the value of the flag that is off; one of: {values}")
            }
            Some(wanted) => format!("--value {wanted}: the flag has no such value; one of: {values}"),
        }
    })?;
    Ok((found.id.clone(), found.value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_percentages() {
        for (text, expected) in [("10%", 10.0), ("0", 0.0), ("100 %", 100.0), ("2.5%", 2.5)] {
            assert_eq!(percent(text), Ok(expected), "{text}");
        }
        for text in ["", "%", "ten", "101", "-1", "NaN", "inf"] {
            let error = percent(text).expect_err(text);
            assert_eq!(error, "a part from 0% to 100% was expected, such as 10%");
        }
    }
}
