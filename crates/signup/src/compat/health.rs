//! Whether sign-up works: asked often, answered without waiting for a password.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};

use super::Door;
use crate::tenant::TenantError;

/// The version of the contract, which its clients compare; ours is that of `faregate --version`.
const VERSION: &str = "1.0.0";

/// `GET /user/`
pub(super) async fn info() -> Json<Value> {
    Json(json!({ "service": "user-service", "version": VERSION, "status": "running" }))
}

/// `GET /user/health`
pub(super) async fn user() -> Json<Value> {
    Json(json!({ "status": "healthy", "service": "user-service", "version": VERSION }))
}

/// `GET /user/health/database`: also whether the tenant that is signed up with is there.
pub(super) async fn database(State(door): State<Door>) -> Response {
    let unhealthy = |database: &str, error: String| {
        unhealthy(&json!({ "status": "unhealthy", "database": database, "error": error }))
    };
    if let Err(unavailable) = door.sign_up.engine().check().await {
        return unhealthy("disconnected", unavailable.to_string());
    }
    if let Err(error @ TenantError::Nobody) = door.tenants.served().await {
        return unhealthy("connected", error.to_string());
    }
    let healthy = json!({ "status": "healthy", "database": "connected", "test_query": "passed" });
    Json(healthy).into_response()
}

/// `GET /billing/health`: the billing server is in the same process.
pub(super) async fn billing(State(door): State<Door>) -> Response {
    match door.sign_up.engine().check().await {
        Ok(()) => Json(json!({
            "status": "healthy",
            "service": "billing-service",
            "killbill": { "status": "healthy" },
        }))
        .into_response(),
        Err(unavailable) => unhealthy(&json!({
            "status": "unhealthy",
            "service": "billing-service",
            "killbill": { "status": "unhealthy", "error": unavailable.to_string() },
        })),
    }
}

fn unhealthy(body: &Value) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}
