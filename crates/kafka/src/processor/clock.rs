//! The clock of the broker that leads a partition: the age of a record is known without trusting
//! our clock or the sender's.
//!
//! A record's time is the broker's, stamped when it was appended. What time it is there now is
//! found by appending a record and reading its time; from then on our monotonic clock counts on. A
//! record with a later time than was thought puts the clock forward. A broker that is behind its
//! predecessor makes records look old: so what looks too old is believed only of a clock that was
//! measured a moment ago.

use std::time::{Duration, Instant};

/// A measurement is believed for so long where it says that something is too old.
const FRESH: Duration = Duration::from_secs(1);

/// The latest measurement of a broker's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BrokerClock {
    /// At this moment of ours, it was that time of theirs, in milliseconds.
    known: Option<(Instant, i64)>,
    /// When it was last measured, or tried to be.
    tried: Option<Instant>,
}

impl BrokerClock {
    /// Whether it is to be measured before a record of this age is expired.
    pub(super) fn wants_measuring(&self, now: Instant, is_too_old: bool) -> bool {
        let is_fresh = self.tried.is_some_and(|tried| now.duration_since(tried) < FRESH);
        !is_fresh && (is_too_old || self.tried.is_none())
    }

    /// Whether anything is known of it.
    pub(super) const fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Takes a measurement; `None` for one that failed.
    pub(super) fn measured(&mut self, now: Instant, theirs_ms: Option<i64>) {
        self.tried = Some(now);
        if let Some(theirs_ms) = theirs_ms {
            self.known = Some((now, theirs_ms));
        }
    }

    /// Takes note of a record's time: it is not in the future.
    pub(super) fn saw(&mut self, now: Instant, stamped_ms: i64) {
        if self.at(now).is_none_or(|theirs| stamped_ms > theirs) {
            self.known = Some((now, stamped_ms));
        }
    }

    /// Whether a record is older than it may be.
    pub(super) fn is_too_old(&self, now: Instant, stamped_ms: i64, limit: Duration) -> bool {
        let limit_ms = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        self.at(now).is_some_and(|theirs| theirs.saturating_sub(stamped_ms) > limit_ms)
    }

    fn at(&self, now: Instant) -> Option<i64> {
        let (then, theirs_ms) = self.known?;
        let since = i64::try_from(now.duration_since(then).as_millis()).unwrap_or(i64::MAX);
        Some(theirs_ms.saturating_add(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn age_depends_on_the_brokers_clock_alone() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let mut clock = BrokerClock::default();
        assert!(clock.wants_measuring(start, false), "before the first record");
        // The broker is an hour behind of whatever we think.
        clock.measured(start, Some(-HOUR_MS));
        assert!(!clock.is_too_old(start, -HOUR_MS - 30_000, LIMIT));
        assert!(clock.is_too_old(start, -HOUR_MS - 30_001, LIMIT));
        assert!(!clock.wants_measuring(later(10), true), "a moment ago is good enough");
        assert!(clock.is_too_old(later(1), -HOUR_MS - 30_000, LIMIT), "time goes on");
        clock.saw(later(10), -HOUR_MS + 20_010);
        assert!(clock.is_too_old(later(10), -HOUR_MS - 9_991, LIMIT), "it was put forward");
        clock.saw(later(10), -2 * HOUR_MS);
        assert!(clock.is_too_old(later(10), -HOUR_MS - 9_991, LIMIT), "old records do not move it");
    }

    #[test]
    fn an_expired_record_needs_a_fresh_measurement() {
        let start = Instant::now();
        let mut clock = BrokerClock::default();
        clock.measured(start, Some(HOUR_MS));
        let later = start + Duration::from_secs(5);
        // A new leader whose clock is an hour behind.
        assert!(clock.is_too_old(later, 0, LIMIT) && clock.wants_measuring(later, true));
        assert!(!clock.wants_measuring(later, false), "what is young needs no asking");
        clock.measured(later, Some(100));
        assert!(!clock.is_too_old(later, 0, LIMIT));
    }

    #[test]
    fn without_a_measurement_no_record_is_expired() {
        let start = Instant::now();
        let mut clock = BrokerClock::default();
        clock.measured(start, None);
        assert!(!clock.wants_measuring(start, true), "not again at once");
        assert!(!clock.is_too_old(start, 0, LIMIT));
        clock.saw(start, 5_000);
        assert!(!clock.is_too_old(start, 5_000, LIMIT));
    }
}
