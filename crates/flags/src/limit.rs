//! How often a secret may be used: so many requests a second of each sort, and as many at once.
//!
//! What is counted stands with what a secret opens: a secret that opens nothing is refused before
//! anything is counted, and takes no memory.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// How many requests a second there may be with one secret, and how many at once; 0: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Streams that are opened.
    pub streaming: u32,
    /// What SDKs ask for in place of a stream, and agents that make themselves known.
    pub sdk: u32,
    /// Insights.
    pub insight: u32,
    /// Flags for a user, in FeatBit's words.
    pub feature_flag: u32,
    /// The same in OpenFeature's, and event streams that are opened.
    pub ofrep: u32,
}

/// What a request is counted as.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sort {
    Streaming,
    Sdk,
    Insight,
    FeatureFlag,
    Ofrep,
}

/// What is left of the limits for one secret.
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

    /// Counts a request, or says how long to wait.
    pub(crate) fn check(&self, sort: Sort) -> Result<(), Duration> {
        let limiter = match sort {
            Sort::Streaming => &self.streaming,
            Sort::Sdk => &self.sdk,
            Sort::Insight => &self.insight,
            Sort::FeatureFlag => &self.feature_flag,
            Sort::Ofrep => &self.ofrep,
        };
        let Some(limiter) = limiter else { return Ok(()) };
        limiter.check().map_err(|not_yet| not_yet.wait_time_from(DefaultClock::default().now()))
    }
}
