//! Open loop: flows become due at fixed times, whether or not earlier flows have ended.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// The slowest rate: one flow an hour.
pub const RATE_MIN: f64 = 1.0 / 3600.0;
/// The fastest rate.
pub const RATE_MAX: f64 = 1_000_000.0;

/// Flows that are due within this time are due together: no timer is more precise, and a wake-up for
/// each would cost more than the flow.
const TICK_PS: u128 = 1_000_000_000;
const SECOND_PS: f64 = 1e12;
const NANOSECOND_PS: u128 = 1_000;

/// When each flow is due, counted from the start.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    interval_ps: u128,
    tick_ps: u128,
}

impl Schedule {
    /// A schedule of `rate` flows per second; `None` outside [`RATE_MIN`]`..=`[`RATE_MAX`].
    pub fn new(rate: f64) -> Option<Self> {
        if !(RATE_MIN..=RATE_MAX).contains(&rate) {
            return None;
        }
        // Bounded by the check above: between 1e6 and 3.6e15.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the rate's bounds keep it between 1e6 and 3.6e15"
        )]
        let interval_ps = (SECOND_PS / rate).round() as u128;
        let tick_ps = if interval_ps < TICK_PS { TICK_PS } else { 1 };
        Some(Self { interval_ps, tick_ps })
    }

    /// When the `number`-th flow (from 0) is due.
    pub fn due(&self, number: u64) -> Duration {
        let exact_ps = u128::from(number) * self.interval_ps;
        let nanoseconds = exact_ps / self.tick_ps * self.tick_ps / NANOSECOND_PS;
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// How many flows are due once `elapsed` has passed, that instant included.
    pub fn due_by(&self, elapsed: Duration) -> u64 {
        // The end of the last nanosecond counts: `due` rounds down to nanoseconds.
        let elapsed_ps = (elapsed.as_nanos() + 1) * NANOSECOND_PS - 1;
        let tick_end_ps = (elapsed_ps / self.tick_ps + 1) * self.tick_ps;
        u64::try_from(tick_end_ps.div_ceil(self.interval_ps)).unwrap_or(u64::MAX)
    }
}

/// Flows that are due and wait for a free connection.
pub struct Backlog {
    waiting: Mutex<VecDeque<Instant>>,
    ready: Semaphore,
    limit: usize,
    deepest: AtomicUsize,
    dropped: AtomicU64,
}

impl Backlog {
    /// An empty backlog of at most `limit` flows.
    pub fn new(limit: usize) -> Self {
        Self {
            waiting: Mutex::new(VecDeque::new()),
            ready: Semaphore::new(0),
            limit,
            deepest: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds flows by the time they were due; those beyond the limit are dropped, and of these the
    /// ones due at or after `counted_from` are counted.
    pub fn add(&self, due: impl Iterator<Item = Instant>, counted_from: Instant) {
        let mut added = 0;
        {
            let mut waiting = self.lock();
            for due in due {
                if waiting.len() < self.limit {
                    waiting.push_back(due);
                    added += 1;
                } else if due >= counted_from {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.deepest.fetch_max(waiting.len(), Ordering::Relaxed);
        }
        self.ready.add_permits(added);
    }

    /// No more flows will be added.
    pub fn close(&self) {
        self.ready.close();
    }

    /// Takes the flow that waited longest, or waits for one. `None` once closed and empty.
    pub async fn next(&self) -> Option<Instant> {
        if let Ok(permit) = self.ready.acquire().await {
            permit.forget();
        }
        self.lock().pop_front()
    }

    /// How many flows wait.
    pub fn depth(&self) -> usize {
        self.lock().len()
    }

    /// The most flows that waited at a time.
    pub fn deepest(&self) -> usize {
        self.deepest.load(Ordering::Relaxed)
    }

    /// How many flows were dropped, of those counted.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Instant>> {
        self.waiting.lock().expect("no panic while locked")
    }
}

/// Feeds the backlog from `start` until `end` or until it is closed, then closes it. Blocks its thread.
pub fn pace(schedule: Schedule, backlog: &Backlog, times: Times) {
    let mut next = 0;
    loop {
        let due = times.start + schedule.due(next);
        if due >= times.end || backlog.ready.is_closed() {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let upto = schedule.due_by(times.start.elapsed()).max(next + 1);
        let batch = (next..upto).map(|number| times.start + schedule.due(number));
        backlog.add(batch.take_while(|due| *due < times.end), times.measured_from);
        next = upto;
    }
    backlog.close();
}

/// The phases of a run.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The first flow starts.
    pub start: Instant,
    /// The end of the warm-up.
    pub measured_from: Instant,
    /// No flow starts at or after this.
    pub end: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_out_of_bounds_are_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, RATE_MAX * 1.01, RATE_MIN / 2.0] {
            assert!(Schedule::new(rate).is_none(), "{rate}");
        }
    }

    #[test]
    fn slow_schedules_are_exact() {
        let schedule = Schedule::new(3.0).unwrap();
        assert_eq!(schedule.due(0), Duration::ZERO);
        assert_eq!(schedule.due(1), Duration::from_nanos(333_333_333));
        // No drift: a day later it is off by less than a microsecond per flow's rounding.
        let day = schedule.due(3 * 86_400);
        assert!(day.abs_diff(Duration::from_secs(86_400)) < Duration::from_micros(1), "{day:?}");
    }

    #[test]
    fn fast_schedules_are_due_by_the_millisecond() {
        let schedule = Schedule::new(4_000.0).unwrap();
        let due: Vec<_> = (0..9).map(|number| schedule.due(number).as_micros()).collect();
        assert_eq!(due, [0, 0, 0, 0, 1000, 1000, 1000, 1000, 2000]);
        assert_eq!(schedule.due(4_000 * 60), Duration::from_secs(60));
    }

    #[test]
    fn due_by_counts_the_flows_that_are_due() {
        for rate in [0.7, 3.0, 999.0, 1_000.0, 1_001.0, 7_777.7, 123_456.0] {
            let schedule = Schedule::new(rate).unwrap();
            for number in [0, 1, 2, 3, 10, 999, 12_345] {
                let due = schedule.due(number);
                let count = schedule.due_by(due);
                assert!(count > number, "flow {number} at {rate}/s is due at {due:?}");
                assert!(schedule.due(count) > due, "flow {count} at {rate}/s is not yet due");
                if let Some(before) = due.checked_sub(Duration::from_nanos(1)) {
                    assert!(schedule.due_by(before) <= number, "flow {number} at {rate}/s");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_full_backlog_drops_and_counts() {
        let backlog = Backlog::new(2);
        let start = Instant::now();
        let due: Vec<_> = (0..5).map(|n| start + Duration::from_millis(n)).collect();
        // The third flow is dropped too, but was due before the measured time.
        backlog.add(due.iter().copied(), due[3]);
        assert_eq!((backlog.depth(), backlog.deepest(), backlog.dropped()), (2, 2, 2));
        assert_eq!(backlog.next().await, Some(due[0]));
        backlog.add(std::iter::once(due[4]), start);
        backlog.close();
        assert_eq!(backlog.next().await, Some(due[1]));
        assert_eq!(backlog.next().await, Some(due[4]));
        assert_eq!(backlog.next().await, None);
    }

    #[tokio::test]
    async fn schedule_does_not_depend_on_the_server() {
        let schedule = Schedule::new(2_000.0).unwrap();
        let backlog = Backlog::new(1_000);
        let start = Instant::now();
        let end = start + Duration::from_millis(100);
        pace(schedule, &backlog, Times { start, measured_from: start, end });
        let mut taken = Vec::new();
        while let Some(due) = backlog.next().await {
            taken.push(due - start);
        }
        let expected: Vec<_> = (0..200).map(|number| schedule.due(number)).collect();
        assert_eq!(taken, expected);
    }
}
