//! The HTTP APIs of feature flags: FeatBit's streams, on which its SDKs follow flags as they change,
//! and its HTTP requests; and OFREP, for OpenFeature's clients.
//!
//! They read the node's [`FlagCache`]; [`router`] is what the server mounts. `streaming` authenticates
//! a stream and makes it a socket, whose `conversation` answers messages and sends updates.
//!
//! | | |
//! | --- | --- |
//! | `GET /streaming` | FeatBit's stream of a server, a client or a relay proxy |
//! | `GET /api/public/sdk/server/latest-all` | the same, for servers that poll |
//! | `POST /api/public/sdk/client/latest-all` | the same, for clients that poll |
//! | `POST /api/public/featureflag/evaluate` | evaluated flags of a user |
//! | `POST /api/public/insight/track` | reports of evaluations and metrics |
//! | `POST /api/public/agent/register` | registration of FeatBit's agent |
//! | `POST /ofrep/v1/evaluate/flags/{key}` | a flag for a context |
//! | `POST /ofrep/v1/evaluate/flags` | all flags for a context |
//! | `GET /ofrep/v1/events/{channel}` | when to evaluate again |
//!
//! A message on a stream that is not JSON, not of the protocol or without a user's key gets no answer;
//! binary counts as text. A message of more than 8 KiB or four frames closes with 1009, a frame that
//! a client must not send with 1002, a text that is not UTF-8 with 1007. A client that does not read
//! is closed with 1011, a silent one with 1001. Streams above the rate limit of their secret are
//! closed with 1013, on which every SDK reconnects; requests get 429.

#![forbid(unsafe_code)]

mod client_message;
mod http;
mod in_parts;
mod ofrep;
mod openapi;
mod reply;
mod settings;
mod state;
mod streaming;
mod token;
mod user;

use std::sync::Arc;

use ::http::Method;
use axum::Router;
use axum::routing::{MethodFilter, MethodRouter, any, on};
use feature_flags::FlagCache;

pub use openapi::openapi;
pub use settings::Settings;
pub use streaming::conversation::Conversation;
pub use token::{NoToken, SECRET_BYTES, Token};

use http::{agent, evaluate, latest, track};
use ofrep::events;
use state::ApiState;

/// One method of one path.
pub struct Route {
    pub method: Method,
    /// Below the prefix of the settings.
    pub path: &'static str,
    handler: fn(MethodFilter) -> MethodRouter<Arc<ApiState>>,
}

/// Every served route.
pub static ROUTES: &[Route] = &[
    // Other methods get the text that a WebSocket is opened there.
    get("/streaming", |_| any(streaming::open)),
    get("/streaming/", |_| any(streaming::open)),
    get("/streaming/{*rest}", |_| any(streaming::open)),
    get("/api/public/sdk/server/latest-all", |it| page(on(it, latest::server))),
    post("/api/public/sdk/client/latest-all", |it| page(on(it, latest::client))),
    post("/api/public/insight/track", |it| page(on(it, track::track))),
    post("/api/public/featureflag/evaluate", |it| page(on(it, evaluate::evaluate))),
    post("/api/public/agent/register", |it| page(on(it, agent::register))),
    post("/ofrep/v1/evaluate/flags/{*key}", |it| page(on(it, ofrep::one))),
    post("/ofrep/v1/evaluate/flags", |it| page(on(it, ofrep::all))),
    get("/ofrep/v1/events/{channel}", |it| page(on(it, events::listen))),
];

const fn get(
    path: &'static str,
    handler: fn(MethodFilter) -> MethodRouter<Arc<ApiState>>,
) -> Route {
    Route { method: Method::GET, path, handler }
}

const fn post(
    path: &'static str,
    handler: fn(MethodFilter) -> MethodRouter<Arc<ApiState>>,
) -> Route {
    Route { method: Method::POST, path, handler }
}

/// Pages of any origin may use the route.
fn page(methods: MethodRouter<Arc<ApiState>>) -> MethodRouter<Arc<ApiState>> {
    methods.options(reply::preflight)
}

/// The routes, below the prefix of the settings.
///
/// The connections have to be served so that they can become WebSockets (hyper's `with_upgrades`).
pub fn router(cache: Arc<FlagCache>, settings: Settings) -> Router {
    let api = Arc::new(ApiState::new(cache, settings));
    let mount = |router: Router<Arc<ApiState>>, route: &Route| {
        let method = MethodFilter::try_from(route.method.clone());
        let methods = (route.handler)(method.expect("axum knows the method"));
        router.route(&format!("{}{}", api.settings.prefix, route.path), methods)
    };
    ROUTES.iter().fold(Router::new(), mount).with_state(Arc::clone(&api))
}
