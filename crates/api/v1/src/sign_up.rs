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
use domain::Id;
use sign_up::operations::CallbackCheck;
use sign_up::{SignUp, Tenants};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
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

/// This API's part of the OpenAPI document.
pub(crate) fn openapi() -> OpenApi {
    routes().into_openapi()
}

/// The paths of the routes.
#[must_use]
pub fn paths() -> Vec<String> {
    openapi().paths.paths.into_keys().collect()
}

/// The routes under `/v1`. `callbacks` checks the URLs that are called when stored registrations
/// end.
pub fn router(sign_up: SignUp, tenants: Tenants, callbacks: CallbackCheck) -> Router {
    let streams = StreamPermits::default();
    let api = SignUpApi { sign_up, tenants, callbacks, streams };
    Router::from(routes())
        .route_layer(from_fn_with_state(api.clone(), context::add))
        .method_not_allowed_fallback(async || Error::NoMethod)
        .with_state(api)
}

/// The routes; each handler documents its method and path.
fn routes() -> OpenApiRouter<SignUpApi> {
    OpenApiRouter::new()
        .routes(routes!(registrations::register))
        .routes(routes!(registrations::verify))
        .routes(routes!(registrations::resend))
        .routes(routes!(sessions::open, sessions::list, sessions::close_all))
        .routes(routes!(sessions::close_current))
        .routes(routes!(sessions::refresh))
        .routes(routes!(sessions::close))
        .routes(routes!(passwords::request_reset))
        .routes(routes!(passwords::reset))
        .routes(routes!(passwords::change))
        .routes(routes!(me::show, me::change, me::erase))
        .routes(routes!(
            me::offer_second_factor,
            me::confirm_second_factor,
            me::remove_second_factor
        ))
        .routes(routes!(customers::list))
        .routes(routes!(customers::show, customers::erase))
        .routes(routes!(customers::deactivate))
        .routes(routes!(customers::activate))
        .routes(routes!(customers::remove_second_factor))
        .routes(routes!(operations::show))
        .routes(routes!(operations::follow))
}

/// An id in a path; a malformed one reads as one that does not exist.
fn id<K>(text: &str, what: &'static str) -> Result<Id<K>, Error> {
    Uuid::try_parse(text).map(Id::new).map_err(|_| Error::NoSuch(what))
}
