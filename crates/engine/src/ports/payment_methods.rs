//! Reads of payment methods.

use domain::{AccountId, PaymentMethod, PaymentMethodId, TenantNo};

use super::{GatewayPage, Paged, StoreError};

/// Reads of payment methods.
pub trait PaymentMethodQueries: Send + Sync {
    /// A payment method, deleted or not.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn payment_method(
        &self,
        no: TenantNo,
        id: PaymentMethodId,
    ) -> Result<Option<MethodView>, StoreError>;
    /// A payment method by external key, or by id where it has no other key.
    fn payment_method_by_key(
        &self,
        no: TenantNo,
        key: &str,
    ) -> Result<Option<MethodView>, StoreError>;
    /// An account's payment methods, deleted ones too, oldest first.
    fn payment_methods_of(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<MethodView>, StoreError>;
    /// All payment methods that are not deleted, oldest first.
    fn payment_methods(
        &self,
        no: TenantNo,
        page: GatewayPage<'_>,
    ) -> Result<Paged<MethodView>, StoreError>;
    /// Payment methods whose id, account's id or external key is `text`. Found by indexes.
    fn payment_methods_named(
        &self,
        no: TenantNo,
        text: &str,
        page: GatewayPage<'_>,
    ) -> Result<Paged<MethodView>, StoreError>;
    /// Whether an active method of the gateway, other than `except`, has this id at it. Found by an index.
    fn has_method_at_gateway(
        &self,
        no: TenantNo,
        gateway: &str,
        external_id: &str,
        except: PaymentMethodId,
    ) -> Result<bool, StoreError>;
    /// Payment methods whose id or account's id is `text`, or whose external key contains it. Looks at
    /// every payment method of the tenant: for `Engine::scan`.
    fn search_payment_methods(
        &self,
        no: TenantNo,
        text: &str,
        page: GatewayPage<'_>,
    ) -> Result<Paged<MethodView>, StoreError>;
}

/// A payment method with whether it is its account's default.
#[derive(Clone, Debug)]
pub struct MethodView {
    /// The payment method.
    pub method: PaymentMethod,
    /// Whether it is the default.
    pub is_default: bool,
}
