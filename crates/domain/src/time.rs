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

    /// This point moved by calendar months in UTC: where the month has no such day, its last one. Beyond the
    /// year 9999 a month has 30 days.
    #[must_use]
    pub fn plus_months(self, months: u32) -> Self {
        let moved = jiff::Timestamp::from_microsecond(self.0).and_then(|at| {
            let span = jiff::Span::new().try_months(months)?;
            at.to_zoned(jiff::tz::TimeZone::UTC).checked_add(span)
        });
        let days = i64::from(months).saturating_mul(30);
        let beyond = self.plus_us(days.saturating_mul(Self::DAY_US));
        moved.map_or(beyond, |it| Self(it.timestamp().as_microsecond()))
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
