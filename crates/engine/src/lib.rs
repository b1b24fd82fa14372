//! Faregate's core loop: requests in, batches committed, effects performed, replies out.
//!
//! [`Engine`] is what doors talk to. [`partition`] executes and commits, `outbox` performs what
//! was committed, `resolver` asks gateways about outcomes that nobody knows, and [`ports`] lists
//! what all of it needs from outside. With many nodes, [`queue`] is what stands between the doors of
//! one process and the partitions of another.

pub mod access;
pub mod analytics;
mod balances;
mod clock;
pub mod flags;
mod handle;
pub mod insights;
mod offered;
mod outbox;
pub mod partition;
pub mod ports;
pub mod queue;
mod readers;
mod resolver;
mod unavailable;

pub use clock::Clock;
pub use handle::{Engine, FrontParts, Options, Parts, Running};
pub use partition::Answer;
pub use unavailable::{Reason, Unavailable};
