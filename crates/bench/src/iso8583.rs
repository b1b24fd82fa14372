//! `faregate bench iso8583`: requests on one connection, a fixed number in flight, every response
//! checked.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use tokio::net::TcpStream;

use ::iso8583::connection::Connection;

use super::parse_span;
use super::process::{Usage, own_usage, spent, usage_of};
use super::report::{Output, exit_code};
use super::tally::Latencies;
use command_line::message_format::{Channel, Format};

mod echo;
mod load;
mod requests;

/// Requests in flight at most.
const IN_FLIGHT_MAX: u16 = 1024;
/// The echo's share of the measured time.
const ECHO_SHARE: f64 = 0.25;

/// The kind of error after which nothing more can be sent.
const CLOSED: &str = "connection closed";

/// Options of `faregate bench iso8583`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The server.
    #[arg(long, value_name = "HOST:PORT")]
    connect: String,
    #[command(flatten)]
    channel: Channel,
    #[command(flatten)]
    format: Format,
    /// Requests that wait for their answers at a time.
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=i64::from(IN_FLIGHT_MAX)))]
    in_flight: u16,
    /// How long to measure.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    duration: Duration,
    /// How long to run before measuring.
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = parse_span)]
    warm_up: Duration,
    /// The message type of the requests.
    #[arg(long, value_name = "MTI", default_value = "0200")]
    mti: String,
    /// How long to wait for an answer.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    timeout: Duration,
    /// The server's process id: report its CPU time.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Do not measure the bare echo.
    #[arg(long)]
    no_echo: bool,
    #[command(flatten)]
    output: Output,
    /// Exit code 1 where an answer was wrong or missing, not only where there was none at all.
    #[arg(long)]
    strict: bool,
}

/// Responses over a time, with their latencies.
#[derive(Default)]
struct Tally {
    answers: u64,
    latencies: Latencies,
    errors: BTreeMap<&'static str, u64>,
    seconds: f64,
    cpu: Duration,
    server_cpu: Option<Duration>,
}

#[derive(Serialize)]
struct Report {
    packager: String,
    channel: &'static str,
    in_flight: u16,
    seconds: f64,
    messages: u64,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    cpu_seconds: f64,
    cpu_us_per_message: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_us_per_message: Option<f64>,
    errors: u64,
    error_kinds: BTreeMap<&'static str, u64>,
    request_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    echo: Option<Echo>,
}

/// A bare echo of frames of the same size, as many in flight.
#[derive(Serialize)]
struct Echo {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// Requests per second, as a share of the echoes. None if the server was faster, because the
    /// machine's speed varied: the echo is no upper bound then.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
}

impl Echo {
    fn new(echo: &Tally, tally: &Tally) -> Self {
        Self {
            per_second: echo.per_second(),
            p50_us: echo.latencies.quantile_ms(0.5) * 1000.0,
            p99_us: echo.latencies.quantile_ms(0.99) * 1000.0,
            share: Some(tally.per_second() / echo.per_second()).filter(|share| *share <= 1.0),
        }
    }

    fn text(&self) -> String {
        let rate = self.per_second;
        match self.share {
            Some(share) => {
                let percent = share * 100.0;
                format!("bare echo: {rate:.0} per second; the server reaches {percent:.0} %")
            }
            None => format!(
                "bare echo: {rate:.0} per second; the server was faster, so the machine's speed \
                 varied: measure again, or longer"
            ),
        }
    }
}

/// Measures a server.
///
/// # Errors
/// If an option is invalid or the server cannot be used; the message says what to change.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let packager = args.format.packager()?;
    let requests = requests::Requests::new(&packager, &args.mti, args.in_flight)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let stream = TcpStream::connect(&args.connect);
        let stream = tokio::time::timeout(args.timeout, stream).await;
        let stream = stream.context("the server does not answer")?;
        let stream = stream.with_context(|| format!("cannot connect to {}", args.connect))?;
        let connection = Connection::new(stream, args.channel.codec(&packager))?;
        let mut load = load::Load::new(connection, requests, args.timeout);
        let frame = load.request_bytes()?;
        let warm_up = match load.run(args.warm_up, None).await.and_then(Tally::usable) {
            Ok(warm_up) => warm_up,
            Err(error) => return anyhow::Ok(Err(error.context(args.hint()))),
        };
        // Half of the echo before the load and half after it: the machine's speed varies.
        let mut echo = match args.no_echo {
            true => None,
            false => Some(echo::measure(args, frame).await?),
        };
        let mut tally = load.run(args.duration, args.pid).await?;
        warm_up.errors.iter().for_each(|(kind, count)| tally.count(kind, *count));
        if let Some(first) = &mut echo {
            first.add(&echo::measure(args, frame).await?);
        }
        Ok(Ok(Report::new(args, frame, &tally, echo.as_ref())))
    })?;
    let report = match report {
        Ok(report) => report,
        Err(failed) => {
            eprintln!("faregate: {failed:#}");
            return Ok(ExitCode::FAILURE);
        }
    };
    args.output.print(&report)?;
    Ok(exit_code(report.messages, report.errors, args.strict))
}

impl Args {
    /// A hint for a server that does not respond correctly.
    fn hint(&self) -> String {
        let (channel, packager) = (self.channel.name(), self.format.name());
        format!(
            "the warm-up failed: does the server speak --channel {channel} and --packager {packager}?"
        )
    }
}

impl Tally {
    /// The warm-up's tally, or an error if the server answered nothing or closed the connection.
    fn usable(self) -> anyhow::Result<Self> {
        let is_unanswered = self.answers == 0 && !self.errors.is_empty();
        if is_unanswered || self.errors.contains_key(CLOSED) {
            let kinds = self.errors.iter().map(|(kind, count)| format!("{count} {kind}"));
            anyhow::bail!("{} answers; {}", self.answers, kinds.collect::<Vec<_>>().join(", "));
        }
        Ok(self)
    }

    fn per_second(&self) -> f64 {
        count(self.answers) / self.seconds
    }

    fn count(&mut self, kind: &'static str, errors: u64) {
        *self.errors.entry(kind).or_default() += errors;
    }

    fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.seconds += other.seconds;
        self.latencies.add(&other.latencies);
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of messages are far below 2^52")]
fn count(number: u64) -> f64 {
    number as f64
}

impl Report {
    fn new(args: &Args, request_bytes: usize, tally: &Tally, echo: Option<&Tally>) -> Self {
        let us = |quantile: f64| tally.latencies.quantile_ms(quantile) * 1000.0;
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / count(tally.answers.max(1));
        Self {
            packager: args.format.name().to_owned(),
            channel: args.channel.name(),
            in_flight: args.in_flight,
            seconds: tally.seconds,
            messages: tally.answers,
            per_second: tally.per_second(),
            p50_us: us(0.5),
            p99_us: us(0.99),
            max_us: tally.latencies.max_ms() * 1000.0,
            cpu_seconds: tally.cpu.as_secs_f64(),
            cpu_us_per_message: each(tally.cpu),
            server_cpu_us_per_message: tally.server_cpu.map(each),
            errors: tally.errors.values().sum(),
            error_kinds: tally.errors.clone(),
            request_bytes,
            echo: echo.map(|echo| Echo::new(echo, tally)),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { per_second, p50_us, p99_us, max_us, cpu_us_per_message, errors, .. } = self;
        write!(
            f,
            "{} in flight, {} bytes each, {:.1} s\n\
             {per_second:.0} answers per second; p50 {p50_us:.0} us, p99 {p99_us:.0} us, at most \
             {max_us:.0} us\nCPU per message: {cpu_us_per_message:.2} us here",
            self.in_flight, self.request_bytes, self.seconds
        )?;
        if let Some(server) = self.server_cpu_us_per_message {
            write!(f, ", {server:.2} us in the server")?;
        }
        if let Some(echo) = &self.echo {
            write!(f, "\n{}", echo.text())?;
        }
        writeln!(f, "\n{errors} errors")?;
        self.error_kinds.iter().try_for_each(|(kind, count)| writeln!(f, "  {count} {kind}"))
    }
}

/// The start of a measurement.
struct Clock {
    started: Instant,
    own: Usage,
    pid: Option<u32>,
    server: Option<Usage>,
}

impl Clock {
    fn start(pid: Option<u32>) -> anyhow::Result<Self> {
        let server = usage_of(pid)?;
        Ok(Self { started: Instant::now(), own: own_usage()?, pid, server })
    }

    fn stop(&self, tally: &mut Tally) -> anyhow::Result<()> {
        tally.seconds = self.started.elapsed().as_secs_f64();
        tally.cpu = own_usage()?.since(self.own).cpu;
        tally.server_cpu = spent(self.server, usage_of(self.pid)?).map(|spent| spent.cpu);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_at_most_the_whole() {
        let check = |answers, echoes, share: Option<f64>, expected: &str| {
            let tally = |answers| Tally { answers, seconds: 1.0, ..Tally::default() };
            let echo = Echo::new(&tally(echoes), &tally(answers));
            assert_eq!((echo.share, echo.text().as_str()), (share, expected));
        };
        check(50, 200, Some(0.25), "bare echo: 200 per second; the server reaches 25 %");
        check(200, 200, Some(1.0), "bare echo: 200 per second; the server reaches 100 %");
        let faster = "bare echo: 200 per second; the server was faster, so the machine's speed \
                      varied: measure again, or longer";
        check(201, 200, None, faster);
    }

    #[test]
    fn warm_up_without_responses_is_refused() {
        let check = |answers, errors: &[(&'static str, u64)], expected: Option<&str>| {
            let errors = errors.iter().copied().collect();
            let tally = Tally { answers, errors, ..Tally::default() };
            let error = tally.usable().err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), expected);
        };
        // No warm-up at all.
        check(0, &[], None);
        check(9, &[], None);
        check(9, &[("not approved", 1)], None);
        check(0, &[("no answer in time", 4)], Some("0 answers; 4 no answer in time"));
        check(0, &[("unreadable", 2)], Some("0 answers; 2 unreadable"));
        check(9, &[("connection closed", 1)], Some("9 answers; 1 connection closed"));
    }
}
