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
mod bundles;
mod callback;
mod caller;
mod error;
mod health;
mod openapi;
mod preferences;
mod users;

use axum::Router;
use axum::routing::{MethodFilter, MethodRouter, any, on};
use engine::access::Access;
use http::request::Parts;
use http::{Method, Uri};
use sign_up::operations::CallbackCheck;
use sign_up::{SignUp, Tenants};
use web::Query;

use crate::error::ApiError;
pub use crate::openapi::openapi;

/// Dependencies of the handlers.
#[derive(Clone)]
pub struct Api {
    pub sign_up: SignUp,
    pub tenants: Tenants,
    pub access: Access,
    /// Checks the URLs that are called when stored registrations end.
    pub callbacks: CallbackCheck,
}

/// One method of one path.
pub struct Route {
    pub method: Method,
    /// With its parameters in braces: `/user/users/sessions/{id}`.
    pub path: &'static str,
    handler: fn(MethodFilter) -> MethodRouter<Api>,
}

/// Every served route. Others under `/user` and `/billing` are 404.
pub static ROUTES: &[Route] = &[
    get("/user", |it| on(it, health::info)),
    get("/user/", |it| on(it, health::info)),
    get("/user/health", |it| on(it, health::user)),
    get("/user/health/database", |it| on(it, health::database)),
    post("/user/auth/register", |it| on(it, auth::register)),
    post("/user/auth/login", |it| on(it, auth::log_in)),
    post("/user/auth/logout", |it| on(it, auth::log_out)),
    get("/user/auth/me", |it| on(it, users::profile)),
    post("/user/auth/verify-email", |it| on(it, auth::verify_email)),
    post("/user/auth/resend-verification", |it| on(it, auth::resend_verification)),
    post("/user/auth/password-reset", |it| on(it, auth::password_reset)),
    post("/user/auth/password-reset-complete", |it| on(it, auth::password_reset_complete)),
    post("/user/auth/password-change", |it| on(it, auth::password_change)),
    post("/user/auth/refresh-token", |it| on(it, auth::refresh_token)),
    get("/user/users/profile", |it| on(it, users::profile)),
    put("/user/users/profile", |it| on(it, users::put_profile)),
    get("/user/users/preferences", |it| on(it, users::preferences)),
    put("/user/users/preferences", |it| on(it, users::put_preferences)),
    get("/user/users/stats", |it| on(it, users::stats)),
    get("/user/users/sessions", |it| on(it, users::sessions)),
    delete("/user/users/sessions", |it| on(it, users::close_sessions)),
    delete("/user/users/sessions/{id}", |it| on(it, users::close_session)),
    get("/user/users/instances", |it| on(it, users::instances)),
    get("/user/users/billing", |it| on(it, users::billing)),
    delete("/user/users/account", |it| on(it, users::erase)),
    post("/user/users/deactivate", |it| on(it, users::deactivate)),
    get("/user/users/internal/{customer}", |it| on(it, users::internal)),
    get("/billing/health", |it| on(it, health::billing)),
    post("/billing/api/billing/accounts/", |it| on(it, billing::create)),
    post("/billing/api/billing/accounts", |it| on(it, billing::create)),
    get("/billing/api/billing/accounts/{customer}", |it| on(it, billing::show)),
    get("/billing/api/billing/accounts/overview/{customer}", |it| on(it, billing::overview)),
];

const fn get(path: &'static str, handler: fn(MethodFilter) -> MethodRouter<Api>) -> Route {
    Route { method: Method::GET, path, handler }
}

const fn post(path: &'static str, handler: fn(MethodFilter) -> MethodRouter<Api>) -> Route {
    Route { method: Method::POST, path, handler }
}

const fn put(path: &'static str, handler: fn(MethodFilter) -> MethodRouter<Api>) -> Route {
    Route { method: Method::PUT, path, handler }
}

const fn delete(path: &'static str, handler: fn(MethodFilter) -> MethodRouter<Api>) -> Route {
    Route { method: Method::DELETE, path, handler }
}

pub fn router(api: Api) -> Router {
    let mount = |router: Router<Api>, route: &Route| {
        let method = MethodFilter::try_from(route.method.clone());
        router.route(route.path, (route.handler)(method.expect("axum knows the method")))
    };
    ROUTES
        .iter()
        .fold(Router::new(), mount)
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

/// A parameter of the query.
fn query(parts: &Parts, name: &str) -> Option<String> {
    let query = Query::parse(parts.uri.query().unwrap_or_default()).ok()?;
    query.first(name).map(str::to_owned)
}
