//! Records whose signature does not hold: all are counted, few are logged and stored.

use std::time::{Duration, Instant};

use crate::signature::SignatureError;

/// Records of which more than a count remains, in each [`STORED_EVERY`] and process. A client that can write to
/// a topic can write millions, and at most 10,000 dead letters are listed.
const STORED_MAX: u32 = 16;
const STORED_EVERY: Duration = Duration::from_secs(3_600);

/// Counts the refused records of a topic, by reason.
pub(crate) struct RefusedRecords([metrics::Counter; SignatureError::ALL.len()]);

impl RefusedRecords {
    /// The counters are exported from now on, as 0. `class` is `payment`, `balance` or `reply`.
    pub(crate) fn new(class: &'static str) -> Self {
        Self(SignatureError::ALL.map(|error| {
            let reason = error.label();
            metrics::counter!("faregate_queue_refused_records_total", "class" => class, "reason" => reason)
        }))
    }

    pub(crate) fn count(&self, error: SignatureError) {
        let found = SignatureError::ALL.iter().zip(&self.0).find(|(it, _)| **it == error);
        found.expect("all of them are there").1.increment(1);
    }
}

/// How many refused records may still be logged and stored.
pub(crate) struct Allowance {
    since: Instant,
    stored: u32,
}

impl Allowance {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { since: now, stored: 0 }
    }

    /// Whether another record may be logged and stored.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        if now.duration_since(self.since) >= STORED_EVERY {
            *self = Self::new(now);
        }
        let may = self.stored < STORED_MAX;
        self.stored += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_refused_records_are_stored_in_an_hour() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let taken = |allowance: &mut Allowance, at| (0..100).filter(|_| allowance.take(at)).count();
        assert_eq!(taken(&mut allowance, start), 16);
        assert_eq!(taken(&mut allowance, start + STORED_EVERY - Duration::from_secs(1)), 0);
        assert_eq!(taken(&mut allowance, start + STORED_EVERY), 16);
    }
}
