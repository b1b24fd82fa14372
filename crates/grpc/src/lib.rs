//! Faregate's gRPC door: the services of `proto/faregate/v1`, health and reflection.
//!
//! [`listener`] takes connections in, `gate` lets calls in, and one file per service decodes a
//! message into one command or one query, and encodes the answer. `refusal` is the table from what
//! was refused to codes.

mod accounts;
pub mod api;
mod balances;
mod call;
mod deadline;
mod fields;
mod gate;
pub mod listener;
mod measure;
mod payments;
mod refusal;
mod view;

use std::net::IpAddr;
use std::sync::Arc;

use engine::Engine;
use engine::access::{Access, ClientAddress};
use http::HeaderMap;

pub use gate::{Door, FlagCalls};
pub use refusal::{Refusal, Thing};

/// What the domain of every `google.rpc.ErrorInfo` is.
pub const ERROR_DOMAIN: &str = "faregate";

/// Says which client a call comes from, given the peer and the call's metadata.
pub type ClientOf = Arc<dyn Fn(IpAddr, &HeaderMap) -> ClientAddress + Send + Sync>;

/// What the door works with.
pub struct Parts {
    /// The core.
    pub engine: Engine,
    /// Who may call.
    pub access: Access,
    /// Feature flags, whose callers have a secret in place of a user and a tenant.
    pub flags: FlagCalls,
    /// Whether clients may ask for work that is only simulated; not for production.
    pub simulates_work: bool,
    /// Where calls come from.
    pub client_of: ClientOf,
    /// The door's limits.
    pub limits: Limits,
}

/// The door's limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls in progress, of all connections together; above it `RESOURCE_EXHAUSTED`.
    pub calls_max: usize,
    /// Calls in progress on one connection; a client keeps what is above it to itself.
    pub connection_calls_max: u32,
    /// A message, in bytes; above it the call is refused.
    pub message_bytes_max: usize,
    /// Open connections; above it a new one is closed.
    pub connections_max: usize,
}
