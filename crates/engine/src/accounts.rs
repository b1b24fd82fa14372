//! Publishes what accounts are entitled to, to a process's users of feature flags and to watches of single accounts.
//!
//! An account's row of entitlements has the number of its last journal row: a query for those behind a number
//! misses none. Accounts lie in all partitions, so that there is a number for each. The process that commits a
//! change wakes the follower; where another one commits, the follower polls. What accounts used is followed the
//! same way, once a second: an account that counts thousands of events a second is looked at once.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::Seq;
use domain::entitlement::Entitlements;
use tokio::sync::watch;

use crate::flags::LOOK_EVERY;
use crate::periodic::{self, Job, Pass, Periodic};
use crate::ports::{ChangedAccount, EntitlementAudience, Queries, StoreError};
use crate::{Engine, Unavailable};

/// How often it looks at what accounts used.
const USED_EVERY: Duration = Duration::from_secs(1);

/// How often it polls where this process commits, although it is woken: for what accounts used, and because a commit
/// in doubt can turn out to have happened later.
const LOOK_ANYWAY_EVERY: Duration = USED_EVERY;

/// How long to wait after a read that failed, at first and at most.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(4));

/// How many accounts it asks for at a time.
const ACCOUNTS_MAX: usize = 256;

/// Publishes every change of what accounts are entitled to, from now on, once it is durable, until `stop` is ready.
/// Until [`EntitlementAudience::follows`] no account may be looked up: a change in between would be missed.
pub async fn follow(
    engine: Engine,
    audiences: Vec<Arc<dyn EntitlementAudience>>,
    stop: impl Future<Output = ()>,
) {
    let look_every = if engine.is_front() { LOOK_EVERY } else { LOOK_ANYWAY_EVERY };
    let (first_backoff, backoff_max) = AFTER_FAILURE;
    let (changes, used_at) = (engine.entitlements_changed(), Instant::now());
    let (upto, used_upto) = (vec![], vec![]);
    let follower = Follower { engine, audiences, upto, used_upto, used_at, changes };
    let periodic = Periodic::every(look_every).with_backoff(first_backoff, backoff_max);
    periodic.run(stop, follower).await;
}

struct Follower {
    engine: Engine,
    audiences: Vec<Arc<dyn EntitlementAudience>>,
    /// The last published change of each partition; empty until it begins.
    upto: Vec<Seq>,
    /// The last change of what accounts used, of each partition.
    used_upto: Vec<Seq>,
    /// When it looked at these.
    used_at: Instant,
    changes: watch::Receiver<()>,
}

impl Job for Follower {
    async fn pass(&mut self) -> Pass {
        match self.catch_up().await {
            Ok(()) => Pass::Idle,
            Err(error) => {
                tracing::warn!(error = %error, "failed to read what accounts are entitled to; retried");
                Pass::Failed
            }
        }
    }

    async fn woken(&mut self) {
        periodic::changed(&mut self.changes).await;
    }
}

impl Follower {
    async fn catch_up(&mut self) -> Result<(), Unavailable> {
        if self.upto.is_empty() {
            self.upto = self.engine.read(|queries| queries.journal_heads()).await?;
            self.used_upto.clone_from(&self.upto);
            self.audiences.iter().for_each(|it| it.follows());
        }
        for partition in 0..self.upto.len() {
            loop {
                let after = self.upto[partition];
                let audiences = self.audiences.clone();
                let read = move |queries: &dyn Queries| shown_after(queries, after, &audiences);
                let (changed, shown) = self.engine.read(read).await?;
                let is_last = changed.len() < ACCOUNTS_MAX;
                if let Some(last) = changed.last() {
                    self.upto[partition] = last.seq;
                }
                if !shown.is_empty() {
                    self.audiences.iter().for_each(|it| it.changed(&shown));
                }
                if is_last {
                    break;
                }
            }
        }
        if self.used_at.elapsed() >= USED_EVERY {
            self.catch_up_used().await?;
            self.used_at = Instant::now();
        }
        Ok(())
    }

    async fn catch_up_used(&mut self) -> Result<(), Unavailable> {
        for partition in 0..self.used_upto.len() {
            loop {
                let after = self.used_upto[partition];
                let changed =
                    self.engine.read(move |queries| queries.usage_changed(after, ACCOUNTS_MAX));
                let changed = changed.await?;
                let is_last = changed.len() < ACCOUNTS_MAX;
                if let Some((last, _)) = changed.last() {
                    self.used_upto[partition] = *last;
                    let accounts: Vec<_> = changed.iter().map(|(_, account)| *account).collect();
                    self.audiences.iter().for_each(|it| it.used(&accounts));
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The accounts that changed after a journal row, and the entitlements of those that somebody shows: few of many
/// accounts have a user who is connected.
fn shown_after(
    queries: &dyn Queries,
    after: Seq,
    audiences: &[Arc<dyn EntitlementAudience>],
) -> Result<(Vec<ChangedAccount>, Vec<Entitlements>), StoreError> {
    let changed = queries.entitlements_changed(after, ACCOUNTS_MAX)?;
    let is_shown = |it: &&ChangedAccount| audiences.iter().any(|audience| audience.shows(it));
    let shown = changed.iter().filter(is_shown);
    let shown = shown.map(|it| queries.entitlements(it.tenant, it.account));
    let shown: Result<Vec<_>, StoreError> = shown.filter_map(Result::transpose).collect();
    Ok((changed, shown?))
}
