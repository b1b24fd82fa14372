//! Faregate's core loop: requests in, batches committed, effects performed, replies out.
//!
//! The APIs call [`Engine`]. [`partition`] executes and commits, `handle::outbox` performs what was
//! committed, `handle::resolver` asks gateways about unknown outcomes, and [`ports`] lists what all
//! of it needs from outside. With many nodes, [`queue`] connects the APIs of one process with the
//! partitions of another. [`periodic`] repeats jobs.

pub mod access;
pub mod accounts;
pub mod analytics;
pub mod breaker;
mod caller;
pub mod client;
mod clock;
pub mod entitlements;
pub mod explained_invoices;
pub mod flags;
pub mod forecast;
mod handle;
pub mod holdings;
pub mod insights;
mod lane;
pub mod partition;
mod pending_batch;
pub mod periodic;
pub mod ports;
pub mod priority;
pub mod queue;
mod readers;
pub mod retention;
mod scans;
pub mod text;
pub mod time;
mod unavailable;
pub mod watched_accounts;
pub mod webhooks;

pub use clock::{Clock, ClockBehind, Deadline};
pub use handle::{
    CHECK_AGE_MAX, Engine, ExpectedPurchase, FrontParts, NotificationError, Options, Parts,
    Progress, Running, StartError, StoppedGateways, Unhealthy, WeakEngine,
};
pub use partition::{Answer, has_open_transaction};
pub use scans::SCANS_MAX;
pub use unavailable::{Reason, Unavailable};
