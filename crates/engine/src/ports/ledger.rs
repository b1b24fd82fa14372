//! Reads of the ledger.

use domain::{AccountId, Currency, InvoiceId, PaymentId, Seq, TenantNo, Timestamp};

use super::{Page, StoreError};

/// Reads of the ledger.
pub trait LedgerQueries: Send + Sync {
    /// Ledger entries, oldest first.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn ledger_entries(
        &self,
        no: TenantNo,
        filter: &LedgerFilter,
        page: Page,
    ) -> Result<Vec<LedgerEntry>, StoreError>;
    /// The totals of each account of the chart, per currency; `Customer` as one sum.
    fn trial_balance(&self, no: TenantNo) -> Result<Vec<LedgerTotal>, StoreError>;
    /// The totals of customer ledger accounts, per currency; `None` for each account that is not
    /// there. In the order asked for.
    fn balances(
        &self,
        accounts: &[(TenantNo, AccountId)],
    ) -> Result<Vec<Option<Vec<LedgerTotal>>>, StoreError>;
    /// The totals of one billing account's customer ledger account, per currency.
    fn customer_totals(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<LedgerTotal>, StoreError>;
}

/// A filter of ledger entries; `None` does not filter.
#[derive(Clone, Copy, Debug, Default)]
pub struct LedgerFilter {
    /// Of this billing account.
    pub account: Option<AccountId>,
    /// Of this payment (its account must be given too, or is looked up).
    pub payment: Option<PaymentId>,
    /// Of this invoice; not beside a payment.
    pub invoice: Option<InvoiceId>,
    /// Written at or after this time.
    pub from: Option<Timestamp>,
    /// Written before this time.
    pub to: Option<Timestamp>,
}

/// A posting with the journal row that wrote it.
#[derive(Clone, Debug)]
pub struct LedgerEntry {
    /// The journal row.
    pub seq: Seq,
    pub posting: domain::ledger::Posting,
}

/// The totals of an account of the chart in one currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerTotal {
    pub account: domain::ledger::LedgerAccount,
    /// Whose gateway; empty: none's.
    pub gateway: String,
    pub currency: Currency,
    /// Sum of debits, in minor units.
    pub debit: i128,
    /// Sum of credits, in minor units.
    pub credit: i128,
}
