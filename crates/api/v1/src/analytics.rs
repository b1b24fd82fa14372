//! Analytics: queries of the read models, which follow the journal with a short delay.

use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use domain::payment::{TransactionStatus, TransactionType};
use domain::{AccountId, Currency, Timestamp};
use engine::ports::{
    AccountAmounts, AccountsOfDay, AnalyticsQueries, Days, StoreError, TransactionsFilter,
    TransactionsOfDay,
};
use engine::{Reason, Unavailable};
use jiff::civil::Date;
use serde::Serialize;
use tokio::sync::Semaphore;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::Api;
use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{InvalidParameter, Unauthenticated};
use crate::parameters::{Parameters, invalid, next_offset};
use engine::time::rfc3339;

/// Every type of transaction, to parse a filter.
const KINDS: [TransactionType; 8] = [
    TransactionType::Authorize,
    TransactionType::Capture,
    TransactionType::Purchase,
    TransactionType::Refund,
    TransactionType::Credit,
    TransactionType::Void,
    TransactionType::Chargeback,
    TransactionType::ChargebackReversal,
];

/// Every status of a transaction, to parse a filter.
const STATUSES: [TransactionStatus; 6] = [
    TransactionStatus::InFlight,
    TransactionStatus::Success,
    TransactionStatus::Pending,
    TransactionStatus::PaymentFailure,
    TransactionStatus::PluginFailure,
    TransactionStatus::Unknown,
];

/// The read models, as many readers at a time as there are connections.
#[derive(Clone)]
pub struct Models {
    queries: Arc<dyn AnalyticsQueries>,
    free: Arc<Semaphore>,
}

impl Models {
    /// Reads with at most `readers` threads.
    #[must_use]
    pub fn new(queries: Arc<dyn AnalyticsQueries>, readers: usize) -> Self {
        Self { queries, free: Arc::new(Semaphore::new(readers)) }
    }

    async fn read<T, F>(&self, query: F) -> Result<T, Unavailable>
    where
        F: FnOnce(&dyn AnalyticsQueries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let permit = Arc::clone(&self.free).acquire_owned().await;
        let permit = permit.map_err(|_| Unavailable::from(Reason::Stopping))?;
        let queries = Arc::clone(&self.queries);
        let read = tokio::task::spawn_blocking(move || {
            let result = query(&*queries);
            drop(permit);
            result
        });
        match read.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                tracing::error!(error = %error, "the analytics tables cannot be read");
                Err(Reason::from(&error).into())
            }
            Err(_) => Err(Reason::Bug.into()),
        }
    }
}

/// Transactions by day, gateway, currency, type and status.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transactions {
    /// The last journal row that is counted.
    as_of_seq: i64,
    /// One line per day, gateway, currency, type and status.
    payments: Vec<TransactionsLine>,
    /// The `offset` of the next page, which may be empty; `null` after the last page.
    next_offset: Option<u64>,
}

/// The transactions of one day that agree in gateway, currency, type and status.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TransactionsLine {
    /// The day of the requests (UTC), such as `2026-11-20`.
    day: String,
    /// The gateway's name.
    gateway: String,
    /// ISO 4217 code; `null` for voids.
    currency: Option<String>,
    /// The type in Kill Bill's spelling, such as `PURCHASE`.
    transaction_type: &'static str,
    /// The status in Kill Bill's spelling, such as `SUCCESS`.
    status: &'static str,
    /// The number of transactions.
    transactions: i64,
    /// The processed amount in the major unit; zero unless they succeeded. `null` for voids.
    amount: Option<String>,
}

/// New accounts by day.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accounts {
    /// The last journal row that is counted.
    as_of_seq: i64,
    /// One line per day.
    accounts: Vec<AccountsLine>,
}

/// The accounts created on one day.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AccountsLine {
    /// The day (UTC), such as `2026-11-20`.
    day: String,
    /// The number of accounts.
    accounts: i64,
}

/// The activity of one account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// The last journal row that is counted.
    as_of_seq: i64,
    /// The billing account's id.
    account_id: Uuid,
    /// The number of payments.
    payments: i64,
    /// The number of requested transactions.
    transactions: i64,
    /// When the last transaction was requested (RFC 3339); `null` while there is none.
    last_transaction_at: Option<String>,
    /// The successful amounts, by currency.
    amounts: Vec<Amounts>,
}

/// An account's successful amounts in one currency, in the major unit.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Amounts {
    /// ISO 4217 code, such as `USD`.
    currency: String,
    /// The sum of purchases.
    purchased: String,
    /// The sum of captures of authorized amounts.
    captured: String,
    /// The sum of refunds.
    refunded: String,
    /// The sum of credits, which are paid out without an earlier payment.
    credited: String,
    /// The sum of chargebacks less their reversals.
    charged_back: String,
}

/// The days that are counted.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
struct DaysParameters {
    /// The first day (2026-11-20, UTC)
    from: Option<String>,
    /// The last day
    to: Option<String>,
}

/// Payment transactions by day, gateway, currency, type and status
#[utoipa::path(get, path = "/v1/analytics/payments", tag = "Analytics", operation_id = "analytics_payments",
    params(DaysParameters,
        ("gateway" = Option<String>, Query, description = "Through this gateway"),
        ("currency" = Option<String>, Query, description = "In this currency (ISO 4217)"),
        ("type" = Option<String>, Query, description = "Of this type, such as PURCHASE"),
        ("status" = Option<String>, Query, description = "In this status, such as SUCCESS"),
        ("offset" = Option<u64>, Query, description = "How many lines to skip"),
        ("limit" = Option<u64>, Query, description = "How many lines at most; 100 by default, 1000 at most")),
    responses((status = 200, description = "The sums", body = Transactions), InvalidParameter, Unauthenticated))]
pub async fn payments(Call { api, context, uri, .. }: Call) -> Result<Json<Transactions>, Error> {
    let mut parameters = Parameters::of(&uri)?;
    let filter = TransactionsFilter {
        days: days(&mut parameters)?,
        gateway: parameters.text("gateway")?,
        currency: one_of(&mut parameters, "currency", Currency::parse)?,
        kind: one_of(&mut parameters, "type", |text| {
            KINDS.into_iter().find(|kind| kind.name() == text)
        })?,
        status: one_of(&mut parameters, "status", |text| {
            STATUSES.into_iter().find(|status| status.name() == text)
        })?,
    };
    let page = parameters.page()?;
    parameters.end()?;
    let no = context.tenant.no;
    let read = models(&api)?
        .read(move |queries| Ok((queries.cursor()?, queries.transactions(no, &filter, page)?)));
    let (as_of, lines) = read.await?;
    let next_offset = next_offset(page, lines.len());
    Ok(Json(Transactions {
        as_of_seq: as_of.0,
        payments: lines.into_iter().map(transactions_line).collect(),
        next_offset,
    }))
}

/// The read models; an error in a process that has none.
fn models(api: &Api) -> Result<&Models, Error> {
    api.analytics.as_ref().ok_or(Error::NotHere { what: "analytics" })
}

/// New accounts by day
#[utoipa::path(get, path = "/v1/analytics/accounts", tag = "Analytics", operation_id = "analytics_accounts",
    params(DaysParameters),
    responses((status = 200, description = "The accounts of each day", body = Accounts),
        InvalidParameter, Unauthenticated))]
pub async fn accounts(Call { api, context, uri, .. }: Call) -> Result<Json<Accounts>, Error> {
    let mut parameters = Parameters::of(&uri)?;
    let days = days(&mut parameters)?;
    parameters.end()?;
    let no = context.tenant.no;
    let read =
        models(&api)?.read(move |queries| Ok((queries.cursor()?, queries.accounts(no, days)?)));
    let (as_of, lines) = read.await?;
    let line = |it: AccountsOfDay| AccountsLine { day: date(it.day), accounts: it.accounts };
    Ok(Json(Accounts { as_of_seq: as_of.0, accounts: lines.into_iter().map(line).collect() }))
}

/// Payments and sums of one account
#[utoipa::path(get, path = "/v1/analytics/accounts/{account}", tag = "Analytics", operation_id = "analytics_account",
    params(("account" = Uuid, Path, description = "The account")),
    responses((status = 200, description = "The account", body = Account),
        (status = 404, description = "No such account"), Unauthenticated))]
pub async fn account(
    Call { api, context, .. }: Call,
    Path(name): Path<String>,
) -> Result<Json<Account>, Error> {
    let not_found = Error::NotFound { what: "account", name: name.clone() };
    let Ok(id) = Uuid::try_parse(&name).map(AccountId::new) else { return Err(not_found) };
    let no = context.tenant.no;
    if api.engine.read(move |queries| queries.account(no, id)).await?.is_none() {
        return Err(not_found);
    }
    let read = models(&api)?.read(move |queries| Ok((queries.cursor()?, queries.account(no, id)?)));
    let (as_of, summary) = read.await?;
    Ok(Json(Account {
        as_of_seq: as_of.0,
        account_id: id.uuid(),
        payments: summary.payments,
        transactions: summary.transactions,
        last_transaction_at: summary.last_transaction_at.map(rfc3339),
        amounts: summary.amounts.iter().map(amounts).collect(),
    }))
}

fn transactions_line(it: TransactionsOfDay) -> TransactionsLine {
    TransactionsLine {
        day: date(it.day),
        gateway: it.gateway,
        currency: it.currency.map(|currency| currency.to_string()),
        transaction_type: it.kind.name(),
        status: it.status.name(),
        transactions: it.transactions,
        amount: it.currency.map(|currency| currency.decimal(it.amount_minor)),
    }
}

fn amounts(it: &AccountAmounts) -> Amounts {
    let decimal = |minor| it.currency.decimal(minor);
    Amounts {
        currency: it.currency.to_string(),
        purchased: decimal(it.purchased_minor),
        captured: decimal(it.captured_minor),
        refunded: decimal(it.refunded_minor),
        credited: decimal(it.credited_minor),
        charged_back: decimal(it.charged_back_minor),
    }
}

fn one_of<T>(
    parameters: &mut Parameters,
    name: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Error> {
    let Some(text) = parameters.text(name)? else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| invalid(name, format!("there is no `{text}`")))
}

fn days(parameters: &mut Parameters) -> Result<Days, Error> {
    Ok(Days { from: day(parameters, "from")?, to: day(parameters, "to")? })
}

fn day(parameters: &mut Parameters, name: &'static str) -> Result<Option<i64>, Error> {
    let Some(text) = parameters.text(name)? else { return Ok(None) };
    let date = Date::from_str(&text).map_err(|_| invalid(name, "is no date such as 2026-11-20"))?;
    let time = date.to_zoned(jiff::tz::TimeZone::UTC);
    let time = time.map_err(|_| invalid(name, "is out of range"))?.timestamp();
    Ok(Some(Timestamp(time.as_microsecond()).day()))
}

/// A day as a date.
fn date(day: i64) -> String {
    let at = jiff::Timestamp::from_second(day.saturating_mul(86_400));
    at.map_or_else(
        |_| day.to_string(),
        |at| at.to_zoned(jiff::tz::TimeZone::UTC).date().to_string(),
    )
}
