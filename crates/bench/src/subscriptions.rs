//! `faregate bench subscriptions`: subscribing, changing plans, and showing the invoice that is to come.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::client::{Client, Furniture, Method};
use super::closed_loop::{self, Worker};

/// The plans with their products, and what each costs a month, from the first day on.
const PLANS: [(&str, &str, u32); 2] =
    [("bench-monthly", "Bench", 20), ("bench-more", "BenchMore", 30)];
/// How far the clock is set before plans change: within the first month.
const DAYS: u32 = 10;

/// Options of `faregate bench subscriptions`. Whose turn it is goes round all accounts.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What each request does.
    #[arg(value_enum)]
    work: Work,
    #[command(flatten)]
    args: closed_loop::Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Work {
    /// Subscribes to a plan: its first invoice is paid through the gateway that settles at once.
    Create,
    /// Changes a plan at once: the rest of the month is repaired and charged anew. The server needs `--test-clock`.
    Change,
    /// Shows the invoice of the next month.
    DryRun,
}

/// Runs the benchmark and prints the report.
///
/// # Errors
/// Where the server cannot be used.
pub fn run(Args { work, args }: &Args) -> anyhow::Result<ExitCode> {
    let next = Arc::new(AtomicUsize::new(0));
    let furnished = async |client: Client| Ok(Arc::new(furnish(args, *work, client).await?));
    closed_loop::run(args, furnished, |client, _, accounts| Subscriber {
        client,
        work: *work,
        accounts: Arc::clone(accounts),
        next: Arc::clone(&next),
    })
}

/// Makes the catalog and the accounts. Unless subscribing is what is measured, each account has a subscription.
async fn furnish(
    args: &closed_loop::Options,
    work: Work,
    mut client: Client,
) -> anyhow::Result<Vec<Account>> {
    for (plan, product, amount) in PLANS {
        let body = json!({
            "planId": plan, "productName": product, "productCategory": "BASE", "currency": "USD",
            "amount": amount, "billingPeriod": "MONTHLY", "trialLength": 0, "trialTimeUnit": "UNLIMITED",
        });
        client.expect("POST", "/1.0/kb/catalog/simplePlan", &body).await?;
    }
    let of = Furniture { method: Some(Method::External), ..Furniture::default() };
    let ids = client.accounts(args.accounts, &of).await?;
    let accounts = ids.into_iter().map(|id| Account { id, ..Account::default() });
    if work == Work::Create {
        return Ok(accounts.collect());
    }
    let accounts = Arc::new(accounts.collect::<Vec<_>>());
    let next = Arc::new(AtomicUsize::new(0));
    let mut makers = tokio::task::JoinSet::new();
    for _ in 0..args.concurrency {
        let (mut client, accounts) = (client.another(), Arc::clone(&accounts));
        let next = Arc::clone(&next);
        makers.spawn(async move {
            let mut made = vec![];
            while let Some(account) = accounts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let subscription = subscribe(&mut client, &account.id).await;
                let subscription = subscription.map_err(anyhow::Error::msg)?;
                made.push(Account { id: account.id.clone(), subscription, ..Account::default() });
            }
            anyhow::Ok(made)
        });
    }
    let mut all = vec![];
    while let Some(made) = makers.join_next().await {
        all.extend(made.context("a client panicked")??);
    }
    if work == Work::Change {
        let path = format!("/1.0/kb/test/clock?days={DAYS}&timeoutSec=20");
        let set = client.expect("PUT", &path, &Value::Null).await;
        set.context("does the server run with --test-clock?")?;
    }
    Ok(all)
}

/// Subscribes an account; the subscription's id.
async fn subscribe(client: &mut Client, account: &str) -> Result<String, String> {
    let body = json!({ "accountId": account, "planName": PLANS[0].0 });
    match client.exchange("POST", "/1.0/kb/subscriptions", &body).await? {
        (201, _, Some(location)) => Ok(location.rsplit('/').next().unwrap_or_default().to_owned()),
        (status, ..) => Err(format!("subscribe {status}")),
    }
}

#[derive(Default)]
struct Account {
    id: String,
    /// Empty where it has none yet.
    subscription: String,
    /// How often its plan changed.
    changes: AtomicUsize,
}

/// One connection's share of the work.
struct Subscriber {
    client: Client,
    work: Work,
    accounts: Arc<Vec<Account>>,
    /// Whose turn it is.
    next: Arc<AtomicUsize>,
}

impl Worker for Subscriber {
    async fn once(&mut self) -> Result<u64, String> {
        let accounts = Arc::clone(&self.accounts);
        let account = &accounts[self.next.fetch_add(1, Ordering::Relaxed) % accounts.len()];
        match self.work {
            Work::Create => subscribe(&mut self.client, &account.id).await.map(|_| 1),
            Work::Change => self.change(account).await,
            Work::DryRun => self.dry_run(account).await,
        }
    }
}

impl Subscriber {
    async fn change(&mut self, account: &Account) -> Result<u64, String> {
        let changes = account.changes.fetch_add(1, Ordering::Relaxed);
        let (plan, ..) = PLANS[(changes + 1) % PLANS.len()];
        let path =
            format!("/1.0/kb/subscriptions/{}?billingPolicy=IMMEDIATE", account.subscription);
        let (status, ..) = self.client.exchange("PUT", &path, &json!({ "planName": plan })).await?;
        if status == 204 { Ok(1) } else { Err(format!("change {status}")) }
    }

    async fn dry_run(&mut self, account: &Account) -> Result<u64, String> {
        let path = format!("/1.0/kb/invoices/dryRun?accountId={}", account.id);
        let body = json!({ "dryRunType": "UPCOMING_INVOICE" });
        let (status, answer, _) = self.client.exchange("POST", &path, &body).await?;
        let is_right = status == 200 && answer.contains("\"RECURRING\"");
        if is_right { Ok(1) } else { Err(format!("dry run {status}")) }
    }
}
