//! Which gateways take no calls at the moment: an input of a batch, like its time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why a gateway takes no calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unready {
    /// Too many of its calls failed, or were slow.
    BreakerOpen,
    /// An operator has stopped it.
    Stopped,
    /// It has as many calls in flight as it may.
    Full,
}

impl Unready {
    /// In words, for an explanation.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::BreakerOpen => "its breaker is open",
            Self::Stopped => "an operator has stopped it",
            Self::Full => "it has as many calls in flight as it may",
        }
    }
}

/// The gateways that take no calls; all others do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health(BTreeMap<String, Unready>);

impl Health {
    /// Why a gateway takes no calls, where it takes none.
    #[must_use]
    pub fn unready(&self, gateway: &str) -> Option<Unready> {
        self.0.get(gateway).copied()
    }

    /// Notes that a gateway takes no calls.
    pub fn set(&mut self, gateway: &str, why: Unready) {
        self.0.insert(gateway.to_owned(), why);
    }

    /// Whether all gateways take calls.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.0.is_empty()
    }
}
