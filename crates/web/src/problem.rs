//! Problem details (RFC 9457): the shape of every error under `/v1`, and of the listener's own.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use engine::access::AccessError;
use engine::{Reason, Unavailable};
use http::StatusCode;
use http::header::{self, HeaderValue};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::BodyError;
use crate::headers::mark_outcome_unknown;
use crate::refusal_log::{Why, is_refusal};

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);

/// The prefix of a problem's type; `docs/reference/errors.md` lists the names behind it.
const TYPE_PREFIX: &str = "urn:faregate:problem:";

/// `Retry-After` where the memory for bodies was full.
const RETRY_AFTER_FULL: Duration = Duration::from_secs(1);

/// `WWW-Authenticate` for operators, who send a name and a password.
pub const BASIC_CHALLENGE: &str = "Basic realm=\"faregate\", charset=\"UTF-8\"";

/// `WWW-Authenticate` for customers, who send an access token.
pub const BEARER_CHALLENGE: &str = "Bearer realm=\"faregate\"";

/// An error of a request, ready to be sent. Each API has one table that makes these of its errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    name: &'static str,
    detail: Cow<'static, str>,
    field: Option<Cow<'static, str>>,
    problems: Vec<WrongField>,
    version: Option<i64>,
    known: Option<Value>,
    location: Option<String>,
    retry_after: Option<Duration>,
    reason: Option<Reason>,
    permission: Option<&'static str>,
    challenge: &'static str,
}

/// A field of the request that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct WrongField {
    /// Its path, such as `featureFlags[0].rules[1].conditions[0].value`.
    pub field: String,
    /// The rule that it breaks.
    pub reason: String,
}

impl WrongField {
    /// A field and the rule that it breaks.
    #[must_use]
    pub fn new(field: impl Into<String>, reason: impl ToString) -> Self {
        Self { field: field.into(), reason: reason.to_string() }
    }
}

/// The JSON of a problem.
#[derive(Serialize, ToSchema)]
pub struct ProblemBody<'a> {
    /// A URN that names the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// The phrase of the HTTP status.
    pub title: &'a str,
    /// The HTTP status.
    pub status: u16,
    /// The explanation for this request.
    pub detail: &'a str,
    /// The parameter, header or field that is invalid, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'a str>,
    /// All invalid fields of a document.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub problems: &'a [WrongField],
    /// The current version, where the request expected another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Details by the kind of problem, such as the state of a limit, or the first answer to a repeated event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<&'a Value>,
}

impl Problem {
    /// A problem of a kind; `name` is the last part of its type.
    #[must_use]
    pub fn new(
        status: StatusCode,
        name: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            name,
            detail: detail.into(),
            field: None,
            problems: vec![],
            version: None,
            known: None,
            location: None,
            retry_after: None,
            reason: None,
            permission: None,
            challenge: BASIC_CHALLENGE,
        }
    }

    /// Names the parameter, header or field that is invalid.
    #[must_use]
    pub fn field(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// Lists the invalid fields of a document.
    #[must_use]
    pub fn problems(self, problems: Vec<WrongField>) -> Self {
        Self { problems, ..self }
    }

    /// Gives the current version, in the body and as `ETag`.
    #[must_use]
    pub fn version(self, version: Option<i64>) -> Self {
        Self { version, ..self }
    }

    /// Gives what there is instead.
    #[must_use]
    pub fn known(self, known: Value) -> Self {
        Self { known: Some(known), ..self }
    }

    /// Names a resource that was made all the same, as `Location`.
    #[must_use]
    pub fn location(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// Says when to retry.
    #[must_use]
    pub fn retry_after(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }
    }

    /// Why the core was not available, for the listener's log.
    #[must_use]
    pub fn reason(self, reason: Reason) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The permission that its caller lacks, for the log.
    #[must_use]
    pub fn lacks(self, permission: &'static str) -> Self {
        Self { permission: Some(permission), ..self }
    }

    /// Sets `WWW-Authenticate` of a 401; [`BASIC_CHALLENGE`] by default.
    #[must_use]
    pub fn challenge(self, challenge: &'static str) -> Self {
        Self { challenge, ..self }
    }

    /// The status of the response.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Its type, its text, and the field that it names.
    #[must_use]
    pub fn into_parts(self) -> (String, String, Option<String>) {
        let kind = format!("{TYPE_PREFIX}{}", self.name);
        (kind, self.detail.into_owned(), self.field.map(Cow::into_owned))
    }

    /// The body as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let body = ProblemBody {
            kind: format!("{TYPE_PREFIX}{}", self.name),
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: &self.detail,
            field: self.field.as_deref(),
            problems: &self.problems,
            version: self.version,
            known: self.known.as_ref(),
        };
        serde_json::to_vec(&body).expect("a problem is plain JSON")
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        let (status, name) = match error {
            BodyError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large"),
            BodyError::TimedOut => (StatusCode::REQUEST_TIMEOUT, "body-timed-out"),
            BodyError::Broken => (StatusCode::BAD_REQUEST, "body-broken"),
            BodyError::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
        };
        let retry_after = (error == BodyError::NoRoom).then_some(RETRY_AFTER_FULL);
        Self::new(status, name, error.to_string()).retry_after(retry_after)
    }
}

impl From<&Unavailable> for Problem {
    fn from(unavailable: &Unavailable) -> Self {
        let (status, name) = match unavailable.reason {
            Reason::QueueFull | Reason::GatewayFull | Reason::ReadersFull | Reason::HashersFull => {
                (StatusCode::SERVICE_UNAVAILABLE, "overloaded")
            }
            Reason::GatewayStopped => (StatusCode::SERVICE_UNAVAILABLE, "gateway-stopped"),
            Reason::BreakerOpen => (StatusCode::SERVICE_UNAVAILABLE, "gateway-breaker-open"),
            Reason::ControlFailed => (StatusCode::SERVICE_UNAVAILABLE, "control-failed"),
            Reason::ReadTooLong => (StatusCode::SERVICE_UNAVAILABLE, "read-too-long"),
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
        };
        Self::new(status, name, unavailable.to_string())
            .retry_after(unavailable.retry_after)
            .reason(unavailable.reason)
    }
}

impl From<&AccessError> for Problem {
    fn from(error: &AccessError) -> Self {
        let (status, name, retry_after) = match error {
            AccessError::Missing => (StatusCode::UNAUTHORIZED, "credentials-missing", None),
            AccessError::Invalid => (StatusCode::UNAUTHORIZED, "credentials-wrong", None),
            AccessError::UnknownApiKey | AccessError::WrongSecret => {
                (StatusCode::UNAUTHORIZED, "tenant-unknown", None)
            }
            AccessError::TenantInactive => (StatusCode::FORBIDDEN, "tenant-inactive", None),
            AccessError::Throttled { retry_after } => {
                (StatusCode::TOO_MANY_REQUESTS, "too-many-attempts", Some(*retry_after))
            }
            AccessError::Unavailable(unavailable) => return Self::from(unavailable),
        };
        Self::new(status, name, error.to_string()).retry_after(retry_after)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
        if let Some(version) = self.version {
            let etag = HeaderValue::try_from(format!("\"{version}\""));
            headers.insert(header::ETAG, etag.expect("digits are a header's value"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static(self.challenge);
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        // A path with ids.
        if let Some(location) = self.location.and_then(|it| HeaderValue::try_from(it).ok()) {
            headers.insert(header::LOCATION, location);
        }
        if let Some(retry_after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, retry_after.as_secs().max(1).into());
        }
        if is_refusal(self.status) {
            let why = match self.permission {
                Some(permission) => format!("{}: {permission}", self.name).into(),
                None => self.name.into(),
            };
            response.extensions_mut().insert(Why(why));
        }
        let headers = response.headers_mut();
        if let Some(reason) = self.reason {
            if reason.leaves_outcome_unknown() {
                mark_outcome_unknown(headers);
            }
            response.extensions_mut().insert(reason);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(problem: Problem, expected: Expect) {
        let response = problem.clone().into_response();
        let headers = response.headers();
        let header = |name| headers.get(name).map(|it| it.to_str().unwrap());
        let body = String::from_utf8(problem.to_json()).unwrap();
        let shown =
            (header(header::ETAG), header(header::RETRY_AFTER), header(header::WWW_AUTHENTICATE));
        let outcome = headers.get("x-faregate-outcome").map_or("", |it| it.to_str().unwrap());
        let shown = format!("{body} {shown:?} {outcome}");
        expected.assert_eq(shown.trim_end());
    }

    #[test]
    fn problems_are_rfc_9457() {
        check(
            Problem::new(StatusCode::BAD_REQUEST, "invalid-parameter", "account: is not a UUID")
                .field("account"),
            expect![[
                r#"{"type":"urn:faregate:problem:invalid-parameter","title":"Bad Request","status":400,"detail":"account: is not a UUID","field":"account"} (None, None, None)"#
            ]],
        );
        check(
            Problem::from(&Unavailable::from(Reason::QueueFull)),
            expect![[
                r#"{"type":"urn:faregate:problem:overloaded","title":"Service Unavailable","status":503,"detail":"too many requests are waiting"} (None, Some("1"), None)"#
            ]],
        );
        check(
            Problem::from(&Unavailable::from(Reason::CommitInDoubt)),
            expect![[
                r#"{"type":"urn:faregate:problem:commit-in-doubt","title":"Service Unavailable","status":503,"detail":"it is not known whether the request was carried out: look before sending it again"} (None, None, None) unknown"#
            ]],
        );
        check(
            Problem::new(StatusCode::PRECONDITION_FAILED, "version-changed", "changed")
                .version(Some(7)),
            expect![[
                r#"{"type":"urn:faregate:problem:version-changed","title":"Precondition Failed","status":412,"detail":"changed","version":7} (Some("\"7\""), None, None)"#
            ]],
        );
        check(
            Problem::from(&AccessError::Missing).challenge(BEARER_CHALLENGE),
            expect![[
                r#"{"type":"urn:faregate:problem:credentials-missing","title":"Unauthorized","status":401,"detail":"credentials are missing"} (None, None, Some("Bearer realm=\"faregate\""))"#
            ]],
        );
    }
}
