//! Events of a tenant: what push notifications tell of.

use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use super::{Action, Field, Operand, Request, Resource, shown};
use crate::output;
use crate::remote::{Remote, Scope};

const COLUMNS: &[(&str, &str)] = &[
    ("ID", "/id"),
    ("AT", "/at"),
    ("TYPE", "/type"),
    ("ACCOUNT", "/data/accountId"),
    ("OBJECT", "/objectId"),
];

const EVENT: Operand = Operand::id("event", "The event's id, such as evt_00000000000004d20000");

/// How long `tail` waits before it looks again.
const TAIL_EVERY: Duration = Duration::from_secs(1);

pub(super) static EVENTS: Resource = Resource {
    name: "events",
    alias: None,
    about: "List and follow the events of a tenant, and send them again",
    scope: Scope::Tenant,
    actions: &[
        Action {
            name: "ls",
            about: "List all events, the oldest first",
            operands: &[],
            options: &[],
            request: Request::Events { path: PATH, columns: COLUMNS, follows: false },
        },
        Action {
            name: "tail",
            about: "Print events as they are committed, from now on, until it is interrupted",
            operands: &[],
            options: &[],
            request: Request::Events { path: PATH, columns: COLUMNS, follows: true },
        },
        Action {
            name: "show",
            about: "Show an event",
            operands: &[EVENT],
            options: &[],
            request: Request::Show { path: "/v1/events/{event}" },
        },
        Action {
            name: "resend",
            about: "Send an event again, to all endpoints that want it or to one",
            operands: &[EVENT],
            options: &[Field::text(
                "endpoint",
                "endpoint",
                "The endpoint's id, or callback [default: all that want it]",
            )],
            request: Request::Send {
                method: Method::POST,
                path: "/v1/events/{event}/resend",
                constants: &[],
            },
        },
    ],
};

const PATH: &str = "/v1/events";

/// Prints the events that there are, or those to come.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(super) async fn print(
    remote: &mut Remote,
    (path, columns): (&str, &[(&str, &str)]),
    follows: bool,
    json: bool,
) -> anyhow::Result<()> {
    let mut next = "first".to_owned();
    let mut is_first = true;
    if follows {
        let from: Value = remote.get(path).await?.json()?;
        next = from["next"].as_str().unwrap_or_default().to_owned();
        is_first = false;
    }
    loop {
        let page: Value = remote.get(&format!("{path}?limit=1000&after={next}")).await?.json()?;
        let events = page["events"].as_array().map_or(&[][..], Vec::as_slice);
        if json {
            events.iter().for_each(|event| println!("{}", output::json(event)));
        } else if !events.is_empty() {
            let lines = shown(columns, events);
            // The headings are there once, and not at all where there is no end.
            let lines = lines.lines().skip(usize::from(!std::mem::take(&mut is_first)));
            lines.for_each(|line| println!("{line}"));
        }
        next = page["next"].as_str().unwrap_or_default().to_owned();
        match (page["more"] == true, follows) {
            (true, _) => {}
            (false, true) => tokio::time::sleep(TAIL_EVERY).await,
            (false, false) => return Ok(()),
        }
    }
}
