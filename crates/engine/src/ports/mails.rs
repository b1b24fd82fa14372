//! Reads of queued mails.

use domain::customer::mail::Mail;
use domain::{MailId, TenantNo, Timestamp};

use super::{Page, StoreError};

/// Reads of queued mails.
pub trait MailQueries: Send + Sync {
    /// Mails of all tenants whose time has come, oldest first.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn mails_due(&self, now: Timestamp, limit: usize) -> Result<Vec<Mail>, StoreError>;
    /// A mail that is not sent yet, or was given up.
    fn mail(&self, no: TenantNo, id: MailId) -> Result<Option<Mail>, StoreError>;
    /// Mails that are still tried, or those that were given up, oldest first.
    fn mails(&self, no: TenantNo, given_up: bool, page: Page) -> Result<Vec<Mail>, StoreError>;
}
