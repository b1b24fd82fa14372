//! Refusals: answers, not errors. Each API has one table from these to its wire.

use serde::{Deserialize, Serialize};

use crate::change_request::ChangeStatus;
use crate::customer::CustomerRefusal;
use crate::payment::{PaymentState, TransactionType};
use crate::{
    AccountId, ChangeRequestId, EnvironmentId, PaymentId, PaymentMethodId, SecretId,
    TagDefinitionId,
};

/// Why a command was refused; nothing was written. Durable format: additive only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rejection {
    /// The API key (or the given id) is taken.
    TenantAlreadyExists {
        /// The tenant's external key, as Kill Bill names it here.
        key: String,
    },
    /// The name is taken.
    UserAlreadyExists { username: String },
    /// No such user, or deleted.
    UserNotFound { username: String },
    /// The name is taken.
    RoleAlreadyExists { role: String },
    /// No such role.
    RoleNotFound { role: String },
    /// Not in [`crate::access::PERMISSIONS`].
    PermissionInvalid {
        /// As the request spells it.
        permission: String,
    },
    /// The external key is taken.
    AccountAlreadyExists { key: String },
    /// No such account of this tenant.
    AccountNotFound { id: AccountId },
    /// An account's external key cannot change.
    AccountKeyIsFixed {
        /// The key it keeps.
        current: String,
    },
    /// A field that cannot change was given another value.
    AccountFieldIsFixed {
        /// The field, in Kill Bill's spelling.
        field: String,
    },
    /// There is no such definition of a tag.
    TagDefinitionNotFound { id: TagDefinitionId },
    /// The account does not have that tag.
    TagNotFound {
        /// What the tag is called.
        name: String,
    },
    /// An account cannot have that tag.
    TagNotApplicable {
        /// What the tag is called.
        name: String,
    },
    /// No such payment method on the account, or deleted.
    PaymentMethodNotFound { id: PaymentMethodId },
    /// An account has at most one method of [`crate::EXTERNAL_PAYMENT`].
    ExternalPaymentMethodExists { account: AccountId },
    /// The default payment method is deleted only when the request says so.
    DefaultPaymentMethodInUse { account: AccountId },
    /// No gateway of that name.
    GatewayNotRegistered { gateway: String },
    /// No such payment of this tenant.
    PaymentNotFound {
        /// The id or key.
        payment: String,
    },
    /// No such transaction on the payment.
    TransactionNotFound {
        /// The id or key.
        transaction: String,
    },
    /// The payment belongs to another account.
    PaymentOfAnotherAccount {
        /// The id or key.
        payment: String,
    },
    /// The transaction key is in use by another account.
    TransactionOfAnotherAccount { key: String },
    /// A transaction of that key succeeded already.
    TransactionKeySucceeded { key: String },
    /// No transaction that the request could apply to.
    NoSuchSuccess { payment: PaymentId },
    /// The operation may not follow on where the payment stands.
    InvalidTransition {
        operation: TransactionType,
        /// Where the payment stands; `None` before any success.
        from: Option<PaymentState>,
    },
    /// A charge of this payment may or may not have happened: nothing else until that is known.
    PaymentInDoubt {
        /// The operation that was refused.
        operation: TransactionType,
    },
    /// The project has an environment of that key.
    EnvironmentAlreadyExists { key: String },
    /// No such environment of this tenant.
    EnvironmentNotFound { id: EnvironmentId },
    /// No such secret of this tenant.
    SecretNotFound { id: SecretId },
    /// A flag or segment, or the environment as a whole, is not in the version that was expected.
    DefinitionChanged {
        key: String,
        /// The version that it has; `None` where there is none of that key.
        version: Option<i64>,
    },
    /// What is defined in the environment changes only by changes that another user has approved.
    ApprovalNeeded {
        /// The environment's key.
        environment: String,
    },
    /// No such change of this tenant.
    ChangeNotFound { id: ChangeRequestId },
    /// A change does not wait for that any more.
    ChangeNotWaiting { id: ChangeRequestId, status: ChangeStatus },
    /// A change is approved by another user than its author.
    ApprovalByAuthor { id: ChangeRequestId },
    /// A change is withdrawn by its author.
    WithdrawalByAnother { id: ChangeRequestId },
    /// What was asked about a customer cannot be.
    Customer(CustomerRefusal),
    /// A field's value cannot be.
    InvalidParameter {
        /// The field, in Kill Bill's spelling.
        field: String,
        reason: String,
    },
}

impl Rejection {
    /// [`Rejection::InvalidParameter`] with a fixed reason.
    #[must_use]
    pub fn invalid(field: &str, reason: &str) -> Self {
        Self::InvalidParameter { field: field.to_owned(), reason: reason.to_owned() }
    }
}
