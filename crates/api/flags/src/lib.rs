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
mod ofrep;
mod reply;
mod settings;
mod state;
mod streaming;
mod token;
mod user;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use feature_flags::FlagCache;

pub use settings::Settings;
pub use token::{NoToken, SECRET_BYTES, Token};

use state::ApiState;

/// The routes, below the prefix of the settings.
///
/// The connections have to be served so that they can become WebSockets (hyper's `with_upgrades`).
pub fn router(cache: Arc<FlagCache>, settings: Settings) -> Router {
    let api = Arc::new(ApiState::new(cache, settings));
    let at = |path: &str| format!("{}{path}", api.settings.prefix);
    Router::new()
        .route(&at("/streaming"), any(streaming::open))
        .route(&at("/streaming/"), any(streaming::open))
        .route(&at("/streaming/{*rest}"), any(streaming::open))
        .with_state(Arc::clone(&api))
        .merge(http::router(&api))
        .merge(ofrep::router(&api))
}
