//! `faregate bench callback-receiver`: takes push notifications and measures how late they come.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use uuid::Uuid;

use super::parse_span;
use super::report::Quantiles;
use super::tally::Latencies;

/// The largest notification taken.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Notifications told apart; those beyond are counted, but not looked at for duplicates.
const DISTINCT_MAX: usize = 20_000_000;
/// Event types told apart.
const TYPES_MAX: usize = 64;

/// Options of `faregate bench callback-receiver`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9099")]
    listen: SocketAddr,
    /// Stop after so many different notifications; without it, on SIGTERM or SIGINT.
    #[arg(long, value_name = "NOTIFICATIONS")]
    expect: Option<u64>,
    /// Stop after so long at the latest.
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = parse_span)]
    timeout: Duration,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notification {
    event_type: String,
    object_id: Option<Uuid>,
}

/// What was received.
#[derive(Default)]
struct Received {
    distinct: HashSet<u64>,
    duplicates: u64,
    unreadable: u64,
    by_type: BTreeMap<String, u64>,
    lag: Latencies,
}

#[derive(Serialize)]
struct Report {
    received: u64,
    duplicates: u64,
    unreadable: u64,
    by_type: BTreeMap<String, u64>,
    /// From the request that made the object (its id tells when) to the notification about it: a
    /// bit more than the notification's own lag.
    lag_ms: Quantiles,
}

impl Received {
    /// Takes a notification that came at `now`.
    fn take(&mut self, body: &[u8], now: SystemTime) {
        let Ok(notification) = serde_json::from_slice::<Notification>(body) else {
            self.unreadable += 1;
            return;
        };
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let full = self.distinct.len() >= DISTINCT_MAX;
        if !full && !self.distinct.insert(hasher.finish()) {
            self.duplicates += 1;
            return;
        }
        let known = self.by_type.contains_key(&notification.event_type);
        if known || self.by_type.len() < TYPES_MAX {
            *self.by_type.entry(notification.event_type).or_default() += 1;
        }
        if let Some(made) = notification.object_id.and_then(made_at) {
            self.lag.record(now.duration_since(made).unwrap_or_default());
        }
    }

    fn received(&self) -> u64 {
        self.by_type.values().sum()
    }

    fn report(&self) -> Report {
        Report {
            received: self.received(),
            duplicates: self.duplicates,
            unreadable: self.unreadable,
            by_type: self.by_type.clone(),
            lag_ms: Quantiles::of(&self.lag),
        }
    }
}

/// When the request came that made the object with this id.
fn made_at(id: Uuid) -> Option<SystemTime> {
    let (seconds, nanoseconds) = id.get_timestamp().filter(|_| is_v7(id))?.to_unix();
    Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
}

fn is_v7(id: Uuid) -> bool {
    id.get_version_num() == 7
}

/// Receives until told to stop, then prints the report.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let received = Arc::new(Mutex::new(Received::default()));
    runtime.block_on(receive(args, &received))?;
    let received = received.lock().expect("no panic while it is held");
    let report = received.report();
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        let Report { received, duplicates, unreadable, by_type, lag_ms } = &report;
        writeln!(out, "{received} received   {duplicates} duplicates   {unreadable} unreadable")?;
        for (event_type, count) in by_type {
            writeln!(out, "{count:>10} {event_type}")?;
        }
        writeln!(out, "\nlag, ms             p50        p95        p99        max")?;
        writeln!(out, "              {lag_ms}")?;
    }
    let complete = args.expect.is_none_or(|expected| report.received >= expected);
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn receive(args: &Args, received: &Arc<Mutex<Received>>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("--listen {}", args.listen))?;
    eprintln!("receiving on http://{}/", listener.local_addr()?);
    let (complete, mut completed) = watch::channel(false);
    let complete = Arc::new(complete);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let timeout = tokio::time::sleep(args.timeout);
    tokio::pin!(timeout);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // One that hung up before it was accepted is none.
                let Ok((stream, _)) = accepted else { continue };
                let (received, complete) = (Arc::clone(received), Arc::clone(&complete));
                let expected = args.expect;
                let service = service_fn(move |request| {
                    answer(request, Arc::clone(&received), Arc::clone(&complete), expected)
                });
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                // A connection that breaks is the sender's to report.
                tokio::spawn(async move { serving.await.ok() });
            }
            _ = completed.wait_for(|complete| *complete) => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            () = &mut timeout => return Ok(()),
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    received: Arc<Mutex<Received>>,
    complete: Arc<watch::Sender<bool>>,
    expected: Option<u64>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut response = Response::new(Empty::new());
    match Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await {
        Ok(body) => {
            let mut received = received.lock().expect("no panic while it is held");
            received.take(&body.to_bytes(), SystemTime::now());
            if expected.is_some_and(|expected| received.received() >= expected) {
                complete.send_replace(true);
            }
        }
        Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn notifications_are_counted_once() {
        let mut received = Received::default();
        let made = 1_700_000_000_000_u64;
        let id = Uuid::from_u64_pair((made << 16) | 0x7abc, 0x8000_0000_0000_0001);
        let body =
            |event: &str| format!(r#"{{"eventType":"{event}","objectId":"{id}","metaData":null}}"#);
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(made + 250);
        received.take(body("ACCOUNT_CREATION").as_bytes(), now);
        received.take(body("ACCOUNT_CHANGE").as_bytes(), now);
        received.take(body("ACCOUNT_CHANGE").as_bytes(), now);
        received.take(br#"{"eventType":"TENANT_CONFIG_CHANGE","objectId":null}"#, now);
        received.take(b"nonsense", now);
        expect![[r#"{"received":3,"duplicates":1,"unreadable":1,"by_type":{"ACCOUNT_CHANGE":1,"ACCOUNT_CREATION":1,"TENANT_CONFIG_CHANGE":1},"lag_ms":{"p50":250.111,"p95":250.111,"p99":250.111,"max":250.111}}"#]].assert_eq(&serde_json::to_string(&received.report()).unwrap());
    }

    #[test]
    fn ids_of_other_versions_tell_no_time() {
        assert_eq!(made_at(Uuid::from_u128(4 << 76)), None);
    }
}
