//! Forecasts: what a tenant's accounts would be invoiced until a day, as dry runs add up.

use std::collections::BTreeMap;

use domain::billing::dry_run::{DryRun, DryRunOf};
use domain::{AccountId, Currency, RequestId, TenantNo, Timestamp};
use jiff::civil::Date;

use crate::ports::{Queries, StoreError};

/// The dry runs of a page of accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// How many accounts were looked at.
    pub accounts: u64,
    /// What they would be invoiced. More than 64 bits: it sums many amounts.
    pub currencies: BTreeMap<Currency, ForecastSums>,
    /// Those that could not be invoiced.
    pub refused: u64,
    /// The last account, if more follow.
    pub next: Option<AccountId>,
}

/// What accounts would be invoiced in a currency, in minor units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForecastSums {
    pub invoices: u64,
    /// Charges less repairs.
    pub charged: i128,
    /// The part of it that accounts' credit pays.
    pub from_credit: i128,
}

/// Adds up the dry runs until a day of at most `limit` accounts behind one.
///
/// # Errors
/// [`StoreError`].
pub fn forecast(
    queries: &dyn Queries,
    (tenant, now, id): (TenantNo, Timestamp, RequestId),
    to: Date,
    (after, limit): (Option<AccountId>, u64),
) -> Result<Forecast, StoreError> {
    // Wherever the account is, its day has begun.
    let until = to.checked_add(jiff::Span::new().days(2)).unwrap_or(Date::MAX);
    let until = until.to_zoned(jiff::tz::TimeZone::UTC);
    let until = until.map_or(i64::MAX, |it| it.timestamp().as_microsecond());
    let due = queries.accounts_to_bill(tenant, after, (Timestamp(until), limit + 1))?;
    let mut forecast = Forecast::default();
    for account in due {
        if forecast.accounts == limit {
            return Ok(forecast);
        }
        forecast.accounts += 1;
        forecast.next = Some(account);
        let it = DryRun { account, of: DryRunOf::Target(Some(to)) };
        let state = queries.rows(&it.reads(tenant))?;
        match it.run(&state, (tenant, now, id)) {
            Ok(None) => {}
            Err(_) => forecast.refused += 1,
            Ok(Some(dry)) => {
                let sums = forecast.currencies.entry(dry.invoice.currency).or_default();
                sums.invoices += 1;
                sums.charged += i128::from(dry.invoice.charged.0);
                sums.from_credit += i128::from((-dry.invoice.credit.0).max(0));
            }
        }
    }
    Ok(Forecast { next: None, ..forecast })
}
