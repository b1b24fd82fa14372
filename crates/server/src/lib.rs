//! The server: everything put together by its configuration, started, served, and stopped again
//! without losing anything.
//!
//! [`serve`] is the entry; [`node`] puts the core together.

mod background;
mod backlog;
mod disk;
mod engine_parts;
mod error;
pub mod first_start;
pub mod gateways;
mod health;
mod http_setup;
mod integrity;
pub mod logging;
mod metrics;
pub mod node;
mod operations;
mod pages;
mod probe;
pub mod process;
mod processing;
pub mod queue;
mod rpc;
pub mod serve;
mod sign_up;
pub mod workers;

pub use pages::openapi;

/// The paths of the HTTP port that belong to no API, each with `GET`: health, metrics and pages.
pub fn paths() -> impl Iterator<Item = &'static str> {
    let health = operations::HEALTH.iter().map(|(path, _)| *path);
    let pages = pages::PAGES.iter().map(|(path, ..)| *path);
    health.chain(pages).chain([operations::METRICS, probe::PATH])
}
