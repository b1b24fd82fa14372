//! The native API of sign-up, under `/v1`: registrations, sessions, passwords, customers themselves,
//! and what operators may do with them. Errors are RFC 9457.

mod asking;
mod customers;
mod json;
mod me;
mod passwords;
mod places;
pub(crate) mod problem;
pub(crate) mod progress;
mod registrations;
mod sessions;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, put};
use domain::Id;
use utoipa::OpenApi;
use uuid::Uuid;

pub(crate) use self::json::moment;
use self::places::Places;
use self::problem::Problem;
use crate::SignUp;
use crate::operations::CallbackCheck;
use crate::tenant::Tenants;

/// What the native API works with.
#[derive(Clone)]
pub(crate) struct Native {
    signup: SignUp,
    tenants: Tenants,
    callbacks: CallbackCheck,
    streams: Places,
}

#[derive(OpenApi)]
#[openapi(paths(
    registrations::register,
    registrations::verify,
    registrations::resend,
    sessions::open,
    sessions::list,
    sessions::close,
    sessions::close_current,
    sessions::close_all,
    sessions::refresh,
    passwords::request_reset,
    passwords::reset,
    passwords::change,
    me::show,
    me::change,
    me::erase,
    me::offer_second_factor,
    me::confirm_second_factor,
    me::remove_second_factor,
    customers::list,
    customers::show,
    customers::deactivate,
    customers::activate,
    customers::remove_second_factor,
    customers::erase,
    progress::show,
    progress::follow,
))]
struct Documented;

/// The native API's part of the OpenAPI document.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    Documented::openapi()
}

/// The paths without parameters, for metrics.
pub const PATHS: &[&str] = &[
    "/v1/registrations",
    "/v1/registrations/verify",
    "/v1/registrations/resend",
    "/v1/sessions",
    "/v1/sessions/current",
    "/v1/sessions/refresh",
    "/v1/password-resets",
    "/v1/password-resets/complete",
    "/v1/me",
    "/v1/me/password",
    "/v1/me/second-factor",
    "/v1/customers",
];

/// The routes under `/v1`. `callbacks` says why a URL may not be called when a registration that was
/// kept is made: whoever calls it knows, and the door does not know who that is.
pub fn router(signup: SignUp, tenants: Tenants, callbacks: CallbackCheck) -> Router {
    let streams = Places::default();
    let native = Native { signup, tenants, callbacks, streams };
    let me = get(me::show).patch(me::change).delete(me::erase);
    let second_factor = post(me::offer_second_factor)
        .put(me::confirm_second_factor)
        .delete(me::remove_second_factor);
    let sessions = post(sessions::open).get(sessions::list).delete(sessions::close_all);
    Router::new()
        .route("/v1/registrations", post(registrations::register))
        .route("/v1/registrations/verify", post(registrations::verify))
        .route("/v1/registrations/resend", post(registrations::resend))
        .route("/v1/sessions", sessions)
        .route("/v1/sessions/current", delete(sessions::close_current))
        .route("/v1/sessions/refresh", post(sessions::refresh))
        .route("/v1/sessions/{id}", delete(sessions::close))
        .route("/v1/password-resets", post(passwords::request_reset))
        .route("/v1/password-resets/complete", post(passwords::reset))
        .route("/v1/me", me)
        .route("/v1/me/password", put(passwords::change))
        .route("/v1/me/second-factor", second_factor)
        .route("/v1/customers", get(customers::list))
        .route("/v1/customers/{id}", get(customers::show).delete(customers::erase))
        .route("/v1/customers/{id}/deactivate", post(customers::deactivate))
        .route("/v1/customers/{id}/activate", post(customers::activate))
        .route("/v1/customers/{id}/second-factor", delete(customers::remove_second_factor))
        .route("/v1/operations/{id}", get(progress::show))
        .route("/v1/operations/{id}/events", get(progress::follow))
        .route_layer(from_fn_with_state(native.clone(), asking::admit))
        .method_not_allowed_fallback(async || Problem::NoMethod)
        .with_state(native)
}

/// An id in a path; one that cannot be names nothing.
fn id<K>(text: &str, what: &'static str) -> Result<Id<K>, Problem> {
    Uuid::try_parse(text).map(Id::new).map_err(|_| Problem::NotFound(what))
}
