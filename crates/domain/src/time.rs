//! Points in time, as the domain sees them: microseconds, handed in, never asked for.

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Microseconds in a second.
    pub const SECOND_US: i64 = 1_000_000;
    /// Microseconds in a day.
    pub const DAY_US: i64 = 86_400 * Self::SECOND_US;

    /// This point moved by `duration_us` microseconds, saturating at the ends of the range.
    #[must_use]
    pub const fn plus_us(self, duration_us: i64) -> Self {
        Self(self.0.saturating_add(duration_us))
    }

    /// How many microseconds later another point is; fewer than 0 where it is earlier.
    #[must_use]
    pub const fn until_us(self, other: Self) -> i64 {
        other.0.saturating_sub(self.0)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z, rounded down.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Days since 1970-01-01 (UTC), rounded down.
    #[must_use]
    pub const fn day(self) -> i64 {
        self.0.div_euclid(Self::DAY_US)
    }
}
