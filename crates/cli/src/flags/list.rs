//! `faregate flags ls`: the flags of an environment, as a table.

use std::process::ExitCode;

use evaluation::Flag;
use serde_json::Value;

use super::shown::{default_value, state};
use crate::output::{self, plain};
use crate::remote::{RemoteArgs, block_on};

/// Flags per request.
const PAGE: usize = 1_000;

/// Options of `faregate flags ls`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// List the archived flags
    #[arg(long)]
    archived: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Prints the flags.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let flags = block_on(all(args))?;
    if args.remote.server.json {
        println!("{}", output::json(&Value::from(flags)));
        return Ok(ExitCode::SUCCESS);
    }
    let flags = flags.into_iter().map(serde_json::from_value);
    let flags: Vec<Flag> = flags.collect::<Result<_, _>>()?;
    print!("{}", table(&flags));
    Ok(ExitCode::SUCCESS)
}

async fn all(args: &Args) -> anyhow::Result<Vec<Value>> {
    let mut remote = args.remote.connect().await?;
    let mut flags = vec![];
    loop {
        let parameters = args.remote.parameters();
        let (offset, archived) = (flags.len(), args.archived);
        let path =
            format!("/v1/flags?{parameters}&archived={archived}&offset={offset}&limit={PAGE}");
        let mut page: Value = remote.get(&path).await?.json()?;
        let Some(Value::Array(found)) = page.get_mut("flags").map(Value::take) else {
            anyhow::bail!("the server's answer has no flags");
        };
        let is_last = found.is_empty() || page.get("more") != Some(&Value::Bool(true));
        flags.extend(found);
        if is_last {
            return Ok(flags);
        }
    }
}

fn table(flags: &[Flag]) -> String {
    let rows = flags.iter().map(|flag| {
        vec![
            plain(&flag.key),
            plain(&flag.variation_type),
            state(flag.is_enabled).to_owned(),
            default_value(flag),
            plain(flag.gate.as_deref().unwrap_or_default()),
            plain(&flag.tags.join(",")),
            plain(&flag.updated_at),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    output::table(&["KEY", "TYPE", "STATE", "DEFAULT", "GATE", "TAGS", "UPDATED"], &rows)
}

#[cfg(test)]
mod tests {
    use evaluation::{Fallthrough, RolloutVariation, Variation};
    use expect_test::expect;

    use super::*;

    #[test]
    fn table_shows_state_and_default_variations() {
        let variation = |id: &str, value: &str| Variation {
            id: id.to_owned(),
            value: value.to_owned(),
            name: None,
        };
        let part = |id: &str, from, to| RolloutVariation {
            id: id.to_owned(),
            rollout: [from, to],
            expt_rollout: 1.0,
        };
        let flag = |key: &str, is_enabled, parts: Vec<RolloutVariation>| Flag {
            key: key.to_owned(),
            variation_type: "string".to_owned(),
            variations: vec![variation("a", "red\u{1b}[31m"), variation("b", &"x".repeat(40))],
            is_enabled,
            disabled_variation_id: "b".to_owned(),
            fallthrough: Fallthrough { variations: parts, ..Fallthrough::default() },
            tags: vec!["shop".to_owned(), "ui".to_owned()],
            updated_at: "2026-01-01T00:00:00Z".to_owned(),
            ..Flag::default()
        };
        let flags = [
            flag("off", false, vec![]),
            flag("one", true, vec![part("a", 0.0, 1.0), part("b", 1.0, 1.0)]),
            flag("two", true, vec![part("a", 0.0, 0.7), part("b", 0.7, 1.0)]),
            Flag { gate: Some("pro".to_owned()), ..flag("lost", true, vec![part("c", 0.0, 1.0)]) },
        ];
        expect![[r#"
            KEY   TYPE    STATE  DEFAULT                                                  GATE  TAGS     UPDATED
            off   string  off    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...                            shop,ui  2026-01-01T00:00:00Z
            one   string  on     red�[31m                                                       shop,ui  2026-01-01T00:00:00Z
            two   string  on     70 % red�[31m, 30 % xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...        shop,ui  2026-01-01T00:00:00Z
            lost  string  on     ?                                                        pro   shop,ui  2026-01-01T00:00:00Z
        "#]]
        .assert_eq(&table(&flags));
    }
}
