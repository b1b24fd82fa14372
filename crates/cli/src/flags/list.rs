//! `faregate flags ls`: the flags of an environment, as a table.

use std::process::ExitCode;

use evaluation::{Flag, RolloutVariation};
use serde_json::Value;

use crate::output::{self, plain};
use crate::remote::{RemoteArgs, block_on};

/// Flags per request.
const PAGE: usize = 1_000;

/// How much of a value is shown, in characters.
const VALUE_CHARS_MAX: usize = 32;

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
            default_variations(flag),
            plain(&flag.tags.join(",")),
            plain(&flag.updated_at),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    output::table(&["KEY", "TYPE", "STATE", "DEFAULT", "TAGS", "UPDATED"], &rows)
}

/// A flag's state in the table.
pub const fn state(is_enabled: bool) -> &'static str {
    if is_enabled { "on" } else { "off" }
}

/// The variations of users that match no target and no rule.
fn default_variations(flag: &Flag) -> String {
    let value = |id: &str| {
        let found = flag.variations.iter().find(|it| it.id == id);
        found.map_or_else(|| "?".to_owned(), |it| cut(&plain(&it.value)))
    };
    if !flag.is_enabled {
        return value(&flag.disabled_variation_id);
    }
    let size = |part: &RolloutVariation| (part.rollout[1] - part.rollout[0]) * 100.0;
    let parts = flag.fallthrough.variations.iter().filter(|part| size(part) > 0.0);
    let parts: Vec<&RolloutVariation> = parts.collect();
    match parts.as_slice() {
        [all] => value(&all.id),
        several => {
            let shares = several.iter().map(|part| {
                // 1.0 - 0.7 is not exactly 0.3.
                let percent = (size(part) * 1_000.0).round() / 1_000.0;
                format!("{percent} % {}", value(&part.id))
            });
            shares.collect::<Vec<_>>().join(", ")
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use evaluation::{Fallthrough, Variation};
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
            flag("lost", true, vec![part("c", 0.0, 1.0)]),
        ];
        expect![[r#"
            KEY   TYPE    STATE  DEFAULT                                                  TAGS     UPDATED
            off   string  off    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...                      shop,ui  2026-01-01T00:00:00Z
            one   string  on     red�[31m                                                 shop,ui  2026-01-01T00:00:00Z
            two   string  on     70 % red�[31m, 30 % xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...  shop,ui  2026-01-01T00:00:00Z
            lost  string  on     ?                                                        shop,ui  2026-01-01T00:00:00Z
        "#]]
        .assert_eq(&table(&flags));
    }
}
