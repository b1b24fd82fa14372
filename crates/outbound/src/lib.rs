//! Outbound HTTP: connections to hosts that tenants and operators name. An address is validated and is the one that is
//! connected to, errors say whether a request may have been sent, and nothing of a request leaves after its deadline.

mod callback;
mod connection;
mod fence;
mod host;
mod multiplexed;

pub use callback::{
    Callback, CallbackError, Reach, Resolver, URL_BYTES_MAX, validate_callback,
    validate_request_callback,
};
pub use connection::{Body, Connection, Idle, SendError, Tls, finish_shown, public_web_tls, send};
pub use host::{Base, Host};
pub use multiplexed::Multiplexed;
