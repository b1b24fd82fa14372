//! Reads of payments.

use domain::payment::attempt::PaymentAttempt;
use domain::payment::{PaymentFile, PaymentState};
use domain::{AccountId, AttemptId, PaymentId, TenantNo, TransactionId};

use super::{GatewayPage, Page, Paged, StoreError};

/// Reads of payments.
pub trait PaymentQueries: Send + Sync {
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn payment(&self, no: TenantNo, id: PaymentId) -> Result<Option<PaymentFile>, StoreError>;
    /// Whose a payment is.
    fn payment_account(&self, no: TenantNo, id: PaymentId)
    -> Result<Option<AccountId>, StoreError>;
    /// A payment by external key, or by id where it has no other key.
    fn payment_by_key(&self, no: TenantNo, key: &str) -> Result<Option<PaymentFile>, StoreError>;
    /// The payment of a transaction.
    fn payment_of_transaction(
        &self,
        no: TenantNo,
        id: TransactionId,
    ) -> Result<Option<PaymentFile>, StoreError>;
    /// The payment of a transaction by the transaction's external key (or id, where it has none).
    fn payment_of_transaction_key(
        &self,
        no: TenantNo,
        key: &str,
    ) -> Result<Option<PaymentFile>, StoreError>;
    /// The attempts of a payment, oldest first; those without a transaction too.
    fn payment_attempts(
        &self,
        no: TenantNo,
        payment: PaymentId,
    ) -> Result<Vec<PaymentAttempt>, StoreError>;
    /// An attempt by id.
    fn payment_attempt(
        &self,
        no: TenantNo,
        id: AttemptId,
    ) -> Result<Option<PaymentAttempt>, StoreError>;
    /// An account's payments, oldest first.
    fn payments_of(
        &self,
        no: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<PaymentFile>, StoreError>;
    /// All payments, oldest first.
    fn payments(
        &self,
        no: TenantNo,
        page: GatewayPage<'_>,
    ) -> Result<Paged<PaymentFile>, StoreError>;
    /// Payments whose id, external key or account's id is `text`. Found by indexes.
    fn payments_named(
        &self,
        no: TenantNo,
        text: &str,
        page: GatewayPage<'_>,
    ) -> Result<Paged<PaymentFile>, StoreError>;
    /// Payments whose payment method's id is `text`, or whose external key contains it: all of the tenant's are looked
    /// at. For `Engine::scan`.
    fn search_payments(
        &self,
        no: TenantNo,
        text: &str,
        page: GatewayPage<'_>,
    ) -> Result<Paged<PaymentFile>, StoreError>;
    /// Payments that stand in one of these states, oldest first. Where a payment ordinarily stands,
    /// authorized, captured or purchased or about to be, all of the tenant's are looked at until
    /// enough match: an index of those would cost every payment for a rare question. For `Engine::scan`.
    fn payments_in_state(
        &self,
        no: TenantNo,
        states: &[PaymentState],
        page: GatewayPage<'_>,
    ) -> Result<Paged<PaymentFile>, StoreError>;
}
