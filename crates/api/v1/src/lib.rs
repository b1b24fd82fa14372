//! Faregate's own API under `/v1`: ledger, analytics, unresolved payments, billing, explained invoices, disputes, features, offers, purchases and grants, gateways' notifications, accounts out of service, mails, feature flags, sign-up.
//! Errors are RFC 9457.

mod accounts;
pub mod analytics;
mod billing;
mod caller;
mod disputes;
pub mod entitlements;
mod error;
mod event_streams;
pub mod events;
pub mod flags;
pub mod gateways;
mod html;
mod input;
mod invoices;
mod json;
mod ledger;
mod mails;
mod openapi;
mod parameters;
mod quarantine;
mod repeatable;
mod routing;
pub mod sign_up;
mod sign_up_problem;
mod simulator;
mod tenant;
mod tenants;
mod unresolved;
pub mod usage_view;
mod users;
pub mod webhooks;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use engine::Engine;
use engine::access::Access;
use evaluation::MissingAttribute;
use feature_flags::{FlagCache, WriteLocks};
use secrets::Sealer;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use crate::error::Error;

/// Dependencies of the handlers.
#[derive(Clone)]
pub struct Api {
    pub engine: Engine,
    /// Verifies operators and tenants.
    pub access: Access,
    /// The analytics tables; a front has none.
    pub analytics: Option<analytics::Models>,
    /// Encrypts the secrets of environments; `None` without a key.
    pub sealer: Option<Arc<Sealer>>,
    /// The feature flags of this node.
    pub cache: Arc<FlagCache>,
    /// Serialises writers of definitions.
    pub write_locks: Arc<WriteLocks>,
    /// The value of an attribute that a flag's user lacks.
    pub missing: MissingAttribute,
    pub webhooks: webhooks::Settings,
    /// The streams of events that are open.
    pub event_streams: events::Streams,
    /// Whose notifications are taken.
    pub gateways: gateways::Settings,
}

/// The OpenAPI document of `/v1`.
#[must_use]
pub fn openapi() -> OpenApi {
    let mut document = routes().merge(installation_routes()).into_openapi();
    document.merge(sign_up::openapi());
    openapi::add_refusals(&mut document);
    let mut public = public_routes().into_openapi();
    for operation in public.paths.paths.values_mut().flat_map(openapi::operations) {
        operation.security = Some(vec![SecurityRequirement::default()]);
    }
    document.merge(public);
    openapi::add_problems(&mut document);
    openapi::open_parts(&mut document);
    openapi::remove_defaults(&mut document);
    document
}

/// The routes of operators under `/v1`.
pub fn router(api: Api) -> Router {
    let installation = Router::from(installation_routes())
        .route_layer(from_fn_with_state(api.clone(), caller::admit_operator));
    Router::from(routes())
        .route_layer(from_fn_with_state(api.clone(), caller::admit))
        .merge(installation)
        .merge(Router::from(public_routes()))
        .method_not_allowed_fallback(async || Error::NoMethod)
        .with_state(api)
}

/// The routes of operators; each handler documents its method and path.
fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(ledger::accounts))
        .routes(routes!(ledger::entries))
        .routes(routes!(accounts::erase))
        .routes(routes!(events::list))
        .routes(routes!(events::show))
        .routes(routes!(events::resend))
        .routes(routes!(disputes::list))
        .routes(routes!(disputes::show))
        .routes(routes!(unresolved::list))
        .routes(routes!(billing::status))
        .routes(routes!(billing::forecast))
        .routes(routes!(invoices::explain))
        .routes(routes!(routing::explain))
        .routes(routes!(analytics::payments))
        .routes(routes!(analytics::accounts))
        .routes(routes!(analytics::account))
        .routes(routes!(mails::list))
        .routes(routes!(mails::resend))
        .routes(routes!(tenant::show, tenant::patch))
        .routes(routes!(webhooks::endpoints::list, webhooks::endpoints::create))
        .routes(routes!(
            webhooks::endpoints::show,
            webhooks::endpoints::patch,
            webhooks::endpoints::delete
        ))
        .routes(routes!(webhooks::secret::rotate))
        .routes(routes!(webhooks::deliveries::list))
        .routes(routes!(webhooks::replays::create))
        .routes(routes!(webhooks::replays::show))
        .routes(routes!(gateways::http_endpoint, gateways::withdraw_http_endpoint))
        .routes(routes!(gateways::stripe_endpoint, gateways::withdraw_stripe_endpoint))
        .merge(entitlements::routes())
        .merge(flags::routes())
}

/// The routes of senders and browsers that have no credentials: what they send is believed by nothing but its
/// signature.
fn public_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(gateways::take_http))
        .routes(routes!(gateways::take_stripe))
        .routes(routes!(gateways::take_customer))
        .routes(routes!(simulator::show, simulator::take))
        .routes(routes!(entitlements::document::keys))
}

/// The routes of operators that are about the installation: without a tenant's credentials.
fn installation_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(quarantine::list))
        .routes(routes!(quarantine::release))
        .routes(routes!(users::list))
        .routes(routes!(tenants::list, tenants::create))
        .routes(routes!(tenants::show, tenants::patch))
        .routes(routes!(tenants::rotate_secret))
        .routes(routes!(tenants::withdraw_previous_secret))
}
