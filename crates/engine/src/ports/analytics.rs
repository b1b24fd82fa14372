//! Reads of the read models of analytics, which follow the journal with a short delay.

use domain::payment::{TransactionStatus, TransactionType};
use domain::{AccountId, Currency, Seq, TenantNo, Timestamp};

use super::{Page, StoreError};

/// Reads of the read models.
pub trait AnalyticsQueries: Send + Sync {
    /// The last journal row that the models contain.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn cursor(&self) -> Result<Seq, StoreError>;
    /// Transactions by day, gateway, currency, type and status, in this order.
    fn transactions(
        &self,
        no: TenantNo,
        filter: &TransactionsFilter,
        page: Page,
    ) -> Result<Vec<TransactionsOfDay>, StoreError>;
    /// New accounts by day.
    fn accounts(&self, no: TenantNo, days: Days) -> Result<Vec<AccountsOfDay>, StoreError>;
    /// The activity of an account; empty where it has no payments.
    fn account(&self, no: TenantNo, id: AccountId) -> Result<AccountSummary, StoreError>;
}

/// Days since 1970-01-01 (UTC), both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Days {
    /// The first; `None`: from the beginning.
    pub from: Option<i64>,
    /// The last; `None`: to the end.
    pub to: Option<i64>,
}

/// A filter of transactions; `None` does not filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionsFilter {
    /// Asked for on these days.
    pub days: Days,
    /// Through this gateway.
    pub gateway: Option<String>,
    /// In this currency.
    pub currency: Option<Currency>,
    /// Of this type.
    pub kind: Option<TransactionType>,
    /// In this status.
    pub status: Option<TransactionStatus>,
}

/// The transactions of one day that agree in gateway, currency, type and status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionsOfDay {
    /// The day they were asked for, in days since 1970-01-01 (UTC).
    pub day: i64,
    pub gateway: String,
    /// `None` for voids.
    pub currency: Option<Currency>,
    pub kind: TransactionType,
    pub status: TransactionStatus,
    pub transactions: i64,
    /// The processed amount, in minor units of the currency; zero but for successes.
    pub amount_minor: i128,
}

/// The accounts created on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountsOfDay {
    /// The day, in days since 1970-01-01 (UTC).
    pub day: i64,
    pub accounts: i64,
}

/// The activity of one account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountSummary {
    /// Payments that the account began.
    pub payments: i64,
    /// Transactions that clients requested.
    pub transactions: i64,
    /// When the last of them was requested; `None` if there is none.
    pub last_transaction_at: Option<Timestamp>,
    /// The amounts of successful transactions, by currency.
    pub amounts: Vec<AccountAmounts>,
}

/// The amounts of an account's successful transactions in one currency, in minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountAmounts {
    pub currency: Currency,
    /// The sum of purchases.
    pub purchased_minor: i128,
    /// The sum of captures.
    pub captured_minor: i128,
    /// The sum of refunds.
    pub refunded_minor: i128,
    /// The sum of credits.
    pub credited_minor: i128,
    /// Taken back by the customer's bank, less what it returned.
    pub charged_back_minor: i128,
}

impl AccountAmounts {
    /// Nothing yet.
    #[must_use]
    pub const fn none(currency: Currency) -> Self {
        Self {
            currency,
            purchased_minor: 0,
            captured_minor: 0,
            refunded_minor: 0,
            credited_minor: 0,
            charged_back_minor: 0,
        }
    }

    /// Adds the amount of successful transactions of a type.
    pub const fn add(&mut self, kind: TransactionType, amount_minor: i128) {
        match kind {
            TransactionType::Purchase => self.purchased_minor += amount_minor,
            TransactionType::Capture => self.captured_minor += amount_minor,
            TransactionType::Refund => self.refunded_minor += amount_minor,
            TransactionType::Credit => self.credited_minor += amount_minor,
            TransactionType::Chargeback => self.charged_back_minor += amount_minor,
            TransactionType::ChargebackReversal => self.charged_back_minor -= amount_minor,
            TransactionType::Authorize | TransactionType::Void => {}
        }
    }
}
