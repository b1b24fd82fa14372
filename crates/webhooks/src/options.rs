//! The settings of push notifications.

use std::sync::Arc;
use std::time::Duration;

use engine::webhooks::DeliveryTry;
use outbound::{Reach, Resolver, public_web_tls};
use secrets::Sealer;
use tokio::sync::mpsc;
use tokio_rustls::rustls::ClientConfig;

/// The follower's name in the store.
pub const FOLLOWER: &str = "push";

/// The delays from a failed delivery to the next attempt, in domain time. After the last one the
/// delivery is dropped. This is Kill Bill's schedule.
pub const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_secs(15 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(12 * 3600),
    Duration::from_secs(24 * 3600),
];

/// The options of the follower.
#[derive(Clone)]
pub struct Options {
    /// The addresses that callbacks may have.
    pub reach: Reach,
    /// The number of concurrent deliveries to a callback.
    pub lanes: usize,
    /// The timeout of a delivery.
    pub timeout: Duration,
    /// How long after its commit an event is posted to a Kill Bill callback. Receivers read back what the client writes
    /// just after its own answer, and Kill Bill itself posts that late.
    pub killbill_delay: Duration,
    /// Validates the certificates of TLS servers.
    pub tls: Arc<ClientConfig>,
    /// Finds the addresses of callbacks.
    pub resolver: Resolver,
    /// Opens the webhook endpoints of tenants; without it they receive nothing.
    pub sealer: Option<Arc<Sealer>>,
    /// Takes the tries that are logged; `None`: none is.
    pub log: Option<mpsc::Sender<DeliveryTry>>,
}

impl Options {
    /// The defaults: 32 lanes, 15 s, no delay, the certificate authorities of the public web.
    #[must_use]
    pub fn new(reach: Reach) -> Self {
        Self {
            reach,
            lanes: 32,
            timeout: Duration::from_secs(15),
            killbill_delay: Duration::ZERO,
            tls: public_web_tls(),
            resolver: Resolver::System,
            sealer: None,
            log: None,
        }
    }
}
