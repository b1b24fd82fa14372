//! Faregate's gRPC API: the services of `proto/faregate/v1`, health and reflection.
//!
//! [`listener`] accepts connections, `server` authenticates calls and calls their service, and one
//! file per service decodes a message into one command or one query and encodes the result. `refusal`
//! is the table from refusals to codes.

mod accounts;
mod anonymous_streams;
pub mod api;
mod balances;
mod call;
mod call_window;
mod counted;
mod deadline;
mod entitlements;
mod fields;
pub mod flags;
pub mod listener;
mod metrics;
mod payments;
mod refusal;
mod server;
mod view;

use std::net::IpAddr;
use std::sync::Arc;

use engine::Engine;
use engine::access::{Access, ClientAddress};
use engine::watched_accounts::WatchedAccounts;
use http::HeaderMap;
use web::NetworkPermits;

pub use refusal::{Refusal, Resource};
pub use server::{FlagCalls, GrpcApi};

/// The `domain` of every `google.rpc.ErrorInfo`.
pub const ERROR_DOMAIN: &str = "faregate";

/// Returns the client of a call from its peer and metadata.
pub type ClientOf = Arc<dyn Fn(IpAddr, &HeaderMap) -> ClientAddress + Send + Sync>;

/// The dependencies and settings of the API.
pub struct Parts {
    pub engine: Engine,
    /// Authenticates users and tenants.
    pub access: Access,
    /// The service of feature flags, whose callers authenticate with an environment's secret.
    pub flags: FlagCalls,
    /// Whether clients may request simulated work, for benchmarks; not for production.
    pub simulates_work: bool,
    pub client_of: ClientOf,
    /// The accounts that callers watch, which a follower wakes: see [`engine::accounts`].
    pub watched: Arc<WatchedAccounts>,
    /// Connections by network, with those of other listeners.
    pub networks: Arc<NetworkPermits>,
    /// Streams by network, with those of other listeners.
    pub streams: Arc<NetworkPermits>,
    pub limits: Limits,
}

/// The limits of the API.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls in progress on all connections; more are refused with `RESOURCE_EXHAUSTED`.
    pub calls_max: usize,
    /// Calls executed at a time; further ones wait, undecoded, in the order of their arrival.
    pub executing_calls_max: usize,
    /// Calls in progress on one connection; HTTP/2 makes the client queue the others.
    pub connection_calls_max: u32,
    /// The longest message, in bytes; a longer one is refused.
    pub message_bytes_max: usize,
    /// Open connections; more are closed at once.
    pub connections_max: usize,
    /// Whether clients may ask which services and messages there are.
    pub reflection: bool,
}
