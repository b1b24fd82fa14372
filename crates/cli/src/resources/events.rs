//! Events of a tenant: what push notifications tell of.

use std::time::Duration;

use serde_json::Value;

use super::{Action, Request, Resource, shown};
use crate::output;
use crate::remote::{Remote, Scope};

const COLUMNS: &[(&str, &str)] = &[
    ("AT", "/at"),
    ("EVENT", "/eventType"),
    ("OBJECT", "/objectType"),
    ("ID", "/objectId"),
    ("ACCOUNT", "/accountId"),
];

/// How long `tail` waits before it looks again.
const TAIL_EVERY: Duration = Duration::from_secs(1);

pub(super) static EVENTS: Resource = Resource {
    name: "events",
    alias: None,
    about: "Follow the events of a tenant",
    scope: Scope::Tenant,
    actions: &[Action {
        name: "tail",
        about: "Print events as they are committed, from now on, until it is interrupted",
        operands: &[],
        options: &[],
        request: Request::Tail { path: "/v1/events", columns: COLUMNS },
    }],
};

/// Prints events as they come.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(super) async fn tail(
    remote: &mut Remote,
    path: &str,
    columns: &[(&str, &str)],
    json: bool,
) -> anyhow::Result<()> {
    let mut from: Value = remote.get(path).await?.json()?;
    loop {
        let next = from.get("next").and_then(Value::as_str).unwrap_or_default().to_owned();
        from = remote.get(&format!("{path}?after={next}")).await?.json()?;
        let events = from.get("events").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if json {
            events.iter().for_each(|event| println!("{}", output::json(event)));
        } else if !events.is_empty() {
            // Without the headings.
            let lines = shown(columns, events);
            lines.lines().skip(1).for_each(|line| println!("{line}"));
        }
        if from.get("more") != Some(&Value::Bool(true)) {
            tokio::time::sleep(TAIL_EVERY).await;
        }
    }
}
