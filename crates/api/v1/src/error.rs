//! Errors of `/v1`: one table from each to its problem (RFC 9457).

use std::borrow::Cow;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use domain::card_data::mask_pans;
use domain::{
    AccountId, AccountRejection, EntitlementRejection, FlagRejection, PaymentId, PurchaseId,
    Rejection, TenantRejection, TransactionId,
};
use engine::access::AccessError;
use engine::webhooks::REPLAYS_MAX;
use engine::{Reason, Unavailable};
use http::StatusCode;
use serde_json::json;
use web::{BodyError, Problem, WrongField};

use crate::{sign_up_problem, usage_view};

/// `Retry-After` of a change that lost against concurrent changes too often.
const RETRY_AFTER_CONTENDED: Duration = Duration::from_secs(1);

/// `Retry-After` of a notification that cannot be booked now.
const RETRY_AFTER_NOTIFICATION: Duration = Duration::from_secs(1);

/// `Retry-After` where all permits for event streams are in use.
const RETRY_AFTER_STREAMS_FULL: Duration = Duration::from_secs(1);

/// `Retry-After` where too many replays run.
const RETRY_AFTER_REPLAYS: Duration = Duration::from_secs(10);

/// How much of a gateway's text is shown, in characters.
const REASON_CHARS_MAX: usize = 255;

/// An error of `/v1`.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A parameter has an invalid value.
    #[error("{field}: {reason}")]
    InvalidParameter {
        /// A query parameter, a header, or a field of the body.
        field: Cow<'static, str>,
        reason: String,
    },
    /// The resource does not exist, or it belongs to another tenant.
    #[error("there is no {what} {name}")]
    NotFound {
        /// The kind of resource, such as `environment`.
        what: &'static str,
        name: String,
    },
    /// A node of another role serves the resource.
    #[error("{what} are kept by a node with the role `all` and the queue `memory`")]
    NotHere {
        /// The kind of resource, such as `analytics`.
        what: &'static str,
    },
    /// The user lacks a permission.
    #[error("the user does not have the permission {0}")]
    Forbidden(&'static str),
    /// The body was not received.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A resource of this name exists.
    #[error("there is a {what} {name} already")]
    Exists {
        /// The kind of resource: `flag` or `segment`.
        what: &'static str,
        name: String,
    },
    /// The resource is not in the version that the request expects.
    #[error("the {what} has the version {version}")]
    VersionChanged { what: &'static str, version: i64 },
    /// Fields of a document are invalid: all of them.
    #[error("fields are wrong: {}", .0.len())]
    WrongFields(Vec<WrongField>),
    /// The core's refusal.
    #[error("{}", message(.0))]
    Rejected(Box<Rejection>),
    /// Concurrent changes of the environment won every try.
    #[error("others change it all the time: nothing was written")]
    Contended,
    /// No key for the secrets of environments is configured.
    #[error("secrets of environments need a key: set `flags.key_file`")]
    NoSecretsKey,
    /// No key for the tokens of sign-up is configured.
    #[error("sign-up needs `signup.key_file`")]
    NoSignupKey,
    /// The secrets were stored with another key.
    #[error("the secrets of environments were stored with another key than `flags.key_file`")]
    WrongSecretsKey,
    /// A worker process serves the connection; it has only the APIs of feature flags.
    #[error("this connection is for feature flags: open another one")]
    OtherConnection,
    /// There is no such route.
    #[error("there is no such resource")]
    NoRoute,
    /// The route does not take the method.
    #[error("the resource does not take this method")]
    NoMethod,
    /// The request has no tenant.
    #[error("X-Faregate-ApiKey and X-Faregate-ApiSecret need to be set")]
    TenantMissing,
    /// The operator or the tenant is not authenticated.
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    SignUp(#[from] ::sign_up::Error),
    /// The tenant of a sign-up request cannot be determined.
    #[error(transparent)]
    Tenant(#[from] ::sign_up::TenantError),
    /// A customer, a session or an operation that does not exist, or belongs to another tenant.
    #[error("there is no such {0}")]
    NoSuch(&'static str),
    /// As many replays of the tenant as may be are not done yet.
    #[error("{} replays of the tenant are not done yet, and no more are kept", REPLAYS_MAX)]
    TooManyReplays,
    /// All permits for event streams are in use.
    #[error("too many streams are open")]
    StreamsFull,
    /// A gateway does not believe a notification; why, for its sender.
    #[error("{}", shown(.0))]
    NotificationRefused(String),
    /// The gateway of a notification cannot be asked now.
    #[error("the gateway cannot be asked now: send the notification again")]
    GatewayUnavailable,
    /// The payment of a notification is not in the database.
    #[error("the payment is not in the database: send the notification again")]
    PaymentNotThere,
    /// Too many notifications of one network are in progress.
    #[error("too many notifications are in progress")]
    NotificationsFull,
    /// The payment of a purchase failed: nothing was bought. Where it was begun, with what was made.
    #[error("{0}")]
    PurchaseFailed(PurchaseFailed, Option<Box<FailedPurchase>>),
    /// The core is not available.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why the payment of a purchase failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PurchaseFailed {
    /// The gateway declined it; in its words, or with its code where it said no more.
    #[error("the payment was declined{}", because(reason, code.as_deref()))]
    Declined { reason: String, code: Option<String> },
    /// The gateway did not take it.
    #[error("the gateway did not take the payment: no money moved")]
    NotTaken,
    /// The gateway takes no such amount, and was not called.
    #[error("the payment's gateway does not take its amount{}", because(reason, None))]
    AmountNotTaken { reason: String },
    /// A control plugin aborted it before it was begun.
    #[error("the payment was aborted{}", because(reason, None))]
    Aborted { reason: String },
}

/// A purchase whose payment failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedPurchase {
    pub account: AccountId,
    pub purchase: PurchaseId,
    pub payment: PaymentId,
    pub transaction: TransactionId,
}

impl PurchaseFailed {
    const fn wire(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Declined { .. } => (StatusCode::PAYMENT_REQUIRED, "payment-declined"),
            Self::NotTaken => (StatusCode::BAD_GATEWAY, "payment-not-taken"),
            Self::AmountNotTaken { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "amount-not-taken"),
            Self::Aborted { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "payment-aborted"),
        }
    }
}

impl FailedPurchase {
    /// Where it is.
    pub(crate) fn location(&self) -> String {
        format!("/v1/accounts/{}/purchases/{}", self.account, self.purchase)
    }

    fn on(self, problem: Problem) -> Problem {
        let known = json!({
            "purchaseId": self.purchase.uuid(),
            "paymentId": self.payment.uuid(),
            "transactionId": self.transaction.uuid(),
        });
        problem.location(self.location()).known(known)
    }
}

impl Error {
    /// The command is committed, and its result cannot be shown. It is no refusal: a client that sends the request
    /// again without a key would have it done twice.
    pub(crate) fn after_commit(_: Unavailable) -> Self {
        Self::Unavailable(Reason::Repeated.into())
    }

    /// There is no `what` of this name, of which the caller sent as much as it likes.
    pub(crate) fn not_found(what: &'static str, name: &str) -> Self {
        Self::NotFound { what, name: name.chars().take(64).collect() }
    }

    /// The table: each error's problem.
    pub(crate) fn problem(&self) -> Problem {
        let (status, name) = match self {
            Self::Body(error) => return Problem::from(*error),
            Self::Access(error) => return Problem::from(error),
            Self::Unavailable(unavailable) => return Problem::from(unavailable),
            Self::SignUp(error) => return sign_up_problem::of(error),
            Self::Tenant(error) => return sign_up_problem::of_tenant(error),
            Self::PurchaseFailed(failed, _) => failed.wire(),
            Self::NotificationRefused(_) => (StatusCode::BAD_REQUEST, "notification-refused"),
            Self::GatewayUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "gateway-unavailable"),
            Self::PaymentNotThere => (StatusCode::SERVICE_UNAVAILABLE, "payment-not-there"),
            Self::TooManyReplays => (StatusCode::TOO_MANY_REQUESTS, "too-many-requests"),
            Self::StreamsFull | Self::NotificationsFull => {
                (StatusCode::SERVICE_UNAVAILABLE, "overloaded")
            }
            Self::InvalidParameter { .. } => (StatusCode::BAD_REQUEST, "invalid-parameter"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "permission-missing"),
            Self::Exists { .. } => (StatusCode::CONFLICT, "already-exists"),
            Self::VersionChanged { .. } => (StatusCode::PRECONDITION_FAILED, "version-changed"),
            Self::WrongFields(_) => (StatusCode::UNPROCESSABLE_ENTITY, "wrong-fields"),
            Self::Rejected(rejection) => wire_rejection(rejection),
            Self::Contended => (StatusCode::SERVICE_UNAVAILABLE, "contended"),
            Self::NoSecretsKey => (StatusCode::NOT_IMPLEMENTED, "secrets-key-missing"),
            Self::NoSignupKey => (StatusCode::NOT_IMPLEMENTED, "signup-key-missing"),
            Self::WrongSecretsKey => (StatusCode::INTERNAL_SERVER_ERROR, "secrets-key-wrong"),
            Self::OtherConnection => (StatusCode::MISDIRECTED_REQUEST, "misdirected"),
            Self::NotFound { .. } | Self::NoSuch(_) | Self::NoRoute => {
                (StatusCode::NOT_FOUND, "not-found")
            }
            Self::NotHere { .. } => (StatusCode::NOT_IMPLEMENTED, "not-here"),
            Self::NoMethod => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed"),
            Self::TenantMissing => (StatusCode::UNAUTHORIZED, "tenant-missing"),
        };
        let problem = Problem::new(status, name, self.to_string());
        match self {
            Self::InvalidParameter { field, .. } => problem.field(field.clone()),
            Self::VersionChanged { version, .. } => problem.version(Some(*version)),
            Self::WrongFields(fields) => problem.problems(fields.clone()),
            Self::Rejected(rejection) => with_details(problem, rejection),
            Self::PurchaseFailed(_, Some(made)) => made.on(problem),
            Self::Contended => problem.retry_after(Some(RETRY_AFTER_CONTENDED)),
            Self::TooManyReplays => problem.retry_after(Some(RETRY_AFTER_REPLAYS)),
            Self::StreamsFull => problem.retry_after(Some(RETRY_AFTER_STREAMS_FULL)),
            Self::GatewayUnavailable | Self::PaymentNotThere | Self::NotificationsFull => {
                problem.retry_after(Some(RETRY_AFTER_NOTIFICATION))
            }
            Self::Forbidden(permission) => problem.lacks(permission),
            Self::PurchaseFailed(_, None)
            | Self::NotificationRefused(_)
            | Self::Body(_)
            | Self::Exists { .. }
            | Self::NoSecretsKey
            | Self::NoSignupKey
            | Self::WrongSecretsKey
            | Self::NotFound { .. }
            | Self::NotHere { .. }
            | Self::NoRoute
            | Self::OtherConnection
            | Self::NoMethod
            | Self::TenantMissing
            | Self::Access(_)
            | Self::SignUp(_)
            | Self::Tenant(_)
            | Self::NoSuch(_)
            | Self::Unavailable(_) => problem,
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        self.problem().into_response()
    }
}

/// Why, behind what happened: a text, or else a code, or nothing.
fn because(reason: &str, code: Option<&str>) -> String {
    let is_said = |text: &&str| !text.trim().is_empty();
    match (Some(reason).filter(is_said), code.filter(is_said)) {
        (Some(reason), _) => format!(": {}", shown(reason)),
        (None, Some(code)) => format!(" with the code {}", shown(code)),
        (None, None) => String::new(),
    }
}

/// A gateway's text, as far as it is shown: it may hold anything.
fn shown(reason: &str) -> String {
    mask_pans(reason).chars().take(REASON_CHARS_MAX).collect()
}

/// The table of the core's refusals.
const fn wire_rejection(rejection: &Rejection) -> (StatusCode, &'static str) {
    match rejection {
        Rejection::Flag(it) => wire_flag(it),
        Rejection::InvalidParameter { .. } => (StatusCode::BAD_REQUEST, "invalid-parameter"),
        Rejection::Tenant(TenantRejection::AlreadyExists { .. }) => {
            (StatusCode::CONFLICT, "already-exists")
        }
        Rejection::Entitlement(it) => wire_entitlement(it),
        Rejection::Account(it) => wire_account(it),
        Rejection::Tenant(_)
        | Rejection::Access(_)
        | Rejection::Customer(_)
        | Rejection::Billing(_)
        | Rejection::Payment(_) => (StatusCode::BAD_REQUEST, "refused"),
    }
}

const fn wire_account(rejection: &AccountRejection) -> (StatusCode, &'static str) {
    use AccountRejection as R;
    match rejection {
        R::NotFound { .. } | R::PaymentMethodNotFound { .. } => {
            (StatusCode::NOT_FOUND, "not-found")
        }
        R::Closed { .. } => (StatusCode::CONFLICT, "account-closed"),
        R::AlreadyExists { .. }
        | R::KeyIsFixed { .. }
        | R::FieldIsFixed { .. }
        | R::TagDefinitionNotFound { .. }
        | R::TagNotFound { .. }
        | R::TagNotApplicable { .. }
        | R::TagNeedsDefaultMethod { .. }
        | R::CustomFieldNotFound { .. }
        | R::CustomFieldNameIsFixed { .. }
        | R::TooManyCustomFields
        | R::ExternalPaymentMethodExists { .. }
        | R::DefaultPaymentMethodInUse { .. } => (StatusCode::BAD_REQUEST, "refused"),
    }
}

const fn wire_entitlement(rejection: &EntitlementRejection) -> (StatusCode, &'static str) {
    use EntitlementRejection as R;
    match rejection {
        R::FeatureNotFound { .. }
        | R::OfferNotFound { .. }
        | R::GrantNotFound { .. }
        | R::ReservationNotFound { .. } => (StatusCode::NOT_FOUND, "not-found"),
        R::Changed { .. } => (StatusCode::PRECONDITION_FAILED, "version-changed"),
        R::NewcomersHaveOffer { .. } => (StatusCode::CONFLICT, "newcomers-have-offer"),
        R::OfferChanged { .. } => (StatusCode::CONFLICT, "offer-changed"),
        R::PriceChanged { .. } => (StatusCode::CONFLICT, "price-changed"),
        R::PurchasePending { .. } => (StatusCode::CONFLICT, "purchase-pending"),
        R::AlreadyBought { .. } => (StatusCode::CONFLICT, "already-bought"),
        R::NotForAccount { .. } => (StatusCode::CONFLICT, "not-for-account"),
        R::TooMany { .. } => (StatusCode::CONFLICT, "too-many"),
        R::GrantOfPurchase { .. } => (StatusCode::CONFLICT, "grant-of-purchase"),
        R::GrantOfSubscription { .. } => (StatusCode::CONFLICT, "grant-of-subscription"),
        R::UserTaken { .. } => (StatusCode::CONFLICT, "user-taken"),
        R::NotEntitled { .. } => (StatusCode::CONFLICT, "not-entitled"),
        R::LimitReached(_) => (StatusCode::CONFLICT, "limit-reached"),
        R::EventCounted(_) => (StatusCode::CONFLICT, "event-counted"),
        R::ReservationEnded { .. } => (StatusCode::CONFLICT, "reservation-ended"),
    }
}

const fn wire_flag(rejection: &FlagRejection) -> (StatusCode, &'static str) {
    use FlagRejection as R;
    match rejection {
        R::EnvironmentAlreadyExists { .. } => (StatusCode::CONFLICT, "already-exists"),
        R::EnvironmentNotFound { .. } | R::SecretNotFound { .. } | R::ChangeNotFound { .. } => {
            (StatusCode::NOT_FOUND, "not-found")
        }
        R::DefinitionChanged { .. } => (StatusCode::PRECONDITION_FAILED, "version-changed"),
        R::ApprovalNeeded { .. } => (StatusCode::CONFLICT, "approval-needed"),
        R::ChangeNotWaiting { .. } => (StatusCode::CONFLICT, "change-not-waiting"),
        R::ApprovalByAuthor { .. } => (StatusCode::FORBIDDEN, "approval-by-author"),
        R::WithdrawalByAnother { .. } => (StatusCode::FORBIDDEN, "withdrawal-by-another"),
    }
}

/// The text of a refusal, with the route that helps where there is one.
fn message(rejection: &Rejection) -> String {
    if let Rejection::Flag(FlagRejection::ApprovalNeeded { .. }) = rejection {
        return format!("{rejection}: ask for one at /v1/changes");
    }
    rejection.to_string()
}

fn with_details(problem: Problem, rejection: &Rejection) -> Problem {
    if let Rejection::Flag(FlagRejection::DefinitionChanged { version, .. }) = rejection {
        return problem.version(*version);
    }
    if let Rejection::Entitlement(EntitlementRejection::Changed { version, .. }) = rejection {
        return problem.version(*version);
    }
    if let Rejection::Entitlement(it) = rejection {
        return usage_view::with_details(problem, it);
    }
    if let Rejection::InvalidParameter { field, .. } = rejection {
        return problem.field(field.to_string());
    }
    problem
}
