//! The scenario's results, read through the API: ids, audit rows, postings, events, analytics.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::api::Api;
use super::print_line;
use super::receiver::Events;
use super::table::table;

/// Attempts until analytics have caught up.
const ANALYTICS_ATTEMPTS_MAX: u32 = 100;
/// The pause between two attempts.
const ANALYTICS_PAUSE: Duration = Duration::from_millis(50);

/// The ids of the rows to read.
pub struct Subjects {
    pub account: String,
    pub method: String,
    pub payment: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payment {
    payment_number: String,
    transactions: Vec<Transaction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transaction {
    transaction_id: String,
    transaction_type: String,
    status: String,
    /// Raw text: a float would lose trailing zeros.
    amount: Option<Box<RawValue>>,
    currency: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditRow {
    change_type: String,
    change_date: String,
    object_type: String,
    object_id: String,
    changed_by: String,
}

#[derive(Deserialize)]
struct Entries {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    debit: String,
    credit: String,
    amount: String,
    currency: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Balances {
    accounts: Vec<Balance>,
    trial_balance: Option<Vec<Trial>>,
}

#[derive(Deserialize)]
struct Balance {
    account: String,
    currency: String,
    debit: String,
    credit: String,
    balance: String,
}

#[derive(Deserialize)]
struct Trial {
    currency: String,
    debit: String,
    credit: String,
    balanced: bool,
}

#[derive(Deserialize)]
struct Days {
    payments: Vec<Day>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Day {
    day: String,
    gateway: String,
    currency: Option<String>,
    transaction_type: String,
    status: String,
    transactions: i64,
    amount: Option<String>,
}

#[derive(Deserialize)]
struct Activity {
    payments: u64,
    transactions: usize,
    amounts: Vec<Amounts>,
}

#[derive(Deserialize)]
struct Amounts {
    currency: String,
    purchased: String,
    refunded: String,
}

/// Reads and prints the results.
pub async fn show_results(
    api: &mut Api,
    subjects: &Subjects,
    events: &Events,
    begun: Instant,
) -> anyhow::Result<()> {
    let Subjects { account, method, payment } = subjects;
    let paid: Payment = api.get(&format!("/1.0/kb/payments/{payment}?withPluginInfo=true")).await?;
    print_line("\nWritten, each with its history, in the commits that the answers waited for")?;
    show_ids(account, method, payment, &paid)?;
    let audit: Vec<AuditRow> = api.get(&format!("/1.0/kb/accounts/{account}/auditLogs")).await?;
    show_audit(&audit)?;
    show_ledger(api, &format!("account={account}&payment={payment}")).await?;
    print_line("\nFollowing the journal")?;
    show_events(events, begun)?;
    show_analytics(api, account, paid.transactions.len()).await
}

fn show_ids(account: &str, method: &str, payment: &str, paid: &Payment) -> anyhow::Result<()> {
    let mut rows = vec![
        vec!["account".to_owned(), account.to_owned(), String::new()],
        vec!["payment method".to_owned(), method.to_owned(), "the account's default".to_owned()],
        vec!["payment".to_owned(), payment.to_owned(), format!("number {}", paid.payment_number)],
    ];
    for transaction in &paid.transactions {
        let Transaction { transaction_id, transaction_type, status, amount, currency } =
            transaction;
        let amount = amount.as_ref().map_or("-", |amount| amount.get());
        let currency = currency.as_deref().unwrap_or_default();
        let what = format!("{transaction_type} {amount} {currency} {status}");
        rows.push(vec!["transaction".to_owned(), transaction_id.clone(), what]);
    }
    section("ids", &["", "id", ""], &rows)
}

fn show_audit(audit: &[AuditRow]) -> anyhow::Result<()> {
    let rows: Vec<_> = audit
        .iter()
        .map(|row| {
            let AuditRow { change_type, change_date, object_type, object_id, changed_by } = row;
            [change_type, object_type, object_id, changed_by, change_date]
                .map(Clone::clone)
                .to_vec()
        })
        .collect();
    section("audit rows", &["change", "of", "id", "by", "at"], &rows)
}

/// The postings that a query finds, and the whole ledger, which must balance.
pub(super) async fn show_ledger(api: &mut Api, query: &str) -> anyhow::Result<()> {
    let Entries { entries } = api.get(&format!("/v1/ledger/entries?{query}")).await?;
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let Entry { debit, credit, amount, currency } = entry;
            [debit, credit, amount, currency].map(Clone::clone).to_vec()
        })
        .collect();
    section("postings", &["debit", "credit", "amount", "currency"], &rows)?;
    let Balances { accounts, trial_balance } = api.get("/v1/ledger/accounts").await?;
    let mut rows: Vec<_> = accounts
        .iter()
        .map(|line| {
            let Balance { account, currency, debit, credit, balance } = line;
            [account, debit, credit, balance, currency].map(Clone::clone).to_vec()
        })
        .collect();
    for Trial { currency, debit, credit, balanced } in trial_balance.unwrap_or_default() {
        anyhow::ensure!(balanced, "the ledger does not balance in {currency}");
        rows.push(vec!["(all: balanced)".to_owned(), debit, credit, "0.00".to_owned(), currency]);
    }
    section("ledger", &["account", "debit", "credit", "balance", "currency"], &rows)
}

fn show_events(events: &Events, begun: Instant) -> anyhow::Result<()> {
    anyhow::ensure!(!events.is_empty(), "no event was delivered");
    let rows: Vec<_> = events
        .iter()
        .map(|(at, event)| {
            let ms = at.saturating_duration_since(begun).as_secs_f64() * 1000.0;
            let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let (kind, id) = (shown(&event.object_type), shown(&event.object_id));
            vec![event.event_type.clone(), kind, id, format!("{ms:.0}")]
        })
        .collect();
    section("events delivered to the callback", &["event", "of", "id", "ms after the start"], &rows)
}

/// Waits until analytics, which follow the journal, have all transactions of the account.
async fn activity(api: &mut Api, account: &str, transactions: usize) -> anyhow::Result<Activity> {
    let path = format!("/v1/analytics/accounts/{account}");
    for _ in 0..ANALYTICS_ATTEMPTS_MAX {
        let activity: Activity = api.get(&path).await?;
        if activity.transactions == transactions {
            return Ok(activity);
        }
        tokio::time::sleep(ANALYTICS_PAUSE).await;
    }
    anyhow::bail!("analytics have not seen the account's {transactions} transactions")
}

async fn show_analytics(api: &mut Api, account: &str, transactions: usize) -> anyhow::Result<()> {
    let activity = activity(api, account, transactions).await?;
    let Days { payments } = api.get("/v1/analytics/payments").await?;
    let rows: Vec<_> = payments
        .into_iter()
        .map(|line| {
            let Day { day, gateway, transaction_type, status, transactions, .. } = line;
            let amount = line.amount.unwrap_or_else(|| "-".to_owned());
            let currency = line.currency.unwrap_or_default();
            let count = transactions.to_string();
            vec![day, gateway, transaction_type, status, count, amount, currency]
        })
        .collect();
    let header = ["day", "gateway", "type", "status", "count", "amount", "currency"];
    section("analytics by day", &header, &rows)?;
    let (payments, transactions) = (activity.payments, activity.transactions);
    let rows: Vec<_> = activity
        .amounts
        .into_iter()
        .map(|Amounts { currency, purchased, refunded }| {
            vec![payments.to_string(), transactions.to_string(), purchased, refunded, currency]
        })
        .collect();
    let header = ["payments", "transactions", "purchased", "refunded", "currency"];
    section("analytics of the account", &header, &rows)
}

/// Prints a table under its title.
pub(super) fn section(title: &str, header: &[&str], rows: &[Vec<String>]) -> anyhow::Result<()> {
    print_line(&format!("\n {title} ({})\n{}", rows.len(), table(header, rows).trim_end()))?;
    Ok(())
}
