//! The doors of feature flags: FeatBit's streams, on which its SDKs follow flags as they change, and
//! what they ask over HTTP; and OFREP, for OpenFeature's clients.
//!
//! The [`Board`] holds the environments of a node. Whoever knows the store puts them on it, says that
//! they are there, and tells it of changes that were committed; [`router`] is what the server mounts.
//! A stream passes `streaming` (who calls, for what) and becomes a socket, whose `conversation`
//! answers messages and says what is new; `state` knows what is newer than what a socket has, and
//! keeps the messages that sockets share.
//!
//! | | |
//! | --- | --- |
//! | `GET /streaming` | FeatBit's stream, of a server, a client or a relay proxy |
//! | `GET /api/public/sdk/server/latest-all` | the same for servers that poll |
//! | `POST /api/public/sdk/client/latest-all` | the same for clients that poll |
//! | `POST /api/public/featureflag/evaluate` | flags for a user |
//! | `POST /api/public/insight/track` | what was evaluated and measured, to be counted |
//! | `POST /api/public/agent/register` | FeatBit's agent |
//! | `POST /ofrep/v1/evaluate/flags/{key}` | a flag for a context |
//! | `POST /ofrep/v1/evaluate/flags` | all flags for a context |
//! | `GET /ofrep/v1/events/{channel}` | when to ask again |
//!
//! Doors of other protocols ask by [`Calls`]: what flags are for a user, once or as they change.
//!
//! What clients may do wrong on a stream, and what becomes of it: a message that is not JSON, not of
//! the protocol or without a user's key goes unanswered; binary counts as text; a message of more
//! than 8 KiB or four frames closes with 1009, a frame that no client may send with 1002, a text
//! that is not UTF-8 with 1007; who takes nothing is closed with 1011, who says nothing with 1001. A secret that opens streams more often than the
//! limits allow has them closed with 1013, on which every SDK comes back; requests get 429.

#![forbid(unsafe_code)]

mod asked;
mod board;
mod calls;
mod door;
mod frame;
mod http;
mod insights;
mod limit;
mod live;
mod ofrep;
mod query;
mod reply;
mod secret;
mod settings;
mod sockets;
mod state;
mod streaming;
mod token;
mod user;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;

pub use board::{Board, Environment, Grant};
pub use calls::{Calls, News, NoFlags, Watch};
pub use insights::{FlagCount, Insights, MetricCount};
pub use limit::RateLimits;
pub use live::Live;
pub use secret::{Secret, SecretKind};
pub use settings::{BodyError, ReadBodyError, Settings};
pub use token::{NoToken, SECRET_BYTES, Token};

use door::Door;

/// The routes of the doors on a board, below the prefix of the settings.
///
/// The connections have to be served so that they can become WebSockets (hyper's `with_upgrades`).
pub fn router(board: Arc<Board>, settings: Settings) -> Router {
    let door = Arc::new(Door::new(board, settings));
    let at = |path: &str| format!("{}{path}", door.settings.prefix);
    Router::new()
        .route(&at("/streaming"), any(streaming::open))
        .route(&at("/streaming/"), any(streaming::open))
        .route(&at("/streaming/{*rest}"), any(streaming::open))
        .with_state(Arc::clone(&door))
        .merge(http::router(&door))
        .merge(ofrep::router(&door))
}
