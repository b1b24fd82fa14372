//! Counts and latency histograms of a run: one tally per thread, added up at the end.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::outcome::{Created, Done, Outcome, Problem};
use super::sample::Sample;
use super::schedule::Times;

/// Which flows are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Those that end in it, and failures after it: a closed loop.
    ByEnd,
    /// Those that are due in it, however late they end: an open loop.
    ByDue,
}

/// Longer latencies are recorded as this long.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// Three digits: a latency is off by at most a thousandth.
const PRECISION_DIGITS: u8 = 3;
/// Kinds of errors counted separately; all further kinds are counted together.
const KINDS_MAX: usize = 64;

/// Latencies in microseconds.
pub struct Latencies(Histogram<u64>);

impl Latencies {
    fn new() -> Self {
        let max = u64::try_from(LATENCY_MAX.as_micros()).expect("ten minutes fit");
        Self(Histogram::new_with_bounds(1, max, PRECISION_DIGITS).expect("constant bounds"))
    }

    /// Adds a latency; a longer one than ten minutes is recorded as ten minutes.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    /// A quantile in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "ten minutes in microseconds are exact")]
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// The longest latency in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "ten minutes in microseconds are exact")]
    pub fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1000.0
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

/// Failures by kind.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct ErrorKinds(BTreeMap<String, u64>);

impl ErrorKinds {
    /// Counts failures of a kind; those of kinds beyond [`KINDS_MAX`] as "other".
    pub fn count(&mut self, kind: &str, count: u64) {
        if count == 0 {
            return;
        }
        let is_known = self.0.contains_key(kind) || self.0.len() < KINDS_MAX;
        let kind = if is_known { kind } else { "other" };
        *self.0.entry(kind.to_owned()).or_default() += count;
    }

    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(kind, count)| self.count(kind, *count));
    }

    /// The same counts; `prefix` begins their kinds.
    pub fn prefixed(&self, prefix: &str) -> Self {
        Self(self.0.iter().map(|(kind, count)| (format!("{prefix}{kind}"), *count)).collect())
    }

    /// How many failures there were.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

/// A line for each kind.
impl Display for ErrorKinds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(kind, count)| writeln!(f, "error    {count:>8} x {kind}"))
    }
}

/// Counts and latencies of a run.
pub struct Tally {
    counted: Counted,
    times: Option<Times>,
    /// Latencies per step, of flows that succeeded.
    pub steps: [Latencies; 3],
    /// Latencies of flows that succeeded.
    pub flow: Latencies,
    /// Latencies of refusals.
    pub refusals: Latencies,
    /// Flows that failed, by kind.
    pub errors: ErrorKinds,
    /// Flows that the server still refused when the run ended.
    pub abandoned: u64,
    /// Flows that succeeded inside the measured time, whenever they were due.
    pub finished_inside: u64,
    /// The first failure.
    pub first_problem: Option<Problem>,
    /// A sample of the created rows, if requested.
    pub sample: Option<Sample<Created>>,
    /// Counts since the last progress line.
    pub recent: Recent,
}

/// Counts since the last progress line, warm-up included.
#[derive(Default)]
pub struct Recent {
    /// Latencies of flows that succeeded.
    pub flow: Latencies,
    /// Flows that failed.
    pub errors: u64,
    /// Requests that the server refused.
    pub refused: u64,
}

impl Recent {
    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Self) {
        self.flow.add(&other.flow);
        self.errors += other.errors;
        self.refused += other.refused;
    }
}

impl Tally {
    /// An empty tally.
    pub fn new(counted: Counted) -> Self {
        Self {
            counted,
            times: None,
            steps: Default::default(),
            flow: Latencies::new(),
            refusals: Latencies::new(),
            errors: ErrorKinds::default(),
            abandoned: 0,
            finished_inside: 0,
            first_problem: None,
            sample: None,
            recent: Recent::default(),
        }
    }

    /// Sets the measured time; without it nothing is counted.
    pub fn set_times(&mut self, times: Times) {
        self.times = Some(times);
    }

    /// Counts a flow that was due (or started) at one time and ended at another.
    pub fn flow_ended(&mut self, due: Instant, ended: Instant, outcome: Outcome) {
        match outcome {
            Outcome::Done(done) => self.flow_done(due, ended, &done),
            Outcome::Failed(problem) => self.flow_failed(due, ended, problem),
            Outcome::Abandoned(step) => match self.counted {
                Counted::ByEnd => self.abandoned += 1,
                Counted::ByDue => {
                    let kind = format!("{} refused until the end", step.name());
                    self.flow_failed(due, ended, Problem { kind, answer: None });
                }
            },
        }
    }

    /// Counts a refusal.
    pub fn refused(&mut self, now: Instant, took: Duration) {
        self.recent.refused += 1;
        if self.times.is_some_and(|times| now >= times.measured_from && now < times.end) {
            self.refusals.record(took);
        }
    }

    /// Adds the counts of another one, except the recent ones.
    pub fn add(&mut self, other: Self) {
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            mine.add(theirs);
        }
        self.flow.add(&other.flow);
        self.refusals.add(&other.refusals);
        self.errors.add(&other.errors);
        self.abandoned += other.abandoned;
        self.finished_inside += other.finished_inside;
        self.first_problem = self.first_problem.take().or(other.first_problem);
    }

    fn flow_done(&mut self, due: Instant, ended: Instant, done: &Done) {
        let flow = ended.saturating_duration_since(due);
        self.recent.flow.record(flow);
        if let Some(sample) = &mut self.sample {
            sample.add(done.created);
        }
        let Some(times) = self.times else { return };
        let inside = ended >= times.measured_from && ended < times.end;
        self.finished_inside += u64::from(inside);
        let counts = match self.counted {
            Counted::ByEnd => inside,
            Counted::ByDue => due >= times.measured_from,
        };
        if !counts {
            return;
        }
        self.flow.record(flow);
        for (latencies, took) in self.steps.iter_mut().zip(done.took) {
            took.into_iter().for_each(|took| latencies.record(took));
        }
    }

    fn flow_failed(&mut self, due: Instant, ended: Instant, problem: Problem) {
        self.recent.errors += 1;
        let Some(times) = self.times else { return };
        let counts = match self.counted {
            Counted::ByEnd => ended >= times.measured_from,
            Counted::ByDue => due >= times.measured_from,
        };
        if counts {
            self.errors.count(&problem.kind, 1);
        }
        self.first_problem.get_or_insert(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Step;
    use crate::request::{ID_BYTES, KEY_BYTES};

    fn times(start: Instant) -> Times {
        let second = |n| start + Duration::from_secs(n);
        Times { start, measured_from: second(1), end: second(3) }
    }

    fn done() -> Outcome {
        let [account, payment] = [[b'0'; ID_BYTES]; 2];
        let created = Created { key: [b'0'; KEY_BYTES], account, payment };
        Outcome::Done(Done { took: [Some(Duration::from_millis(1)); 3], created })
    }

    fn failed(kind: &str) -> Outcome {
        Outcome::Failed(Problem { kind: kind.to_owned(), answer: None })
    }

    /// Counts flows given as (due, ended) in tenths of a second, `true` for success; answers
    /// (ok, errors, finished inside).
    fn check(counted: Counted, flows: &[(u64, u64, bool)]) -> (u64, u64, u64) {
        let start = Instant::now();
        let at = |tenths| start + Duration::from_millis(tenths * 100);
        let mut tally = Tally::new(counted);
        tally.set_times(times(start));
        for (due, ended, ok) in flows {
            let outcome = if *ok { done() } else { failed("account 500") };
            tally.flow_ended(at(*due), at(*ended), outcome);
        }
        (tally.flow.count(), tally.errors.total(), tally.finished_inside)
    }

    #[test]
    fn closed_loops_count_by_end() {
        // Warm-up; across the beginning; inside; across the end.
        let done = [(0, 9, true), (9, 11, true), (11, 12, true), (29, 31, true)];
        assert_eq!(check(Counted::ByEnd, &done), (2, 0, 2));
        // A failure after the end is counted: it may be what the run was cut off for.
        let failed = [(0, 9, false), (9, 11, false), (29, 60, false)];
        assert_eq!(check(Counted::ByEnd, &failed), (0, 2, 0));
    }

    #[test]
    fn open_loops_count_by_due() {
        let done = [(0, 9, true), (9, 11, true), (11, 12, true), (29, 31, true)];
        assert_eq!(check(Counted::ByDue, &done), (2, 0, 2));
        let failed = [(0, 9, false), (9, 11, false), (29, 60, false)];
        assert_eq!(check(Counted::ByDue, &failed), (0, 1, 0));
    }

    #[test]
    fn abandoned_flows_are_failures_where_they_were_due() {
        let start = Instant::now();
        let at = start + Duration::from_secs(2);
        for (counted, abandoned, errors) in [(Counted::ByEnd, 1, 0), (Counted::ByDue, 0, 1)] {
            let mut tally = Tally::new(counted);
            tally.set_times(times(start));
            tally.flow_ended(at, at, Outcome::Abandoned(Step::Payment));
            assert_eq!((tally.abandoned, tally.errors.total()), (abandoned, errors));
        }
    }

    #[test]
    fn quantiles_are_precise_to_a_thousandth() {
        let mut latencies = Latencies::default();
        for ms in 1..=1000 {
            latencies.record(Duration::from_millis(ms));
        }
        let near = |value: f64, expected: f64| (value - expected).abs() <= expected / 1000.0;
        assert!(near(latencies.quantile_ms(0.5), 500.0));
        assert!(near(latencies.quantile_ms(0.95), 950.0));
        assert!(near(latencies.quantile_ms(0.99), 990.0));
        assert!(near(latencies.max_ms(), 1000.0));
        latencies.record(Duration::from_secs(3600));
        assert!(near(latencies.max_ms(), 600_000.0));
    }

    #[test]
    fn tallies_of_threads_are_added() {
        let start = Instant::now();
        let at = start + Duration::from_secs(2);
        let mut sum = Tally::new(Counted::ByEnd);
        for kind in ["account 500", "account 500", "payment timeout"] {
            let mut tally = Tally::new(Counted::ByEnd);
            tally.set_times(times(start));
            tally.flow_ended(at, at, done());
            tally.flow_ended(at, at, failed(kind));
            tally.refused(at, Duration::from_millis(3));
            sum.add(tally);
        }
        assert_eq!((sum.flow.count(), sum.errors.total(), sum.refusals.count()), (3, 3, 3));
        assert_eq!(sum.errors.0["account 500"], 2);
        assert_eq!(sum.first_problem.unwrap().kind, "account 500");
    }

    #[test]
    fn error_kinds_are_bounded() {
        let mut errors = ErrorKinds::default();
        for n in 0..2 * KINDS_MAX {
            errors.count(&format!("account {n}"), 1);
        }
        assert_eq!(errors.0.len(), KINDS_MAX + 1);
        assert_eq!(errors.total(), 2 * KINDS_MAX as u64);
    }
}
