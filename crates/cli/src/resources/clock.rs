//! The test clock of a server that has one.

use anyhow::Context as _;
use bytes::Bytes;
use clap::{ArgMatches, FromArgMatches as _};
use hyper::Method;

use super::{Action, Operand, Request, Resource, print_answer};
use crate::remote::{Remote, Scope, ServerArgs, succeeded};

const PATH: &str = "/1.0/kb/test/clock";

const PERIOD: &str = "period";

pub(super) static CLOCK: Resource = Resource {
    name: "clock",
    alias: None,
    about: "Show and move the test clock of a server that has one: `faregate serve --test-clock`",
    scope: Scope::Tenant,
    actions: &[
        Action::show("Show the time", &[], PATH),
        Action {
            name: "set",
            about: "Set the time; everything that is due then is done before it answers",
            operands: &[Operand::id(
                "time",
                "A date, or a date and time, such as 2026-11-20T08:30:00Z",
            )],
            options: &[],
            request: Request::Send {
                method: Method::POST,
                path: "/1.0/kb/test/clock?requestedDate={time}",
                constants: &[],
            },
        },
        Action {
            name: "advance",
            about: "Advance the time; everything that is due then is done before it answers",
            operands: &[Operand::id(PERIOD, "Days, weeks, months or years: 30d, 2w, 1m, 1y")],
            options: &[],
            request: Request::Advance { path: PATH },
        },
        Action {
            name: "reset",
            about: "Set the time to the real one",
            operands: &[],
            options: &[],
            request: Request::Send { method: Method::POST, path: PATH, constants: &[] },
        },
    ],
};

/// Advances the clock by the period that the command line names.
///
/// # Errors
/// If the period cannot be read, or the server refuses.
pub(super) async fn advance(
    remote: &mut Remote,
    path: &str,
    matches: &ArgMatches,
) -> anyhow::Result<()> {
    let text = matches.get_one::<String>(PERIOD).map(String::as_str).unwrap_or_default();
    let parameter = parameter(text).with_context(|| {
        format!("{text}: a number with d, w, m or y was expected, such as 30d for 30 days")
    })?;
    let path = format!("{path}?{parameter}");
    let answer = succeeded(remote.send(Method::PUT, &path, None, Bytes::new()).await?)?;
    print_answer(&answer, ServerArgs::from_arg_matches(matches)?.json)
}

/// The parameter of the query that a period is: `30d` is `days=30`.
fn parameter(text: &str) -> Option<String> {
    let unit = text.chars().next_back()?;
    let number = text.strip_suffix(unit)?.parse::<u32>().ok()?;
    let name = match unit {
        'd' => "days",
        'w' => "weeks",
        'm' => "months",
        'y' => "years",
        _ => return None,
    };
    Some(format!("{name}={number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_a_number_and_a_unit() {
        assert_eq!(parameter("30d").as_deref(), Some("days=30"));
        assert_eq!(parameter("1y").as_deref(), Some("years=1"));
        for refused in ["", "d", "30", "30h", "-1d", "1.5d", "30 d", "30ä"] {
            assert_eq!(parameter(refused), None, "{refused}");
        }
    }
}
