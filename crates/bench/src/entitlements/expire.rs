//! `faregate bench entitlements expire`: grants that end in the same second, beside the payments of others.

use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::client::{Client, Furniture};
use crate::closed_loop::ACCOUNTS_MAX;
use crate::count_up_to;
use crate::due::{self, Due};

/// The grants end so far from now.
const ENDS_IN_DAYS: u32 = 8;
/// How far the clock is set.
const DAYS: u32 = 9;

/// Options of `faregate bench entitlements expire`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    due: due::Options,
    /// Accounts with a grant each, which end in the same second.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count_up_to(ACCOUNTS_MAX))]
    grants: u32,
}

/// Runs the benchmark and prints the report.
///
/// # Errors
/// As [`due::run`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let due = Due {
        count: args.grants,
        name: "grants",
        kind: "entitlements",
        days: DAYS,
        has_payments: false,
    };
    due::run(&args.due, due, grant(args))
}

/// Makes the accounts, each with its grant.
async fn grant(args: &Args) -> anyhow::Result<()> {
    let (target, identity) = (args.due.common.target()?, args.due.common.identity());
    let mut client = Client::new(&target, &identity)?;
    let feature = json!({ "name": "Bench", "kind": "switch" });
    client.expect("PUT", "/v1/features/bench-trial", &feature).await?;
    let ends = SignedDuration::from_hours(i64::from(ENDS_IN_DAYS) * 24);
    let until = (Timestamp::now() + ends).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let grant = json!({
        "feature": "bench-trial", "value": true, "reason": "bench", "until": until,
    });
    let of = Furniture { grants: vec![grant], method: None };
    client.accounts(args.grants, &of).await.map(drop)
}
