//! The command line besides `serve` and `bench`: demo, resources of a running server, feature flags,
//! ISO 8583, maintenance of a data directory, the queue, and the simulated gateway.

mod client;
pub mod demo;
pub mod flags;
pub mod import;
pub mod iso8583;
pub mod maintenance;
mod output;
mod profile;
pub mod queue;
mod remote;
pub mod resources;
pub mod simulator;
pub mod webhooks;

pub use remote::Refused;

/// The exit code of a command that ran and found a problem in its data.
pub const PROBLEMS: u8 = 1;
