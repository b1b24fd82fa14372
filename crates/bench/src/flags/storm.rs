//! `faregate bench flags storm`: opens new streams at a rate, as a popular page does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::Streams;
use super::socket::{Failure, Opener, Socket};
use crate::process::{Usage, usage_of};
use crate::report::{Quantiles, exit_code};
use crate::tally::Latencies;
use crate::{count_up_to, parse_span};

/// The interval of the pings of browser SDKs.
const PING_EVERY: Duration = Duration::from_secs(18);
/// The most streams of one process.
const STREAMS_MAX: f64 = 60_000.0;

/// Options of `faregate bench flags storm`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    streams: Streams,
    /// New streams per second.
    #[arg(long, value_name = "R", default_value = "1000", value_parser = count_up_to(50_000))]
    rate: u32,
    /// How long the rate takes to grow from nothing.
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = parse_span)]
    ramp: Duration,
    /// How long streams are opened at the full rate.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    duration: Duration,
    /// How long streams are held open afterwards, each with a ping every 18 s.
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = parse_span)]
    hold: Duration,
}

/// Counts and latencies of the streams so far.
#[derive(Default)]
struct Tally {
    connect: Latencies,
    sync: Latencies,
    held: usize,
    pongs: u64,
    errors: BTreeMap<Failure, u64>,
}

#[derive(Serialize)]
struct Report {
    rate: u32,
    launched: usize,
    synced: u64,
    held: usize,
    errors: u64,
    error_kinds: BTreeMap<Failure, u64>,
    connect_ms: Quantiles,
    sync_ms: Quantiles,
    pongs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Server>,
}

/// The server's CPU time and memory.
#[derive(Serialize)]
struct Server {
    cpu_us_per_stream: f64,
    rss_kib_per_stream: f64,
    /// Share of a core while the streams were held.
    held_cpu: f64,
}

/// Measures a server.
///
/// # Errors
/// If an option is invalid or the server cannot be used; the message says what to change.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let times = args.times()?;
    let opener = args.streams.opener(times.len())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = LocalSet::new().block_on(&runtime, args.measure(opener, &times))?;
    args.streams.connections.output.print(&report)?;
    Ok(exit_code(report.synced, report.errors, true))
}

impl Args {
    /// When each stream is opened.
    fn times(&self) -> anyhow::Result<Vec<Duration>> {
        let (rate, ramp) = (f64::from(self.rate), self.ramp.as_secs_f64());
        let ramped = rate * ramp / 2.0;
        let all = ramped + rate * self.duration.as_secs_f64();
        anyhow::ensure!(all >= 1.0, "--duration: no stream is opened in that time");
        anyhow::ensure!(all <= STREAMS_MAX, "--rate: at most {STREAMS_MAX} streams at a time");
        let at = |n: f64| {
            if n < ramped { (n * 2.0 * ramp / rate).sqrt() } else { ramp + (n - ramped) / rate }
        };
        let times = (0_u32..).map(f64::from).take_while(|n| *n < all);
        Ok(times.map(|n| Duration::from_secs_f64(at(n))).collect())
    }

    async fn measure(&self, opener: Opener, times: &[Duration]) -> anyhow::Result<Report> {
        let before = usage_of(self.streams.connections.pid)?;
        let (opener, tally) = (Rc::new(opener), Rc::new(RefCell::new(Tally::default())));
        let (end, ended) = watch::channel(());
        let started = Instant::now();
        let mut streams = Vec::with_capacity(times.len());
        for (n, time) in times.iter().enumerate() {
            tokio::time::sleep_until(started + *time).await;
            let source = self.streams.connections.source(n);
            let (opener, tally) = (Rc::clone(&opener), Rc::clone(&tally));
            let ended = ended.clone();
            streams.push(tokio::task::spawn_local(async move {
                if let Err(failure) = stream(&opener, (n, source), &tally, ended).await {
                    *tally.borrow_mut().errors.entry(failure).or_default() += 1;
                }
            }));
        }
        // Until each stream is synced or has failed.
        let is_settled = || {
            let tally = tally.borrow();
            tally.held as u64 + tally.errors.values().sum::<u64>() >= times.len() as u64
        };
        while !is_settled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let settled = (usage_of(self.streams.connections.pid)?, Instant::now());
        tokio::time::sleep(self.hold).await;
        let last = usage_of(self.streams.connections.pid)?;
        let held_for = settled.1.elapsed();
        let held = tally.borrow().held;
        drop(end);
        for stream in streams {
            stream.await?;
        }
        let server = match (before, settled.0, last) {
            (Some(before), Some(settled), Some(last)) => {
                Some(Server::new([before, settled, last], held, held_for))
            }
            _ => None,
        };
        let tally = tally.take();
        Ok(Report {
            rate: self.rate,
            launched: times.len(),
            synced: tally.sync.count(),
            held,
            errors: tally.errors.values().sum(),
            error_kinds: tally.errors,
            connect_ms: Quantiles::of(&tally.connect),
            sync_ms: Quantiles::of(&tally.sync),
            pongs: tally.pongs,
            server,
        })
    }
}

/// Opens and syncs a stream, then holds it until the end.
async fn stream(
    opener: &Opener,
    (n, source): (usize, std::net::Ipv4Addr),
    tally: &RefCell<Tally>,
    mut ended: watch::Receiver<()>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let mut socket = opener.open(n, source).await?;
    tally.borrow_mut().connect.record(started.elapsed());
    let sent = Instant::now();
    opener.sync(&mut socket).await?;
    {
        let mut tally = tally.borrow_mut();
        tally.sync.record(sent.elapsed());
        tally.held += 1;
    }
    tokio::select! {
        failure = hold(&mut socket, tally) => {
            tally.borrow_mut().held -= 1;
            Err(failure)
        }
        _ = ended.changed() => Ok(()),
    }
}

async fn hold(socket: &mut Socket, tally: &RefCell<Tally>) -> Failure {
    let mut ping = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    loop {
        let done = tokio::select! {
            _ = ping.tick() => socket.ping().await,
            message = socket.next() => message.map(|text| {
                let is_pong = text.contains(r#""pong""#);
                tally.borrow_mut().pongs += u64::from(is_pong);
            }),
        };
        if let Err(failure) = done {
            return failure;
        }
    }
}

impl Server {
    #[expect(clippy::cast_precision_loss, reason = "no run holds so many streams")]
    fn new([before, settled, last]: [Usage; 3], held: usize, held_for: Duration) -> Self {
        let streams = held.max(1) as f64;
        let cpu = |from: Usage, to: Usage| to.since(from).cpu.as_secs_f64();
        Self {
            cpu_us_per_stream: cpu(before, settled) * 1e6 / streams,
            rss_kib_per_stream: (last.rss_mib - before.rss_mib) * 1024.0 / streams,
            held_cpu: cpu(settled, last) / held_for.as_secs_f64().max(0.001),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { rate, launched, held, errors, .. } = self;
        writeln!(f, "{launched} streams, {rate} new per second; {held} held")?;
        for (name, quantiles) in [("connect", self.connect_ms), ("sync", self.sync_ms)] {
            let Quantiles { p50, p95, p99, max } = quantiles;
            writeln!(
                f,
                "{name}: p50 {p50:.2} ms, p95 {p95:.2} ms, p99 {p99:.2} ms, at most {max:.2} ms"
            )?;
        }
        if let Some(server) = &self.server {
            let Server { cpu_us_per_stream, rss_kib_per_stream, held_cpu } = server;
            writeln!(
                f,
                "server: {cpu_us_per_stream:.1} us of CPU and {rss_kib_per_stream:.1} KiB per \
                 stream; {:.1} % of a core while held",
                held_cpu * 100.0
            )?;
        }
        writeln!(f, "{errors} errors")?;
        self.error_kinds.iter().try_for_each(|(kind, count)| writeln!(f, "  {count} {kind}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn streams_are_opened_at_the_requested_rate() {
        let times = |options: &[&str]| {
            let line = Line::parse_from([&["x", "--secret", "s"], options].concat());
            line.args.times().map_err(|error| error.to_string())
        };
        let ms = |times: &[Duration]| times.iter().map(Duration::as_millis).collect::<Vec<_>>();
        let steady = times(&["--rate", "4", "--duration", "1s"]).unwrap();
        assert_eq!(ms(&steady), [0, 250, 500, 750]);
        let ramped = times(&["--rate", "4", "--ramp", "2s", "--duration", "500ms"]).unwrap();
        assert_eq!(ms(&ramped), [0, 1000, 1414, 1732, 2000, 2250]);
        let none = times(&["--rate", "1", "--duration", "0s"]).unwrap_err();
        assert_eq!(none, "--duration: no stream is opened in that time");
        let many = times(&["--rate", "50000", "--duration", "2s"]).unwrap_err();
        assert_eq!(many, "--rate: at most 60000 streams at a time");
    }
}
