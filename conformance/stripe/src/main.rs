//! A stateful fake of Stripe's API, for tests of what calls it.

#![recursion_limit = "256"]

use std::cell::RefCell;
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Parser;

use crate::fake::Fake;
use crate::journal::Journal;
use crate::server::Server;
use crate::validate::Spec;

mod account;
mod api;
mod cards;
mod clock;
mod collection;
mod control;
mod currencies;
mod deliveries;
mod error;
mod fake;
mod faults;
mod idempotency;
mod ids;
mod journal;
mod pages;
mod params;
mod request;
mod server;
mod validate;

/// A stateful fake of Stripe's API. Its first line is `listening on URL`.
#[derive(Parser)]
struct Options {
    /// Port 0: any that is free.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where browsers reach its pages; where it listens, if absent.
    #[arg(long)]
    public_url: Option<String>,
    /// An account, by the NAME of its keys `sk_test_NAME_...`; may be repeated. If absent, each name is one.
    #[arg(long)]
    account: Vec<String>,
    /// The state, kept over restarts; without it, in memory only.
    #[arg(long)]
    journal: Option<PathBuf>,
    /// Does not wait for the disk: the state survives a kill of the process, not of the machine.
    #[arg(long)]
    no_sync: bool,
    /// Answers of the API come this much later, after the work.
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// Of ids, faults and the lag of search.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stripe's OpenAPI document, which each request and answer is checked against.
    #[arg(long)]
    validate: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, run(options))
}

async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let public_url = options.public_url.unwrap_or_else(|| url.clone());
    let mut fake = Fake::new(options.seed, public_url, options.account);
    if let Some(path) = &options.journal {
        let journal = Journal::open(path, !options.no_sync, |line| fake.restore(line))?;
        fake.journal = journal;
        let now_ms = fake.clock.now_ms();
        fake.deliveries.resume(now_ms);
    }
    let spec = options.validate.map(|it| Spec::read(&it)).transpose()?;
    let server = Rc::new(Server {
        fake: RefCell::new(fake),
        delay: Duration::from_millis(options.delay_ms),
        spec: spec.map(RefCell::new),
    });
    println!("listening on {url}");
    std::io::stdout().flush()?;
    tokio::task::spawn_local(deliveries::run(server.clone()));
    match server::accept(server, listener).await {}
}
