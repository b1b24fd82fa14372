//! `faregate bench flags eval`: evaluations in this process, without a server.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use evaluation::{Flag, MissingAttribute, Segment, Snapshot, User};
use serde::{Deserialize, Serialize};

use crate::parse_span;
use crate::process::own_usage;
use crate::report::Output;

/// Generated users, for files without users.
const USERS: usize = 64;

/// Options of `faregate bench flags eval`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Flags and segments as they are imported, or as `faregate flags eval` reads them; then with
    /// their users.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// How long to measure.
    #[arg(long, value_name = "SPAN", default_value = "3s", value_parser = parse_span)]
    duration: Duration,
    #[command(flatten)]
    output: Output,
}

#[derive(Deserialize)]
struct File {
    #[serde(alias = "featureFlags")]
    flags: Vec<Flag>,
    #[serde(default)]
    segments: Vec<Segment>,
    #[serde(default)]
    users: Vec<User>,
}

#[derive(Serialize)]
struct Report {
    flags: usize,
    users: usize,
    evaluations: u64,
    per_cpu_second: f64,
    ns_each: f64,
}

/// Evaluates all flags for all users on one thread.
///
/// # Errors
/// If the file cannot be read or has no flags.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display();
    let text = std::fs::read_to_string(&args.file);
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let File { flags, segments, mut users } =
        serde_json::from_str(&text).with_context(|| name.to_string())?;
    anyhow::ensure!(!flags.is_empty(), "{name}: there are no flags");
    if users.is_empty() {
        users = (0..USERS).map(|n| User::new(format!("user-{n}"))).collect();
    }
    let keys: Vec<String> = flags.iter().map(|it| it.key.clone()).collect();
    let snapshot = Snapshot::new(MissingAttribute::Empty).with(flags, segments);
    let (before, started) = (own_usage()?, Instant::now());
    let (mut evaluations, mut length) = (0_u64, 0_usize);
    while started.elapsed() < args.duration {
        for user in &users {
            for key in &keys {
                let found = snapshot.evaluate(key, user);
                length += found.and_then(|it| it.variation).map_or(0, |it| it.value.len());
                evaluations += 1;
            }
        }
    }
    std::hint::black_box(length);
    let cpu = own_usage()?.since(before).cpu.as_secs_f64();
    anyhow::ensure!(cpu > 0.0, "--duration: too short to be measured");
    #[expect(clippy::cast_precision_loss, reason = "counts of evaluations are far below 2^52")]
    let per_cpu_second = evaluations as f64 / cpu;
    let ns_each = 1e9 / per_cpu_second;
    let report =
        Report { flags: keys.len(), users: users.len(), evaluations, per_cpu_second, ns_each };
    args.output.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { flags, users, per_cpu_second, ns_each, .. } = self;
        writeln!(
            f,
            "{flags} flags, {users} users: {per_cpu_second:.0} evaluations per second of CPU, \
             {ns_each:.0} ns each"
        )
    }
}
