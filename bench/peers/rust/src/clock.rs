//! Operations per second of CPU time.

use std::hint::black_box;
use std::time::Instant;

use rustix::time::{clock_gettime, ClockId};

/// How long to measure.
pub struct Clock {
    /// How long a round takes, by the wall.
    pub seconds: f64,
    /// The median of so many is the result.
    pub rounds: usize,
}

/// Operations between two looks at the clock.
const BATCH: usize = 256;

impl Clock {
    /// The median rate of an operation that is given the number of its turn; warm.
    pub fn rate<T>(&self, mut operation: impl FnMut(usize) -> T) -> f64 {
        let mut turn = 0;
        let mut round = || {
            let (started, cpu_before) = (Instant::now(), cpu_seconds());
            let first = turn;
            while started.elapsed().as_secs_f64() < self.seconds {
                for _ in 0..BATCH {
                    black_box(operation(black_box(turn)));
                    turn += 1;
                }
            }
            (turn - first) as f64 / (cpu_seconds() - cpu_before)
        };
        round();
        let mut rates: Vec<f64> = (0..self.rounds).map(|_| round()).collect();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }
}

/// What this process has used so far.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
