//! `faregate bench callback-receiver`: receives push notifications and measures their delay.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::fmt::{self, Display, Formatter};
use std::hash::{DefaultHasher, Hash, Hasher};
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
use super::report::{LatencyTable, Output, Quantiles};
use super::tally::Latencies;

/// The largest notification that is read.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Notifications checked for duplicates; those beyond are counted only.
const DISTINCT_MAX: usize = 20_000_000;
/// Event types counted separately; those beyond are not counted.
const TYPES_MAX: usize = 64;

/// Options of `faregate bench callback-receiver`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The address to listen on.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9099")]
    listen: SocketAddr,
    /// Stop after so many different notifications; without it, on SIGTERM or SIGINT.
    #[arg(long, value_name = "NOTIFICATIONS")]
    expect: Option<u64>,
    /// Stop after so long at the latest.
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = parse_span)]
    timeout: Duration,
    #[command(flatten)]
    output: Output,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notification {
    event_type: String,
    object_id: Option<Uuid>,
}

/// Counts of received notifications.
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
    /// From the request that created the object (its id has the time) to the notification about it:
    /// slightly more than the notification's own lag.
    lag_ms: Quantiles,
}

impl Received {
    /// Counts a notification received at `now`.
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
        if let Some(created) = notification.object_id.and_then(created_at) {
            self.lag.record(now.duration_since(created).unwrap_or_default());
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

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { received, duplicates, unreadable, by_type, lag_ms } = self;
        writeln!(f, "{received} received   {duplicates} duplicates   {unreadable} unreadable")?;
        for (event_type, count) in by_type {
            writeln!(f, "{count:>10} {event_type}")?;
        }
        let rows = [("", *lag_ms)];
        write!(f, "\n{}", LatencyTable { heading: "lag, ms", name_width: 14, rows: &rows })
    }
}

/// When the request arrived that created the object with this id.
fn created_at(id: Uuid) -> Option<SystemTime> {
    let (seconds, nanoseconds) = id.get_timestamp().filter(|_| is_v7(id))?.to_unix();
    Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
}

fn is_v7(id: Uuid) -> bool {
    id.get_version_num() == 7
}

/// Receives until it is complete, times out or is stopped by a signal, then prints the report.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let received = Arc::new(Mutex::new(Received::default()));
    runtime.block_on(receive(args, &received))?;
    let received = received.lock().expect("no panic while locked");
    let report = received.report();
    args.output.print(&report)?;
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
                // The peer closed the connection before it was accepted.
                let Ok((stream, _)) = accepted else { continue };
                let (received, complete) = (Arc::clone(received), Arc::clone(&complete));
                let expected = args.expect;
                let service = service_fn(move |request| {
                    answer(request, Arc::clone(&received), Arc::clone(&complete), expected)
                });
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                // The sender reports broken connections.
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
            let mut received = received.lock().expect("no panic while locked");
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
    fn duplicate_notifications_are_counted_once() {
        let mut received = Received::default();
        let created = 1_700_000_000_000_u64;
        let id = Uuid::from_u64_pair((created << 16) | 0x7abc, 0x8000_0000_0000_0001);
        let body =
            |event: &str| format!(r#"{{"eventType":"{event}","objectId":"{id}","metaData":null}}"#);
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(created + 250);
        received.take(body("ACCOUNT_CREATION").as_bytes(), now);
        received.take(body("ACCOUNT_CHANGE").as_bytes(), now);
        received.take(body("ACCOUNT_CHANGE").as_bytes(), now);
        received.take(br#"{"eventType":"TENANT_CONFIG_CHANGE","objectId":null}"#, now);
        received.take(b"nonsense", now);
        expect![[r#"{"received":3,"duplicates":1,"unreadable":1,"by_type":{"ACCOUNT_CHANGE":1,"ACCOUNT_CREATION":1,"TENANT_CONFIG_CHANGE":1},"lag_ms":{"p50":250.111,"p95":250.111,"p99":250.111,"max":250.111}}"#]].assert_eq(&serde_json::to_string(&received.report()).unwrap());
    }

    #[test]
    fn ids_of_other_versions_have_no_time() {
        assert_eq!(created_at(Uuid::from_u128(4 << 76)), None);
    }
}
