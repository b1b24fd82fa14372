//! Waiting until nothing is due, which the test clock does after it was moved.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::Seq;
use tokio::sync::watch;

use super::Engine;
use crate::ports::due_outcomes;

/// How long a look at what is due is followed by the next one.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Engine {
    /// Makes [`Engine::quiesce`] wait for a follower of the journal as well; `position` is the last
    /// row that it has dealt with.
    pub fn waits_for(&self, position: watch::Receiver<Seq>) {
        self.followers().push(position);
    }

    fn followers(&self) -> MutexGuard<'_, Vec<watch::Receiver<Seq>>> {
        self.shared.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a front: a partition is in the same process from now on, and has the same clock.
    pub fn partition_came(&self, partition: i32, engine: Engine) {
        self.partitions_here().insert(partition, engine);
    }

    /// Of a front: the partition is in this process no more.
    pub fn partition_went(&self, partition: i32) {
        self.partitions_here().remove(&partition);
    }

    fn partitions_here(&self) -> MutexGuard<'_, BTreeMap<i32, Engine>> {
        self.shared.partitions_here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is due is done by these engines: this one, or those of the partitions in a front's process.
    fn working_here(&self) -> Vec<Engine> {
        match self.is_front() {
            true => self.partitions_here().values().cloned().collect(),
            false => vec![self.clone()],
        }
    }

    /// Waits until the followers have caught up with the journal, no timer is due and no outcome is due to be
    /// asked about; false where that takes longer than `timeout`. Of a front: in all partitions of this process.
    pub async fn quiesce(&self, timeout: Duration) -> bool {
        self.pay_attention().await;
        let deadline = Instant::now() + timeout;
        for engine in self.working_here() {
            while !engine.is_quiet().await {
                if Instant::now() >= deadline {
                    return false;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        true
    }

    async fn is_quiet(&self) -> bool {
        if !self.have_followers_caught_up() || !self.shared.calls.is_empty() {
            return false;
        }
        let now = self.clock().now();
        let due = self.read(move |queries| {
            // The commit of a timer's command clears the timer before its call has begun: the row of the awaited
            // outcome, which is looked for after the timers, says that it will.
            Ok(queries.timers_due(now, None, 1)?.is_empty()
                && due_outcomes(queries, now, 1)?.is_empty()
                && queries.deliveries_due(now, None, 1)?.is_empty()
                && queries.outstanding_orphans()?.is_empty())
        });
        due.await.unwrap_or(false)
    }

    fn have_followers_caught_up(&self) -> bool {
        let head = *self.shared.head.borrow();
        self.followers().iter().all(|position| *position.borrow() >= head)
    }

    /// Wakes the timers: the test clock has moved.
    pub async fn pay_attention(&self) {
        for engine in self.working_here() {
            engine.shared.attention.notify_waiters();
        }
        tokio::task::yield_now().await;
    }
}
