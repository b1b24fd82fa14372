//! First attempts at Kill Bill's callback that wait until their event has an age.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use engine::ports::CALLBACK;
use tokio::time::{Instant, sleep_until};

use crate::lanes::Job;
use crate::targets::Target;

/// How many wait at most, but for those of the batch that reaches it: with the default delay 65,000 a second.
const DELAYED_MAX: usize = 16_384;

/// Attempts that wait, in the order of the journal.
pub(crate) struct Delayed {
    delay: Duration,
    waiting: VecDeque<(Instant, Job, Arc<Target>)>,
}

impl Delayed {
    pub(crate) const fn new(delay: Duration) -> Self {
        Self { delay, waiting: VecDeque::new() }
    }

    /// Whether no more should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= DELAYED_MAX
    }

    /// Keeps an attempt that is for later; gives back one that is for now.
    pub(crate) fn unless_later<'t>(
        &mut self,
        (job, target): (Job, &'t Arc<Target>),
        now: Timestamp,
    ) -> Option<(Job, &'t Arc<Target>)> {
        if job.id.endpoint != CALLBACK || self.delay.is_zero() {
            return Some((job, target));
        }
        let age_us = u64::try_from(now.0.saturating_sub(job.committed_at.0)).unwrap_or(0);
        let left = self.delay.saturating_sub(Duration::from_micros(age_us));
        // None overtakes one that waits: those of an account arrive in order.
        if left.is_zero() && self.waiting.is_empty() {
            return Some((job, target));
        }
        self.waiting.push_back((Instant::now() + left, job, Arc::clone(target)));
        None
    }

    /// Waits until the first one is due; for ever where none waits.
    pub(crate) async fn is_due(&self) {
        match self.waiting.front() {
            Some((due, ..)) => sleep_until(*due).await,
            None => std::future::pending().await,
        }
    }

    /// The next one that is due.
    pub(crate) fn next_due(&mut self) -> Option<(Job, Arc<Target>)> {
        let (due, ..) = self.waiting.front()?;
        if *due > Instant::now() {
            return None;
        }
        self.waiting.pop_front().map(|(_, job, target)| (job, target))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::{Seq, TenantNo, WebhookEndpointId};
    use engine::ports::DeliveryId;
    use uuid::Uuid;

    use super::*;
    use crate::lanes::Origin;

    const DELAY: Duration = Duration::from_millis(250);

    fn job(seq: i64, endpoint: WebhookEndpointId, committed_at_ms: i64) -> Job {
        Job {
            id: DeliveryId { seq: Seq(seq), ordinal: 0, endpoint },
            tenant: TenantNo(1),
            account: None,
            kind: "account.created",
            body: Bytes::new(),
            attempts: 0,
            origin: Origin::Journal,
            committed_at: Timestamp(committed_at_ms * 1_000),
        }
    }

    /// The journal rows of the deliveries that are due.
    fn due(delayed: &mut Delayed) -> Vec<i64> {
        std::iter::from_fn(|| delayed.next_due()).map(|(job, _)| job.id.seq.0).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn events_for_the_callback_wait_until_they_are_old_enough_and_in_order() {
        let target = Arc::new(Target::for_test("http://a.example/"));
        let mut delayed = Delayed::new(DELAY);
        let mut passes = |job, now_ms: i64| {
            delayed.unless_later((job, &target), Timestamp(now_ms * 1_000)).is_some()
        };
        assert!(passes(job(1, CALLBACK, 0), 250), "it is old enough");
        assert!(passes(job(2, WebhookEndpointId::new(Uuid::from_u128(7)), 250), 250));
        assert!(!passes(job(3, CALLBACK, 200), 250));
        assert!(!passes(job(4, CALLBACK, 0), 250), "one before it waits");
        assert!(!passes(job(5, CALLBACK, 900), 250), "a clock that went back");
        assert_eq!(due(&mut delayed), [0; 0]);
        let started = Instant::now();
        delayed.is_due().await;
        assert_eq!(started.elapsed().as_millis(), 200);
        assert_eq!(due(&mut delayed), [3, 4]);
        delayed.is_due().await;
        assert_eq!(started.elapsed(), DELAY);
        assert_eq!(due(&mut delayed), [5]);
    }

    #[test]
    fn without_a_delay_none_waits() {
        let target = Arc::new(Target::for_test("http://a.example/"));
        let mut delayed = Delayed::new(Duration::ZERO);
        assert!(delayed.unless_later((job(1, CALLBACK, 0), &target), Timestamp(0)).is_some());
        assert!(!delayed.is_full());
    }
}
