//! The settings of gateways that are other programs: a table for each, `gateway.http.NAME`.

use std::sync::Arc;

use engine::Clock;
use gateway::Limits;
use gateway::http_gateway::{self, Options};
use gateway::simulator;
use gateway::stripe::{self, Sealer};
use gateway::tenants::Tenants;
use outbound::{Base, Reach};
use serde::{Deserialize, Serialize};

use super::period::Period;
use super::secret::Secret;

/// How many there can be.
const GATEWAYS_MAX: usize = 100;

/// How long a name can be: payment methods and transactions carry it.
const NAME_CHARS_MAX: usize = 50;

/// Gateways of our own have names that begin so.
const OWN_PREFIX: &str = "faregate-";

/// A gateway that is another program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpGateway {
    /// The URL that `/charge` and `/inquire` are appended to.
    pub url: String,
    /// The secret that signs requests and answers: 24 to 64 bytes in base64, with or without `whsec_`.
    pub secret: Secret,
    /// Whether it may be on this machine or in a private network; the test clock allows it.
    pub allow_loopback: bool,
    /// Timeout of a charge; then its outcome is unknown.
    pub timeout: Period,
    /// How long after a charge's deadline "not found" becomes final; at least 1 s.
    pub settle_after: Period,
    /// How long a customer is waited for who has something to do; then the payment is canceled.
    pub action_timeout: Period,
    /// Charges and control requests in flight; above it 503, and nothing is written.
    pub in_flight_max: usize,
    /// Whether it decides about calls that name it as a control plugin.
    pub control: bool,
}

impl Default for HttpGateway {
    fn default() -> Self {
        Self {
            url: String::new(),
            secret: Secret::default(),
            allow_loopback: false,
            timeout: Period::seconds(30),
            settle_after: Period::seconds(5),
            action_timeout: Period::seconds(86_400),
            in_flight_max: 4_096,
            control: false,
        }
    }
}

impl HttpGateway {
    /// The options of the gateway crate; the test clock allows every address.
    ///
    /// # Panics
    /// Where the URL or the secret cannot be used: `Config::load` refuses them.
    #[must_use]
    pub fn options(
        &self,
        test_clock: bool,
        (clock, tenants): (Clock, Arc<Tenants>),
        sealer: Option<Arc<Sealer>>,
    ) -> Options {
        Options {
            base: Base::parse(&self.url, self.reach(test_clock)).expect("it was checked"),
            secret: http_gateway::Secret::parse(self.secret.expose()).expect("it was checked"),
            limits: Limits {
                timeout: self.timeout.0,
                settle_after: self.settle_after.0,
                action_timeout: self.action_timeout.0,
                in_flight_max: self.in_flight_max,
            },
            control: self.control,
            clock,
            sealer,
            tenants,
        }
    }

    const fn reach(&self, test_clock: bool) -> Reach {
        match self.allow_loopback || test_clock {
            true => Reach::PublicAndPrivate,
            false => Reach::Public,
        }
    }

    /// The first setting of the gateway that is wrong, and why.
    fn check(&self, test_clock: bool) -> Option<(&'static str, String)> {
        if let Err(error) = Base::parse(&self.url, self.reach(test_clock)) {
            return Some(("url", error.to_string()));
        }
        if let Err(error) = http_gateway::Secret::parse(self.secret.expose()) {
            return Some(("secret", error.to_string()));
        }
        if self.timeout.0.is_zero() {
            return Some(("timeout", "must be more than nothing".to_owned()));
        }
        if self.action_timeout.0.is_zero() {
            return Some(("action_timeout", "must be more than nothing".to_owned()));
        }
        if self.settle_after.0 < super::SETTLE_AFTER_MIN {
            return Some(("settle_after", "must be at least 1s".to_owned()));
        }
        (self.in_flight_max == 0).then(|| ("in_flight_max", "must be at least 1".to_owned()))
    }
}

/// The first setting of the gateways that is wrong, and why.
pub fn check<'a>(
    gateways: impl IntoIterator<Item = (&'a String, &'a HttpGateway)>,
    test_clock: bool,
) -> Option<(String, String)> {
    for (at, (name, gateway)) in gateways.into_iter().enumerate() {
        if at == GATEWAYS_MAX {
            let reason = format!("are more gateways than {GATEWAYS_MAX}");
            return Some(("gateway.http".to_owned(), reason));
        }
        if let Some(reason) = check_name(name) {
            return Some((format!("gateway.http.{name}"), reason.to_owned()));
        }
        if let Some((setting, reason)) = gateway.check(test_clock) {
            return Some((format!("gateway.http.{name}.{setting}"), reason));
        }
    }
    None
}

fn check_name(name: &str) -> Option<&'static str> {
    let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_fit);
    let is_own = name.starts_with(OWN_PREFIX)
        || name == simulator::KILL_BILL_NAME
        || stripe::NAMES.contains(&name);
    if !is_name {
        Some("is no name of 1 to 50 lower-case letters, digits and `-`")
    } else if is_own {
        Some("is the name of a gateway of Faregate")
    } else {
        None
    }
}
