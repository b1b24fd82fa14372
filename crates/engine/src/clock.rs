//! Domain time and real time. They are the same but for the test clock's offset.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;

/// Tells the time. Domain time is real time plus an offset that only a test clock has, so it goes
/// on while it is set; deadlines, timeouts and the freshness of credentials use real time.
///
/// Real time never goes backwards here: a system clock that steps back stands still until it has
/// caught up.
#[derive(Clone, Debug)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    is_test: bool,
    offset_us: AtomicI64,
    latest_us: AtomicI64,
}

impl Clock {
    /// A clock; `is_test` allows [`Clock::set`].
    #[must_use]
    pub fn new(is_test: bool) -> Self {
        let inner = Inner { is_test, offset_us: AtomicI64::new(0), latest_us: AtomicI64::new(0) };
        Self { inner: Arc::new(inner) }
    }

    /// Whether domain time may be set.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.inner.is_test
    }

    /// Real time.
    #[must_use]
    pub fn real_now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let system_us = i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX);
        let before = self.inner.latest_us.fetch_max(system_us, Ordering::Relaxed);
        Timestamp(before.max(system_us))
    }

    /// Domain time.
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

#[cfg(test)]
mod tests {
    use super::*;

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
