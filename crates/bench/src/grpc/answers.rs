//! Results of requests: response times of those that succeeded, and failures by kind.

use std::time::Duration;

use super::plan::Problem;
use crate::tally::{ErrorKinds, Latencies};

/// Response times and failures.
#[derive(Default)]
pub struct Answers {
    /// Response times of requests that succeeded.
    pub latencies: Latencies,
    total: Duration,
    shortest: Option<Duration>,
    longest: Duration,
    /// Requests that failed, by kind.
    pub errors: ErrorKinds,
    /// The first failure.
    pub first_problem: Option<Problem>,
}

impl Answers {
    /// Counts a request that ended after `took`.
    pub fn ended(&mut self, took: Duration, outcome: Result<(), Problem>) {
        match outcome {
            Ok(()) => {
                self.latencies.record(took);
                self.total += took;
                self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
                self.longest = self.longest.max(took);
            }
            Err(problem) => {
                self.errors.count(&problem.kind, 1);
                self.first_problem.get_or_insert(problem);
            }
        }
    }

    /// Adds the counts of another one.
    pub fn add(&mut self, other: Self) {
        self.latencies.add(&other.latencies);
        self.total += other.total;
        self.shortest = self.shortest.into_iter().chain(other.shortest).min();
        self.longest = self.longest.max(other.longest);
        self.errors.add(&other.errors);
        self.first_problem = self.first_problem.take().or(other.first_problem);
    }

    /// How many succeeded.
    pub fn ok(&self) -> u64 {
        self.latencies.count()
    }

    /// The shortest response time; `None`: nothing succeeded.
    pub const fn shortest(&self) -> Option<Duration> {
        self.shortest
    }

    /// The average response time.
    #[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
    pub fn average(&self) -> Option<Duration> {
        (self.ok() > 0).then(|| self.total.div_f64(self.ok() as f64))
    }

    /// The longest response time.
    pub fn longest(&self) -> Option<Duration> {
        self.shortest.map(|_| self.longest)
    }

    /// A quantile of the response times, precise to a thousandth.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let time = Duration::from_secs_f64(self.latencies.quantile_ms(quantile) / 1000.0);
        self.shortest.map(|shortest| time.clamp(shortest, self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str) -> Problem {
        Problem { kind: kind.to_owned(), details: String::new() }
    }

    #[test]
    fn counts_of_clients_are_added() {
        let ms = Duration::from_millis;
        let mut sum = Answers::default();
        assert_eq!((sum.shortest(), sum.average(), sum.longest()), (None, None, None));
        for took in [ms(30), ms(10), ms(80)] {
            let mut one = Answers::default();
            one.ended(took, Ok(()));
            one.ended(ms(1), Err(problem("payment UNAVAILABLE")));
            one.errors.count("timeout", 2);
            sum.add(one);
        }
        assert_eq!((sum.ok(), sum.errors.total()), (3, 9));
        let kinds = "error           3 x payment UNAVAILABLE\nerror           6 x timeout\n";
        assert_eq!(sum.errors.to_string(), kinds);
        let times = (sum.shortest(), sum.average(), sum.longest());
        assert_eq!(times, (Some(ms(10)), Some(ms(40)), Some(ms(80))));
        assert_eq!(sum.first_problem, Some(problem("payment UNAVAILABLE")));
    }

    #[test]
    fn failures_have_no_response_time() {
        let mut answers = Answers::default();
        answers.ended(Duration::from_millis(1), Err(problem("payment timeout")));
        assert_eq!((answers.shortest(), answers.quantile(0.5)), (None, None));
    }
}
