//! How often a secret may be used: requests per second of each kind, and as many in a burst.
//!
//! The counters are part of a grant: an unknown secret is refused before anything is counted, and
//! takes no memory.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use serde::{Deserialize, Serialize};

/// Requests per second with one secret, which is the largest burst too; 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimits {
    /// Streams that are opened, by gRPC too.
    pub streaming: u32,
    /// Polls of SDKs, and registrations of agents.
    pub sdk: u32,
    /// Reports of insights.
    pub insight: u32,
    /// Evaluations by FeatBit's API, and by gRPC.
    pub feature_flag: u32,
    /// Evaluations by OFREP, and its event streams that are opened.
    pub ofrep: u32,
}

/// More than the SDKs of a large installation need, and less than would keep a server busy.
impl Default for RateLimits {
    fn default() -> Self {
        Self {
            streaming: 10_000,
            sdk: 10_000,
            insight: 10_000,
            feature_flag: 100_000,
            ofrep: 100_000,
        }
    }
}

/// The limit that a request counts towards.
#[derive(Clone, Copy, Debug)]
pub enum RequestKind {
    Streaming,
    Sdk,
    Insight,
    FeatureFlag,
    Ofrep,
}

/// The state of the limits of one secret.
pub(crate) struct Limiters {
    streaming: Limiter,
    sdk: Limiter,
    insight: Limiter,
    feature_flag: Limiter,
    ofrep: Limiter,
}

type Limiter = Option<DefaultDirectRateLimiter>;

impl Limiters {
    pub(crate) fn new(limits: &RateLimits) -> Self {
        let limiter = |per_second: u32| {
            NonZeroU32::new(per_second).map(|it| RateLimiter::direct(Quota::per_second(it)))
        };
        Self {
            streaming: limiter(limits.streaming),
            sdk: limiter(limits.sdk),
            insight: limiter(limits.insight),
            feature_flag: limiter(limits.feature_flag),
            ofrep: limiter(limits.ofrep),
        }
    }

    /// Counts a request, or returns how long to wait.
    pub(crate) fn check(&self, kind: RequestKind) -> Result<(), Duration> {
        let limiter = match kind {
            RequestKind::Streaming => &self.streaming,
            RequestKind::Sdk => &self.sdk,
            RequestKind::Insight => &self.insight,
            RequestKind::FeatureFlag => &self.feature_flag,
            RequestKind::Ofrep => &self.ofrep,
        };
        let Some(limiter) = limiter else { return Ok(()) };
        limiter.check().map_err(|not_yet| not_yet.wait_time_from(DefaultClock::default().now()))
    }
}
