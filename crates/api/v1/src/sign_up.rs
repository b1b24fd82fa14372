//! Sign-up under `/v1`: registrations, sessions, passwords, the customer's own data, and the
//! operators' access to customers.

mod context;
mod customers;
mod entitlements;
mod json;
mod me;
mod operations;
mod pages;
mod passwords;
mod registrations;
mod sessions;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use domain::Id;
use secrets::Sealer;
use sign_up::operations::CallbackCheck;
use sign_up::{SignUp, Tenants};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{OpenApi, RefOr};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

pub use self::operations::REPRESENTATION;
use crate::error::Error;
use crate::event_streams::StreamPermits;
use crate::openapi::operations;

/// Dependencies of the handlers.
#[derive(Clone)]
pub(crate) struct SignUpApi {
    sign_up: SignUp,
    tenants: Tenants,
    callbacks: CallbackCheck,
    streams: StreamPermits<IpAddr>,
    /// Derives what documents are signed with; `None` without a key.
    sealer: Option<Arc<Sealer>>,
}

/// How the description of the 401 of routes that need a session begins.
const NOT_LOGGED_IN: &str = "Not logged in";

/// This API's part of the OpenAPI document.
pub(crate) fn openapi() -> OpenApi {
    let mut document = routes().into_openapi();
    for (path, item) in &mut document.paths.paths {
        let is_of_operators = path.starts_with("/v1/customers");
        for operation in operations(item).filter(|_| !is_of_operators) {
            let unauthorized = operation.responses.responses.get("401");
            let needs_session = unauthorized.is_some_and(
                |it| matches!(it, RefOr::T(it) if it.description.starts_with(NOT_LOGGED_IN)),
            );
            operation.security = Some(vec![match needs_session {
                true => SecurityRequirement::new("accessToken", [""; 0]),
                false => SecurityRequirement::default(),
            }]);
        }
    }
    document
}

/// The paths of the routes.
#[must_use]
pub fn paths() -> Vec<String> {
    openapi().paths.paths.into_keys().collect()
}

/// The routes under `/v1`, and the pages that links in mails lead to. `callbacks` checks the URLs that are called when stored registrations
/// end, `sealer` derives what documents are signed with.
pub fn router(
    sign_up: SignUp,
    tenants: Tenants,
    callbacks: CallbackCheck,
    sealer: Option<Arc<Sealer>>,
) -> Router {
    let streams = StreamPermits::default();
    let api = SignUpApi { sign_up, tenants, callbacks, streams, sealer };
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
        .routes(routes!(pages::ask_to_verify, pages::verify_email))
        .routes(routes!(pages::ask_for_password, pages::reset_password))
        .routes(routes!(sessions::open, sessions::list, sessions::close_all))
        .routes(routes!(sessions::close_current))
        .routes(routes!(sessions::refresh))
        .routes(routes!(sessions::close))
        .routes(routes!(passwords::request_reset))
        .routes(routes!(passwords::reset))
        .routes(routes!(passwords::change))
        .routes(routes!(me::show, me::change, me::erase))
        .routes(routes!(entitlements::show))
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
