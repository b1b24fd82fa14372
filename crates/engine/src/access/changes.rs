//! Changes of users, roles and tenants that another process commits: a front looks for them, so that a
//! withdrawn secret or right is not believed for as long as it is cached.

use std::future::Future;
use std::time::Duration;

use domain::Seq;

use crate::Engine;
use crate::periodic::{Job, Pass, Periodic};

/// How often they are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Looks for changes until `stop` is ready. While it cannot, what is cached expires as usual.
pub async fn follow_changes(engine: Engine, stop: impl Future<Output = ()>) {
    Periodic::every(LOOK_EVERY).run(stop, Follower { engine, known: None }).await;
}

struct Follower {
    engine: Engine,
    /// The newest change that was seen.
    known: Option<Seq>,
}

impl Job for Follower {
    async fn pass(&mut self) -> Pass {
        match self.engine.read(|queries| queries.access_head()).await {
            Ok(head) => {
                if self.known.replace(head) != Some(head) {
                    self.engine.access_changed();
                }
                Pass::Idle
            }
            Err(error) => {
                tracing::debug!(error = %error, "failed to look for changes of users and tenants");
                Pass::Failed
            }
        }
    }
}
