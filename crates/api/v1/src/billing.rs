//! How far billing is: what is due, how late it is, and which accounts wait for somebody.

use axum::Json;
use domain::billing::Unbillable;
use domain::billing::account::AccountBilling;
use domain::{AccountId, Timestamp};
use engine::forecast;
use engine::ports::{Page, Queries};
use engine::time::rfc3339;
use jiff::civil::Date;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{InvalidParameter, PageParameters, Unauthenticated};
use crate::parameters::{Parameters, invalid};

/// How many accounts a page of a forecast has at most, and by default.
const FORECAST_MAX: u64 = 500;
const FORECAST_DEFAULT: u64 = 100;

/// How far the billing of the tenant is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BillingStatus {
    /// The server's time, which is what is compared (RFC 3339).
    now: String,
    /// Accounts that are due to be billed and are not yet; no more than 100,000 are counted.
    due: i64,
    /// When the first of them was due (RFC 3339); `null`: none is.
    oldest_due_at: Option<String>,
    /// Seconds since then.
    lag_seconds: i64,
    /// Accounts that are billed no more until somebody acts; no more than 100,000 are counted.
    parked: i64,
    /// A page of these, by their ids.
    parked_accounts: Vec<ParkedAccount>,
    /// Whether more follow after this page.
    more: bool,
}

/// An account that is billed no more.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ParkedAccount {
    /// The billing account's id.
    account_id: Uuid,
    /// Since when (RFC 3339).
    since: String,
    /// Why it cannot be billed.
    reason: String,
    /// What to do before `POST /1.0/kb/admin/invoices` tries again.
    remedy: &'static str,
}

/// What is due to be billed, how late it is, and the accounts that cannot be billed with the reason
#[utoipa::path(get, path = "/v1/billing", tag = "Billing", operation_id = "billing_status",
    params(PageParameters),
    responses((status = 200, description = "How far it is", body = BillingStatus),
        InvalidParameter, Unauthenticated))]
pub async fn status(Call { api, context, uri, .. }: Call) -> Result<Json<BillingStatus>, Error> {
    let window = Parameters::only_window(&uri)?;
    let (no, now): (_, Timestamp) = (context.tenant.no, api.engine.clock().now());
    let page: Page = window.one_more();
    let read = api.engine.scan(no, move |queries| queries.billing_status(no, now, page));
    let found = read.await?;
    let (accounts, more) = window.cut(found.accounts);
    let late_us = found.oldest_due.map_or(0, |it| now.0.saturating_sub(it.0).max(0));
    Ok(Json(BillingStatus {
        now: rfc3339(now),
        due: found.due,
        oldest_due_at: found.oldest_due.map(rfc3339),
        lag_seconds: late_us / Timestamp::SECOND_US,
        parked: found.parked,
        parked_accounts: accounts.iter().filter_map(describe).collect(),
        more,
    }))
}

/// What accounts of the tenant would be invoiced until a day, if nothing changes.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BillingForecast {
    /// The day.
    to: String,
    /// Accounts of which something is due until then, on this page.
    accounts: u64,
    /// Those of them that cannot be invoiced.
    refused: u64,
    /// What the others would be invoiced, by currency.
    currencies: Vec<CurrencyForecast>,
    /// The `after` of the next page; `null` after the last one.
    next_after: Option<Uuid>,
}

/// What accounts would be invoiced in a currency.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CurrencyForecast {
    /// ISO 4217 code.
    currency: String,
    /// How many invoices.
    invoices: u64,
    /// Charges less repairs, in the major unit.
    charged: String,
    /// The part of it that accounts' credit pays.
    from_credit: String,
}

/// Sums of what accounts would be invoiced until a day, as dry runs have it, a page of accounts at a time
#[utoipa::path(get, path = "/v1/billing/forecast", tag = "Billing", operation_id = "billing_forecast",
    params(("to" = String, Query, description = "A day, at most 36 months ahead"),
        ("after" = Option<Uuid>, Query, description = "Only accounts behind this one, by id"),
        ("limit" = Option<u64>, Query, description = "How many accounts at most, 1 to 500; 100 by default")),
    responses((status = 200, description = "The sums", body = BillingForecast),
        InvalidParameter, Unauthenticated))]
pub async fn forecast(
    Call { api, context, uri, .. }: Call,
) -> Result<Json<BillingForecast>, Error> {
    let mut parameters = Parameters::of(&uri)?;
    let to = day(parameters.text("to")?)?;
    let after: Option<AccountId> = parameters.id("after")?;
    let limit = parameters.number("limit", FORECAST_MAX)?.unwrap_or(FORECAST_DEFAULT).max(1);
    parameters.end()?;
    let of = (context.tenant.no, api.engine.clock().now(), api.engine.mint());
    let read = move |queries: &dyn Queries| forecast::forecast(queries, of, to, (after, limit));
    let found = api.engine.scan(context.tenant.no, read).await?;
    let currencies = found.currencies.iter().map(|(currency, sums)| CurrencyForecast {
        currency: currency.to_string(),
        invoices: sums.invoices,
        charged: currency.decimal(sums.charged),
        from_credit: currency.decimal(sums.from_credit),
    });
    Ok(Json(BillingForecast {
        to: to.to_string(),
        accounts: found.accounts,
        refused: found.refused,
        currencies: currencies.collect(),
        next_after: found.next.map(AccountId::uuid),
    }))
}

fn day(text: Option<String>) -> Result<Date, Error> {
    let day = text.and_then(|text| text.parse().ok());
    day.ok_or_else(|| invalid("to", "should be a day, such as 2026-12-31"))
}

fn describe(it: &AccountBilling) -> Option<ParkedAccount> {
    let parked = it.parked?;
    Some(ParkedAccount {
        account_id: it.account_id.uuid(),
        since: rfc3339(parked.since),
        reason: parked.reason.to_string(),
        remedy: remedy(parked.reason),
    })
}

const fn remedy(reason: Unbillable) -> &'static str {
    match reason {
        Unbillable::BeyondCalendar => {
            "end or change the subscription whose dates are outside the calendar's years"
        }
        Unbillable::TooLarge => "lower the price or the quantity of the subscription",
        Unbillable::Overlap(_) => "void or adjust the invoice that charges the day, or report it",
        Unbillable::NoPlan => {
            "upload a version of the catalog that has the plan and its phase, or change the plan"
        }
        Unbillable::NoPrice => {
            "upload a version of the catalog with a price in the account's currency"
        }
    }
}
