//! `faregate-bench`: load generators that measure a running server from the client's side. `faregate bench`
//! starts it, where it lies beside.
//!
//! They keep their own minimal HTTP client (`connection.rs`): it costs less than the server it
//! measures, and it says whether a failed request may have reached the server.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser as _;
use clap::builder::RangedI64ValueParser;
use command_line::{CANNOT_RUN, Target, TargetError, explain};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

mod allocator;
mod billing;
mod callbacks;
mod client;
mod closed_loop;
mod connection;
mod due;
mod entitlements;
mod flags;
mod flow;
mod grpc;
mod http_gateway;
mod iso8583;
mod load;
mod monitor;
mod outcome;
mod payments;
mod process;
mod random;
mod reads;
mod report;
mod request;
mod response;
mod retries;
mod sample;
mod schedule;
mod signup;
mod subscriptions;
mod tally;

use connection::Connection;
use request::Identity;

/// Open files beyond the connections.
const OPEN_FILES_SPARE: u64 = 64;

/// Measures a running server of Faregate from the client's side
#[derive(Debug, clap::Parser)]
#[command(name = "faregate-bench", version, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// Accounts, payment methods and payments, at the requested load.
    Payments(payments::Args),
    /// Lookups and lists of the rows that `payments --sample` created.
    Reads(reads::Args),
    /// Retries of declined payments that are due at the same time, beside other payments.
    Retries(retries::Args),
    /// Subscriptions that are due on the same day, beside other payments.
    Billing(billing::Args),
    /// Subscribing, changes of plans, and invoices that are shown before there are any.
    Subscriptions(subscriptions::Args),
    /// Simultaneous gRPC requests, as "Billing Service with Kafka Middleware" measured them.
    Grpc(grpc::Args),
    /// ISO 8583 requests on one connection, with a fixed number in flight.
    Iso8583(iso8583::Args),
    /// Feature flags: streams opened at a rate, held and notified; evaluations.
    #[command(subcommand)]
    Flags(flags::Bench),
    /// Checks of what accounts may do, usage that is counted, purchases, and grants that end.
    #[command(subcommand)]
    Entitlements(entitlements::Bench),
    /// Registrations of users, as a whole or part by part.
    Signup(signup::Args),
    /// A receiver of push notifications that measures their delay.
    CallbackReceiver(callbacks::Args),
    /// A payment gateway over HTTP that takes every charge, for `payments --gateway http`.
    HttpGateway(http_gateway::Args),
}

fn main() -> ExitCode {
    match run(CommandLine::parse().bench) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("faregate-bench: {}", explain(&error));
            ExitCode::from(CANNOT_RUN)
        }
    }
}

/// Runs a benchmark. Fails if an option is invalid or the server cannot be used; the message says what to change.
fn run(bench: Bench) -> anyhow::Result<ExitCode> {
    match bench {
        Bench::Payments(args) => payments::run(&args),
        Bench::Reads(args) => reads::run(&args),
        Bench::Retries(args) => retries::run(&args),
        Bench::Billing(args) => billing::run(&args),
        Bench::Subscriptions(args) => subscriptions::run(&args),
        Bench::Grpc(args) => grpc::run(&args),
        Bench::Iso8583(args) => iso8583::run(&args),
        Bench::Flags(args) => flags::run(&args),
        Bench::Entitlements(bench) => entitlements::run(&bench),
        Bench::Signup(args) => signup::run(&args),
        Bench::CallbackReceiver(args) => callbacks::run(&args),
        Bench::HttpGateway(args) => http_gateway::run(&args),
    }
}

/// Options that all benchmarks over HTTP have: the server and the credentials.
#[derive(Debug, clap::Args)]
struct Common {
    /// The server: http://HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
    #[command(flatten)]
    credentials: Credentials,
}

/// The user and the tenant of all requests.
#[derive(Debug, clap::Args)]
struct Credentials {
    /// The user name.
    #[arg(long, default_value = "admin")]
    user: String,
    /// The user's password.
    #[arg(long, allow_hyphen_values = true, default_value = "password", hide_default_value = true)]
    password: String,
    /// The tenant's API key.
    #[arg(long, default_value = "bob")]
    api_key: String,
    /// The tenant's API secret.
    #[arg(long, allow_hyphen_values = true, default_value = "lazar", hide_default_value = true)]
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
    fn target(&self) -> Result<Target, TargetError> {
        Target::parse("--url", &self.url)
    }

    fn identity(&self) -> Identity {
        self.credentials.identity()
    }

    /// Creates the tenant, unless one with its API key exists.
    async fn create_tenant(&self, target: &Target, timeout: Duration) -> anyhow::Result<()> {
        let Credentials { api_key, api_secret, .. } = &self.credentials;
        let body = serde_json::json!({
            "externalKey": api_key, "apiKey": api_key, "apiSecret": api_secret,
        });
        let head = self.identity().head(target, "POST", "/1.0/kb/tenants")?;
        let (status, answer) = post(target, &head, &body, timeout).await?;
        anyhow::ensure!(matches!(status, 201 | 409), "creating the tenant: {status} {answer}");
        Ok(())
    }

    /// Stores rules that every payment of the tenant has to keep to, and that refuse none.
    async fn set_rules(&self, target: &Target, timeout: Duration) -> anyhow::Result<()> {
        let rules = serde_json::json!({
            "everyPayment": true, "paymentsPerDay": 1_000_000, "currencies": ["USD"],
            "limits": { "USD": { "payment": "1000000", "day": "100000000" } },
        });
        let path = "/1.0/kb/tenants/uploadPluginConfig/faregate-rules";
        let head = self.identity().head(target, "POST", path)?;
        let head = head.replace("Content-Type: application/json", "Content-Type: text/plain");
        let (status, answer) = post(target, &head, &rules, timeout).await?;
        anyhow::ensure!(status == 201, "storing the rules: {status} {answer}");
        Ok(())
    }
}

/// Sends one request; status and body of its response.
async fn post(
    target: &Target,
    head: &str,
    body: &serde_json::Value,
    timeout: Duration,
) -> anyhow::Result<(u16, String)> {
    let body = body.to_string();
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut connection = Connection::open(target.address, timeout).await?;
    let response = connection.exchange(request.as_bytes(), Instant::now() + timeout).await?;
    let answer = response.body(connection.received());
    Ok((response.status, String::from_utf8_lossy(&answer).into_owned()))
}

/// Raises the soft limit of open files so that `connections` fit.
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

/// Parses a count from one to this.
fn count_up_to(max: i64) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=max)
}

/// Parses a duration of at most a day: `90`, `90s`, `1.5m`, `200ms`, `1h`.
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
    fn durations_need_a_number_and_a_known_unit() {
        let ms = |ms| Ok(Duration::from_millis(ms));
        assert_eq!(parse_span("90"), ms(90_000));
        assert_eq!(parse_span("1.5m"), ms(90_000));
        assert_eq!(parse_span("200ms"), ms(200));
        assert_eq!(parse_span("0s"), ms(0));
        let error = |text: &str| parse_span(text).expect_err(text);
        for text in ["", "s", "1.2.3"] {
            assert_eq!(error(text), "expected a number first", "{text}");
        }
        for text in ["-1s", "1x", "1 s", "1e3"] {
            assert_eq!(error(text), "expected a number with ms, s, m or h behind it", "{text}");
        }
        assert_eq!(error("25h"), "at most a day");
    }
}
