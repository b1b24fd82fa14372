//! The ledger: the balance of each account of the chart, and the entries.

use std::collections::BTreeMap;

use axum::Json;
use domain::ledger::{LedgerAccount, PostingSource};
use domain::{AccountId, Currency};
use engine::ports::{LedgerEntry, LedgerFilter, LedgerTotal};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{InvalidParameter, PageParameters, PaymentParameters, Unauthenticated};
use crate::parameters::{Parameters, invalid, next_offset};
use engine::time::rfc3339;

/// The balances of the ledger.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Balances {
    /// One line per account of the chart and currency.
    accounts: Vec<AccountBalance>,
    /// One line per currency; debit equals credit unless the ledger is broken. Absent if the
    /// request names a billing account.
    #[serde(skip_serializing_if = "Option::is_none")]
    trial_balance: Option<Vec<TrialBalance>>,
}

/// The balance of an account of the chart in a currency.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AccountBalance {
    /// `customers`, `customer:{account}`, `gateway:{gateway}`, `refunds:{gateway}`, `disputes:{gateway}`,
    /// `dispute-excess:{gateway}`, `sales`, `tax`.
    account: String,
    /// ISO 4217 code, such as `USD`.
    currency: String,
    /// Sum of debits, in the major unit.
    debit: String,
    /// Sum of credits, in the major unit.
    credit: String,
    /// Debits less credits, in the major unit.
    balance: String,
}

/// Both sides of the ledger in a currency.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TrialBalance {
    /// ISO 4217 code, such as `USD`.
    currency: String,
    /// Sum of debits, in the major unit.
    debit: String,
    /// Sum of credits, in the major unit.
    credit: String,
    /// Whether debit and credit are equal.
    balanced: bool,
}

/// A page of entries, oldest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entries {
    /// The entries of the page.
    entries: Vec<Entry>,
    /// The `offset` of the next page, which may be empty; `null` after the last page.
    next_offset: Option<u64>,
}

/// One debit and one credit of an amount.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Entry {
    /// The number of the journal row that wrote it.
    seq: i64,
    /// When it was written (RFC 3339).
    at: String,
    /// The billing account's id.
    account_id: Uuid,
    /// The payment's id; absent where an invoice moved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<Uuid>,
    /// The id of the transaction that moved the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<Uuid>,
    /// The invoice's id; absent where a payment moved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    invoice_id: Option<Uuid>,
    /// The id of the item that charges, or gives back.
    #[serde(skip_serializing_if = "Option::is_none")]
    item_id: Option<Uuid>,
    /// The debited account of the chart.
    debit: String,
    /// The credited account of the chart.
    credit: String,
    /// The amount in the major unit.
    amount: String,
    /// ISO 4217 code, such as `USD`.
    currency: String,
}

/// Balances of the chart of accounts, or of one customer
#[utoipa::path(get, path = "/v1/ledger/accounts", tag = "Ledger", operation_id = "ledger_accounts",
    params(("account" = Option<Uuid>, Query, description = "Only this billing account's customer ledger account")),
    responses((status = 200, description = "The balances", body = Balances),
        (status = 404, description = "No such account"), InvalidParameter, Unauthenticated))]
pub async fn accounts(Call { api, context, uri, .. }: Call) -> Result<Json<Balances>, Error> {
    let mut parameters = Parameters::of(&uri)?;
    let account: Option<AccountId> = parameters.id("account")?;
    parameters.end()?;
    let no = context.tenant.no;
    let Some(account) = account else {
        let totals = api.engine.read(move |queries| queries.trial_balance(no)).await?;
        let accounts = totals.iter().map(|total| balance(total, None)).collect();
        return Ok(Json(Balances { accounts, trial_balance: Some(trial_balance(&totals)) }));
    };
    let totals = api.engine.read(move |queries| {
        let known = queries.account(no, account)?;
        known.map(|_| queries.customer_totals(no, account)).transpose()
    });
    let name = account.to_string();
    let totals = totals.await?.ok_or(Error::NotFound { what: "account", name })?;
    let accounts = totals.iter().map(|total| balance(total, Some(account))).collect();
    Ok(Json(Balances { accounts, trial_balance: None }))
}

/// Ledger entries, oldest first
#[utoipa::path(get, path = "/v1/ledger/entries", tag = "Ledger", operation_id = "ledger_entries",
    params(PaymentParameters,
        ("invoice" = Option<Uuid>, Query, description = "Of this invoice; not beside `payment`"),
        ("from" = Option<String>, Query, description = "Written at or after (RFC 3339 time or date)"),
        ("to" = Option<String>, Query, description = "Written before (RFC 3339 time or date)"),
        PageParameters),
    responses((status = 200, description = "The entries", body = Entries), InvalidParameter, Unauthenticated))]
pub async fn entries(Call { api, context, uri, .. }: Call) -> Result<Json<Entries>, Error> {
    let mut parameters = Parameters::of(&uri)?;
    let filter = LedgerFilter {
        account: parameters.id("account")?,
        payment: parameters.id("payment")?,
        invoice: parameters.id("invoice")?,
        from: parameters.time("from")?,
        to: parameters.time("to")?,
    };
    let page = parameters.page()?;
    parameters.end()?;
    if filter.payment.is_some() && filter.invoice.is_some() {
        return Err(invalid("invoice", "should not be given beside payment"));
    }
    let no = context.tenant.no;
    let read =
        api.engine.read_page((no, page), move |queries| queries.ledger_entries(no, &filter, page));
    let rows = read.await?;
    let next_offset = next_offset(page, rows.len());
    Ok(Json(Entries { entries: rows.iter().map(entry).collect(), next_offset }))
}

fn entry(LedgerEntry { seq, posting }: &LedgerEntry) -> Entry {
    let name = |account| name(account, Some(posting.account_id), posting.gateway());
    let (payment, invoice) = match posting.source {
        PostingSource::Payment { payment, transaction, .. } => {
            (Some((payment.uuid(), transaction.uuid())), None)
        }
        PostingSource::Invoice { invoice, item } => (None, Some((invoice.uuid(), item.uuid()))),
    };
    Entry {
        seq: seq.0,
        at: rfc3339(posting.at),
        account_id: posting.account_id.uuid(),
        payment_id: payment.map(|it| it.0),
        transaction_id: payment.map(|it| it.1),
        invoice_id: invoice.map(|it| it.0),
        item_id: invoice.map(|it| it.1),
        debit: name(posting.debit),
        credit: name(posting.credit),
        amount: posting.amount.decimal(posting.currency),
        currency: posting.currency.to_string(),
    }
}

fn balance(total: &LedgerTotal, customer: Option<AccountId>) -> AccountBalance {
    AccountBalance {
        account: name(total.account, customer, &total.gateway),
        currency: total.currency.to_string(),
        debit: total.currency.decimal(total.debit),
        credit: total.currency.decimal(total.credit),
        balance: total.currency.decimal(total.debit - total.credit),
    }
}

/// An account's name in the chart.
fn name(account: LedgerAccount, customer: Option<AccountId>, gateway: &str) -> String {
    match (account, customer) {
        (LedgerAccount::Customer, Some(customer)) => format!("customer:{customer}"),
        (LedgerAccount::Customer, None) => "customers".to_owned(),
        (LedgerAccount::Gateway, _) => format!("gateway:{gateway}"),
        (LedgerAccount::Refunds, _) => format!("refunds:{gateway}"),
        (LedgerAccount::Disputes, _) => format!("disputes:{gateway}"),
        (LedgerAccount::DisputeExcess, _) => format!("dispute-excess:{gateway}"),
        (LedgerAccount::Sales, _) => "sales".to_owned(),
        (LedgerAccount::Tax, _) => "tax".to_owned(),
    }
}

fn trial_balance(totals: &[LedgerTotal]) -> Vec<TrialBalance> {
    let mut sides: BTreeMap<Currency, (i128, i128)> = BTreeMap::new();
    for total in totals {
        let (debit, credit) = sides.entry(total.currency).or_default();
        *debit += total.debit;
        *credit += total.credit;
    }
    let lines = sides.into_iter().map(|(currency, (debit, credit))| TrialBalance {
        currency: currency.to_string(),
        debit: currency.decimal(debit),
        credit: currency.decimal(credit),
        balanced: debit == credit,
    });
    lines.collect()
}
