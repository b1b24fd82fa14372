//! A closed loop: connections that send requests one at a time, and what came of them.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};

use crate::connection::Connection;
use crate::tally::{ErrorKinds, Latencies};
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
    pub errors: ErrorKinds,
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
            sum.errors.add(&counts.errors);
        }
        Ok(sum)
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
            Err(kind) => counts.errors.count(&kind, 1),
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
