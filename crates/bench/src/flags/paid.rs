//! `faregate bench flags paid`: buys, and measures when the account's connection has the feature.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::Connections;
use super::socket::{self, Opener};
use crate::process::{Usage, usage_of};
use crate::tally::Latencies;
use crate::{count_up_to, parse_span, raise_open_files};
use command_line::Target;

mod follow;
mod grpc_watches;
pub mod shop;

use follow::{Kind, StreamUser, Streams};
use grpc_watches::Watches;
use shop::{Sample, Shop};

/// How long a change may take until it counts as missed.
const MISSED_AFTER: Duration = Duration::from_secs(5);

/// How often the flag that all streams receive is switched.
const SWITCH_EVERY: Duration = Duration::from_millis(1_000);

/// Options of `faregate bench flags paid`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The server: ws://HOST:PORT.
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:8080")]
    url: String,
    /// The server's gRPC listener, for `--type grpc`: HOST:PORT.
    #[arg(long, value_name = "HOST:PORT", required_if_eq("kind", "grpc"))]
    grpc: Option<String>,
    /// The server that purchases go to, where it is another one: http://HOST:PORT.
    #[arg(long, value_name = "URL")]
    shop_url: Option<String>,
    /// A user who may create tenants; one is made for the run.
    #[arg(long, default_value = "admin")]
    user: String,
    /// The user's password.
    #[arg(long, allow_hyphen_values = true, default_value = "password", hide_default_value = true)]
    password: String,
    /// How many connections are held, each of the user of an account of its own.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count_up_to(60_000))]
    held: u32,
    /// How many are opened per second.
    #[arg(long, value_name = "R", default_value = "1000", value_parser = count_up_to(50_000))]
    rate: u32,
    /// Purchases per second, one account after the other.
    #[arg(long, value_name = "R", default_value = "50", value_parser = count_up_to(10_000))]
    purchases: u32,
    /// How long purchases begin.
    #[arg(long, value_name = "SPAN", default_value = "20s", value_parser = parse_span)]
    duration: Duration,
    /// The kind of the connections: streams of FeatBit's clients, OFREP's event streams, or gRPC watches.
    #[arg(long = "type", value_name = "TYPE", default_value = "client")]
    kind: Kind,
    /// Each purchase is refunded once it is on.
    #[arg(long)]
    revoke: bool,
    /// Meanwhile a flag is switched once a second, which all connections receive.
    #[arg(long)]
    switch: bool,
    #[command(flatten)]
    connections: Connections,
}

#[derive(Serialize)]
struct Report {
    /// The prefix of the keys of the accounts' users; the part before the hyphen is the tenant's API key.
    users: String,
    held: u32,
    /// Connections that could not be opened, or were lost.
    lost: u64,
    /// Purchases that succeeded.
    purchases: u64,
    /// Purchases and refunds that did not.
    failed: u64,
    /// Changes that did not come within five seconds.
    missed: u64,
    /// Changes to another value, and changes on the connection of an account that bought nothing.
    wrong: u64,
    /// Milliseconds from before the purchase's request to the value on the connection.
    paid_to_on_ms: Spread,
    /// The same, from before the refund's request.
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_to_off_ms: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Server>,
}

#[derive(Serialize)]
struct Spread {
    p50: f64,
    p99: f64,
    max: f64,
}

/// The server's CPU time and memory.
#[derive(Serialize)]
struct Server {
    rss_kib_per_stream: f64,
    /// Share of a core while purchases were made.
    cpu: f64,
}

/// The value that a connection waits for, if any.
#[derive(Default)]
enum Waiting {
    #[default]
    Nothing,
    /// For a value.
    For(bool, oneshot::Sender<Instant>),
}

/// The counts of a run.
#[derive(Default)]
struct Counts {
    lost: Cell<u64>,
    purchases: Cell<u64>,
    failed: Cell<u64>,
    missed: Cell<u64>,
    wrong: Cell<u64>,
    on: RefCell<Latencies>,
    off: RefCell<Latencies>,
    first_failure: RefCell<Option<String>>,
}

/// A run: its shop, the accounts, and what each one's connection waits for.
struct Run {
    shop: Shop,
    accounts: Vec<String>,
    waiting: Vec<RefCell<Waiting>>,
    counts: Counts,
}

/// Measures a server.
///
/// # Errors
/// If an option is invalid or the server cannot be used; the message says what to change.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let purchases = f64::from(args.purchases) * args.duration.as_secs_f64();
    anyhow::ensure!(
        args.revoke || purchases <= f64::from(args.held),
        "--held: without --revoke each account buys once, and there are {purchases} purchases"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = LocalSet::new().block_on(&runtime, args.measure())?;
    args.connections.output.print(&report)?;
    let has_failed = report.lost + report.failed + report.missed + report.wrong > 0;
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Args {
    async fn measure(&self) -> anyhow::Result<Report> {
        raise_open_files(u64::from(self.held) + 256)?;
        let http = self.url.strip_prefix("ws://").map(|rest| format!("http://{rest}"));
        let http = http.context("--url: ws://HOST:PORT was expected")?;
        let target = Target::parse("--url", &http)?;
        let shop_target = match &self.shop_url {
            Some(url) => Target::parse("--shop-url", url)?,
            None => target.clone(),
        };
        let used = || usage_of(self.connections.pid);
        let shop = Shop::open(
            shop_target,
            (&self.user, &self.password),
            Sample::Entitled,
            self.connections.timeout,
        )
        .await?;
        let accounts = shop.accounts(self.held).await?;
        let secret = shop.secret("client").await?;
        let watches = match &self.grpc {
            Some(grpc) => {
                let grpc = Target::parse("--grpc", grpc)?;
                Some(Watches::new(grpc, &secret, self.held, self.connections.timeout)?)
            }
            None => None,
        };
        let opener = Opener {
            target,
            secret,
            kind: socket::Kind::Client,
            users: shop.prefix.clone(),
            timeout: self.connections.timeout,
        };
        let streams = Streams { opener, watches };
        let waiting = accounts.iter().map(|_| RefCell::default()).collect();
        let run = Rc::new(Run { shop, accounts, waiting, counts: Counts::default() });
        let before = used()?;
        self.connect(Rc::new(streams), &run).await;
        let (held, held_at) = (used()?, Instant::now());
        let switching = self.switch.then(|| tokio::task::spawn_local(switch(Rc::clone(&run))));
        self.buy(&run).await?;
        if let Some(switching) = switching {
            switching.abort();
        }
        let last = used()?;
        let server = before.zip(held).zip(last);
        let server = server.map(|((before, held), last)| {
            Server::new([before, held, last], self.held, held_at.elapsed())
        });
        if let Some(failure) = run.counts.first_failure.borrow().as_ref() {
            eprintln!("{failure}");
        }
        Ok(self.report(&run, server))
    }

    /// Opens all connections, and returns once each has its values or is lost.
    async fn connect(&self, streams: Rc<Streams>, run: &Rc<Run>) {
        let (ready, mut readies) = mpsc::unbounded_channel();
        let started = Instant::now();
        for n in 0..self.held {
            let due = Duration::from_secs_f64(f64::from(n) / f64::from(self.rate));
            tokio::time::sleep_until(started + due).await;
            let (streams, run, ready) = (Rc::clone(&streams), Rc::clone(run), ready.clone());
            let (kind, source) = (self.kind, self.connections.source(n as usize));
            tokio::task::spawn_local(async move {
                let user = run.shop.user(n);
                let changed = |is_on, at| run.changed(n, is_on, at);
                let user = StreamUser { number: n, key: &user, source };
                if let Err(failure) = follow::follow(kind, &streams, user, ready, changed).await {
                    add(&run.counts.lost);
                    run.failure(|| format!("a connection was lost: {failure}"));
                }
            });
        }
        // Ends when each connection is ready or lost: nothing is ever sent.
        drop(ready);
        let nothing: Option<()> = readies.recv().await;
        debug_assert!(nothing.is_none(), "the channel carries no messages");
    }

    /// Buys at the rate, and waits for the last.
    async fn buy(&self, run: &Rc<Run>) -> anyhow::Result<()> {
        let started = Instant::now();
        let mut buying = vec![];
        for n in 0.. {
            let due = Duration::from_secs_f64(f64::from(n) / f64::from(self.purchases));
            if due >= self.duration {
                break;
            }
            tokio::time::sleep_until(started + due).await;
            let (run, revoke) = (Rc::clone(run), self.revoke);
            buying.push(tokio::task::spawn_local(async move { run.purchase(n, revoke).await }));
        }
        for purchase in buying {
            purchase.await?;
        }
        Ok(())
    }

    fn report(&self, run: &Run, server: Option<Server>) -> Report {
        let counts = &run.counts;
        Report {
            users: run.shop.prefix.clone(),
            held: self.held,
            lost: counts.lost.get(),
            purchases: counts.purchases.get(),
            failed: counts.failed.get(),
            missed: counts.missed.get(),
            wrong: counts.wrong.get(),
            paid_to_on_ms: Spread::of(&counts.on.borrow()),
            refund_to_off_ms: self.revoke.then(|| Spread::of(&counts.off.borrow())),
            server,
        }
    }
}

impl Run {
    /// An account's connection has a value.
    fn changed(&self, n: u32, is_on: bool, at: Instant) {
        match self.waiting[n as usize].take() {
            Waiting::For(expected, waiting) if expected == is_on => drop(waiting.send(at)),
            waiting @ (Waiting::For(..) | Waiting::Nothing) => {
                add(&self.counts.wrong);
                self.waiting[n as usize].replace(waiting);
            }
        }
    }

    /// One purchase of the next account in turn, and its refund.
    async fn purchase(&self, number: u32, revoke: bool) {
        let n = number as usize % self.accounts.len();
        // Its last purchase, or that one's refund, is still under way.
        if !matches!(*self.waiting[n].borrow(), Waiting::Nothing) {
            return self.failed(&anyhow::anyhow!("an account is busy: hold more"));
        }
        let account = &self.accounts[n];
        let bought = self.timed(n, (true, &self.counts.on), self.shop.buy(account)).await;
        let Some(payment) = bought else { return };
        add(&self.counts.purchases);
        if revoke {
            self.timed(n, (false, &self.counts.off), self.shop.refund(&payment)).await;
        }
    }

    /// Sends a request, and records when the account's connection has the value.
    async fn timed<T>(
        &self,
        n: usize,
        (is_on, latencies): (bool, &RefCell<Latencies>),
        request: impl Future<Output = anyhow::Result<T>>,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.waiting[n].replace(Waiting::For(is_on, sender));
        let started = Instant::now();
        let done = match request.await {
            Ok(done) => Some(done),
            Err(error) => {
                self.waiting[n].replace(Waiting::Nothing);
                self.failed(&error);
                return None;
            }
        };
        match tokio::time::timeout_at(started + MISSED_AFTER, receiver).await {
            Ok(Ok(at)) => latencies.borrow_mut().record(at.saturating_duration_since(started)),
            Ok(Err(_)) | Err(_) => {
                self.waiting[n].replace(Waiting::Nothing);
                add(&self.counts.missed);
            }
        }
        done
    }

    fn failed(&self, error: &anyhow::Error) {
        add(&self.counts.failed);
        self.failure(|| format!("{error:#}"));
    }

    /// The first failure is shown.
    fn failure(&self, text: impl FnOnce() -> String) {
        self.counts.first_failure.borrow_mut().get_or_insert_with(text);
    }
}

fn add(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

async fn switch(run: Rc<Run>) {
    for n in 0_u32.. {
        tokio::time::sleep(SWITCH_EVERY).await;
        if let Err(error) = run.shop.switch(n % 2 == 1).await {
            run.failed(&error);
        }
    }
}

impl Spread {
    fn of(latencies: &Latencies) -> Self {
        let [p50, p99] = [0.5, 0.99].map(|quantile| latencies.quantile_ms(quantile));
        Self { p50, p99, max: latencies.max_ms() }
    }
}

impl Server {
    fn new([before, held, last]: [Usage; 3], streams: u32, bought_for: Duration) -> Self {
        let cpu = last.since(held).cpu.as_secs_f64();
        Self {
            rss_kib_per_stream: (held.rss_mib - before.rss_mib) * 1024.0 / f64::from(streams),
            cpu: cpu / bought_for.as_secs_f64().max(0.001),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { held, lost, purchases, failed, missed, wrong, .. } = self;
        writeln!(
            f,
            "{held} connections held, {lost} lost; {purchases} purchases, {failed} failed, {missed} \
             missed, {wrong} wrong"
        )?;
        let off = self.refund_to_off_ms.as_ref().map(|it| ("refunded to off", it));
        for (name, it) in [("paid to on", &self.paid_to_on_ms)].into_iter().chain(off) {
            let Spread { p50, p99, max } = it;
            writeln!(f, "{name}: p50 {p50:.1} ms, p99 {p99:.1} ms, at most {max:.1} ms")?;
        }
        if let Some(Server { rss_kib_per_stream, cpu }) = &self.server {
            writeln!(
                f,
                "server: {rss_kib_per_stream:.2} KiB per connection, {:.1} % of a core",
                cpu * 100.0
            )?;
        }
        Ok(())
    }
}
