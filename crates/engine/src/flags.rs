//! Publishes committed feature flags to a process's flag cache.
//!
//! An environment's row changes with every change of its secrets and of what is defined there, and
//! then has the number of that journal row: a query for the environments behind a number misses
//! none, and reads nothing of payments. The process that commits a change wakes the follower; where
//! another one commits, the follower polls.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::flag::environment::{ENVIRONMENTS_OF_RELAY_MAX, Environment};
use domain::{EnvironmentId, Seq, TenantNo};
use tokio::sync::watch;

use crate::periodic::{self, Job, Pass, Periodic};
use crate::ports::{Audience, EnvironmentFile};
use crate::{Engine, Unavailable};

/// How often it polls where another process may commit.
pub const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often it polls where this process commits, although it is woken: a commit in doubt can turn out
/// to have happened later.
const LOOK_ANYWAY_EVERY: Duration = Duration::from_secs(5);

/// How long to wait after a read that failed, at first and at most.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(4));

/// How many environments it asks for at a time: more than a command changes.
const ENVIRONMENTS_MAX: usize = 256;
const _: () = assert!(ENVIRONMENTS_MAX > ENVIRONMENTS_OF_RELAY_MAX);

/// Publishes every environment to `audience`, and then every change once it is durable,
/// until `stop` is ready. One follower serves all engines of a process that share
/// [`crate::Options::flags`].
pub async fn follow(engine: Engine, audience: Arc<dyn Audience>, stop: impl Future<Output = ()>) {
    let look_every = if engine.is_front() { LOOK_EVERY } else { LOOK_ANYWAY_EVERY };
    let (first_backoff, backoff_max) = AFTER_FAILURE;
    let follower = Follower {
        changes: engine.flags_changed(),
        engine,
        audience,
        upto: Seq(0),
        published: HashMap::new(),
        has_caught_up: false,
    };
    let periodic = Periodic::every(look_every).with_backoff(first_backoff, backoff_max);
    periodic.run(stop, follower).await;
}

/// A page that may have been cut within what one command changed, without that command: the number
/// that is asked behind next would pass over the rest of it.
fn without_last_command(mut page: Vec<Environment>) -> Vec<Environment> {
    if let Some(last) = page.last().map(|it| it.revision.seq) {
        page.retain(|it| it.revision.seq != last);
    }
    page
}

struct Follower {
    engine: Engine,
    audience: Arc<dyn Audience>,
    /// The last published change.
    upto: Seq,
    published: HashMap<EnvironmentId, Published>,
    changes: watch::Receiver<()>,
    has_caught_up: bool,
}

/// The state of an environment that was published last.
struct Published {
    version: i64,
    /// The last change of its secrets.
    secrets: Option<Seq>,
}

impl Published {
    fn of(file: &EnvironmentFile) -> Self {
        let secrets = file.secrets.iter().map(|secret| secret.revision.seq).max();
        Self { version: file.environment.version, secrets }
    }
}

impl Job for Follower {
    async fn pass(&mut self) -> Pass {
        if let Err(error) = self.catch_up().await {
            tracing::warn!(error = %error, "failed to read changes of feature flags; retried");
            return Pass::Failed;
        }
        if !std::mem::replace(&mut self.has_caught_up, true) {
            self.audience.caught_up();
        }
        Pass::Idle
    }

    async fn woken(&mut self) {
        periodic::changed(&mut self.changes).await;
    }
}

impl Follower {
    async fn catch_up(&mut self) -> Result<(), Unavailable> {
        loop {
            let after = self.upto;
            let changed = self
                .engine
                .read(move |queries| queries.environments_changed(after, ENVIRONMENTS_MAX))
                .await?;
            let is_last = changed.len() < ENVIRONMENTS_MAX;
            let changed = if is_last { changed } else { without_last_command(changed) };
            let mut whole = vec![];
            let mut read = Ok(());
            for environment in changed {
                read = self.publish(&environment, &mut whole).await;
                if read.is_err() {
                    break;
                }
                self.upto = environment.revision.seq;
            }
            // Also what was read before it failed: it is not asked for again.
            if !whole.is_empty() {
                self.audience.environments(whole);
            }
            read?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Publishes what changed in an environment. Where it is new, or its secrets changed, all of it is
    /// published together with the others in `all_of`.
    async fn publish(
        &mut self,
        environment: &Environment,
        all_of: &mut Vec<EnvironmentFile>,
    ) -> Result<(), Unavailable> {
        let (no, id) = (environment.tenant, environment.id);
        let before = self.published.get(&id);
        let Some(file) = self.file(no, id, before.map(|published| published.version)).await? else {
            tracing::error!(environment.id = %id, "the row of a flag environment is missing; its users keep what was published before");
            return Ok(());
        };
        let published = Published::of(&file);
        match before {
            Some(before) if before.secrets == published.secrets => {
                if !file.definitions.is_empty() {
                    self.audience.changed(id, file.definitions);
                }
                self.published.insert(id, published);
            }
            Some(_) => {
                if let Some(whole) = self.file(no, id, None).await? {
                    self.published.insert(id, Published::of(&whole));
                    all_of.push(whole);
                }
            }
            None => {
                self.published.insert(id, published);
                all_of.push(file);
            }
        }
        Ok(())
    }

    async fn file(
        &self,
        no: TenantNo,
        id: EnvironmentId,
        newer_than: Option<i64>,
    ) -> Result<Option<EnvironmentFile>, Unavailable> {
        self.engine.read(move |queries| queries.environment_file(no, id, newer_than)).await
    }
}

#[cfg(test)]
mod tests {
    use domain::{Revision, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn environment(key: u128, seq: i64) -> Environment {
        Environment {
            tenant: TenantNo(1),
            id: EnvironmentId::new(Uuid::from_u128(key)),
            project: "default".to_owned(),
            key: key.to_string(),
            name: String::new(),
            version: 0,
            definitions: 0,
            definitions_bytes: 0,
            secrets: 0,
            changes_need_approval: false,
            changes_waiting: 0,
            created_at: Timestamp(0),
            revision: Revision::first(Seq(seq)),
        }
    }

    /// A command that changes several environments is published as a whole.
    #[test]
    fn a_page_does_not_end_within_a_command() {
        let page = [(1, 3), (2, 4), (3, 5), (4, 5)].map(|(key, seq)| environment(key, seq));
        let kept: Vec<String> =
            without_last_command(page.to_vec()).into_iter().map(|it| it.key).collect();
        assert_eq!(kept, ["1", "2"]);
        assert!(without_last_command(vec![]).is_empty());
    }
}
