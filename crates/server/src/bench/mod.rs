//! `faregate bench`: load against a running server, measured without flattering it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

mod callbacks;
mod connection;
mod flags;
mod flow;
mod grpc;
mod iso8583;
mod monitor;
mod payments;
mod process;
mod random;
mod reads;
mod report;
mod request;
mod response;
mod sample;
mod schedule;
mod signup;
mod tally;
mod target;

use connection::Connection;
use request::Identity;
pub use target::Target;

/// File descriptors beyond the connections.
const OPEN_FILES_SPARE: u64 = 64;

/// Options of `faregate bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// Accounts, payment methods and payments, as fast as asked for.
    Payments(payments::Args),
    /// Lookups and lists of what `payments --sample` made.
    Reads(reads::Args),
    /// Simultaneous gRPC requests, as "Billing Service with Kafka Middleware" measured them.
    Grpc(grpc::Args),
    /// Requests of ISO 8583 on one connection, so many in flight.
    Iso8583(iso8583::Args),
    /// Streams of feature flags: opened at a rate, held, told of changes.
    Flags(flags::Args),
    /// Registrations of users, and what they cost part by part.
    Signup(signup::Args),
    /// A receiver of push notifications that measures how late they come.
    CallbackReceiver(callbacks::Args),
}

/// Runs a benchmark.
///
/// # Errors
/// Where it cannot run: the message says what to change.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.bench {
        Bench::Payments(args) => payments::run(&args),
        Bench::Reads(args) => reads::run(&args),
        Bench::Grpc(args) => grpc::run(&args),
        Bench::Iso8583(args) => iso8583::run(&args),
        Bench::Flags(args) => flags::run(&args),
        Bench::Signup(args) => signup::run(&args),
        Bench::CallbackReceiver(args) => callbacks::run(&args),
    }
}

/// Options that all benchmarks over HTTP have: where, and as whom.
#[derive(Debug, clap::Args)]
struct Common {
    /// The server: http://HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
    #[command(flatten)]
    credentials: Credentials,
}

/// As whom.
#[derive(Debug, clap::Args)]
struct Credentials {
    /// The user.
    #[arg(long, default_value = "admin")]
    user: String,
    /// The user's password.
    #[arg(long, default_value = "password", hide_default_value = true)]
    password: String,
    /// The tenant's API key.
    #[arg(long, default_value = "bob")]
    api_key: String,
    /// The tenant's API secret.
    #[arg(long, default_value = "lazar", hide_default_value = true)]
    api_secret: String,
}

impl Credentials {
    fn identity(&self) -> Identity {
        Identity {
            user: self.user.clone(),
            password: self.password.clone(),
            api_key: self.api_key.clone(),
            api_secret: self.api_secret.clone(),
        }
    }
}

impl Common {
    fn target(&self) -> Result<Target, target::TargetError> {
        Target::parse("--url", &self.url)
    }

    fn identity(&self) -> Identity {
        self.credentials.identity()
    }

    /// Makes the tenant, unless its API key is taken.
    async fn create_tenant(&self, target: &Target, timeout: Duration) -> anyhow::Result<()> {
        let Credentials { api_key, api_secret, .. } = &self.credentials;
        let body = serde_json::json!({
            "externalKey": api_key, "apiKey": api_key, "apiSecret": api_secret,
        });
        let body = body.to_string();
        let head = self.identity().head(target, "POST", "/1.0/kb/tenants")?;
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let mut connection = Connection::open(target.address, timeout).await?;
        let deadline = Instant::now() + timeout;
        let response = connection.exchange(request.as_bytes(), deadline).await?;
        anyhow::ensure!(
            matches!(response.status, 201 | 409),
            "creating the tenant: {} {}",
            response.status,
            String::from_utf8_lossy(&response.body(connection.received()))
        );
        Ok(())
    }
}

/// Raises the limit of open files to what `connections` need.
fn raise_open_files(connections: u64) -> anyhow::Result<()> {
    let needed = connections + OPEN_FILES_SPARE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum, ..limit };
    let possible = limit.maximum.is_none_or(|maximum| maximum >= needed);
    anyhow::ensure!(
        possible && setrlimit(Resource::Nofile, raised).is_ok(),
        "{connections} connections need {needed} open files: raise the limit (ulimit -n)"
    );
    Ok(())
}

/// Reads a span of time: `90`, `90s`, `1.5m`, `200ms`, `1h`.
fn parse_span(text: &str) -> Result<Duration, String> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("expected a number with ms, s, m or h behind it".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "expected a number first".to_owned())?;
    let span = Duration::try_from_secs_f64(number * seconds_per_unit)
        .map_err(|error| error.to_string())?;
    let day = Duration::from_secs(86_400);
    if span > day { Err("at most a day".to_owned()) } else { Ok(span) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let ms = |ms| Ok(Duration::from_millis(ms));
        assert_eq!(parse_span("90"), ms(90_000));
        assert_eq!(parse_span("1.5m"), ms(90_000));
        assert_eq!(parse_span("200ms"), ms(200));
        assert_eq!(parse_span("0s"), ms(0));
        for text in ["", "s", "-1s", "1x", "1 s", "1.2.3", "25h", "1e3"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }
}
