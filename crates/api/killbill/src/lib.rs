//! The Kill Bill API: `/1.0/kb` of Kill Bill's REST API, compatible with its clients.
//!
//! The server mounts [`router`]. `dispatch` authenticates each request, checks its permission, and
//! calls the handler that the list in `routes` names. The handler decodes one command or one query,
//! gives it to the engine, and encodes the result. Business rules are in the domain.

mod account_emails;
mod account_related;
mod accounts;
mod adapter;
mod admin;
mod amount;
mod audit;
mod blocking_states;
mod bundles;
mod caches;
mod call;
mod catalog;
#[cfg(test)]
mod compatibility;
mod currencies;
mod custom_fields;
mod date;
mod dispatch;
mod error;
mod export;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gateway_notifications;
mod hosted_form;
mod invoice_items;
mod invoice_payments;
mod invoices;
mod json;
mod log;
mod media_types;
mod metrics;
mod node_commands;
mod objects;
mod openapi;
mod overdue;
mod page;
mod payment_methods;
mod payment_rules;
mod payment_states;
mod payments;
mod queues;
mod reply;
mod request;
mod route;
mod routes;
mod routing;
mod security;
mod stream;
mod subscriptions;
mod system;
mod tags;
mod tenant_values;
mod tenants;
mod test_clock;
mod test_plugin;
mod transactions;
mod unserved;
mod xml;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;

pub use adapter::{CallbackCheck, KillBillApi, ProcessFigures, Rotation, Settings};
pub use openapi::openapi;

use route::Resource;

/// The paths below `/1.0/kb` that are not in the list.
const UNKNOWN_PATHS: [&str; 2] = ["/1.0/kb", "/1.0/kb/{*path}"];

/// The routes of Kill Bill's API. All of them are below `/1.0`, `/plugins` and `/swagger`, so other
/// APIs can be merged. Install the metrics recorder first.
pub fn router(api: KillBillApi) -> Router {
    let mut router = Router::new();
    let test = api.engine().clock().is_test();
    for resource in routes::resources(test) {
        let path = resource.path;
        router = mount(router, &api, resource, path);
    }
    for path in UNKNOWN_PATHS {
        router = mount(router, &api, Resource::new("unknown"), path);
    }
    router
}

/// Mounts a resource with and without a slash at the end: Kill Bill accepts both.
fn mount(router: Router, api: &KillBillApi, resource: Resource, path: &str) -> Router {
    let (api, resource) = (api.clone(), Arc::new(resource));
    let service = any(move |request| dispatch::serve(api.clone(), Arc::clone(&resource), request));
    let router = router.route(path, service.clone());
    if path.ends_with('}') && path.contains("{*") {
        return router;
    }
    router.route(&format!("{path}/"), service)
}
