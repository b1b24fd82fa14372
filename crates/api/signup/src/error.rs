//! Errors in the contract's format: `{"error":true,...}` for users, `{"detail":...}` for billing and
//! for invalid fields.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::customer::CustomerRejection;
use engine::access::AccessError;
use engine::{Reason, Unavailable};
use http::header::{HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use sign_up::{Error, Invalid, TenantError};
use web::headers::mark_outcome_unknown;
use web::refusal_log::{Why, is_refusal};
use web::{BodyError, Problem};

/// An error response.
pub(crate) struct ApiError {
    status: StatusCode,
    body: ErrorBody,
    retry_after: Option<Duration>,
    /// The reason where the engine is unavailable, for the log.
    reason: Option<Reason>,
}

/// The shapes of error bodies.
enum ErrorBody {
    /// The routes of users: `{"error": true, "message": …, "status_code": …}`.
    Message(String),
    /// The routes of billing: `{"detail": …}`.
    Detail(String),
    /// Invalid fields, each as [`wrong_field`].
    Fields(Vec<Value>),
}

impl ApiError {
    /// A status with a message.
    pub(crate) fn new(status: StatusCode, message: &str) -> Self {
        Self {
            status,
            body: ErrorBody::Message(message.to_owned()),
            retry_after: None,
            reason: None,
        }
    }

    /// 400 with a message.
    pub(crate) fn bad(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 401 with a message.
    pub(crate) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    /// 404 with a message.
    pub(crate) fn not_found(message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn no_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
    }

    /// 422 with invalid fields; each as [`wrong_field`].
    pub(crate) const fn fields(fields: Vec<Value>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self { status, body: ErrorBody::Fields(fields), retry_after: None, reason: None }
    }

    /// The same in the shape of billing.
    pub(crate) fn of_billing(mut self) -> Self {
        if let ErrorBody::Message(message) = self.body {
            self.body = ErrorBody::Detail(message);
        }
        self
    }

    fn unavailable(unavailable: &Unavailable) -> Self {
        let status = Problem::from(unavailable).status();
        let error = Self::new(status, &unavailable.to_string());
        let reason = Some(unavailable.reason);
        Self { retry_after: unavailable.retry_after, reason, ..error }
    }
}

/// An invalid field in FastAPI's format, without the value.
pub(crate) fn wrong_field(field: &str, kind: &str, message: &str) -> Value {
    json!({ "type": kind, "loc": ["body", field], "msg": message })
}

/// 422: this field has a card number.
pub(crate) fn card_number(field: &str) -> ApiError {
    let message = format!("Value error, {}", web::card_data::REASON);
    ApiError::fields(vec![wrong_field(field, "value_error", &message)])
}

/// The invalid field of a broken rule.
pub(crate) fn broken_rule(invalid: Invalid) -> Value {
    let (kind, message) = match invalid {
        Invalid::PasswordTooShort => {
            ("string_too_short", "String should have at least 8 characters".to_owned())
        }
        Invalid::PasswordTooLong => {
            ("string_too_long", "String should have at most 128 characters".to_owned())
        }
        Invalid::Phone => (
            "string_pattern_mismatch",
            r"String should match pattern '^\+?[1-9]\d{1,14}$'".to_owned(),
        ),
        Invalid::PasswordLacksUpper
        | Invalid::PasswordLacksLower
        | Invalid::PasswordLacksDigit
        | Invalid::PasswordLacksSpecial
        | Invalid::PasswordCommon
        | Invalid::Email
        | Invalid::EmailScripts
        | Invalid::FirstName
        | Invalid::LastName
        | Invalid::TimeZone
        | Invalid::Preferences => ("value_error", format!("Value error, {invalid}")),
    };
    wrong_field(invalid.field(), kind, &message)
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let (status, retry_after) = match error {
            BodyError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, None),
            BodyError::TimedOut => (StatusCode::REQUEST_TIMEOUT, None),
            BodyError::Broken => (StatusCode::BAD_REQUEST, None),
            BodyError::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, Some(Duration::from_secs(1))),
        };
        Self { retry_after, ..Self::new(status, &error.to_string()) }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let busy = |message, retry_after| Self {
            retry_after: Some(retry_after),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
        };
        match error {
            Error::Fields(invalid) => Self::fields(invalid.into_iter().map(broken_rule).collect()),
            Error::Refused(refusal) => refusal.into(),
            Error::Credentials => Self::unauthorized("Invalid email or password"),
            Error::CodeNeeded => Self::unauthorized("Second factor code required"),
            Error::TokenInvalid => Self::bad("Invalid or expired token"),
            Error::TenantNeeded => Self::unauthorized("A callback needs the tenant's headers"),
            Error::NoSession => Self::unauthorized("Invalid or expired token"),
            Error::Busy { retry_after } => {
                busy("Too many registrations and logins at once, try again later", retry_after)
            }
            Error::TooManyRequests { retry_after } => Self {
                status: StatusCode::TOO_MANY_REQUESTS,
                ..busy("Too many requests, try again later", retry_after)
            },
            Error::StillRunning => Self::new(
                StatusCode::CONFLICT,
                "A request with this Idempotency-Key is in progress",
            ),
            Error::AnotherRequest => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "The Idempotency-Key was used for another request",
            ),
            Error::Unavailable(unavailable) => Self::unavailable(&unavailable),
        }
    }
}

impl From<CustomerRejection> for ApiError {
    fn from(refusal: CustomerRejection) -> Self {
        use CustomerRejection as R;
        match refusal {
            R::EmailTaken => {
                Self::new(StatusCode::CONFLICT, "Customer with this email already exists")
            }
            R::NotFound => Self::not_found("Customer not found"),
            R::Deactivated => Self::unauthorized("Account is deactivated"),
            R::NotVerified => Self::unauthorized(
                "Email verification required. Please check your email and verify your account.",
            ),
            R::AlreadyVerified => Self::bad("Email is already verified"),
            R::TokenInvalid => Self::bad("Invalid or expired token"),
            R::PasswordChanged => Self::unauthorized("Invalid email or password"),
            R::PreferencesChanged => {
                Self::new(StatusCode::CONFLICT, "The preferences are being changed")
            }
            R::CodeInvalid => Self::unauthorized("Invalid second factor code"),
            R::NoSecondFactor => Self::bad("There is no second factor to confirm"),
            R::SessionNotFound => Self::not_found("Session not found"),
            R::NotExpired => Self::bad("The customer has not expired"),
            R::OperationNotFound => Self::not_found("Operation not found"),
            R::OperationSettled => Self::bad("The operation has come to its end"),
        }
    }
}

impl From<TenantError> for ApiError {
    fn from(error: TenantError) -> Self {
        match error {
            TenantError::NotFound => {
                tracing::error!(
                    "the configured tenant of sign-up does not exist; requests are refused"
                );
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "Sign-up has no tenant")
            }
            TenantError::Access(error) => error.into(),
            TenantError::Unavailable(unavailable) => Self::unavailable(&unavailable),
        }
    }
}

impl From<AccessError> for ApiError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Throttled { retry_after } => Self {
                retry_after: Some(retry_after),
                ..Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many failed attempts")
            },
            AccessError::Unavailable(unavailable) => Self::unavailable(&unavailable),
            AccessError::TenantInactive => {
                Self::new(StatusCode::FORBIDDEN, "The tenant is switched off")
            }
            AccessError::Missing
            | AccessError::Invalid
            | AccessError::UnknownApiKey
            | AccessError::WrongSecret => Self::unauthorized("Not authenticated"),
        }
    }
}

impl From<Unavailable> for ApiError {
    fn from(unavailable: Unavailable) -> Self {
        Self::unavailable(&unavailable)
    }
}

impl ApiError {
    /// Why credentials or rights are not enough, for the log: the messages of such errors are constant.
    fn why(&self) -> Option<Why> {
        match &self.body {
            ErrorBody::Message(message) | ErrorBody::Detail(message) => {
                Some(Why(message.clone().into()))
            }
            ErrorBody::Fields(_) => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let why = is_refusal(self.status).then(|| self.why()).flatten();
        let body = match self.body {
            ErrorBody::Message(message) => json!({
                "error": true,
                "message": message,
                "status_code": self.status.as_u16(),
            }),
            ErrorBody::Detail(message) => json!({ "detail": message }),
            ErrorBody::Fields(fields) => json!({ "detail": fields }),
        };
        let mut headers = HeaderMap::new();
        if let Some(retry_after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after.as_secs().max(1)));
        }
        if self.reason.is_some_and(Reason::leaves_outcome_unknown) {
            mark_outcome_unknown(&mut headers);
        }
        let mut response = (self.status, headers, Json(body)).into_response();
        if let Some(reason) = self.reason {
            response.extensions_mut().insert(reason);
        }
        if let Some(why) = why {
            response.extensions_mut().insert(why);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_outcome_says_so() {
        let outcome = |reason: Reason| {
            let response = ApiError::from(Unavailable::from(reason)).into_response();
            response.headers().get("x-faregate-outcome").map(|it| it.to_str().unwrap().to_owned())
        };
        assert_eq!(outcome(Reason::CommitInDoubt).as_deref(), Some("unknown"));
        assert_eq!(outcome(Reason::Repeated).as_deref(), Some("unknown"));
        assert_eq!(outcome(Reason::Store), None);
    }
}
