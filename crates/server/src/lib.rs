//! The server: everything put together by its configuration, started, served, and stopped again
//! without losing anything.
//!
//! [`serve`] is the entry; [`node`] puts the core together, [`config`] reads every setting.

mod background;
mod backlog;
pub mod config;
mod engine_parts;
mod error;
mod events;
pub mod first_start;
mod health;
mod http_setup;
mod insights;
mod key_check;
pub mod logging;
mod metrics;
pub mod node;
mod pages;
mod probe;
pub mod process;
mod processing;
pub mod queue;
pub mod retention;
mod rpc;
pub mod serve;
mod sign_up;
pub mod unverified;
pub mod workers;
