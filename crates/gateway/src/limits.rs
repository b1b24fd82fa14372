//! How long a gateway is waited for, and how many calls it has in flight.

use std::time::Duration;

use domain::GatewaySettings;

/// The limits of a gateway's calls.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The timeout of a call.
    pub timeout: Duration,
    /// How long after a call's deadline "not found" is final.
    pub settle_after: Duration,
    /// How long a customer is waited for who has something to do.
    pub action_timeout: Duration,
    /// Calls in flight.
    pub in_flight_max: usize,
}

impl Limits {
    /// The settings of a gateway that is called, and needs neither merchant accounts nor attached methods.
    pub(crate) fn settings(&self) -> GatewaySettings {
        let us = |it: Duration| i64::try_from(it.as_micros()).unwrap_or(i64::MAX);
        GatewaySettings {
            settles_at_once: false,
            needs_merchant_account: false,
            attaches_methods: false,
            action_timeout_us: Some(us(self.action_timeout)),
            timeout_us: us(self.timeout),
            settle_after_us: us(self.settle_after),
        }
    }
}
