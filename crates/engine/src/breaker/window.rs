//! How many of the calls of the last 30 seconds failed, and how many were slow.

use std::collections::VecDeque;
use std::iter::Sum;
use std::ops::{AddAssign, Sub, SubAssign};
use std::time::{Duration, Instant};

/// The window in which calls are counted.
pub(super) const WINDOW: Duration = Duration::from_secs(30);

/// The part of the window that is forgotten at a time.
const PART: Duration = Duration::from_secs(1);

/// Calls, and those of them that failed and that were slow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) calls: u64,
    pub(super) failures: u64,
    pub(super) slow: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.failures += other.failures;
        self.slow += other.slow;
    }
}

impl SubAssign for Counts {
    fn sub_assign(&mut self, other: Self) {
        self.calls -= other.calls;
        self.failures -= other.failures;
        self.slow -= other.slow;
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self -= other;
        self
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, it| {
            sum += it;
            sum
        })
    }
}

/// The calls of the last 30 seconds.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Parts with the instant at which each began, the oldest first.
    parts: VecDeque<(Instant, Counts)>,
    sum: Counts,
}

impl Window {
    pub(super) fn add(&mut self, counts: Counts, now: Instant) {
        self.expire(now);
        if self.parts.back().is_none_or(|(began, _)| now.duration_since(*began) >= PART) {
            self.parts.push_back((now, Counts::default()));
        }
        let (_, part) = self.parts.back_mut().expect("there is one");
        *part += counts;
        self.sum += counts;
    }

    /// The counts of the calls that are in the window at `now`.
    pub(super) fn counts(&mut self, now: Instant) -> Counts {
        self.expire(now);
        self.sum
    }

    fn expire(&mut self, now: Instant) {
        while let Some((began, counts)) = self.parts.front()
            && now.duration_since(*began) >= WINDOW
        {
            self.sum -= *counts;
            self.parts.pop_front();
        }
    }
}
