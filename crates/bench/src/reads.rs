//! `faregate bench reads`: lookups and lists of rows that `bench payments` created.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::connection::Connection;
use super::outcome::Created;
use super::report::{LatencyTable, Output, Quantiles, exit_code, per_second};
use super::request::{ID_BYTES, KEY_BYTES};
use super::tally::{ErrorKinds, Latencies};
use super::{Common, parse_span, raise_open_files};
use command_line::Target;

/// Connections at most.
const CONCURRENCY_MAX: i64 = 10_000;
/// The longest wait for a response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Rows of a page.
const PAGE_ROWS: u64 = 100;

/// Options of `faregate bench reads`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The objects to look up: the file that `bench payments --sample` wrote.
    #[arg(long, value_name = "FILE")]
    sample: PathBuf,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=CONCURRENCY_MAX))]
    concurrency: u16,
    /// How long to measure.
    #[arg(long, default_value = "10s", value_parser = parse_span)]
    duration: Duration,
    /// How long to run before measuring.
    #[arg(long, default_value = "2s", value_parser = parse_span)]
    warm_up: Duration,
    /// Pages begin at offsets up to this.
    #[arg(long, default_value_t = 10_000)]
    offset_max: u64,
    #[command(flatten)]
    output: Output,
    /// Exit with 1 where any read failed.
    #[arg(long)]
    strict: bool,
}

/// The reads, in the order that each connection sends them.
#[derive(Clone, Copy, Debug)]
enum Read {
    AccountById,
    AccountByKey,
    PaymentById,
    PaymentByKey,
    AccountPayments,
    AccountsPage,
    PaymentsPage,
}

impl Read {
    const ALL: [Self; 7] = [
        Self::AccountById,
        Self::AccountByKey,
        Self::PaymentById,
        Self::PaymentByKey,
        Self::AccountPayments,
        Self::AccountsPage,
        Self::PaymentsPage,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::AccountById => "account_by_id",
            Self::AccountByKey => "account_by_key",
            Self::PaymentById => "payment_by_id",
            Self::PaymentByKey => "payment_by_key",
            Self::AccountPayments => "account_payments",
            Self::AccountsPage => "accounts_page",
            Self::PaymentsPage => "payments_page",
        }
    }

    fn path(self, known: &Known, offset: u64) -> String {
        let Known { account, payment, key } = known;
        let page = format!("pagination?offset={offset}&limit={PAGE_ROWS}");
        match self {
            Self::AccountById => format!("/1.0/kb/accounts/{account}"),
            Self::AccountByKey => format!("/1.0/kb/accounts?externalKey=a-{key}"),
            Self::PaymentById => format!("/1.0/kb/payments/{payment}"),
            Self::PaymentByKey => format!("/1.0/kb/payments?externalKey=p-{key}"),
            Self::AccountPayments => format!("/1.0/kb/accounts/{account}/payments"),
            Self::AccountsPage => format!("/1.0/kb/accounts/{page}"),
            Self::PaymentsPage => format!("/1.0/kb/payments/{page}"),
        }
    }

    /// Text that a correct response contains.
    const fn expected(self, known: &Known) -> &str {
        match self {
            Self::AccountById | Self::AccountByKey => known.account.as_str(),
            Self::PaymentById | Self::PaymentByKey | Self::AccountPayments => {
                known.payment.as_str()
            }
            Self::AccountsPage => "\"accountId\"",
            Self::PaymentsPage => "\"paymentId\"",
        }
    }
}

/// A sampled flow: the rows to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    account: String,
    payment: String,
    key: String,
}

/// Writes the sample of a run, for [`run`] to look up.
pub fn write_sample(path: &Path, sample: &[Created]) -> std::io::Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    for Created { key, account, payment } in sample {
        for field in [&account[..], b" ", &payment[..], b" ", &key[..], b"\n"] {
            file.write_all(field)?;
        }
    }
    file.flush()
}

fn read_sample(path: &Path) -> anyhow::Result<Vec<Known>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let known: Option<Vec<_>> = text.lines().map(known).collect();
    known
        .filter(|known| !known.is_empty())
        .with_context(|| format!("{}: not a file that --sample wrote", path.display()))
}

fn known(line: &str) -> Option<Known> {
    let mut fields = line.split(' ');
    let (account, payment, key) = (fields.next()?, fields.next()?, fields.next()?);
    let lengths = (account.len(), payment.len(), key.len());
    let right = lengths == (ID_BYTES, ID_BYTES, KEY_BYTES) && fields.next().is_none();
    let [account, payment, key] = [account, payment, key].map(str::to_owned);
    right.then_some(Known { account, payment, key })
}

/// Runs the reads and prints the report.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let known = Arc::new(read_sample(&args.sample)?);
    let target = args.common.target()?;
    raise_open_files(u64::from(args.concurrency))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let head = args.common.identity().head(&target, "GET", "{path}")?;
    let found = runtime.block_on(async {
        let mut probe = Reader { head, target, known, offset_max: args.offset_max, next: 0 };
        probe.lower_offset_max().await?;
        let start = Instant::now();
        let measured_from = start + args.warm_up;
        let end = measured_from + args.duration;
        let mut readers = tokio::task::JoinSet::new();
        for number in 0..args.concurrency {
            let reader = Reader { next: usize::from(number) * 7919, ..probe.clone() };
            readers.spawn(reader.read(measured_from, end));
        }
        let mut sum = Found::default();
        while let Some(found) = readers.join_next().await {
            sum.add(found.expect("a reader does not panic"));
        }
        anyhow::Ok(sum)
    })?;
    let report = Report::new(&found, args.duration);
    args.output.print(&report)?;
    Ok(exit_code(report.ok, report.errors, args.strict))
}

/// One connection's share of the reads.
#[derive(Clone)]
struct Reader {
    head: String,
    target: Target,
    known: Arc<Vec<Known>>,
    offset_max: u64,
    next: usize,
}

#[derive(Default)]
struct Found {
    latencies: [Latencies; Read::ALL.len()],
    errors: ErrorKinds,
}

impl Found {
    fn add(&mut self, other: Self) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.add(theirs);
        }
        self.errors.add(&other.errors);
    }
}

impl Reader {
    /// Halves the largest offset until its page has rows: empty pages would be read too fast.
    async fn lower_offset_max(&mut self) -> anyhow::Result<()> {
        let mut connection = None;
        let known = self.known.first().context("an empty sample")?.clone();
        for read in [Read::AccountsPage, Read::PaymentsPage] {
            let expected = read.expected(&known);
            while let Err(kind) =
                self.once(&mut connection, &read.path(&known, self.offset_max), expected).await
            {
                anyhow::ensure!(self.offset_max > 0, "{}: {kind}", read.name());
                self.offset_max /= 2;
            }
        }
        Ok(())
    }

    async fn read(mut self, measured_from: Instant, end: Instant) -> Found {
        let mut found = Found::default();
        let mut connection = None;
        loop {
            let read = Read::ALL[self.next % Read::ALL.len()];
            // Prime steps visit the whole sample and all offsets, without locality that would help
            // the store.
            let known = &self.known[self.next.wrapping_mul(104_729) % self.known.len()];
            let offset = (self.next as u64).wrapping_mul(1_299_709) % (self.offset_max + 1);
            self.next += 1;
            let sent = Instant::now();
            if sent >= end {
                return found;
            }
            let path = read.path(known, offset);
            let answered = self.once(&mut connection, &path, read.expected(known)).await;
            if sent < measured_from {
                continue;
            }
            match answered {
                Ok(()) => found.latencies[read as usize].record(sent.elapsed()),
                Err(kind) => found.errors.count(&format!("{} {kind}", read.name()), 1),
            }
        }
    }

    async fn once(
        &self,
        connection: &mut Option<Connection>,
        path: &str,
        expected: &str,
    ) -> Result<(), String> {
        let mut open = Connection::reuse(connection.take(), self.target.address, TIMEOUT)
            .await
            .map_err(|failure| failure.to_string())?;
        let request = format!("{}\r\n", self.head.replacen("{path}", path, 1));
        let response = open
            .exchange(request.as_bytes(), Instant::now() + TIMEOUT)
            .await
            .map_err(|failure| failure.to_string())?;
        if response.status != 200 {
            return Err(response.status.to_string());
        }
        let right = contains(&response.body(open.received()), expected.as_bytes());
        if !response.close {
            *connection = Some(open);
        }
        if right { Ok(()) } else { Err("answered with something else".to_owned()) }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[derive(Serialize)]
struct Report {
    reads_per_s: f64,
    ok: u64,
    errors: u64,
    error_kinds: ErrorKinds,
    latency_ms: BTreeMap<&'static str, Quantiles>,
}

impl Report {
    fn new(found: &Found, measured: Duration) -> Self {
        let ok = found.latencies.iter().map(Latencies::count).sum();
        let named = Read::ALL.into_iter().zip(&found.latencies);
        Self {
            reads_per_s: per_second(ok, measured),
            ok,
            errors: found.errors.total(),
            error_kinds: found.errors.clone(),
            latency_ms: named.map(|(read, of)| (read.name(), Quantiles::of(of))).collect(),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { reads_per_s, ok, errors, error_kinds, latency_ms } = self;
        writeln!(f, "{reads_per_s:.1} reads/s   {ok} ok   {errors} errors\n")?;
        let rows: Vec<_> = latency_ms.iter().map(|(name, of)| (*name, *of)).collect();
        let table = LatencyTable { heading: "latency, ms", name_width: 16, rows: &rows };
        write!(f, "{table}{error_kinds}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_samples_are_read_and_empty_files_refused() {
        let path = std::env::temp_dir().join(format!("faregate-sample-{}", std::process::id()));
        let created = Created {
            key: [b'k'; KEY_BYTES],
            account: [b'a'; ID_BYTES],
            payment: [b'b'; ID_BYTES],
        };
        write_sample(&path, &[created, created]).unwrap();
        let read = read_sample(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        let error = read_sample(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.ends_with(": not a file that --sample wrote"), "{error}");
        assert_eq!(read.len(), 2);
        let (account, payment) = ("a".repeat(ID_BYTES), "b".repeat(ID_BYTES));
        assert_eq!(read[0], Known { account, payment, key: "k".repeat(KEY_BYTES) });
        assert_eq!(known("a b c"), None);
    }

    #[test]
    fn reads_are_indexed_in_their_order() {
        for (index, read) in Read::ALL.into_iter().enumerate() {
            assert_eq!(read as usize, index, "{}", read.name());
        }
    }

    #[test]
    fn expected_text_is_found_in_bodies() {
        assert!(contains(b"[{\"accountId\":1}]", b"\"accountId\""));
        assert!(!contains(b"[]", b"\"accountId\""));
    }
}
