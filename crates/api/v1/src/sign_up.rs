//! Sign-up under `/v1`: registrations, sessions, passwords, the customer's own data, and the
//! operators' access to customers.

mod context;
mod customers;
mod json;
mod me;
mod operations;
mod passwords;
mod registrations;
mod sessions;
mod stream_permits;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, put};
use domain::Id;
use sign_up::operations::CallbackCheck;
use sign_up::{SignUp, Tenants};
use utoipa::OpenApi;
use uuid::Uuid;

pub use self::operations::REPRESENTATION;
use self::stream_permits::StreamPermits;
use crate::error::Error;

/// Dependencies of the handlers.
#[derive(Clone)]
pub(crate) struct SignUpApi {
    sign_up: SignUp,
    tenants: Tenants,
    callbacks: CallbackCheck,
    streams: StreamPermits,
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
    operations::show,
    operations::follow
))]
struct Documented;

/// This API's part of the OpenAPI document.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    Documented::openapi()
}

/// The paths without parameters, as labels of metrics.
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

/// The routes under `/v1`. `callbacks` checks the URLs that are called when stored registrations
/// end.
pub fn router(sign_up: SignUp, tenants: Tenants, callbacks: CallbackCheck) -> Router {
    let streams = StreamPermits::default();
    let api = SignUpApi { sign_up, tenants, callbacks, streams };
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
        .route("/v1/operations/{id}", get(operations::show))
        .route("/v1/operations/{id}/events", get(operations::follow))
        .route_layer(from_fn_with_state(api.clone(), context::add))
        .method_not_allowed_fallback(async || Error::NoMethod)
        .with_state(api)
}

/// An id in a path; a malformed one reads as one that does not exist.
fn id<K>(text: &str, what: &'static str) -> Result<Id<K>, Error> {
    Uuid::try_parse(text).map(Id::new).map_err(|_| Error::NoSuch(what))
}
