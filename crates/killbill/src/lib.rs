//! The Kill Bill door: `/1.0/kb` of Kill Bill's REST API, as its clients expect it.
//!
//! [`router`] is all the server mounts. A request passes `gate` (who calls, for whom, may they) and
//! ends in the handler that the table in `routes` names for it; the handler reads the body into one
//! command or one query, hands it to the engine, and shows the answer. There are no rules here.

mod accounts;
mod admin;
mod amount;
mod audit;
mod body;
mod call;
mod date;
mod door;
mod error;
mod gate;
mod json;
mod log;
mod measure;
mod openapi;
mod page;
mod payment_methods;
mod payments;
mod reply;
mod request;
mod routes;
mod security;
mod system;
mod tags;
mod tenants;
mod test_clock;
mod transactions;
mod unserved;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;

pub use body::BodyError;
pub use door::{CallbackCheck, Door, DoorSettings};
pub use openapi::openapi;

use routes::Resource;

/// Paths of Kill Bill's API that there are not.
const NOWHERE: [&str; 2] = ["/1.0/kb", "/1.0/kb/{*path}"];

/// The routes of Kill Bill's API on `door`. Nothing outside `/1.0`, `/plugins` and `/swagger` is
/// taken, so that other doors can be mounted beside it. The metrics' recorder has to be installed
/// before.
pub fn router(door: Door) -> Router {
    let mut router = Router::new();
    let test = door.engine().clock().is_test();
    for resource in routes::resources(test) {
        let path = resource.path;
        router = serve(router, &door, resource, path);
    }
    for path in NOWHERE {
        router = serve(router, &door, Resource::nobody("unknown"), path);
    }
    router
}

/// Mounts a resource, with and without a slash at the end: Kill Bill takes both.
fn serve(router: Router, door: &Door, resource: Resource, path: &str) -> Router {
    let (door, resource) = (door.clone(), Arc::new(resource));
    let service = any(move |request| gate::serve(door.clone(), Arc::clone(&resource), request));
    let router = router.route(path, service.clone());
    if path.ends_with('}') && path.contains("{*") {
        return router;
    }
    router.route(&format!("{path}/"), service)
}
