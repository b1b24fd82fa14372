//! Settings of routing: breakers of gateways, and how long the tries of a payment may take.

use serde::{Deserialize, Serialize};

use crate::period::Period;

/// The most that the tries of a payment may take: clients do not wait longer.
const DEADLINE_MAX: Period = Period::seconds(300);
/// The most calls that a breaker may wait for.
const CALLS_MAX: u64 = 100_000;

/// When the breaker of a gateway opens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breaker {
    /// From which share of a tenant's failed calls in 30 s on it opens for that tenant, in percent; 0: never for
    /// failures.
    pub failure_percent: u64,
    /// How many calls there have to be in these 30 s first.
    pub calls_min: u64,
    /// The maximum of the 95th percentile of the calls' durations; above it the breaker opens. `0s`: no maximum.
    pub p95_max: Period,
    /// How long an open breaker lets no call through, before it probes.
    pub open_for: Period,
}

/// The tries of a payment that is routed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tries {
    /// How long all tries of a payment may take together.
    pub deadline: Period,
    /// How much of that has to be left for one more try.
    pub next_try_min: Period,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failure_percent: 50,
            calls_min: 20,
            p95_max: Period::seconds(0),
            open_for: Period::seconds(10),
        }
    }
}

impl Default for Tries {
    fn default() -> Self {
        Self { deadline: Period::seconds(30), next_try_min: Period::seconds(5) }
    }
}

/// Which setting cannot be, and why.
pub(crate) fn check(breaker: &Breaker, tries: &Tries) -> Option<(&'static str, &'static str)> {
    let second = Period::seconds(1);
    let is_of_minutes = |it: Period| (second..=DEADLINE_MAX).contains(&it);
    if breaker.failure_percent > 100 {
        Some(("gateway.breaker.failure_percent", "must be at most 100"))
    } else if !(1..=CALLS_MAX).contains(&breaker.calls_min) {
        Some(("gateway.breaker.calls_min", "must be from 1 to 100000"))
    } else if breaker.p95_max > DEADLINE_MAX {
        Some(("gateway.breaker.p95_max", "must be at most 5m"))
    } else if !is_of_minutes(breaker.open_for) {
        Some(("gateway.breaker.open_for", "must be from 1s to 5m"))
    } else if !is_of_minutes(tries.deadline) {
        Some(("gateway.tries.deadline", "must be from 1s to 5m"))
    } else if !(second..=tries.deadline).contains(&tries.next_try_min) {
        Some(("gateway.tries.next_try_min", "must be from 1s to `gateway.tries.deadline`"))
    } else {
        None
    }
}
