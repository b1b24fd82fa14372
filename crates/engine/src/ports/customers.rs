//! Reads of customers and their sessions.

use domain::customer::{Customer, CustomerFile, Session};
use domain::{CustomerId, SessionId, TenantNo, Timestamp};

use super::{Page, StoreError};

/// Reads of customers and their sessions.
pub trait CustomerQueries: Send + Sync {
    /// A customer, one who is forgotten too.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn customer(&self, no: TenantNo, id: CustomerId) -> Result<Option<Customer>, StoreError>;
    /// A customer by their address, as it is compared.
    fn customer_by_email(
        &self,
        no: TenantNo,
        email_key: &str,
    ) -> Result<Option<Customer>, StoreError>;
    /// Whether an address, as it is compared, has a customer.
    fn is_email_taken(&self, no: TenantNo, email_key: &str) -> Result<bool, StoreError>;
    /// A customer with their sessions.
    fn customer_file(
        &self,
        no: TenantNo,
        id: CustomerId,
    ) -> Result<Option<CustomerFile>, StoreError>;
    /// A session and whose it is.
    fn session(
        &self,
        no: TenantNo,
        id: SessionId,
    ) -> Result<Option<(Session, Customer)>, StoreError>;
    /// All customers, oldest first, those that are forgotten too.
    fn customers(&self, no: TenantNo, page: Page) -> Result<Vec<Customer>, StoreError>;
    /// Customers of all tenants whose time to verify their address is over, the longest first.
    /// Those behind this one, where one is named.
    fn customers_expired(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, CustomerId)>,
        limit: usize,
    ) -> Result<Vec<Customer>, StoreError>;
}
