//! Keeps what a process has of feature flags in memory as they are committed.
//!
//! An environment's row changes with every change of its secrets and of what is defined there, and
//! then has the number of that journal row: whoever asks for the environments behind a number misses
//! none, and reads nothing of payments. The process that commits a change is woken by that; where
//! another one commits, the follower looks again and again.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::environment::{ENVIRONMENTS_OF_RELAY_MAX, Environment};
use domain::{EnvironmentId, Seq, TenantNo};

use crate::ports::{Audience, EnvironmentFile};
use crate::{Engine, Unavailable};

/// How often it looks where another process may commit.
pub const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often it looks where this process commits, although it is woken: a commit in doubt can turn out
/// to have happened later.
const LOOK_ANYWAY_EVERY: Duration = Duration::from_secs(5);

/// How long to wait after a read that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// How many environments it asks for at a time: more than a command changes.
const ENVIRONMENTS_MAX: usize = 256;
const _: () = assert!(ENVIRONMENTS_MAX > ENVIRONMENTS_OF_RELAY_MAX);

/// Tells `audience` of every environment that there is, and then of every change once it is durable,
/// until `stop` is ready. One follower serves all engines of a process that share
/// [`crate::Options::flags`].
pub async fn follow(engine: Engine, audience: Arc<dyn Audience>, stop: impl Future<Output = ()>) {
    let mut follower = Follower { engine, audience, upto: Seq(0), told: HashMap::new() };
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        () = follower.run() => {}
        () = &mut stop => {}
    }
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
    /// The last change that was told.
    upto: Seq,
    told: HashMap<EnvironmentId, Told>,
}

/// What of an environment was told.
struct Told {
    version: i64,
    /// The last change of its secrets.
    secrets: Option<Seq>,
}

impl Told {
    fn of(file: &EnvironmentFile) -> Self {
        let secrets = file.secrets.iter().map(|secret| secret.revision.seq).max();
        Self { version: file.environment.version, secrets }
    }
}

impl Follower {
    async fn run(&mut self) {
        let (mut is_first, mut changes) = (true, self.engine.flags_changed());
        let look_every = if self.engine.is_front() { LOOK_EVERY } else { LOOK_ANYWAY_EVERY };
        loop {
            match self.catch_up().await {
                Ok(()) if is_first => {
                    is_first = false;
                    self.audience.caught_up();
                }
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(error = %error, "changes of feature flags wait to be read");
                    tokio::time::sleep(AFTER_FAILURE).await;
                    continue;
                }
            }
            tokio::select! {
                Ok(()) = changes.changed() => {}
                () = tokio::time::sleep(look_every) => {}
            }
        }
    }

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
                read = self.tell(&environment, &mut whole).await;
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

    /// Tells what changed in an environment. Where it is new, or its secrets changed, all of it is to
    /// be told, and comes to the others of those.
    async fn tell(
        &mut self,
        environment: &Environment,
        all_of: &mut Vec<EnvironmentFile>,
    ) -> Result<(), Unavailable> {
        let (no, id) = (environment.tenant, environment.id);
        let before = self.told.get(&id);
        let Some(file) = self.file(no, id, before.map(|told| told.version)).await? else {
            tracing::error!(environment.id = %id, "an environment has gone");
            return Ok(());
        };
        let told = Told::of(&file);
        match before {
            Some(before) if before.secrets == told.secrets => {
                if !file.definitions.is_empty() {
                    self.audience.changed(id, file.definitions);
                }
                self.told.insert(id, told);
            }
            Some(_) => {
                if let Some(whole) = self.file(no, id, None).await? {
                    self.told.insert(id, Told::of(&whole));
                    all_of.push(whole);
                }
            }
            None => {
                self.told.insert(id, told);
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
            secrets: 0,
            changes_need_approval: false,
            changes_waiting: 0,
            created_at: Timestamp(0),
            revision: Revision::first(Seq(seq)),
        }
    }

    /// A command that changes several environments is told of as a whole.
    #[test]
    fn a_page_does_not_end_within_a_command() {
        let page = [(1, 3), (2, 4), (3, 5), (4, 5)].map(|(key, seq)| environment(key, seq));
        let kept: Vec<String> =
            without_last_command(page.to_vec()).into_iter().map(|it| it.key).collect();
        assert_eq!(kept, ["1", "2"]);
        assert!(without_last_command(vec![]).is_empty());
    }
}
