//! Outbound connections: payment gateways, push notifications, and the reconciliation of a
//! gateway's journal with the store.

mod callback;
pub mod customer_return;
mod dispute;
mod error;
pub mod external;
mod fence;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host;
pub mod http_gateway;
mod multiplexed;
mod next_action;
mod outbound;
pub mod push;
pub mod reconcile;
pub mod simulator;
pub mod stripe;
pub mod tenants;

pub use error::Error;
