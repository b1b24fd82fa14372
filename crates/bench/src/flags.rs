//! `faregate bench flags`: streams of feature flags opened, held and notified of changes, and
//! evaluations.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

use super::report::Output;
use super::{parse_span, raise_open_files};
use command_line::Target;

mod closed_loop;
mod eval;
mod ofrep;
mod paid;
mod push;
mod socket;
mod storm;
mod write;

/// The benchmarks of `faregate bench flags`.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// New streams at a rate, each with a full sync, then held open.
    Storm(storm::Args),
    /// The time until all streams have received a change.
    Push(push::Args),
    /// The time from a purchase to the feature on the account's connection.
    Paid(paid::Args),
    /// Changes of flags of one environment, by many clients.
    Write(write::Args),
    /// Evaluations by OpenFeature's remote protocol.
    Ofrep(ofrep::Args),
    /// Evaluations in this process, without a server.
    Eval(eval::Args),
}

/// Runs a benchmark.
///
/// # Errors
/// If an option is invalid or the server cannot be used; the message says what to change.
pub fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    match bench {
        Bench::Storm(args) => storm::run(args),
        Bench::Push(args) => push::run(args),
        Bench::Paid(args) => paid::run(args),
        Bench::Write(args) => write::run(args),
        Bench::Ofrep(args) => ofrep::run(args),
        Bench::Eval(args) => eval::run(args),
    }
}

/// The server, the environment and the kind of the streams.
#[derive(Clone, Debug, clap::Args)]
struct Streams {
    /// The server: ws://HOST:PORT.
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:8080")]
    url: String,
    /// The environment's secret, of the same type.
    #[arg(long, allow_hyphen_values = true)]
    secret: String,
    /// The kind of the streams.
    #[arg(long = "type", value_name = "TYPE", default_value = "client")]
    kind: socket::Kind,
    /// The prefix of the keys of the streams' users; a number follows.
    #[arg(long, value_name = "PREFIX", default_value = "user-")]
    users: String,
    #[command(flatten)]
    connections: Connections,
}

/// Where connections come from, how long they are waited for, and what is reported of the server.
#[derive(Clone, Debug, clap::Args)]
struct Connections {
    /// Source addresses (127.0.1.1 and up), if the server is on this machine.
    #[arg(long, value_name = "N", default_value = "32",
        value_parser = clap::value_parser!(u8).range(1..=100))]
    sources: u8,
    /// How long to wait for a connection, and for an answer.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    timeout: Duration,
    /// The server's process id: report its CPU time and memory.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    #[command(flatten)]
    output: Output,
}

impl Streams {
    /// An opener of streams, with the limit of open files raised.
    fn opener(&self, sockets: usize) -> anyhow::Result<socket::Opener> {
        let http = self.url.strip_prefix("ws://").map(|rest| format!("http://{rest}"));
        let http = http.ok_or_else(|| anyhow::anyhow!("--url: ws://HOST:PORT was expected"))?;
        raise_open_files(sockets as u64)?;
        Ok(socket::Opener {
            target: Target::parse("--url", &http)?,
            secret: self.secret.clone(),
            kind: self.kind,
            users: self.users.clone(),
            timeout: self.connections.timeout,
        })
    }
}

impl Connections {
    /// The source address of the n-th connection.
    fn source(&self, n: usize) -> Ipv4Addr {
        let host = 1 + u8::try_from(n % usize::from(self.sources)).unwrap_or_default();
        Ipv4Addr::new(127, 0, 1, host)
    }
}
