//! Sign-up by the paths of SaaSOdoo's services, `/user/...` and `/billing/...`, with the statuses
//! and bodies that their clients expect.
//!
//! | | |
//! | --- | --- |
//! | `/user/auth/...` | register, log in and out, passwords, addresses, tokens |
//! | `/user/users/...` | profile, preferences, sessions, deactivating, deleting |
//! | `/billing/api/billing/accounts/...` | a customer's billing account |
//! | `/user/health`, `/user/health/database`, `/billing/health` | health checks |
//!
//! The original trusts every client of its internal routes (billing accounts,
//! `/user/users/internal`). This API requires the customer's access token or an operator's password
//! there, unless `signup.trust_internal` is set.

mod auth;
mod billing;
mod body;
mod callback;
mod caller;
mod error;
mod health;
mod preferences;
mod users;

use axum::Router;
use axum::routing::{any, delete, get, post};
use engine::access::Access;
use http::Uri;
use http::request::Parts;
use sign_up::operations::CallbackCheck;
use sign_up::{SignUp, Tenants};
use web::Query;

use crate::error::ApiError;

/// Dependencies of the handlers.
#[derive(Clone)]
pub struct Api {
    pub sign_up: SignUp,
    pub tenants: Tenants,
    pub access: Access,
    /// Checks the URLs that are called when stored registrations end.
    pub callbacks: CallbackCheck,
}

pub fn router(api: Api) -> Router {
    Router::new()
        .merge(user_routes())
        .route("/billing/health", get(health::billing))
        .route("/billing/api/billing/accounts/", post(billing::create))
        .route("/billing/api/billing/accounts", post(billing::create))
        .route("/billing/api/billing/accounts/{customer}", get(billing::show))
        .route("/billing/api/billing/accounts/overview/{customer}", get(billing::overview))
        .route("/user/{*path}", any(async |uri: Uri| no_path(&uri)))
        .route("/billing/{*path}", any(async |uri: Uri| no_path(&uri)))
        .method_not_allowed_fallback(async |uri: Uri| no_method(&uri))
        .with_state(api)
}

/// There is no such route; the error has the shape of the service.
fn no_path(uri: &Uri) -> ApiError {
    shaped_for(uri, ApiError::not_found("Not Found"))
}

/// The route does not take the method.
fn no_method(uri: &Uri) -> ApiError {
    shaped_for(uri, ApiError::no_method())
}

fn shaped_for(uri: &Uri, error: ApiError) -> ApiError {
    if uri.path().starts_with("/billing/") { error.of_billing() } else { error }
}

fn user_routes() -> Router<Api> {
    let profile = get(users::profile).put(users::put_profile);
    let preferences = get(users::preferences).put(users::put_preferences);
    let sessions = get(users::sessions).delete(users::close_sessions);
    Router::new()
        .route("/user/", get(health::info))
        .route("/user/health", get(health::user))
        .route("/user/health/database", get(health::database))
        .route("/user/auth/register", post(auth::register))
        .route("/user/auth/login", post(auth::log_in))
        .route("/user/auth/logout", post(auth::log_out))
        .route("/user/auth/me", get(users::profile))
        .route("/user/auth/verify-email", post(auth::verify_email))
        .route("/user/auth/resend-verification", post(auth::resend_verification))
        .route("/user/auth/password-reset", post(auth::password_reset))
        .route("/user/auth/password-reset-complete", post(auth::password_reset_complete))
        .route("/user/auth/password-change", post(auth::password_change))
        .route("/user/auth/refresh-token", post(auth::refresh_token))
        .route("/user/users/profile", profile)
        .route("/user/users/preferences", preferences)
        .route("/user/users/stats", get(users::stats))
        .route("/user/users/sessions", sessions)
        .route("/user/users/sessions/{id}", delete(users::close_session))
        .route("/user/users/instances", get(users::instances))
        .route("/user/users/billing", get(users::billing))
        .route("/user/users/account", delete(users::erase))
        .route("/user/users/deactivate", post(users::deactivate))
        .route("/user/users/internal/{customer}", get(users::internal))
}

/// A parameter of the query.
fn query(parts: &Parts, name: &str) -> Option<String> {
    let query = Query::parse(parts.uri.query().unwrap_or_default()).ok()?;
    query.first(name).map(str::to_owned)
}
