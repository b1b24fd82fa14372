//! Errors of `/v1`: one table from each to its problem (RFC 9457).

use std::borrow::Cow;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use domain::Rejection;
use domain::change_request::ChangeStatus;
use engine::Unavailable;
use engine::access::AccessError;
use http::StatusCode;
use web::{BodyError, Problem, WrongField};

use crate::sign_up_problem;

/// `Retry-After` of a change that lost against concurrent changes too often.
const RETRY_AFTER_CONTENDED: Duration = Duration::from_secs(1);

/// `Retry-After` where all permits for event streams are in use.
const RETRY_AFTER_STREAMS_FULL: Duration = Duration::from_secs(1);

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
    /// All permits for event streams are in use.
    #[error("too many streams are open")]
    StreamsFull,
    /// The core is not available.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Error {
    /// The table: each error's problem.
    fn problem(&self) -> Problem {
        let (status, name) = match self {
            Self::Body(error) => return Problem::from(*error),
            Self::Access(error) => return Problem::from(error),
            Self::Unavailable(unavailable) => return Problem::from(unavailable),
            Self::SignUp(error) => return sign_up_problem::of(error),
            Self::Tenant(error) => return sign_up_problem::of_tenant(error),
            Self::StreamsFull => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            Self::InvalidParameter { .. } => (StatusCode::BAD_REQUEST, "invalid-parameter"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "permission-missing"),
            Self::Exists { .. } => (StatusCode::CONFLICT, "already-exists"),
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
            Self::WrongFields(fields) => problem.problems(fields.clone()),
            Self::Rejected(rejection) => with_details(problem, rejection),
            Self::Contended => problem.retry_after(Some(RETRY_AFTER_CONTENDED)),
            Self::StreamsFull => problem.retry_after(Some(RETRY_AFTER_STREAMS_FULL)),
            Self::Forbidden(_)
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

/// The table of the core's refusals. Those of payments cannot occur here.
const fn wire_rejection(rejection: &Rejection) -> (StatusCode, &'static str) {
    use Rejection as R;
    match rejection {
        R::EnvironmentAlreadyExists { .. } => (StatusCode::CONFLICT, "already-exists"),
        R::EnvironmentNotFound { .. } | R::SecretNotFound { .. } => {
            (StatusCode::NOT_FOUND, "not-found")
        }
        R::DefinitionChanged { .. } => (StatusCode::PRECONDITION_FAILED, "version-changed"),
        R::ApprovalNeeded { .. } => (StatusCode::CONFLICT, "approval-needed"),
        R::ChangeNotFound { .. } => (StatusCode::NOT_FOUND, "not-found"),
        R::ChangeNotWaiting { .. } => (StatusCode::CONFLICT, "change-not-waiting"),
        R::ApprovalByAuthor { .. } => (StatusCode::FORBIDDEN, "approval-by-author"),
        R::WithdrawalByAnother { .. } => (StatusCode::FORBIDDEN, "withdrawal-by-another"),
        R::InvalidParameter { .. } => (StatusCode::BAD_REQUEST, "invalid-parameter"),
        R::TenantAlreadyExists { .. }
        | R::UserAlreadyExists { .. }
        | R::UserNotFound { .. }
        | R::RoleAlreadyExists { .. }
        | R::RoleNotFound { .. }
        | R::PermissionInvalid { .. }
        | R::AccountAlreadyExists { .. }
        | R::AccountNotFound { .. }
        | R::AccountKeyIsFixed { .. }
        | R::AccountFieldIsFixed { .. }
        | R::TagDefinitionNotFound { .. }
        | R::TagNotFound { .. }
        | R::TagNotApplicable { .. }
        | R::PaymentMethodNotFound { .. }
        | R::ExternalPaymentMethodExists { .. }
        | R::DefaultPaymentMethodInUse { .. }
        | R::GatewayNotRegistered { .. }
        | R::PaymentNotFound { .. }
        | R::TransactionNotFound { .. }
        | R::PaymentOfAnotherAccount { .. }
        | R::TransactionOfAnotherAccount { .. }
        | R::TransactionKeySucceeded { .. }
        | R::NoSuchSuccess { .. }
        | R::InvalidTransition { .. }
        | R::PaymentInDoubt { .. }
        | R::Customer(_) => (StatusCode::BAD_REQUEST, "refused"),
    }
}

/// The text of a refusal.
fn message(rejection: &Rejection) -> String {
    if let Rejection::EnvironmentAlreadyExists { key } = rejection {
        return format!("there is an environment {key} already");
    }
    if let Rejection::EnvironmentNotFound { id } = rejection {
        return format!("there is no environment {id}");
    }
    if let Rejection::SecretNotFound { id } = rejection {
        return format!("there is no secret {id}");
    }
    if let Rejection::DefinitionChanged { key, version } = rejection {
        return match version {
            Some(version) => format!("{key} is in the version {version}"),
            None => format!("there is no {key}"),
        };
    }
    if let Rejection::ApprovalNeeded { environment } = rejection {
        return format!(
            "changes of the environment {environment} need another user's approval: \
             ask for one at /v1/changes"
        );
    }
    if let Rejection::ChangeNotFound { id } = rejection {
        return format!("there is no change {id}");
    }
    if let Rejection::ChangeNotWaiting { id, status } = rejection {
        return format!("the change {id} is {}", change_status_label(*status));
    }
    if let Rejection::ApprovalByAuthor { id } = rejection {
        return format!("the change {id} needs the approval of another user than its author");
    }
    if let Rejection::WithdrawalByAnother { id } = rejection {
        return format!("the change {id} is withdrawn by its author only");
    }
    if let Rejection::InvalidParameter { field, reason } = rejection {
        return format!("{field}: {reason}");
    }
    format!("{rejection:?}")
}

/// A change's status on the wire.
#[must_use]
pub const fn change_status_label(status: ChangeStatus) -> &'static str {
    match status {
        ChangeStatus::Pending => "pending",
        ChangeStatus::Scheduled => "scheduled",
        ChangeStatus::Applied => "applied",
        ChangeStatus::Rejected => "rejected",
        ChangeStatus::Withdrawn => "withdrawn",
        ChangeStatus::Failed => "failed",
    }
}

fn with_details(problem: Problem, rejection: &Rejection) -> Problem {
    if let Rejection::DefinitionChanged { version, .. } = rejection {
        return problem.version(*version);
    }
    if let Rejection::InvalidParameter { field, .. } = rejection {
        return problem.field(field.to_string());
    }
    problem
}
