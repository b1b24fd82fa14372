//! Errors of the native API of sign-up: RFC 9457 problem details, from one table.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use domain::customer::CustomerRefusal;
use engine::access::AccessError;
use engine::{Reason, Unavailable};
use http::StatusCode;
use http::header::{self, HeaderValue};
use serde::Serialize;
use utoipa::ToSchema;

use crate::Invalid;
use crate::body::BodyError;
use crate::service::Error;
use crate::tenant::TenantError;

const CONTENT_TYPE: &str = "application/problem+json";

/// What a problem's type starts with; `docs/reference/errors.md` lists them.
const TYPE_PREFIX: &str = "urn:faregate:problem:";

/// When to try again where there was no room.
const RETRY_AFTER_FULL: Duration = Duration::from_secs(1);

/// An error of the native API.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Problem {
    /// A parameter, a header or a field cannot be.
    #[error("{field}: {reason}")]
    Invalid {
        /// Which.
        field: Cow<'static, str>,
        /// Why.
        reason: String,
    },
    /// Fields break rules.
    #[error("fields are wrong: {}", .0.len())]
    WrongFields(Vec<WrongField>),
    /// The body did not come.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// It is not known for which tenant it is.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// Operators name their tenant.
    #[error("X-Faregate-ApiKey and X-Faregate-ApiSecret need to be set")]
    TenantMissing,
    /// An operator is not let in.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The operator lacks a permission.
    #[error("the user does not have the permission {0}")]
    Forbidden(&'static str),
    /// There is nothing of that name, or it is another tenant's or customer's.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The route does not take the method.
    #[error("the resource does not take this method")]
    NoMethod,
    /// There are too many streams.
    #[error("too many streams are open")]
    StreamsFull,
    /// Sign-up said no.
    #[error("{}", said(.0))]
    Refused(Error),
}

/// A problem, as it is sent.
#[derive(Serialize, ToSchema)]
pub struct SignUpProblem<'a> {
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
    /// All fields that are wrong.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub problems: &'a [WrongField],
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct WrongField {
    /// Which.
    pub field: Cow<'static, str>,
    /// Why.
    pub reason: String,
}

impl WrongField {
    /// A field and what is wrong with it.
    pub(crate) fn new(field: impl Into<Cow<'static, str>>, reason: impl ToString) -> Self {
        Self { field: field.into(), reason: reason.to_string() }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if let Error::Fields(invalid) = error {
            return Self::WrongFields(invalid.into_iter().map(wrong).collect());
        }
        Self::Refused(error)
    }
}

impl From<Unavailable> for Problem {
    fn from(unavailable: Unavailable) -> Self {
        Self::Refused(unavailable.into())
    }
}

/// A rule that a field breaks, with the field as this API spells it.
fn wrong(invalid: Invalid) -> WrongField {
    let field = match invalid.field() {
        "first_name" => "firstName",
        "last_name" => "lastName",
        "timezone" => "timeZone",
        field => field,
    };
    WrongField::new(field, invalid)
}

impl Problem {
    /// The same, where this route calls the field `password` otherwise.
    #[must_use]
    pub(super) fn of_new_password(self) -> Self {
        let Self::WrongFields(mut fields) = self else { return self };
        for field in &mut fields {
            if field.field == "password" {
                field.field = "newPassword".into();
            }
        }
        Self::WrongFields(fields)
    }

    /// The table: status and problem type.
    const fn wire(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid-parameter"),
            Self::WrongFields(_) => (StatusCode::UNPROCESSABLE_ENTITY, "wrong-fields"),
            Self::Body(error) => match error {
                BodyError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large"),
                BodyError::TimedOut => (StatusCode::REQUEST_TIMEOUT, "body-timed-out"),
                BodyError::Broken => (StatusCode::BAD_REQUEST, "body-broken"),
                BodyError::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            },
            Self::Tenant(error) => match error {
                TenantError::Incomplete => (StatusCode::UNAUTHORIZED, "tenant-missing"),
                TenantError::Access(error) => wire_access(error),
                TenantError::Nobody => (StatusCode::SERVICE_UNAVAILABLE, "tenant-not-made"),
                TenantError::Unavailable(unavailable) => wire_unavailable(unavailable.reason),
            },
            Self::TenantMissing => (StatusCode::UNAUTHORIZED, "tenant-missing"),
            Self::Access(error) => wire_access(error),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "permission-missing"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "not-found"),
            Self::NoMethod => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed"),
            Self::StreamsFull => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            Self::Refused(error) => wire(error),
        }
    }

    const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(Error::Busy { retry_after } | Error::TooMany { retry_after }) => {
                Some(*retry_after)
            }
            Self::Refused(Error::Unavailable(it))
            | Self::Tenant(
                TenantError::Unavailable(it) | TenantError::Access(AccessError::Unavailable(it)),
            )
            | Self::Access(AccessError::Unavailable(it)) => it.retry_after,
            Self::Access(AccessError::Throttled { retry_after })
            | Self::Tenant(TenantError::Access(AccessError::Throttled { retry_after })) => {
                Some(*retry_after)
            }
            Self::Refused(Error::StillRunning)
            | Self::Body(BodyError::NoRoom)
            | Self::StreamsFull
            | Self::Tenant(TenantError::Nobody) => Some(RETRY_AFTER_FULL),
            Self::Refused(_)
            | Self::Tenant(_)
            | Self::Access(_)
            | Self::Invalid { .. }
            | Self::WrongFields(_)
            | Self::Body(_)
            | Self::TenantMissing
            | Self::Forbidden(_)
            | Self::NotFound(_)
            | Self::NoMethod => None,
        }
    }

    /// How to say who one is, where that is what is missing: customers show a token, operators
    /// a password.
    const fn challenge(&self) -> &'static str {
        if matches!(self, Self::Access(_) | Self::Tenant(_) | Self::TenantMissing) {
            "Basic realm=\"faregate\", charset=\"UTF-8\""
        } else {
            "Bearer realm=\"faregate\""
        }
    }

    /// Why the core could not do it, for the log.
    const fn reason(&self) -> Option<Reason> {
        if let Self::Refused(Error::Unavailable(it))
        | Self::Tenant(
            TenantError::Unavailable(it) | TenantError::Access(AccessError::Unavailable(it)),
        )
        | Self::Access(AccessError::Unavailable(it)) = self
        {
            Some(it.reason)
        } else {
            None
        }
    }

    /// Its body.
    pub(crate) fn body(&self) -> Vec<u8> {
        let (status, name) = self.wire();
        let field =
            if let Self::Invalid { field, .. } = self { Some(field.as_ref()) } else { None };
        let problems: &[_] = if let Self::WrongFields(problems) = self { problems } else { &[] };
        let detail = self.to_string();
        let body = SignUpProblem {
            kind: format!("{TYPE_PREFIX}{name}"),
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: &detail,
            field,
            problems,
        };
        serde_json::to_vec(&body).expect("a problem is plain JSON")
    }
}

/// The table of what sign-up says.
const fn wire(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::Fields(_) => (StatusCode::UNPROCESSABLE_ENTITY, "wrong-fields"),
        Error::Refused(refusal) => wire_refusal(refusal),
        Error::Credentials => (StatusCode::UNAUTHORIZED, "credentials-wrong"),
        Error::CodeNeeded => (StatusCode::UNAUTHORIZED, "code-needed"),
        Error::TokenInvalid => (StatusCode::BAD_REQUEST, "token-invalid"),
        Error::NoSession => (StatusCode::UNAUTHORIZED, "not-logged-in"),
        Error::Busy { .. } => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
        Error::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, "too-many-requests"),
        Error::StillRunning => (StatusCode::CONFLICT, "idempotency-key-in-progress"),
        Error::AnotherRequest => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused"),
        Error::Unavailable(unavailable) => wire_unavailable(unavailable.reason),
    }
}

/// The table of the core's refusals.
const fn wire_refusal(refusal: &CustomerRefusal) -> (StatusCode, &'static str) {
    use CustomerRefusal as R;
    match refusal {
        R::EmailTaken => (StatusCode::CONFLICT, "email-taken"),
        R::NotFound | R::SessionNotFound | R::OperationNotFound => {
            (StatusCode::NOT_FOUND, "not-found")
        }
        R::Deactivated => (StatusCode::FORBIDDEN, "deactivated"),
        R::AlreadyVerified => (StatusCode::CONFLICT, "email-verified"),
        R::TokenInvalid => (StatusCode::BAD_REQUEST, "token-invalid"),
        // As a wrong password: whoever has just registered an address would learn by logging in with
        // the password that they chose whether it had a customer before.
        R::NotVerified | R::PasswordChanged => (StatusCode::UNAUTHORIZED, "credentials-wrong"),
        R::CodeInvalid => (StatusCode::UNAUTHORIZED, "code-wrong"),
        R::NoSecondFactor => (StatusCode::CONFLICT, "no-second-factor"),
        R::NotExpired | R::OperationSettled | R::PreferencesChanged => {
            (StatusCode::CONFLICT, "refused")
        }
    }
}

/// A refusal in words.
fn said(error: &Error) -> String {
    use CustomerRefusal as R;
    let Error::Refused(refusal) = error else { return error.to_string() };
    let text = match refusal {
        R::EmailTaken => "a customer has this address",
        R::NotFound => "there is no such customer",
        R::Deactivated => "the customer is deactivated",
        R::NotVerified => return Error::Credentials.to_string(),
        R::AlreadyVerified => "the address is verified",
        R::TokenInvalid => "the token is invalid",
        R::PasswordChanged => "the password was changed meanwhile",
        R::PreferencesChanged => "the preferences are being changed by others",
        R::CodeInvalid => "the code is wrong, or was used",
        R::NoSecondFactor => "there is no second factor that waits for its first code",
        R::SessionNotFound => "there is no such session",
        R::NotExpired => "the time to verify the address is not over",
        R::OperationNotFound => "there is no such operation",
        R::OperationSettled => "the operation has come to its end",
    };
    text.to_owned()
}

const fn wire_access(error: &AccessError) -> (StatusCode, &'static str) {
    match error {
        AccessError::Missing => (StatusCode::UNAUTHORIZED, "credentials-missing"),
        AccessError::Invalid => (StatusCode::UNAUTHORIZED, "credentials-wrong"),
        AccessError::UnknownApiKey | AccessError::WrongSecret => {
            (StatusCode::UNAUTHORIZED, "tenant-unknown")
        }
        AccessError::Throttled { .. } => (StatusCode::TOO_MANY_REQUESTS, "too-many-attempts"),
        AccessError::Unavailable(unavailable) => wire_unavailable(unavailable.reason),
    }
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
        let (status, _) = self.wire();
        let mut response = Response::new(Body::from(self.body()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static(self.challenge());
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(retry_after) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, retry_after.as_secs().max(1).into());
        }
        if let Some(reason) = self.reason() {
            response.extensions_mut().insert(reason);
        }
        response
    }
}
