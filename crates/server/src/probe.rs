//! `GET /health/synthetic`: the outcome of the last synthetic registration.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use serde_json::{Value, json};
use sign_up::probe::{Failure, Outcome, Probe};

/// The path of the health check.
pub const PATH: &str = "/health/synthetic";

pub fn router<S>(probe: Probe) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    Router::new().route(PATH, get(show).with_state(probe))
}

async fn show(State(probe): State<Probe>) -> Response {
    let (status, body) = status(probe.last(), |age| probe.is_late(age));
    (status, Json(body)).into_response()
}

fn status(last: Option<Outcome>, is_late: impl Fn(Duration) -> bool) -> (StatusCode, Value) {
    let Some(outcome) = last else {
        let body = json!({ "status": "unknown", "reason": "none has ended yet" });
        return (StatusCode::SERVICE_UNAVAILABLE, body);
    };
    let age = outcome.at.elapsed();
    let age_seconds = age.as_secs();
    let took_ms = u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX);
    if let Some(Failure { step, reason }) = outcome.failure {
        let body = json!({
            "status": "failing",
            "step": step.label(),
            "reason": reason,
            "age_seconds": age_seconds,
            "took_ms": took_ms,
        });
        return (StatusCode::SERVICE_UNAVAILABLE, body);
    }
    let (code, status) = match is_late(age) {
        true => (StatusCode::SERVICE_UNAVAILABLE, "late"),
        false => (StatusCode::OK, "healthy"),
    };
    (code, json!({ "status": status, "age_seconds": age_seconds, "took_ms": took_ms }))
}

#[cfg(test)]
mod tests {
    use sign_up::probe::Step;
    use tokio::time::Instant;

    use super::*;

    fn check(failure: Option<Failure>, is_late: bool, code: StatusCode, expected: &Value) {
        let took = Duration::from_millis(7);
        let outcome = Outcome { at: Instant::now(), took, failure };
        let (status, body) = status(Some(outcome), |_| is_late);
        assert_eq!((status, &body), (code, expected));
    }

    #[test]
    fn only_a_recent_success_is_healthy() {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let (code, body) = status(None, |_| false);
        assert_eq!((code, &body["status"]), (unavailable, &json!("unknown")));
        let healthy = json!({ "status": "healthy", "age_seconds": 0, "took_ms": 7 });
        check(None, false, StatusCode::OK, &healthy);
        let late = json!({ "status": "late", "age_seconds": 0, "took_ms": 7 });
        check(None, true, unavailable, &late);
        let failure = Failure { step: Step::LogIn, reason: "busy" };
        let failing = json!({
            "status": "failing", "step": "log_in", "reason": "busy", "age_seconds": 0, "took_ms": 7,
        });
        check(Some(failure), false, unavailable, &failing);
    }
}
