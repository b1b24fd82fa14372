//! `faregate bench flags push`: switches a flag and measures when all streams are notified.

use std::cell::RefCell;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::Streams;
use super::socket::{Failure, Opener, Socket};
use crate::connection::Connection;
use crate::tally::Latencies;
use crate::{Credentials, count_up_to, parse_span};

/// The interval of a stream's pings.
const PING_EVERY: Duration = Duration::from_secs(18);

/// Options of `faregate bench flags push`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    streams: Streams,
    #[command(flatten)]
    credentials: Credentials,
    /// How many streams are held.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count_up_to(60_000))]
    held: u32,
    /// How many are opened per second.
    #[arg(long, value_name = "R", default_value = "1000", value_parser = count_up_to(50_000))]
    rate: u32,
    /// The environment that the secret is of.
    #[arg(long, value_name = "KEY", default_value = "dev")]
    environment: String,
    /// The flag to switch; all users must receive it.
    #[arg(long, value_name = "KEY")]
    flag: String,
    /// How often.
    #[arg(long, value_name = "N", default_value = "5", value_parser = count_up_to(1_000))]
    changes: u32,
    /// How long to wait for the last stream.
    #[arg(long = "patience", value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    notified_within: Duration,
}

#[derive(Serialize)]
struct Report {
    held: usize,
    errors: usize,
    changes: Vec<Change>,
}

/// One change: milliseconds since just before its request.
#[derive(Serialize)]
struct Change {
    answered_ms: f64,
    first_ms: f64,
    median_ms: f64,
    p99_ms: f64,
    last_ms: f64,
    /// Streams that were not notified in time.
    missed: usize,
}

/// Measures a server.
///
/// # Errors
/// If an option is invalid or the server cannot be used; the message says what to change.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let opener = args.streams.opener(args.held as usize + 1)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = LocalSet::new().block_on(&runtime, args.measure(opener))?;
    args.streams.connections.output.print(&report)?;
    let has_failed = report.errors > 0 || report.changes.iter().any(|it| it.missed > 0);
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Args {
    async fn measure(&self, opener: Opener) -> anyhow::Result<Report> {
        let (opener, failures) = (Rc::new(opener), Rc::new(RefCell::new(Vec::<Failure>::new())));
        let (notified, mut notifications) = mpsc::unbounded_channel();
        let (ready, mut readies) = mpsc::unbounded_channel();
        let started = Instant::now();
        for n in 0..self.held {
            let due = Duration::from_secs_f64(f64::from(n) / f64::from(self.rate));
            tokio::time::sleep_until(started + due).await;
            let (opener, failures) = (Rc::clone(&opener), Rc::clone(&failures));
            let (notified, ready) = (notified.clone(), ready.clone());
            let n = n as usize;
            let source = self.streams.connections.source(n);
            tokio::task::spawn_local(async move {
                let followed = async {
                    let mut socket = opener.open(n, source).await?;
                    opener.sync(&mut socket).await?;
                    drop(ready);
                    follow(&mut socket, &notified).await
                };
                if let Err(failure) = followed.await {
                    failures.borrow_mut().push(failure);
                }
            });
        }
        // Ends when each stream has been synced or has failed: nothing is ever sent.
        drop(ready);
        let nothing: Option<()> = readies.recv().await;
        debug_assert!(nothing.is_none(), "the channel carries no messages");
        let held = self.held as usize - failures.borrow().len();
        let mut changes = vec![];
        for change in 0..self.changes {
            changes.push(self.change(&opener, change % 2 == 1, (held, &mut notifications)).await?);
        }
        let errors = failures.borrow().len();
        Ok(Report { held, errors, changes })
    }

    async fn change(
        &self,
        opener: &Opener,
        is_enabled: bool,
        (held, notifications): (usize, &mut mpsc::UnboundedReceiver<Instant>),
    ) -> anyhow::Result<Change> {
        let path = format!("/v1/flags/{}?environment={}", self.flag, self.environment);
        let head = self.credentials.identity().head(&opener.target, "PATCH", &path)?;
        let body = serde_json::json!({ "isEnabled": is_enabled }).to_string();
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let mut connection = Connection::open(opener.target.address, opener.timeout).await?;
        let started = Instant::now();
        let deadline = (started + opener.timeout).into_std();
        let response = connection.exchange(request.as_bytes(), deadline).await?;
        let answered = started.elapsed();
        anyhow::ensure!(
            response.status == 200,
            "switching {}: {} {}",
            self.flag,
            response.status,
            String::from_utf8_lossy(&response.body(connection.received()))
        );
        let mut latencies = Latencies::default();
        let mut first = Duration::MAX;
        while latencies.count() < held as u64 {
            let notification =
                tokio::time::timeout_at(started + self.notified_within, notifications.recv()).await;
            let Ok(Some(at)) = notification else { break };
            let latency = at.saturating_duration_since(started);
            first = first.min(latency);
            latencies.record(latency);
        }
        let missed = held - usize::try_from(latencies.count()).unwrap_or(held).min(held);
        let first = if latencies.count() == 0 { Duration::ZERO } else { first };
        Ok(Change {
            answered_ms: answered.as_secs_f64() * 1000.0,
            first_ms: first.as_secs_f64() * 1000.0,
            median_ms: latencies.quantile_ms(0.5),
            p99_ms: latencies.quantile_ms(0.99),
            last_ms: latencies.max_ms(),
            missed,
        })
    }
}

/// Sends the time of each received patch to `notified`.
async fn follow(
    socket: &mut Socket,
    notified: &mpsc::UnboundedSender<Instant>,
) -> Result<(), Failure> {
    let mut ping = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    loop {
        tokio::select! {
            _ = ping.tick() => socket.ping().await?,
            message = socket.next() => {
                if message?.contains(r#""eventType":"patch""#) && notified.send(Instant::now()).is_err() {
                    return Ok(());
                }
            }
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} streams held, {} errors", self.held, self.errors)?;
        for it in &self.changes {
            let Change { answered_ms, first_ms, median_ms, p99_ms, last_ms, missed } = it;
            writeln!(
                f,
                "answered after {answered_ms:.1} ms; streams notified: first {first_ms:.1} ms, median \
                 {median_ms:.1} ms, p99 {p99_ms:.1} ms, last {last_ms:.1} ms; {missed} not notified"
            )?;
        }
        Ok(())
    }
}
