//! Webhooks: where the tenant's events are delivered.

pub mod deliveries;
mod document;
pub mod endpoints;
pub mod replays;
pub mod secret;

use outbound::Reach;

/// The settings of the handlers of webhooks.
#[derive(Clone)]
pub struct Settings {
    /// The addresses that endpoints may have.
    pub reach: Reach,
    /// The log of deliveries, where it can be read.
    pub log: Option<deliveries::Log>,
    /// Where replays are stored, where they can be.
    pub replays: Option<replays::Stored>,
}

/// Reads endpoints and deliveries.
const READ: &str = "webhook:read";
/// Makes and changes endpoints, and draws secrets.
const WRITE: &str = "webhook:write";
