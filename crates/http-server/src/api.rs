//! The API that a request's path belongs to, and how the listener refuses in that API's format.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::response::IntoResponse as _;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Response, StatusCode};
use serde_json::json;

use web::Problem;
use web::headers::mark_outcome_unknown;

/// An API, by the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Health and metrics: always admitted.
    Operations,
    /// Kill Bill's API.
    KillBill,
    /// Everything else: Faregate's own, feature flags, sign-up.
    Native,
}

impl Api {
    /// The API of a path.
    #[must_use]
    pub fn of(path: &str) -> Self {
        match path {
            "/metrics" | "/1.0/healthcheck" => Self::Operations,
            "/user/health" | "/user/health/database" | "/billing/health" => Self::Operations,
            _ if path.starts_with("/health/") => Self::Operations,
            _ if path.starts_with("/1.0/") => Self::KillBill,
            _ => Self::Native,
        }
    }

    /// Whether a request moves money, by its method and path: permits are reserved for these.
    #[must_use]
    pub fn is_payment(method: &Method, path: &str) -> bool {
        const OF_PAYMENTS: [&str; 2] = ["payments", "paymentTransactions"];
        let is_write = [Method::POST, Method::PUT, Method::DELETE].contains(method);
        let rest = path.strip_prefix("/1.0/kb/").filter(|_| is_write);
        rest.is_some_and(|rest| rest.split('/').any(|it| OF_PAYMENTS.contains(&it)))
    }

    /// Its name in metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::KillBill => "killbill",
            Self::Native => "native",
        }
    }

    /// The label of a request that no route matched, or that was refused before the routes.
    pub(crate) const fn unmatched_route(self) -> &'static str {
        match self {
            Self::KillBill => "(not admitted)",
            Self::Operations | Self::Native => "(other)",
        }
    }

    /// A refusal in the API's format.
    #[must_use]
    pub fn refuse(self, refusal: Refusal) -> Response<Body> {
        let (status, message) = (refusal.status(), refusal.message());
        let is_full = matches!(refusal, Refusal::Full | Refusal::AnswersFull);
        let mut response = match self {
            Self::KillBill => {
                let mut response = Response::new(Body::from(kill_bill_error(refusal)));
                *response.status_mut() = status;
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                response
            }
            Self::Operations | Self::Native => {
                Problem::new(status, refusal.problem(), message).into_response()
            }
        };
        if is_full {
            let retry_after = HeaderValue::from_static(retry_after_seconds());
            response.headers_mut().insert(RETRY_AFTER, retry_after);
        }
        if refusal == Refusal::Bug {
            mark_outcome_unknown(response.headers_mut());
        }
        response
    }
}

/// `Retry-After` of requests that were not admitted, in turn, so that clients which are refused together
/// do not retry together. A whole second is the least that the header can express.
const RETRY_AFTER_SECONDS: [&str; 4] = ["1", "2", "3", "4"];

fn retry_after_seconds() -> &'static str {
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    RETRY_AFTER_SECONDS[REFUSED.fetch_add(1, Ordering::Relaxed) % RETRY_AFTER_SECONDS.len()]
}

/// Why the listener refuses a request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests are in progress, or too many connections open.
    Full,
    /// Too many bytes of answers are not read yet, of this client or of all.
    AnswersFull,
    /// The handler panicked: what it submitted may have been carried out.
    Bug,
    /// `Host` is missing, there twice, or no host.
    BadHost,
    /// The body is compressed, or in another charset than UTF-8.
    Encoded,
}

impl Refusal {
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Full | Self::AnswersFull => StatusCode::SERVICE_UNAVAILABLE,
            Self::Bug => StatusCode::INTERNAL_SERVER_ERROR,
            Self::BadHost => StatusCode::BAD_REQUEST,
            Self::Encoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// Its problem type (RFC 9457).
    const fn problem(self) -> &'static str {
        match self {
            Self::Full | Self::AnswersFull => "overloaded",
            Self::Bug => "internal-error",
            Self::BadHost => "invalid-host",
            Self::Encoded => "unsupported-encoding",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Full => "The server is at its limit of requests in progress; nothing was done.",
            Self::AnswersFull => {
                "The answer is too long beside those that this client, its network or its tenant has not \
                 read yet; it can be asked for again."
            }
            Self::Bug => "Internal error; the request's outcome can be looked up.",
            Self::BadHost => "Header Host needs to be set once, as a host or host:port.",
            Self::Encoded => {
                "A body is sent without Content-Encoding, in the charset UTF-8 or US-ASCII."
            }
        }
    }

    /// The error class that Kill Bill's clients read.
    const fn class_name(self) -> &'static str {
        match self {
            Self::Full | Self::AnswersFull => "java.util.concurrent.RejectedExecutionException",
            Self::Bug => "java.lang.IllegalStateException",
            Self::BadHost => "java.lang.IllegalArgumentException",
            Self::Encoded => "javax.ws.rs.NotSupportedException",
        }
    }
}

fn kill_bill_error(refusal: Refusal) -> Vec<u8> {
    let error = json!({
        "className": refusal.class_name(),
        "code": null,
        "message": refusal.message(),
        "causeClassName": null,
        "causeMessage": null,
        "stackTrace": [],
    });
    error.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payments_are_writes_below_their_paths() {
        let check = |method: Method, path: &str, expected: bool| {
            assert_eq!(Api::is_payment(&method, path), expected, "{method} {path}");
        };
        check(Method::POST, "/1.0/kb/accounts/0192/payments", true);
        check(Method::POST, "/1.0/kb/accounts/payments", true);
        check(Method::POST, "/1.0/kb/payments/0192", true);
        check(Method::PUT, "/1.0/kb/payments/0192", true);
        check(Method::DELETE, "/1.0/kb/payments", true);
        check(Method::POST, "/1.0/kb/paymentTransactions/0192", true);
        check(Method::GET, "/1.0/kb/payments/search/x", false);
        check(Method::POST, "/1.0/kb/accounts", false);
        check(Method::POST, "/1.0/kb/accounts/0192/paymentMethods", false);
        check(Method::POST, "/v1/payments", false);
    }

    #[test]
    fn each_path_belongs_to_one_api() {
        let check = |path: &str, api: Api| assert_eq!(Api::of(path), api, "{path}");
        check("/metrics", Api::Operations);
        check("/1.0/metrics", Api::KillBill);
        check("/1.0/healthcheck", Api::Operations);
        check("/health/ready", Api::Operations);
        check("/health/synthetic", Api::Operations);
        check("/user/health", Api::Operations);
        check("/user/health/database", Api::Operations);
        check("/billing/health", Api::Operations);
        check("/1.0/kb/accounts", Api::KillBill);
        check("/user/auth/register", Api::Native);
        check("/user/healthy", Api::Native);
        check("/billing/api/billing/accounts/", Api::Native);
        check("/v1/flags", Api::Native);
        check("/", Api::Native);
    }
}
