//! `faregate bench retries`: payments that were declined become due for their retries at the same time, beside
//! the payments of others.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::count_up_to;
use super::due::{self, Due, OTHERS_MAX};
use super::flow::{Client, Gateway};
use super::outcome::Outcome;
use super::tally::{Counted, Tally};

/// How far the clock is set: a decline is retried after eight days unless the tenant says otherwise.
const DAYS: u32 = 9;

/// Options of `faregate bench retries`. The server needs the simulated gateway too.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    due: due::Options,
    /// Payments that are declined first, and retried at the same time.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count_up_to(10_000_000))]
    retries: u32,
}

/// Runs the retries and prints the report.
///
/// # Errors
/// As [`due::run`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let due = Due {
        count: args.retries,
        name: "retries",
        kind: "payment-retry",
        days: DAYS,
        has_payments: false,
    };
    due::run(&args.due, due, decline(args))
}

/// Makes the payments that are declined and wait for their retries.
async fn decline(args: &Args) -> anyhow::Result<()> {
    let plan = args.due.plan(Gateway::Declining)?;
    let next = Arc::new(AtomicU32::new(0));
    let (count, end) = (args.retries, Instant::now() + OTHERS_MAX);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..args.due.concurrency {
        let (plan, next) = (Arc::clone(&plan), Arc::clone(&next));
        clients.spawn(async move {
            let tally = Mutex::new(Tally::new(Counted::ByEnd));
            let mut client = Client::new(&plan, &tally);
            while next.fetch_add(1, Ordering::Relaxed) < count {
                match client.flow(Instant::now(), end).await {
                    Outcome::Done(_) => {}
                    Outcome::Failed(problem) => {
                        let answer = problem.answer.unwrap_or_default();
                        anyhow::bail!("a payment that is to be declined: {} {answer}", problem.kind)
                    }
                    Outcome::Abandoned(step) => {
                        anyhow::bail!("the server refuses a {} request", step.name())
                    }
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client does not panic")?;
    }
    Ok(())
}
