//! Which door a request comes to, and how that door says no before anybody looked at the request.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use serde_json::json;

use crate::problem;

/// A door, by the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Health and metrics: always let in.
    Operations,
    /// Kill Bill's API.
    KillBill,
    /// Everything else: ours.
    Native,
}

impl Door {
    /// The door of a path.
    #[must_use]
    pub fn of(path: &str) -> Self {
        match path {
            "/metrics" | "/1.0/healthcheck" | "/1.0/metrics" => Self::Operations,
            "/user/health" | "/user/health/database" | "/billing/health" => Self::Operations,
            _ if path.starts_with("/health/") => Self::Operations,
            _ if path.starts_with("/1.0/") => Self::KillBill,
            _ => Self::Native,
        }
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

    /// A refusal in the door's words.
    #[must_use]
    pub fn refuse(self, refusal: Refusal) -> Response<Body> {
        let (status, message) = (refusal.status(), refusal.message());
        let (content_type, body) = match self {
            Self::KillBill => ("application/json", kill_bill_error(refusal)),
            Self::Operations | Self::Native => {
                (problem::CONTENT_TYPE, problem::body(status, refusal.problem(), message))
            }
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if refusal == Refusal::Full {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(retry_after_seconds()));
        }
        response
    }
}

/// When clients that were not let in should try again, one after the other: those that are refused
/// together are not to come back together. A whole second is the least that the header can say.
const RETRY_AFTER_SECONDS: [&str; 4] = ["1", "2", "3", "4"];

fn retry_after_seconds() -> &'static str {
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    RETRY_AFTER_SECONDS[REFUSED.fetch_add(1, Ordering::Relaxed) % RETRY_AFTER_SECONDS.len()]
}

/// Why a request is refused before a door saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests are in progress, or too many connections open.
    Full,
    /// The door panicked.
    Bug,
}

impl Refusal {
    /// Its status.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
            Self::Bug => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Its problem type (RFC 9457).
    const fn problem(self) -> &'static str {
        match self {
            Self::Full => "overloaded",
            Self::Bug => "internal-error",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Full => "The server is at its limit of requests in progress; nothing was done.",
            Self::Bug => "Internal error; the request's outcome can be looked up.",
        }
    }

    /// What Kill Bill's clients find as the class of the error.
    const fn class_name(self) -> &'static str {
        match self {
            Self::Full => "java.util.concurrent.RejectedExecutionException",
            Self::Bug => "java.lang.IllegalStateException",
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
    fn a_path_has_one_door() {
        let check = |path: &str, door: Door| assert_eq!(Door::of(path), door, "{path}");
        check("/metrics", Door::Operations);
        check("/1.0/metrics", Door::Operations);
        check("/1.0/healthcheck", Door::Operations);
        check("/health/ready", Door::Operations);
        check("/health/synthetic", Door::Operations);
        check("/user/health", Door::Operations);
        check("/user/health/database", Door::Operations);
        check("/billing/health", Door::Operations);
        check("/1.0/kb/accounts", Door::KillBill);
        check("/user/auth/register", Door::Native);
        check("/user/healthy", Door::Native);
        check("/billing/api/billing/accounts/", Door::Native);
        check("/v1/flags", Door::Native);
        check("/", Door::Native);
    }
}
