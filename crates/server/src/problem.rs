//! Errors of the native API: RFC 9457 problem details, from one table.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use domain::Rejection;
use domain::change_request::ChangeStatus;
use engine::access::AccessError;
use engine::{Reason, Unavailable};
use http::StatusCode;
use http::header::{self, HeaderValue};
use killbill::BodyError;
use serde::Serialize;
use utoipa::ToSchema;

/// The media type of a problem.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// When to try again where there was no room for a body.
const RETRY_AFTER_FULL: Duration = Duration::from_secs(1);

/// When to try again where others were always quicker.
const RETRY_AFTER_CONTENDED: Duration = Duration::from_secs(1);

/// What a problem's type starts with; `docs/reference/errors.md` lists them.
const TYPE_PREFIX: &str = "urn:faregate:problem:";

/// An error of the native API.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Problem {
    /// A parameter's value cannot be.
    #[error("{field}: {reason}")]
    InvalidParameter {
        /// The parameter.
        field: Cow<'static, str>,
        /// Why.
        reason: String,
    },
    /// There is nothing of that name, or it is another tenant's.
    #[error("there is no {what} {name}")]
    NotFound {
        /// What.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// Another kind of node answers it.
    #[error("{what} are kept by a node with the role `all` and the queue `memory`")]
    NotHere {
        /// What.
        what: &'static str,
    },
    /// The user lacks a permission.
    #[error("the user does not have the permission {0}")]
    Forbidden(&'static str),
    /// The body did not come.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// There is one of that name.
    #[error("there is a {what} {name} already")]
    Exists {
        /// What.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// A document is wrong in these places.
    #[error("fields are wrong: {}", .0.len())]
    WrongFields(Vec<WrongField>),
    /// The core's refusal.
    #[error("{}", said(.0))]
    Rejected(Box<Rejection>),
    /// Others changed again and again what this change was to be made upon.
    #[error("others change it all the time: nothing was written")]
    Contended,
    /// There is nothing to encrypt secrets with.
    #[error("secrets of environments need a key: set `flags.key_file`")]
    NoSecretsKey,
    /// There is no key that tokens of sign-up are made with.
    #[error("sign-up needs `signup.key_file`")]
    NoSignupKey,
    /// The secrets were stored with another key.
    #[error("the secrets of environments were stored with another key than `flags.key_file`")]
    WrongSecretsKey,
    /// This connection began with feature flags, and ends with them.
    #[error("this connection is for feature flags: open another one")]
    OtherConnection,
    /// There is no such route.
    #[error("there is no such resource")]
    NoRoute,
    /// The route does not take the method.
    #[error("the resource does not take this method")]
    NoMethod,
    /// No tenant was named.
    #[error("X-Faregate-ApiKey and X-Faregate-ApiSecret need to be set")]
    TenantMissing,
    /// Somebody is not let in.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// It cannot be done now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A problem, as it is sent.
#[derive(Serialize, ToSchema)]
pub struct ProblemBody<'a> {
    /// Names the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status' phrase.
    pub title: &'a str,
    /// The status.
    pub status: u16,
    /// What is wrong with this request.
    pub detail: &'a str,
    /// The parameter that is wrong, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'a str>,
    /// All places where a document is wrong.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub problems: &'a [WrongField],
    /// The version that is there, where another one was expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// A place where a document is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct WrongField {
    /// Where, such as `featureFlags[0].rules[1].conditions[0].value`.
    pub field: String,
    /// Why.
    pub reason: String,
}

/// A problem's body.
#[must_use]
pub fn body(status: StatusCode, name: &str, detail: &str) -> Vec<u8> {
    write(status, name, detail, &Details::default())
}

/// What only some problems have.
#[derive(Default)]
struct Details<'a> {
    field: Option<&'a str>,
    problems: &'a [WrongField],
    version: Option<i64>,
}

fn write(status: StatusCode, name: &str, detail: &str, details: &Details<'_>) -> Vec<u8> {
    let Details { field, problems, version } = *details;
    let body = ProblemBody {
        kind: format!("{TYPE_PREFIX}{name}"),
        title: status.canonical_reason().unwrap_or_default(),
        status: status.as_u16(),
        detail,
        field,
        problems,
        version,
    };
    serde_json::to_vec(&body).expect("a problem is plain JSON")
}

impl Problem {
    /// The table: status and problem type.
    const fn wire(&self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidParameter { .. } => (StatusCode::BAD_REQUEST, "invalid-parameter"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "permission-missing"),
            Self::Body(error) => match error {
                BodyError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large"),
                BodyError::TimedOut => (StatusCode::REQUEST_TIMEOUT, "body-timed-out"),
                BodyError::Broken => (StatusCode::BAD_REQUEST, "body-broken"),
                BodyError::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            },
            Self::Exists { .. } => (StatusCode::CONFLICT, "already-exists"),
            Self::WrongFields(_) => (StatusCode::UNPROCESSABLE_ENTITY, "wrong-fields"),
            Self::Rejected(rejection) => wire_rejection(rejection),
            Self::Contended => (StatusCode::SERVICE_UNAVAILABLE, "contended"),
            Self::NoSecretsKey => (StatusCode::NOT_IMPLEMENTED, "secrets-key-missing"),
            Self::NoSignupKey => (StatusCode::NOT_IMPLEMENTED, "signup-key-missing"),
            Self::WrongSecretsKey => (StatusCode::INTERNAL_SERVER_ERROR, "secrets-key-wrong"),
            Self::OtherConnection => (StatusCode::MISDIRECTED_REQUEST, "misdirected"),
            Self::NotFound { .. } | Self::NoRoute => (StatusCode::NOT_FOUND, "not-found"),
            Self::NotHere { .. } => (StatusCode::NOT_IMPLEMENTED, "not-here"),
            Self::NoMethod => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed"),
            Self::TenantMissing => (StatusCode::UNAUTHORIZED, "tenant-missing"),
            Self::Access(error) => match error {
                AccessError::Missing => (StatusCode::UNAUTHORIZED, "credentials-missing"),
                AccessError::Invalid => (StatusCode::UNAUTHORIZED, "credentials-wrong"),
                AccessError::UnknownApiKey | AccessError::WrongSecret => {
                    (StatusCode::UNAUTHORIZED, "tenant-unknown")
                }
                AccessError::Throttled { .. } => {
                    (StatusCode::TOO_MANY_REQUESTS, "too-many-attempts")
                }
                AccessError::Unavailable(unavailable) => wire_unavailable(unavailable.reason),
            },
            Self::Unavailable(unavailable) => wire_unavailable(unavailable.reason),
        }
    }

    const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable(unavailable)
            | Self::Access(AccessError::Unavailable(unavailable)) => unavailable.retry_after,
            Self::Access(AccessError::Throttled { retry_after }) => Some(*retry_after),
            Self::Body(BodyError::NoRoom) => Some(RETRY_AFTER_FULL),
            Self::Contended => Some(RETRY_AFTER_CONTENDED),
            Self::Access(
                AccessError::Missing
                | AccessError::Invalid
                | AccessError::UnknownApiKey
                | AccessError::WrongSecret,
            )
            | Self::InvalidParameter { .. }
            | Self::Forbidden(_)
            | Self::Body(_)
            | Self::Exists { .. }
            | Self::WrongFields(_)
            | Self::Rejected(_)
            | Self::NoSecretsKey
            | Self::NoSignupKey
            | Self::WrongSecretsKey
            | Self::NotFound { .. }
            | Self::NotHere { .. }
            | Self::NoRoute
            | Self::OtherConnection
            | Self::NoMethod
            | Self::TenantMissing => None,
        }
    }

    fn details(&self) -> Details<'_> {
        match self {
            Self::InvalidParameter { field, .. } => {
                Details { field: Some(field.as_ref()), ..Details::default() }
            }
            Self::WrongFields(problems) => Details { problems, ..Details::default() },
            Self::Rejected(rejection) => details_of_rejection(rejection),
            Self::Forbidden(_)
            | Self::Body(_)
            | Self::Exists { .. }
            | Self::Contended
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
            | Self::Unavailable(_) => Details::default(),
        }
    }
}

/// The table of the core's refusals. Payments' are not asked for here.
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

/// A refusal of the core in words.
fn said(rejection: &Rejection) -> String {
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

/// A change's status, as clients see it.
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

fn details_of_rejection(rejection: &Rejection) -> Details<'_> {
    if let Rejection::DefinitionChanged { version, .. } = rejection {
        return Details { version: *version, ..Details::default() };
    }
    if let Rejection::InvalidParameter { field, .. } = rejection {
        return Details { field: Some(field), ..Details::default() };
    }
    Details::default()
}

const fn wire_unavailable(reason: Reason) -> (StatusCode, &'static str) {
    match reason {
        Reason::QueueFull | Reason::GatewayFull | Reason::ReadersFull | Reason::HashersFull => {
            (StatusCode::SERVICE_UNAVAILABLE, "overloaded")
        }
        Reason::QueueAway => (StatusCode::SERVICE_UNAVAILABLE, "queue-unavailable"),
        Reason::MessageTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "message-too-large"),
        Reason::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        Reason::DiskFull => (StatusCode::SERVICE_UNAVAILABLE, "disk-full"),
        Reason::Expired => (StatusCode::SERVICE_UNAVAILABLE, "expired"),
        Reason::NotOwner => (StatusCode::SERVICE_UNAVAILABLE, "not-owner"),
        Reason::Store => (StatusCode::SERVICE_UNAVAILABLE, "store-unavailable"),
        Reason::CommitInDoubt => (StatusCode::SERVICE_UNAVAILABLE, "commit-in-doubt"),
        Reason::Repeated => (StatusCode::SERVICE_UNAVAILABLE, "repeated"),
        Reason::Quarantined => (StatusCode::SERVICE_UNAVAILABLE, "quarantined"),
        Reason::Bug => (StatusCode::INTERNAL_SERVER_ERROR, "internal-error"),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, name) = self.wire();
        let details = self.details();
        let version = details.version;
        let body = write(status, name, &self.to_string(), &details);
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        if let Some(version) = version {
            let etag = HeaderValue::try_from(format!("\"{version}\""));
            headers.insert(header::ETAG, etag.expect("digits are a header's value"));
        }
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"faregate\", charset=\"UTF-8\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Self::Unavailable(it) | Self::Access(AccessError::Unavailable(it)) = &self {
            response.extensions_mut().insert(it.reason);
        }
        let headers = response.headers_mut();
        if let Some(retry_after) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, retry_after.as_secs().max(1).into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(problem: Problem, expected: Expect) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let response = problem.into_response();
        let retry_after = response.headers().get(header::RETRY_AFTER).cloned();
        let body = axum::body::to_bytes(response.into_body(), 4096);
        let body = String::from_utf8(runtime.block_on(body).unwrap().to_vec()).unwrap();
        expected.assert_eq(&format!("{body} {retry_after:?}"));
    }

    #[test]
    fn problems_are_rfc_9457() {
        let reason = "is not a UUID".to_owned();
        check(
            Problem::InvalidParameter { field: "account".into(), reason },
            expect![[
                r#"{"type":"urn:faregate:problem:invalid-parameter","title":"Bad Request","status":400,"detail":"account: is not a UUID","field":"account"} None"#
            ]],
        );
        check(
            Problem::Unavailable(Reason::QueueFull.into()),
            expect![[
                r#"{"type":"urn:faregate:problem:overloaded","title":"Service Unavailable","status":503,"detail":"too many requests are waiting"} Some("1")"#
            ]],
        );
    }
}
