//! Health checks. They answer from memory: their callers are not known, and cause no work.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};
use sign_up::TenantError;

use crate::Api;

/// The version of the contract, which its clients compare; not the version of Faregate.
const VERSION: &str = "1.0.0";

/// `GET /user/`
pub(crate) async fn info() -> Json<Value> {
    Json(json!({ "service": "user-service", "version": VERSION, "status": "running" }))
}

/// `GET /user/health`
pub(crate) async fn user() -> Json<Value> {
    Json(json!({ "status": "healthy", "service": "user-service", "version": VERSION }))
}

/// `GET /user/health/database`: also checks that the configured tenant exists.
pub(crate) async fn database(State(api): State<Api>) -> Response {
    let unhealthy = |database: &str, error: String| {
        unhealthy(&json!({ "status": "unhealthy", "database": database, "error": error }))
    };
    if let Err(error) = api.sign_up.engine().health() {
        return unhealthy("disconnected", error.to_string());
    }
    if let Err(error @ TenantError::NotFound) = api.tenants.configured().await {
        return unhealthy("connected", error.to_string());
    }
    let healthy = json!({ "status": "healthy", "database": "connected", "test_query": "passed" });
    Json(healthy).into_response()
}

/// `GET /billing/health`: the billing server is in the same process.
pub(crate) async fn billing(State(api): State<Api>) -> Response {
    match api.sign_up.engine().health() {
        Ok(()) => Json(json!({
            "status": "healthy",
            "service": "billing-service",
            "killbill": { "status": "healthy" },
        }))
        .into_response(),
        Err(error) => unhealthy(&json!({
            "status": "unhealthy",
            "service": "billing-service",
            "killbill": { "status": "unhealthy", "error": error.to_string() },
        })),
    }
}

fn unhealthy(body: &Value) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}
