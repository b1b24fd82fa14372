//! Reads of subscriptions and invoices.

use domain::billing::account::AccountBilling;
use domain::billing::bundle::Bundle;
use domain::billing::invoice::{Invoice, InvoiceItem};
use domain::billing::subscription::Subscription;
use domain::{
    AccountId, AmountMinor, BundleId, InvoiceId, InvoiceItemId, SubscriptionId, TenantNo, Timestamp,
};
use jiff::civil::Date;
use uuid::Uuid;

use super::{Page, Paged, StoreError};

/// An invoice with its items, in the order in which they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvoiceFile {
    pub invoice: Invoice,
    pub items: Vec<InvoiceItem>,
}

/// A subscription with its bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionFile {
    pub subscription: Subscription,
    pub bundle: Bundle,
}

/// How far the billing of a tenant is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BillingStatus {
    /// Accounts that are due; no more than [`Backlog::COUNTED_MAX`](super::Backlog::COUNTED_MAX) are counted, here and below.
    pub due: i64,
    /// When the first of them was due.
    pub oldest_due: Option<Timestamp>,
    /// Accounts that are billed no more until somebody acts.
    pub parked: i64,
    /// A page of those, by their ids.
    pub accounts: Vec<AccountBilling>,
}

/// What an account owes and has, in its currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountSums {
    /// The sum of what is to be paid of its invoices.
    pub unpaid: AmountMinor,
    /// What the next invoices use.
    pub credit: AmountMinor,
}

impl AccountSums {
    /// What it owes; below zero, what it has.
    #[must_use]
    pub const fn balance(self) -> AmountMinor {
        AmountMinor(self.unpaid.0 - self.credit.0)
    }
}

/// Reads of subscriptions and invoices.
pub trait BillingQueries: Send + Sync {
    /// A subscription by id.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be read; here and below.
    fn subscription(
        &self,
        tenant: TenantNo,
        id: SubscriptionId,
    ) -> Result<Option<SubscriptionFile>, StoreError>;

    /// The subscriptions of an account, the oldest first; those that are over too.
    fn subscriptions_of(
        &self,
        tenant: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<Subscription>, StoreError>;

    /// What an account owes and has.
    fn sums(&self, tenant: TenantNo, account: AccountId) -> Result<AccountSums, StoreError>;

    /// A bundle's subscriptions, the oldest first; those that are over too.
    fn subscriptions_of_bundle(
        &self,
        tenant: TenantNo,
        bundle: BundleId,
    ) -> Result<Vec<SubscriptionFile>, StoreError>;

    /// The bundles of an account, the oldest first.
    fn bundles_of(
        &self,
        tenant: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<Bundle>, StoreError>;

    /// The bundles of a tenant, or of one of its accounts, the oldest first.
    fn bundles(
        &self,
        tenant: TenantNo,
        of: Option<AccountId>,
        page: Page,
    ) -> Result<Paged<Bundle>, StoreError>;

    /// Those that a text names: by their id, by their account's, or by their key.
    fn bundles_named(
        &self,
        tenant: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<Bundle>, StoreError>;

    /// Those whose key contains a text.
    fn search_bundles(
        &self,
        tenant: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<Bundle>, StoreError>;

    /// A bundle by its key, which is its id where it has no other.
    fn bundle_by_key(&self, tenant: TenantNo, key: &str) -> Result<Option<Bundle>, StoreError>;

    /// A subscription by its key, which is its id where it has no other; of several the newest.
    fn subscription_by_key(
        &self,
        tenant: TenantNo,
        key: &str,
    ) -> Result<Option<SubscriptionFile>, StoreError>;

    /// The subscriptions whose ids have the same time as an id that is derived from one of them, at most 1,000.
    fn subscriptions_of_time(
        &self,
        tenant: TenantNo,
        derived: Uuid,
    ) -> Result<Vec<SubscriptionFile>, StoreError>;

    /// A bundle by id.
    fn bundle(&self, tenant: TenantNo, id: BundleId) -> Result<Option<Bundle>, StoreError>;

    /// An invoice by id.
    fn invoice(&self, tenant: TenantNo, id: InvoiceId) -> Result<Option<InvoiceFile>, StoreError>;

    /// Accounts that are billed no more until somebody acts, by their ids.
    fn parked_accounts(&self, tenant: TenantNo, page: Page) -> Result<Vec<AccountId>, StoreError>;

    /// How far the billing of a tenant is at a time, with a page of its parked accounts. It looks at all that is due of
    /// all tenants: for `Engine::scan`.
    fn billing_status(
        &self,
        tenant: TenantNo,
        now: Timestamp,
        page: Page,
    ) -> Result<BillingStatus, StoreError>;

    /// A tenant's accounts behind one, by id, of which something is to be billed until a time; at most so many. It may look at
    /// every account of the tenant: for `Engine::scan`.
    fn accounts_to_bill(
        &self,
        tenant: TenantNo,
        after: Option<AccountId>,
        until: (Timestamp, u64),
    ) -> Result<Vec<AccountId>, StoreError>;

    /// The items of a subscription at which a run looks whose horizon is a day, void ones too; at most
    /// [`ROWS_MAX`](super::ROWS_MAX).
    fn items_since(
        &self,
        tenant: TenantNo,
        subscription: SubscriptionId,
        day: Date,
    ) -> Result<Vec<InvoiceItem>, StoreError>;

    /// The invoice that has an item.
    fn invoice_of_item(
        &self,
        tenant: TenantNo,
        item: InvoiceItemId,
    ) -> Result<Option<InvoiceFile>, StoreError>;

    /// An invoice by number.
    fn invoice_by_number(
        &self,
        tenant: TenantNo,
        number: i64,
    ) -> Result<Option<InvoiceFile>, StoreError>;

    /// The invoices of a tenant, by number, or of one of its accounts, by target date.
    fn invoices(
        &self,
        tenant: TenantNo,
        of: Option<AccountId>,
        page: Page,
    ) -> Result<Paged<InvoiceFile>, StoreError>;

    /// Those that a text names: by their id, by their account's, or by their number.
    fn invoices_named(
        &self,
        tenant: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<InvoiceFile>, StoreError>;

    /// Those in a currency, which is named by its code. It may look at every invoice of the tenant: for `Engine::scan`.
    fn invoices_in(
        &self,
        tenant: TenantNo,
        code: &str,
        page: Page,
    ) -> Result<Paged<InvoiceFile>, StoreError>;

    /// The invoices of an account, by target date.
    fn invoices_of(
        &self,
        tenant: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<InvoiceFile>, StoreError>;
}
