//! Domain time and real time, which are the same but for the test clock's offset, and deadlines.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::Timestamp;

/// The time. Domain time is real time plus an offset that only a test clock has, so it goes
/// on while it is set; deadlines, timeouts and the freshness of credentials use real time.
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

    /// What the time is when the system's clock shows `system_us`.
    fn reading(&self, system_us: i64) -> i64 {
        let inner = &self.inner;
        let elapsed_us = i64::try_from(inner.made.elapsed().as_micros()).unwrap_or(i64::MAX);
        let monotonic_us = inner.made_us.saturating_add(elapsed_us);
        let ahead_us = system_us.saturating_sub(monotonic_us);
        let most_us = inner.ahead_us.fetch_max(ahead_us, Ordering::Relaxed).max(ahead_us);
        monotonic_us.saturating_add(most_us)
    }

    /// Domain time: real time plus the test clock's offset.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.real_now().plus_us(self.inner.offset_us.load(Ordering::Relaxed))
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
