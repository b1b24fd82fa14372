//! Events of a tenant: what push notifications tell of.

use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use super::lists::{Window, no_row};
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

/// Events of a request at most.
const PAGE_MAX: usize = 1_000;

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
            about: "List the events, the newest first",
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
        Action::show("Show an event", &[EVENT], "/v1/events/{event}"),
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

/// Prints the newest events.
///
/// # Errors
/// If the server cannot be reached or refuses, or no event is the one that those wanted come before.
pub(super) async fn newest(
    remote: &mut Remote,
    of: (&str, &[(&str, &str)]),
    window: Window<'_>,
    json: bool,
) -> anyhow::Result<()> {
    let (mut next, mut printed) = ("last".to_owned(), 0);
    // The event that those wanted come before, until it was passed.
    let mut sought = window.before.map(|(_, id)| id);
    loop {
        let left = window.limit - printed;
        let wanted = if sought.is_some() { PAGE_MAX } else { left.min(PAGE_MAX) };
        let path = format!("{}?limit={wanted}&before={next}", of.0);
        let page: Value = remote.get(&path).await?.json()?;
        let mut events = page["events"].as_array().map_or(&[][..], Vec::as_slice);
        if let Some(id) = sought {
            let at = events.iter().position(|it| it["id"] == id);
            events = at.map_or(&[], |at| &events[at + 1..]);
            sought = sought.filter(|_| at.is_none());
        }
        // A page has all events of its last row of the journal.
        let has_more = events.len() > left || page["more"] == true;
        let events = &events[..events.len().min(left)];
        print_events(of.1, events, printed == 0, json);
        printed += events.len();
        page["next"].as_str().unwrap_or_default().clone_into(&mut next);
        match sought {
            Some(id) if !has_more => return Err(no_row(id)),
            None if !has_more => return Ok(()),
            None if printed == window.limit => {
                eprintln!("there are more: --limit N shows N of them, --limit 0 all");
                return Ok(());
            }
            Some(_) | None => {}
        }
    }
}

/// Prints the events to come.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(super) async fn tail(
    remote: &mut Remote,
    (path, columns): (&str, &[(&str, &str)]),
    json: bool,
) -> anyhow::Result<()> {
    let from: Value = remote.get(path).await?.json()?;
    let mut next = from["next"].as_str().unwrap_or_default().to_owned();
    loop {
        let page = format!("{path}?limit={PAGE_MAX}&after={next}");
        let page: Value = remote.get(&page).await?.json()?;
        let events = page["events"].as_array().map_or(&[][..], Vec::as_slice);
        // The headings would be repeated, and there is no end.
        print_events(columns, events, false, json);
        next = page["next"].as_str().unwrap_or_default().to_owned();
        if page["more"] != true {
            tokio::time::sleep(TAIL_EVERY).await;
        }
    }
}

fn print_events(columns: &[(&str, &str)], events: &[Value], with_headings: bool, json: bool) {
    if json {
        events.iter().for_each(|event| println!("{}", output::json(event)));
    } else if !events.is_empty() {
        let lines = shown(columns, events);
        let lines = lines.lines().skip(usize::from(!with_headings));
        lines.for_each(|line| println!("{line}"));
    }
}
