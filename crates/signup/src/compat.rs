//! The door with the paths that SaaSOdoo's clients know: `/user/...` and `/billing/...`, with the
//! statuses and bodies that they expect.
//!
//! | | |
//! | --- | --- |
//! | `/user/auth/...` | register, log in and out, passwords, addresses, tokens |
//! | `/user/users/...` | profile, preferences, sessions, deactivating, deleting |
//! | `/billing/api/billing/accounts/...` | a customer's billing account |
//! | `/user/health`, `/user/health/database`, `/billing/health` | whether it works |
//!
//! Where the original trusts whoever reaches it (billing accounts, `/user/users/internal`), this one
//! asks for the customer's access token or an operator's password, unless it is told to trust.

mod auth;
mod billing;
mod body;
mod caller;
mod error;
mod health;
mod users;

use std::borrow::Cow;

use axum::Router;
use axum::routing::{any, delete, get, post};
use engine::access::Access;
use http::Uri;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use self::error::Failure;
use crate::SignUp;
use crate::operations::CallbackCheck;
use crate::tenant::Tenants;

/// What the door works with.
#[derive(Clone)]
pub struct Door {
    /// What can be asked.
    pub sign_up: SignUp,
    /// Which tenant a request is about.
    pub tenants: Tenants,
    /// Operators.
    pub access: Access,
    /// Why a URL may not be called when a registration that was kept is made.
    pub callbacks: CallbackCheck,
}

/// The routes.
pub fn router(door: Door) -> Router {
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
        .with_state(door)
}

/// There is no such route, in the words of its service.
fn no_path(uri: &Uri) -> Failure {
    in_words_of(uri, Failure::not_found("Not Found"))
}

/// The route does not take the method.
fn no_method(uri: &Uri) -> Failure {
    in_words_of(uri, Failure::no_method())
}

fn in_words_of(uri: &Uri, failure: Failure) -> Failure {
    if uri.path().starts_with("/billing/") { failure.of_billing() } else { failure }
}

fn user_routes() -> Router<Door> {
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
    let pairs = parts.uri.query().unwrap_or_default().split('&');
    let value = pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?.1;
    percent_decode_str(value).decode_utf8().ok().map(Cow::into_owned)
}
