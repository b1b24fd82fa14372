//! Payment gateways, and the reconciliation of a gateway's journal with the store.

pub mod customer_return;
mod dispute;
mod error;
pub mod external;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod http_gateway;
mod in_time;
mod limits;
mod next_action;
pub mod reconcile;
pub mod simulator;
pub mod stripe;
pub mod tenants;

pub use error::Error;
pub use limits::Limits;
