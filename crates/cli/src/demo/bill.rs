//! The first bill: a catalog, a subscription with a trial, and 31 days of the test clock.

use anyhow::Context as _;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::api::{Api, shown};
use super::print_line;
use super::results::{section, show_ledger};
use super::scenario::Scenario;

const CATALOG: &str = include_str!("catalog.xml");
const PLAN: &str = "team-monthly";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invoice {
    invoice_id: String,
    invoice_number: String,
    invoice_date: String,
    amount: Box<RawValue>,
    balance: Box<RawValue>,
    currency: String,
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    description: String,
    start_date: String,
    end_date: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payment {
    target_invoice_id: String,
    purchased_amount: Box<RawValue>,
    currency: String,
    transactions: Vec<Transaction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transaction {
    status: String,
    effective_date: String,
}

/// Sells a plan with a trial of 30 days, moves the clock by 31 days, and shows what was billed.
pub(super) async fn run(scenario: &mut Scenario) -> anyhow::Result<()> {
    print_line("\nA first bill\n")?;
    catalog(scenario).await?;
    let account = json!({ "name": "Grace Hopper", "currency": "USD", "timeZone": "UTC" });
    let created = scenario.create("create an account", "/1.0/kb/accounts", "", Some(&account));
    let account = created.await?.created_id()?;
    let methods = format!("/1.0/kb/accounts/{account}/paymentMethods");
    let method = json!({ "pluginName": "faregate-simulator", "pluginInfo": {} });
    scenario.create("add a payment method", &methods, "?isDefault=true", Some(&method)).await?;
    let wanted = json!({ "accountId": account, "planName": PLAN });
    let title = "subscribe, with 30 days of trial";
    scenario.create(title, "/1.0/kb/subscriptions", "", Some(&wanted)).await?;
    scenario.clock("move the clock by 31 days", Method::PUT, "?days=31&timeoutSec=30").await?;
    show(&mut scenario.api, &account).await?;
    print_line("")?;
    scenario.clock("set the clock right again", Method::POST, "?timeoutSec=30").await
}

/// Uploads the catalog, unless the tenant has one.
async fn catalog(scenario: &mut Scenario) -> anyhow::Result<()> {
    let versions: Vec<String> = scenario.api.get("/1.0/kb/catalog/versions").await?;
    if !versions.is_empty() {
        return print_line("     the tenant's catalog is used again").map_err(Into::into);
    }
    let (title, path) = ("upload a catalog", "/1.0/kb/catalog/xml");
    let answer = scenario.api.upload_xml(path, CATALOG).await.context(title)?;
    anyhow::ensure!(answer.status == StatusCode::CREATED, "{title}: {}", shown(&answer));
    scenario.show(title, "POST", path, &answer)
}

async fn show(api: &mut Api, account: &str) -> anyhow::Result<()> {
    let of_account = format!("/1.0/kb/accounts/{account}");
    let invoices: Vec<Invoice> =
        api.get(&format!("{of_account}/invoices?includeInvoiceComponents=true")).await?;
    let mut rows = Vec::new();
    for invoice in &invoices {
        rows.extend(invoice.items.iter().map(|item| invoice_row(invoice, item)));
    }
    let header = ["number", "date", "for", "from", "to", "amount", "balance", "currency"];
    section("invoices", &header, &rows)?;
    let payments: Vec<Payment> = api.get(&format!("{of_account}/invoicePayments")).await?;
    let rows: Vec<_> = payments.iter().map(|it| payment_row(it, &invoices)).collect();
    section("payments of invoices", &["invoice", "at", "amount", "currency", "status"], &rows)?;
    show_ledger(api, &format!("account={account}")).await
}

fn invoice_row(invoice: &Invoice, item: &Item) -> Vec<String> {
    let Invoice { invoice_number, invoice_date, amount, balance, currency, .. } = invoice;
    let Item { description, start_date, end_date } = item;
    let end = end_date.as_deref().unwrap_or("-");
    let cells = [invoice_number, invoice_date, description, start_date, end];
    cells.into_iter().chain([amount.get(), balance.get(), currency]).map(str::to_owned).collect()
}

fn payment_row(payment: &Payment, invoices: &[Invoice]) -> Vec<String> {
    let Payment { target_invoice_id, purchased_amount, currency, transactions } = payment;
    let invoice = invoices.iter().find(|it| it.invoice_id == *target_invoice_id);
    let number = invoice.map_or("-", |it| &it.invoice_number);
    let last = transactions.last();
    let (at, status) = last.map_or(("-", "-"), |it| (&*it.effective_date, &*it.status));
    let cells = [number, at, purchased_amount.get(), currency, status];
    cells.map(str::to_owned).to_vec()
}
