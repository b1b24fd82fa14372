//! The command line besides `serve` and `bench`: demo, feature flags, ISO 8583, maintenance of a data
//! directory, the queue, and the simulated gateway.

mod client;
pub mod demo;
pub mod flags;
pub mod iso8583;
pub mod maintenance;
pub mod queue;
pub mod simulator;

/// The exit code of a command that ran and found a problem in its data.
pub const PROBLEMS: u8 = 1;
