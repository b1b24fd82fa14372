//! The settings of the gateway to Stripe.

use std::sync::Arc;

use engine::Clock;
use gateway::Limits;
use gateway::stripe::Options;
use gateway::stripe::Sealer;
use gateway::tenants::Tenants;
use outbound::{Base, Reach};
use serde::{Deserialize, Serialize};

use super::period::Period;

/// Hosts to which a URL may begin with `http`.
const LOOPBACK: [&str; 3] = ["http://127.0.0.1", "http://localhost", "http://[::1]"];

/// The gateway to Stripe; tenants bring their keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stripe {
    /// The URL that `/v1/...` is appended to; `http` only on this machine.
    pub base_url: String,
    /// Timeout of a call; then its outcome is unknown.
    pub timeout: Period,
    /// How long after a call's deadline "not found" becomes final; at least 1 s.
    pub settle_after: Period,
    /// How long a customer is waited for who has something to do; then the payment is canceled.
    pub action_timeout: Period,
    /// Calls in flight; above it 503, and nothing is written.
    pub in_flight_max: usize,
}

impl Default for Stripe {
    fn default() -> Self {
        Self {
            base_url: "https://api.stripe.com".to_owned(),
            timeout: Period::seconds(30),
            settle_after: Period::seconds(60),
            action_timeout: Period::seconds(86_400),
            in_flight_max: 4_096,
        }
    }
}

impl Stripe {
    /// The options of the gateway of one of its names.
    ///
    /// # Panics
    /// Where the URL cannot be used: `Config::load` refuses it.
    #[must_use]
    pub fn options(
        &self,
        name: &'static str,
        (clock, tenants): (Clock, Arc<Tenants>),
        (sealer, public_url): (Option<Arc<Sealer>>, String),
    ) -> Options {
        Options {
            name,
            base: Base::parse(&self.base_url, Reach::PublicAndPrivate).expect("it was checked"),
            limits: Limits {
                timeout: self.timeout.0,
                settle_after: self.settle_after.0,
                action_timeout: self.action_timeout.0,
                in_flight_max: self.in_flight_max,
            },
            clock,
            public_url,
            sealer,
            tenants,
        }
    }

    /// The first setting of the gateway that is wrong, and why.
    pub(super) fn check(&self) -> Option<(&'static str, String)> {
        if let Err(error) = Base::parse(&self.base_url, Reach::PublicAndPrivate) {
            return Some(("gateway.stripe.base_url", error.to_string()));
        }
        let is_loopback = LOOPBACK.iter().any(|host| {
            let rest = self.base_url.strip_prefix(host);
            rest.is_some_and(|it| it.is_empty() || it.starts_with([':', '/']))
        });
        if !self.base_url.starts_with("https://") && !is_loopback {
            let reason = "begins with http, which only this machine is called by";
            return Some(("gateway.stripe.base_url", reason.to_owned()));
        }
        if self.timeout.0.is_zero() {
            return Some(("gateway.stripe.timeout", "must be more than nothing".to_owned()));
        }
        if self.action_timeout.0.is_zero() {
            return Some(("gateway.stripe.action_timeout", "must be more than nothing".to_owned()));
        }
        if self.settle_after.0 < super::SETTLE_AFTER_MIN {
            return Some(("gateway.stripe.settle_after", "must be at least 1s".to_owned()));
        }
        let is_zero = self.in_flight_max == 0;
        is_zero.then(|| ("gateway.stripe.in_flight_max", "must be at least 1".to_owned()))
    }
}
