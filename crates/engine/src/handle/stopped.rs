//! The gateways that begin no calls, because an operator has stopped them.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use domain::payment::health::{BatchHealth, Unready};

/// Gateways that are stopped in this process, by name: no call of theirs begins. Calls in flight end as usual,
/// and inquiries go on, because they charge nothing and end what is unknown. A start of the process starts all.
#[derive(Debug, Default)]
pub struct StoppedGateways(RwLock<BTreeSet<String>>);

impl StoppedGateways {
    /// Whether a gateway is stopped.
    #[must_use]
    pub fn contains(&self, gateway: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(gateway)
    }

    /// Notes the gateways that are stopped.
    pub fn note(&self, health: &mut BatchHealth) {
        for gateway in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            health.set(gateway, Unready::Stopped);
        }
    }

    /// Stops a gateway, or starts it.
    pub fn set(&self, gateway: &str, is_stopped: bool) {
        let mut stopped = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if is_stopped {
            stopped.insert(gateway.to_owned());
        } else {
            stopped.remove(gateway);
        }
    }
}
