//! Reads of the read models: transactions and accounts by day, and an account's summary.

use std::collections::BTreeMap;
use std::path::Path;

use domain::{AccountId, Currency, Seq, TenantNo};
use engine::ports::{
    AccountAmounts, AccountSummary, AccountsOfDay, AnalyticsQueries, Days, Page, StoreError,
    TransactionsFilter, TransactionsOfDay,
};

use crate::codes::code;
use crate::driver::{Cells, Reader};
use crate::pool::{ReaderPool, Source};
use crate::sqlite::Options;
use crate::totals::decimal;

/// Reads of the models, over a bounded pool of connections.
pub struct SqliteAnalyticsQueries {
    pool: ReaderPool,
}

impl SqliteAnalyticsQueries {
    /// Reads the models at `path` with at most `readers_max` connections.
    ///
    /// # Errors
    /// [`StoreError`] where they cannot be opened.
    pub fn open(path: &Path, options: &Options, readers_max: usize) -> Result<Self, StoreError> {
        Ok(Self { pool: ReaderPool::open(Source::File(path.to_owned(), *options), readers_max)? })
    }
}

impl AnalyticsQueries for SqliteAnalyticsQueries {
    fn cursor(&self) -> Result<Seq, StoreError> {
        let sql = "SELECT seq FROM cursor";
        let found =
            self.pool.read(None, |reader| reader.query_one(sql, &[], |cells| cells.seq()))?;
        Ok(found.unwrap_or_default())
    }

    fn transactions(
        &self,
        no: TenantNo,
        filter: &TransactionsFilter,
        page: Page,
    ) -> Result<Vec<TransactionsOfDay>, StoreError> {
        let sql = "SELECT day, gateway, currency, kind, status, transactions, amount_minor \
             FROM transactions_of_day WHERE tenant = ?1 AND day >= ?2 AND day <= ?3 \
             AND (?4 IS NULL OR gateway = ?4) AND (?5 IS NULL OR currency = ?5) \
             AND (?6 IS NULL OR kind = ?6) AND (?7 IS NULL OR status = ?7) \
             ORDER BY day, gateway, currency, kind, status LIMIT ?8 OFFSET ?9";
        let bounded = |count: u64| i64::try_from(count).unwrap_or(i64::MAX).into();
        let parameters = [
            no.into(),
            filter.days.from.unwrap_or(i64::MIN).into(),
            filter.days.to.unwrap_or(i64::MAX).into(),
            filter.gateway.as_ref().into(),
            filter.currency.as_ref().into(),
            filter.kind.map(code).into(),
            filter.status.map(code).into(),
            bounded(page.limit),
            bounded(page.offset),
        ];
        self.pool.read(None, |reader| reader.query(sql, &parameters, transactions_of_day))
    }

    fn accounts(&self, no: TenantNo, days: Days) -> Result<Vec<AccountsOfDay>, StoreError> {
        let sql = "SELECT day, accounts FROM accounts_of_day \
             WHERE tenant = ?1 AND day >= ?2 AND day <= ?3 ORDER BY day";
        let (from, to) = (days.from.unwrap_or(i64::MIN), days.to.unwrap_or(i64::MAX));
        let parameters = [no.into(), from.into(), to.into()];
        self.pool.read(None, |reader| {
            reader.query(sql, &parameters, |cells| {
                Ok(AccountsOfDay { day: cells.int()?, accounts: cells.int()? })
            })
        })
    }

    fn account(&self, no: TenantNo, id: AccountId) -> Result<AccountSummary, StoreError> {
        self.pool.read(None, |reader| reader.snapshot(|reader| summary(reader, no, id)))
    }
}

fn transactions_of_day(cells: &mut Cells<'_>) -> Result<TransactionsOfDay, StoreError> {
    Ok(TransactionsOfDay {
        day: cells.int()?,
        gateway: cells.string()?,
        currency: currency(cells)?,
        kind: cells.code()?,
        status: cells.code()?,
        transactions: cells.int()?,
        amount_minor: decimal(cells)?,
    })
}

/// A currency; empty for voids.
fn currency(cells: &mut Cells<'_>) -> Result<Option<Currency>, StoreError> {
    match cells.text()? {
        "" => Ok(None),
        code => Currency::parse(code).map(Some).ok_or_else(|| cells.corrupt("is no currency")),
    }
}

fn summary(reader: &Reader, no: TenantNo, id: AccountId) -> Result<AccountSummary, StoreError> {
    let parameters = [no.into(), id.into()];
    let sql = "SELECT payments, transactions, last_transaction_at_us FROM account_activity \
         WHERE tenant = ?1 AND account_id = ?2";
    let activity = reader.query_one(sql, &parameters, |cells| {
        Ok(AccountSummary {
            payments: cells.int()?,
            transactions: cells.int()?,
            last_transaction_at: Some(cells.time()?),
            amounts: vec![],
        })
    })?;
    let mut by_currency: BTreeMap<Currency, AccountAmounts> = BTreeMap::new();
    let sql = "SELECT currency, kind, amount_minor FROM account_successes \
         WHERE tenant = ?1 AND account_id = ?2";
    reader.for_each(sql, &parameters, |cells| {
        let (currency, kind) = (currency(cells)?, cells.code()?);
        if let Some(currency) = currency {
            let amounts = by_currency.entry(currency).or_insert(AccountAmounts::none(currency));
            amounts.add(kind, decimal(cells)?);
        }
        Ok(())
    })?;
    let mut summary = activity.unwrap_or_default();
    summary.amounts = by_currency.into_values().collect();
    Ok(summary)
}
