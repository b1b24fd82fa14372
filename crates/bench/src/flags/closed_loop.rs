//! A closed loop: connections that send requests one at a time, and what came of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::{JoinError, JoinSet};

use crate::connection::Connection;
use crate::tally::{Latencies, count_kind};
use command_line::Target;

/// The longest wait for a response.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A request, and text that a correct response contains.
pub struct Exchange {
    pub request: String,
    pub expected: String,
}

/// Latencies of requests that succeeded, and failures by kind.
#[derive(Default)]
pub struct Counts {
    pub latencies: Latencies,
    pub errors: BTreeMap<String, u64>,
}

impl Counts {
    /// The sum over all connections, once they have ended.
    ///
    /// # Errors
    /// If one of them panicked.
    pub async fn sum(mut connections: JoinSet<Self>) -> Result<Self, JoinError> {
        let mut sum = Self::default();
        while let Some(counts) = connections.join_next().await {
            let counts = counts?;
            sum.latencies.add(&counts.latencies);
            sum.add_errors(&counts.errors, "");
        }
        Ok(sum)
    }

    /// Adds failures, with a prefix for their kinds.
    pub fn add_errors(&mut self, errors: &BTreeMap<String, u64>, prefix: &str) {
        for (kind, count) in errors {
            count_kind(&mut self.errors, &format!("{prefix}{kind}"), *count);
        }
    }
}

/// Sends requests on one connection, one at a time, until `end`; those after `from` count.
pub async fn send(
    target: Target,
    exchanges: Rc<[Exchange]>,
    from: Instant,
    end: Instant,
) -> Counts {
    let mut counts = Counts::default();
    let mut connection = None;
    for exchange in exchanges.iter().cycle() {
        let sent = Instant::now();
        if sent >= end {
            break;
        }
        let answered = once(&mut connection, &target, exchange).await;
        if sent < from {
            continue;
        }
        match answered {
            Ok(()) => counts.latencies.record(sent.elapsed()),
            Err(kind) => count_kind(&mut counts.errors, &kind, 1),
        }
    }
    counts
}

/// Sends one request; the kind of the failure where the answer is another one.
pub async fn once(
    connection: &mut Option<Connection>,
    target: &Target,
    Exchange { request, expected }: &Exchange,
) -> Result<(), String> {
    let mut open = Connection::reuse(connection.take(), target.address, TIMEOUT)
        .await
        .map_err(|it| it.to_string())?;
    let exchanged = open.exchange(request.as_bytes(), Instant::now() + TIMEOUT).await;
    let response = exchanged.map_err(|failure| failure.to_string())?;
    let body = response.body(open.received());
    let is_right = std::str::from_utf8(&body).is_ok_and(|body| body.contains(expected));
    if !response.close {
        *connection = Some(open);
    }
    match (response.status, is_right) {
        (200, true) => Ok(()),
        (200, false) => Err("answered with something else".to_owned()),
        (status, _) => Err(status.to_string()),
    }
}

/// Prints a report as JSON or as text.
///
/// # Errors
/// If it cannot be encoded.
pub fn print<R: Serialize>(report: &R, text: &str, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        print!("{text}");
    }
    Ok(())
}

/// A failure where a request failed, or none succeeded.
pub fn exit_code(ok: u64, errors: u64) -> ExitCode {
    if ok == 0 || errors > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A line for each kind of failure.
pub fn error_lines(kinds: &BTreeMap<String, u64>) -> String {
    let mut text = String::new();
    for (kind, count) in kinds {
        writeln!(text, "error    {count:>8} x {kind}").expect("memory takes all");
    }
    text
}
