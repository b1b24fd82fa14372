//! The table from refusals to gRPC codes and reasons.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use domain::entitlement::level::Level;
use domain::{
    AccountRejection, EntitlementRejection, PaymentMethodId, PaymentRejection, Rejection,
};
use engine::access::AccessError;
use engine::{Reason, Unavailable};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::ERROR_DOMAIN;

/// The delay before a retry after overload.
const RETRY_AFTER_FULL: Duration = Duration::from_secs(1);

/// Why a call failed. The text is the message of its status.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// An invalid field of the message.
    #[error("{field}: {reason}")]
    Field {
        /// The field's path in the message.
        field: &'static str,
        reason: Cow<'static, str>,
    },
    #[error("metadata {key}: {reason}")]
    Metadata { key: &'static str, reason: Cow<'static, str> },
    /// There is no such resource, or it is another tenant's.
    #[error("there is no {what} {name}")]
    NotFound { what: Resource, name: String },
    /// The user lacks a permission.
    #[error("the user does not have the permission {0}")]
    Forbidden(&'static str),
    /// The call has no tenant.
    #[error("x-faregate-apikey and x-faregate-apisecret need to be set")]
    TenantMissing,
    /// The caller or the tenant is not authenticated.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The engine's refusal.
    #[error("{}", rejection_message(.0))]
    Rejected(Box<Rejection>),
    /// A control plugin aborted the start of a payment: nothing was begun.
    #[error("the control plugin {plugin} aborted the call: {reason}")]
    Aborted { plugin: String, reason: String },
    /// A payment method was not attached at its gateway.
    #[error("the payment method was not attached: {reason}")]
    MethodRefused { reason: String },
    /// It is not known yet whether a payment method was attached.
    #[error("it is not known yet whether the payment method {0} was attached")]
    MethodPending(PaymentMethodId),
    /// The engine cannot process the call now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A call with the same idempotency key runs, or its outcome is in doubt.
    #[error("a call with this idempotency-key is in progress, or its outcome is not known yet")]
    StillRunning,
    /// The idempotency key belongs to another call.
    #[error("the idempotency-key was used for another call")]
    AnotherCall,
    /// Too many calls are in progress.
    #[error("too many calls are in progress")]
    Full,
    /// The secret of an environment is used more often than its limit.
    #[error("too many calls with this secret")]
    TooManyRequests(Duration),
    /// The deadline has passed; a submitted command continues.
    #[error("the deadline has passed: what was asked for may still be carried out")]
    DeadlineExceeded,
    /// A sum does not fit 64 bits.
    #[error("the balance in {0} does not fit 64 bits")]
    BalanceTooLarge(domain::Currency),
    /// The environment's secret is missing or invalid.
    #[error("the secret is missing or wrong: x-api-key or authorization have it")]
    SecretWrong,
    /// The flag cache is not loaded yet.
    #[error("the feature flags are not there yet")]
    FlagsUnread,
    /// The client reads changes of feature flags too slowly.
    #[error("too many changes went unread: call again")]
    ReaderTooSlow,
    /// There is no such method.
    #[error("there is no such method")]
    NoMethod,
    /// A call panicked.
    #[error("internal error")]
    Bug,
}

/// A kind of resource that can be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Account,
    Feature,
    Payment,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Account => "account",
            Self::Feature => "feature",
            Self::Payment => "payment",
        })
    }
}

/// What operators and callers have to know about a refusal besides its code.
#[derive(Clone, Copy, Default)]
struct Handling {
    /// Whether it is a fault of this installation that needs an operator.
    is_fault: bool,
    /// The delay before a retry, if a retry may succeed.
    retry_after: Option<Duration>,
    /// Whether the caller does not learn if the call was carried out.
    leaves_outcome_unknown: bool,
}

impl Refusal {
    /// An invalid field.
    pub fn field(field: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Field { field, reason: reason.into() }
    }

    /// The code and the reason.
    fn wire(&self) -> (Code, &'static str) {
        match self {
            Self::Field { .. } | Self::Metadata { .. } => {
                (Code::InvalidArgument, "INVALID_ARGUMENT")
            }
            Self::NotFound { what: Resource::Account, .. } => (Code::NotFound, "ACCOUNT_NOT_FOUND"),
            Self::NotFound { what: Resource::Feature, .. } => (Code::NotFound, "FEATURE_NOT_FOUND"),
            Self::NotFound { what: Resource::Payment, .. } => (Code::NotFound, "PAYMENT_NOT_FOUND"),
            Self::Forbidden(_) => (Code::PermissionDenied, "PERMISSION_MISSING"),
            Self::TenantMissing => (Code::Unauthenticated, "TENANT_MISSING"),
            Self::Access(error) => match error {
                AccessError::Missing => (Code::Unauthenticated, "CREDENTIALS_MISSING"),
                AccessError::Invalid => (Code::Unauthenticated, "CREDENTIALS_WRONG"),
                AccessError::UnknownApiKey | AccessError::WrongSecret => {
                    (Code::Unauthenticated, "TENANT_UNKNOWN")
                }
                AccessError::TenantInactive => (Code::PermissionDenied, "TENANT_INACTIVE"),
                AccessError::Throttled { .. } => (Code::ResourceExhausted, "TOO_MANY_ATTEMPTS"),
                AccessError::Unavailable(it) => wire_unavailable(it.reason),
            },
            Self::Rejected(rejection) => wire_rejection(rejection),
            Self::Unavailable(it) => wire_unavailable(it.reason),
            Self::Aborted { .. } => (Code::FailedPrecondition, "PAYMENT_ABORTED"),
            Self::MethodRefused { .. } => (Code::FailedPrecondition, "PAYMENT_METHOD_REFUSED"),
            Self::MethodPending(_) => (Code::DeadlineExceeded, "PAYMENT_METHOD_PENDING"),
            Self::StillRunning => (Code::Aborted, "IDEMPOTENCY_KEY_IN_PROGRESS"),
            Self::AnotherCall => (Code::FailedPrecondition, "IDEMPOTENCY_KEY_REUSED"),
            Self::Full => (Code::ResourceExhausted, "OVERLOADED"),
            Self::TooManyRequests(_) => (Code::ResourceExhausted, "TOO_MANY_REQUESTS"),
            Self::DeadlineExceeded => (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
            Self::BalanceTooLarge(_) => (Code::OutOfRange, "BALANCE_TOO_LARGE"),
            Self::SecretWrong => (Code::Unauthenticated, "SECRET_WRONG"),
            Self::FlagsUnread => (Code::Unavailable, "FLAGS_NOT_READ"),
            Self::ReaderTooSlow => (Code::ResourceExhausted, "READER_TOO_SLOW"),
            Self::NoMethod => (Code::Unimplemented, "NO_SUCH_METHOD"),
            Self::Bug => wire_unavailable(Reason::Bug),
        }
    }

    /// What operators and callers have to know about the refusal.
    fn handling(&self) -> Handling {
        let none = Handling::default();
        let later = |delay| Handling { retry_after: Some(delay), ..none };
        match self {
            Self::Unavailable(it) | Self::Access(AccessError::Unavailable(it)) => Handling {
                is_fault: it.reason.is_fault(),
                retry_after: it.retry_after,
                leaves_outcome_unknown: it.reason.leaves_outcome_unknown(),
            },
            // A call that panicked may have submitted its command.
            Self::Bug => Handling { is_fault: true, leaves_outcome_unknown: true, ..none },
            Self::StillRunning => {
                Handling { leaves_outcome_unknown: true, ..later(RETRY_AFTER_FULL) }
            }
            Self::DeadlineExceeded => Handling { leaves_outcome_unknown: true, ..none },
            Self::Full | Self::FlagsUnread => later(RETRY_AFTER_FULL),
            Self::Access(AccessError::Throttled { retry_after })
            | Self::TooManyRequests(retry_after) => later(*retry_after),
            Self::Field { .. }
            | Self::Metadata { .. }
            | Self::NotFound { .. }
            | Self::Forbidden(_)
            | Self::TenantMissing
            | Self::Access(_)
            | Self::Rejected(_)
            | Self::Aborted { .. }
            | Self::MethodRefused { .. }
            | Self::MethodPending(_)
            | Self::AnotherCall
            | Self::BalanceTooLarge(_)
            | Self::SecretWrong
            | Self::ReaderTooSlow
            | Self::NoMethod => none,
        }
    }

    /// Where a limit stands that is reached.
    fn level(&self) -> Option<Level> {
        let Self::Rejected(rejection) = self else { return None };
        let Rejection::Entitlement(EntitlementRejection::LimitReached(it)) = &**rejection else {
            return None;
        };
        Some(it.level)
    }

    /// The invalid field with the reason, if a field is invalid.
    fn violation(&self) -> Option<(&str, Cow<'_, str>)> {
        match self {
            Self::Field { field, reason } => Some((field, Cow::Borrowed(reason))),
            Self::NotFound { what: Resource::Feature, .. } => {
                Some(("feature", "there is no such feature".into()))
            }
            Self::Rejected(rejection) => match &**rejection {
                Rejection::InvalidParameter { field, reason } => {
                    Some((proto_field(field), reason.trim().into()))
                }
                Rejection::Payment(PaymentRejection::GatewayNotRegistered { .. }) => {
                    Some(("gateway", "there is no such gateway".into()))
                }
                Rejection::Account(AccountRejection::FieldIsFixed { field }) => {
                    Some((proto_field(field), "cannot change".into()))
                }
                Rejection::Entitlement(it) => {
                    let field = it.field()?;
                    Some((proto_field(field), it.to_string().into()))
                }
                Rejection::Tenant(_)
                | Rejection::Access(_)
                | Rejection::Flag(_)
                | Rejection::Account(_)
                | Rejection::Customer(_)
                | Rejection::Billing(_)
                | Rejection::Payment(_) => None,
            },
            Self::Metadata { .. }
            | Self::NotFound { .. }
            | Self::Forbidden(_)
            | Self::TenantMissing
            | Self::Access(_)
            | Self::Aborted { .. }
            | Self::MethodRefused { .. }
            | Self::MethodPending(_)
            | Self::Unavailable(_)
            | Self::StillRunning
            | Self::AnotherCall
            | Self::Full
            | Self::TooManyRequests(_)
            | Self::DeadlineExceeded
            | Self::BalanceTooLarge(_)
            | Self::SecretWrong
            | Self::FlagsUnread
            | Self::ReaderTooSlow
            | Self::NoMethod
            | Self::Bug => None,
        }
    }
}

const fn wire_rejection(rejection: &Rejection) -> (Code, &'static str) {
    match rejection {
        Rejection::Account(it) => wire_account(it),
        Rejection::Payment(it) => wire_payment(it),
        Rejection::Entitlement(it) => wire_entitlement(it),
        Rejection::InvalidParameter { .. } => (Code::InvalidArgument, "INVALID_ARGUMENT"),
        // No call of this API returns these.
        Rejection::Billing(_)
        | Rejection::Tenant(_)
        | Rejection::Access(_)
        | Rejection::Flag(_)
        | Rejection::Customer(_) => (Code::FailedPrecondition, "REFUSED"),
    }
}

const fn wire_account(rejection: &AccountRejection) -> (Code, &'static str) {
    use AccountRejection as R;
    match rejection {
        R::AlreadyExists { .. } => (Code::AlreadyExists, "ACCOUNT_ALREADY_EXISTS"),
        R::NotFound { .. } => (Code::NotFound, "ACCOUNT_NOT_FOUND"),
        R::KeyIsFixed { .. } => (Code::FailedPrecondition, "ACCOUNT_KEY_IS_FIXED"),
        R::FieldIsFixed { .. } => (Code::FailedPrecondition, "ACCOUNT_FIELD_IS_FIXED"),
        R::TagDefinitionNotFound { .. } => (Code::NotFound, "TAG_DEFINITION_NOT_FOUND"),
        R::TagNotFound { .. } => (Code::NotFound, "TAG_NOT_FOUND"),
        R::TagNotApplicable { .. } => (Code::FailedPrecondition, "TAG_NOT_APPLICABLE"),
        R::TagNeedsDefaultMethod { .. } => (Code::FailedPrecondition, "TAG_NEEDS_DEFAULT_METHOD"),
        R::CustomFieldNotFound { .. } => (Code::NotFound, "CUSTOM_FIELD_NOT_FOUND"),
        R::CustomFieldNameIsFixed { .. } => {
            (Code::FailedPrecondition, "CUSTOM_FIELD_NAME_IS_FIXED")
        }
        R::TooManyCustomFields => (Code::FailedPrecondition, "TOO_MANY_CUSTOM_FIELDS"),
        R::PaymentMethodNotFound { .. } => (Code::NotFound, "PAYMENT_METHOD_NOT_FOUND"),
        R::ExternalPaymentMethodExists { .. } => {
            (Code::AlreadyExists, "EXTERNAL_PAYMENT_METHOD_EXISTS")
        }
        R::DefaultPaymentMethodInUse { .. } => {
            (Code::FailedPrecondition, "DEFAULT_PAYMENT_METHOD_IN_USE")
        }
        R::Closed { .. } => (Code::FailedPrecondition, "ACCOUNT_CLOSED"),
    }
}

const fn wire_payment(rejection: &PaymentRejection) -> (Code, &'static str) {
    use PaymentRejection as R;
    match rejection {
        R::GatewayNotRegistered { .. } => (Code::InvalidArgument, "GATEWAY_NOT_REGISTERED"),
        R::NotFound { .. } => (Code::NotFound, "PAYMENT_NOT_FOUND"),
        R::TransactionNotFound { .. } => (Code::NotFound, "TRANSACTION_NOT_FOUND"),
        R::OfAnotherAccount { .. } => (Code::FailedPrecondition, "PAYMENT_OF_ANOTHER_ACCOUNT"),
        R::TransactionOfAnotherAccount { .. } => {
            (Code::FailedPrecondition, "TRANSACTION_OF_ANOTHER_ACCOUNT")
        }
        R::TransactionKeySucceeded { .. } => (Code::AlreadyExists, "TRANSACTION_KEY_SUCCEEDED"),
        R::NoSuchSuccess { .. } => (Code::FailedPrecondition, "NO_SUCH_SUCCESS"),
        R::InvalidTransition { .. } => (Code::FailedPrecondition, "INVALID_TRANSITION"),
        R::InDoubt { .. } => (Code::FailedPrecondition, "PAYMENT_IN_DOUBT"),
    }
}

const fn wire_entitlement(rejection: &EntitlementRejection) -> (Code, &'static str) {
    use EntitlementRejection as R;
    match rejection {
        R::FeatureNotFound { .. } => (Code::NotFound, "FEATURE_NOT_FOUND"),
        R::ReservationNotFound { .. } => (Code::NotFound, "RESERVATION_NOT_FOUND"),
        R::ReservationEnded { .. } => (Code::FailedPrecondition, "RESERVATION_ENDED"),
        R::NotEntitled { .. } => (Code::FailedPrecondition, "NOT_ENTITLED"),
        R::LimitReached(_) => (Code::FailedPrecondition, "LIMIT_REACHED"),
        R::TooMany { .. } => (Code::FailedPrecondition, "TOO_MANY"),
        // No call of this API returns these.
        R::OfferNotFound { .. }
        | R::Changed { .. }
        | R::NewcomersHaveOffer { .. }
        | R::OfferChanged { .. }
        | R::PriceChanged { .. }
        | R::PurchasePending { .. }
        | R::AlreadyBought { .. }
        | R::NotForAccount { .. }
        | R::GrantNotFound { .. }
        | R::GrantOfPurchase { .. }
        | R::GrantOfSubscription { .. }
        | R::UserTaken { .. }
        | R::EventCounted(_) => (Code::FailedPrecondition, "REFUSED"),
    }
}

/// Clients retry `UNAVAILABLE` by themselves, so it is returned only if nothing was done.
const fn wire_unavailable(reason: Reason) -> (Code, &'static str) {
    match reason {
        Reason::QueueFull | Reason::GatewayFull | Reason::ReadersFull | Reason::HashersFull => {
            (Code::ResourceExhausted, "OVERLOADED")
        }
        Reason::GatewayStopped => (Code::Unavailable, "GATEWAY_STOPPED"),
        Reason::BreakerOpen => (Code::Unavailable, "GATEWAY_BREAKER_OPEN"),
        Reason::ControlFailed => (Code::Unavailable, "CONTROL_FAILED"),
        Reason::ReadTooLong => (Code::ResourceExhausted, "READ_TOO_LONG"),
        Reason::Stopping => (Code::Unavailable, "STOPPING"),
        Reason::MessageTooLarge => (Code::InvalidArgument, "MESSAGE_TOO_LARGE"),
        Reason::QueueAway => (Code::Unavailable, "QUEUE_UNAVAILABLE"),
        Reason::Expired => (Code::Unavailable, "EXPIRED"),
        Reason::NotOwner => (Code::Unavailable, "NOT_OWNER"),
        Reason::DiskFull => (Code::Unavailable, "DISK_FULL"),
        Reason::Store => (Code::Unavailable, "STORE_UNAVAILABLE"),
        Reason::CommitInDoubt => (Code::Unknown, "COMMIT_IN_DOUBT"),
        Reason::Repeated => (Code::Unknown, "REPEATED"),
        Reason::Quarantined => (Code::FailedPrecondition, "QUARANTINED"),
        Reason::Bug => (Code::Internal, "INTERNAL_ERROR"),
    }
}

/// Where a limit stands, as metadata.
fn level_metadata(it: Level) -> [(String, String); 4] {
    [("limit", it.limit), ("used", it.used), ("reserved", it.reserved), ("left", it.left())]
        .map(|(name, value)| (name.to_owned(), value.to_string()))
}

/// The message of a rejection: a field has the name that it has in the protos.
fn rejection_message(rejection: &Rejection) -> String {
    match rejection {
        Rejection::InvalidParameter { field, reason } => {
            format!("{}: {}", proto_field(field), reason.trim())
        }
        Rejection::Account(AccountRejection::FieldIsFixed { field }) => {
            format!("{}: cannot change", proto_field(field))
        }
        Rejection::Payment(PaymentRejection::GatewayNotRegistered { .. }) => {
            format!("gateway: {rejection}")
        }
        Rejection::Tenant(_)
        | Rejection::Access(_)
        | Rejection::Flag(_)
        | Rejection::Account(_)
        | Rejection::Customer(_)
        | Rejection::Entitlement(_)
        | Rejection::Billing(_)
        | Rejection::Payment(_) => rejection.to_string(),
    }
}

/// The protos' name of a field; the domain uses Kill Bill's names.
fn proto_field(field: &str) -> &str {
    match field {
        "transactionExternalKey" => "transaction_key",
        "paymentExternalKey" => "payment_key",
        "externalKey" => "payment_method_key",
        "paymentId" => "payment_id",
        "transactionId" => "transaction_id",
        "paymentMethodId" => "payment_method_id",
        "currency" => "amount.currency_code",
        "ttlSeconds" => "ttl",
        other => other,
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(Box::new(rejection))
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let (code, reason) = refusal.wire();
        let Handling { is_fault, retry_after, leaves_outcome_unknown } = refusal.handling();
        let mut details = ErrorDetails::new();
        let outcome = ("outcome".to_owned(), "unknown".to_owned());
        let outcome = leaves_outcome_unknown.then_some(outcome);
        let level = refusal.level().map(level_metadata);
        let metadata: HashMap<_, _> = level.into_iter().flatten().chain(outcome).collect();
        details.set_error_info(reason, ERROR_DOMAIN, metadata);
        if let Some((field, reason)) = refusal.violation() {
            details.add_bad_request_violation(field, reason);
        }
        if retry_after.is_some() {
            details.set_retry_info(retry_after);
        }
        if is_fault {
            tracing::error!(
                api = "grpc",
                reason,
                "call failed: fault of this installation: {refusal}"
            );
        }
        Self::with_error_details(code, refusal.to_string(), details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(refusal: Refusal, expected: Expect) {
        let status = Status::from(refusal);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.domain, ERROR_DOMAIN);
        let violations = details.bad_request().map(|it| &it.field_violations);
        let fields = violations.into_iter().flatten().map(|it| it.field.as_str());
        let fields: Vec<_> = fields.collect();
        let retry = details.retry_info().and_then(|it| it.retry_delay);
        let (code, reason) = (status.code(), &info.reason);
        let outcome = info.metadata.get("outcome").map_or("", String::as_str);
        let message = status.message();
        let actual = format!("{code:?} {reason} {message:?} {fields:?} {retry:?} {outcome}");
        let actual = actual.trim_end();
        expected.assert_eq(actual);
    }

    #[test]
    fn refusals_have_codes_and_details() {
        check(
            Refusal::field("amount.minor_units", "should be greater than 0"),
            expect![[
                r#"InvalidArgument INVALID_ARGUMENT "amount.minor_units: should be greater than 0" ["amount.minor_units"] None"#
            ]],
        );
        check(
            Rejection::invalid("paymentMethodId", "should not be null").into(),
            expect![[
                r#"InvalidArgument INVALID_ARGUMENT "payment_method_id: should not be null" ["payment_method_id"] None"#
            ]],
        );
        check(
            Unavailable::from(Reason::QueueFull).into(),
            expect![[
                r#"ResourceExhausted OVERLOADED "too many requests are waiting" [] Some(1s)"#
            ]],
        );
        check(
            Unavailable::from(Reason::CommitInDoubt).into(),
            expect![[
                r#"Unknown COMMIT_IN_DOUBT "it is not known whether the request was carried out: look before sending it again" [] None unknown"#
            ]],
        );
        check(
            Refusal::StillRunning,
            expect![[
                r#"Aborted IDEMPOTENCY_KEY_IN_PROGRESS "a call with this idempotency-key is in progress, or its outcome is not known yet" [] Some(1s) unknown"#
            ]],
        );
        check(
            Refusal::DeadlineExceeded,
            expect![[
                r#"DeadlineExceeded DEADLINE_EXCEEDED "the deadline has passed: what was asked for may still be carried out" [] None unknown"#
            ]],
        );
        check(
            AccessError::Invalid.into(),
            expect![[r#"Unauthenticated CREDENTIALS_WRONG "user or password is wrong" [] None"#]],
        );
    }
}
