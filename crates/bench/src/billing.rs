//! `faregate bench billing`: a billing day. Subscriptions become due at the same time, are invoiced and paid, beside the
//! payments of others.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::Context as _;
use clap::builder::RangedU64ValueParser;
use serde_json::json;

use super::client::{Client, Furniture, Method};
use super::count_up_to;
use super::due::{self, Due};
use super::report::{Quantiles, per_second};
use super::tally::Latencies;

/// How far the clock is set: past the end of every month, and before that of the next.
const DAYS: u32 = 32;
/// The plan that all have: 20.00 USD a month, from the first day on.
const PLAN: &str = "bench-monthly";
/// How long the simulated gateway takes.
const GATEWAY_MS: u32 = 1_000;

/// Options of `faregate bench billing`. The server needs the simulated gateway for `--gateway simulator`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    due: due::Options,
    /// Subscriptions, which are all due on the same day.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count_up_to(10_000_000))]
    subscriptions: u32,
    /// Subscriptions of each account, which are on one invoice.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = RangedU64ValueParser::<u32>::new().range(1..=1_000))]
    per_account: u32,
    /// Who takes the payments of the invoices.
    #[arg(long, value_enum, default_value_t = Gateway::External)]
    gateway: Gateway,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Gateway {
    /// Settles within the commit.
    External,
    /// Answers after a second.
    Simulator,
}

/// Runs the billing day and prints the report.
///
/// # Errors
/// As [`due::run`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let accounts = args.subscriptions.div_ceil(args.per_account);
    let due =
        Due { count: accounts, name: "invoices", kind: "billing", days: DAYS, has_payments: true };
    due::run(&args.due, due, subscribe(args, accounts))
}

/// Makes the accounts with their subscriptions, and says how fast these were made.
async fn subscribe(args: &Args, accounts: u32) -> anyhow::Result<()> {
    let (target, identity) = (args.due.common.target()?, args.due.common.identity());
    let mut client = Client::new(&target, &identity)?;
    let plan = json!({
        "planId": PLAN, "productName": "Bench", "productCategory": "BASE", "currency": "USD",
        "amount": 20, "billingPeriod": "MONTHLY", "trialLength": 0, "trialTimeUnit": "UNLIMITED",
    });
    client.expect("POST", "/1.0/kb/catalog/simplePlan", &plan).await?;
    // The simulated gateway would make each first invoice wait for its answer.
    let (at_once, later) = match args.gateway {
        Gateway::External => (Some(Method::External), None),
        Gateway::Simulator => (None, Some(Method::Simulator { delay_ms: GATEWAY_MS })),
    };
    let of = Furniture { method: at_once, ..Furniture::default() };
    let accounts = Arc::new(client.accounts(accounts, &of).await?);

    let (began, next) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let latencies = Arc::new(Mutex::new(Latencies::default()));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..args.due.concurrency {
        let (mut client, latencies) = (client.another(), Arc::clone(&latencies));
        let (accounts, next) = (Arc::clone(&accounts), Arc::clone(&next));
        let (count, each) = (args.subscriptions, args.per_account);
        clients.spawn(async move {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    return anyhow::Ok(());
                }
                let account = &accounts[usize::try_from(at / each)?];
                let body = json!({ "accountId": account, "planName": PLAN });
                let sent = Instant::now();
                client.expect("POST", "/1.0/kb/subscriptions", &body).await?;
                latencies.lock().expect("no panic while locked").record(sent.elapsed());
                let is_last = at % each == each - 1 || at + 1 == count;
                if let Some(method) = later.filter(|_| is_last) {
                    client.add_method(account, method).await?;
                }
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.context("a client panicked")??;
    }
    let rate = per_second(u64::from(args.subscriptions), began.elapsed());
    let made = Quantiles::of(&latencies.lock().expect("no panic while locked"));
    eprintln!("subscriptions with their first invoices: {rate:.1}/s, p99 {} ms", made.p99);
    Ok(())
}
