//! Domain time and real time, which are the same but for the test clock's offset, and deadlines.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::Timestamp;

use crate::time::rfc3339;

/// How far the clock may be behind the newest journal row at a start that nobody has accepted.
const BEHIND_US_MAX: i64 = 300 * Timestamp::SECOND_US;

/// How far the clock may be ahead of that row without a warning.
const AHEAD_US_MAX: i64 = 7 * Timestamp::DAY_US;

/// In how many microseconds domain time that is ahead of the clock loses one of its lead.
const LEAD_LOST_IN: i64 = 8;

/// The time. Domain time is real time plus an offset that only a test clock has, so it goes
/// on while it is set; deadlines, timeouts and the freshness of credentials use real time.
///
/// Over a restart domain time does not go back either: see [`Clock::go_on_from`].
///
/// Real time never goes backwards here: while the system's clock is behind an earlier reading,
/// time goes on by the monotonic clock.
#[derive(Clone, Debug)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    is_test: bool,
    offset_us: AtomicI64,
    /// When this clock was made, on the system's clock and on the monotonic one.
    made_us: i64,
    made: Instant,
    /// How far the system's clock was seen ahead of the monotonic one.
    ahead_us: AtomicI64,
    /// How far domain time was ahead of real time when this clock was made, because a journal row was. It grows
    /// less, but slower than time passes.
    lead_us: AtomicI64,
}

/// The clock is behind what was written already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the clock shows {}, and the newest journal row is of {}: set the clock right; if it is, start with \
     --accept-clock-behind, and domain time goes on from that row",
    rfc3339(*clock),
    rfc3339(*journal)
)]
pub struct ClockBehind {
    /// The time of the clock, in domain time.
    pub clock: Timestamp,
    /// The domain time of the newest journal row.
    pub journal: Timestamp,
}

impl Clock {
    /// A clock; `is_test` allows [`Clock::set`].
    #[must_use]
    pub fn new(is_test: bool) -> Self {
        let inner = Inner {
            is_test,
            offset_us: AtomicI64::new(0),
            made_us: system_us(),
            made: Instant::now(),
            ahead_us: AtomicI64::new(0),
            lead_us: AtomicI64::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether domain time may be set.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.inner.is_test
    }

    /// Real time, which never goes backwards.
    #[must_use]
    pub fn real_now(&self) -> Timestamp {
        Timestamp(self.reading(system_us()))
    }

    /// The real time in microseconds when the system's clock shows `system_us`.
    fn reading(&self, system_us: i64) -> i64 {
        let inner = &self.inner;
        let monotonic_us = inner.made_us.saturating_add(self.elapsed_us());
        let ahead_us = system_us.saturating_sub(monotonic_us);
        let most_us = inner.ahead_us.fetch_max(ahead_us, Ordering::Relaxed).max(ahead_us);
        monotonic_us.saturating_add(most_us)
    }

    /// Microseconds since this clock was made.
    fn elapsed_us(&self) -> i64 {
        i64::try_from(self.inner.made.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Domain time: real time plus the test clock's offset, or plus what is left of the lead of the journal.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let offset_us = self.inner.offset_us.load(Ordering::Relaxed);
        self.real_now().plus_us(offset_us.saturating_add(self.lead_us()))
    }

    fn lead_us(&self) -> i64 {
        match self.inner.lead_us.load(Ordering::Relaxed) {
            0 => 0,
            lead_us => lead_us.saturating_sub(self.elapsed_us() / LEAD_LOST_IN).max(0),
        }
    }

    /// At a start: has domain time go on from the newest journal row where the clock is behind it, and says so. A
    /// clock that is far ahead of that row is warned about. A test clock goes on from any row.
    ///
    /// # Errors
    /// [`ClockBehind`], by more than five minutes, where that `is_accepted` by nobody.
    pub fn go_on_from(&self, journal: Timestamp, is_accepted: bool) -> Result<(), ClockBehind> {
        let clock = self.now();
        let behind_us = journal.0.saturating_sub(clock.0);
        let shown = (rfc3339(clock), rfc3339(journal));
        if behind_us < -AHEAD_US_MAX {
            tracing::warn!(
                clock = shown.0,
                journal = shown.1,
                "the clock is far ahead of the newest journal row: all that was to happen in between happens now; \
                 if the clock is wrong, stop the server at once"
            );
        }
        if behind_us <= 0 {
            return Ok(());
        }
        if self.inner.is_test {
            tracing::warn!(
                clock = shown.0,
                journal = shown.1,
                "the test clock goes on from the newest journal row"
            );
            self.set(journal);
            return Ok(());
        }
        if behind_us > BEHIND_US_MAX && !is_accepted {
            return Err(ClockBehind { clock, journal });
        }
        tracing::warn!(
            clock = shown.0,
            journal = shown.1,
            "the clock is behind the newest journal row: domain time goes on from that row, by seven seconds in eight, \
             until the clock has caught up"
        );
        let lead_us = self.lead_us().saturating_add(behind_us);
        let at_first_us = lead_us.saturating_add(self.elapsed_us() / LEAD_LOST_IN + 1);
        self.inner.lead_us.fetch_max(at_first_us, Ordering::Relaxed);
        Ok(())
    }

    /// Sets domain time, from which it goes on. Does nothing on a clock that is no test clock.
    pub fn set(&self, now: Timestamp) {
        if self.inner.is_test {
            let offset_us = now.0.saturating_sub(self.real_now().0);
            self.inner.offset_us.store(offset_us, Ordering::Relaxed);
        }
    }

    /// Makes domain time real time again.
    pub fn reset(&self) {
        self.inner.offset_us.store(0, Ordering::Relaxed);
    }
}

/// The real time until which something may leave this process. It also passes while the process or
/// its machine stands still.
#[derive(Clone, Debug)]
pub struct Deadline {
    clock: Clock,
    at: Timestamp,
}

impl Deadline {
    /// So long after `began`.
    #[must_use]
    pub fn after(clock: &Clock, began: Timestamp, limit: Duration) -> Self {
        let limit_us = i64::try_from(limit.as_micros()).unwrap_or(i64::MAX);
        Self { clock: clock.clone(), at: began.plus_us(limit_us) }
    }

    /// So long after now.
    #[must_use]
    pub fn within(clock: &Clock, limit: Duration) -> Self {
        Self::after(clock, clock.real_now(), limit)
    }

    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The time that is left; zero once it is over.
    #[must_use]
    pub fn left(&self) -> Duration {
        let left_us = self.at.0.saturating_sub(self.clock.real_now().0);
        Duration::from_micros(u64::try_from(left_us).unwrap_or(0))
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}

fn system_us() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_clock_that_steps_back_stops_nothing() {
        let clock = Clock::new(false);
        let made_us = clock.inner.made_us;
        let ahead = clock.reading(made_us + 3_600_000_000);
        let back = clock.reading(made_us - 3_600_000_000);
        assert!(ahead >= made_us + 3_600_000_000 - 1_000_000);
        assert!(back >= ahead, "{back} < {ahead}");
        let later = clock.reading(made_us - 3_600_000_000);
        assert!(later >= back);
    }

    #[test]
    fn domain_time_goes_on_from_the_journal_and_loses_its_lead() {
        let clock = Clock::new(false);
        let minute = 60 * Timestamp::SECOND_US;
        let journal = clock.now().plus_us(4 * minute);
        assert_eq!(clock.go_on_from(journal, false), Ok(()));
        let (now, real) = (clock.now(), clock.real_now());
        assert!(now >= journal, "{now:?} is before {journal:?}");
        assert!(now <= real.plus_us(4 * minute + Timestamp::SECOND_US));
        let later = Clock { inner: Arc::new(Inner { made: earlier(32), ..of(&clock) }) };
        assert_eq!(later.lead_us() / Timestamp::SECOND_US, 0, "32 minutes lose 4");
        let between = Clock { inner: Arc::new(Inner { made: earlier(16), ..of(&clock) }) };
        assert!((119..=121).contains(&(between.lead_us() / Timestamp::SECOND_US)));
    }

    fn earlier(minutes: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(60 * minutes)).unwrap()
    }

    fn of(clock: &Clock) -> Inner {
        Inner {
            is_test: false,
            offset_us: AtomicI64::new(0),
            made_us: clock.inner.made_us,
            made: clock.inner.made,
            ahead_us: AtomicI64::new(0),
            lead_us: AtomicI64::new(clock.inner.lead_us.load(Ordering::Relaxed)),
        }
    }

    #[test]
    fn a_clock_that_is_far_behind_is_refused_unless_that_is_accepted() {
        let clock = Clock::new(false);
        let journal = clock.now().plus_us(BEHIND_US_MAX + 60 * Timestamp::SECOND_US);
        let refused = clock.go_on_from(journal, false).unwrap_err();
        assert_eq!(refused.journal, journal);
        let text = refused.to_string();
        assert!(
            text.contains(&rfc3339(refused.clock)) && text.contains(&rfc3339(journal)),
            "{text}"
        );
        assert!(clock.now() < journal);
        assert_eq!(clock.go_on_from(journal, true), Ok(()));
        assert!(clock.now() >= journal);
        // Another partition's row that is further ahead.
        let further = journal.plus_us(60 * Timestamp::SECOND_US);
        assert_eq!(clock.go_on_from(further, false), Ok(()));
        assert!(clock.now() >= further);
        assert_eq!(clock.go_on_from(journal, false), Ok(()), "it is passed already");

        let test = Clock::new(true);
        assert_eq!(test.go_on_from(further.plus_us(Timestamp::DAY_US), false), Ok(()));
        assert!(test.now() >= further.plus_us(Timestamp::DAY_US));
        test.reset();
        assert!(test.now() < further);
    }

    #[test]
    fn only_a_test_clock_can_be_set_and_it_goes_on_from_there() {
        let clock = Clock::new(true);
        clock.set(Timestamp(Timestamp::DAY_US));
        assert_eq!(clock.now().day(), 1);
        assert!(clock.real_now().day() > 20_000);
        clock.reset();
        assert!(clock.now().day() > 20_000);
        let fixed = Clock::new(false);
        fixed.set(Timestamp(0));
        assert!(fixed.now().day() > 20_000);
    }
}
