//! Push notifications: follows the journal and posts each event of a tenant that registered a
//! callback, as Kill Bill does, at least once.
//!
//! Events of one account go out in the order of the journal, one after another, on a lane of the
//! tenant's callback; lanes and callbacks do not wait for each other. A delivery that fails is
//! postponed to Kill Bill's schedule as a row in the store and does not hold up the events after
//! it: order is kept among first attempts only. A callback that takes events more slowly than they
//! come has the excess postponed for a few seconds; one that does not answer at all is tried once
//! in a while, and what comes in between counts as failed. So nothing waits in memory without
//! bounds, and the cursor goes on: it passes a row when all of its events are delivered or
//! postponed, in the same commit as the postponement.

mod body;
mod callback;
mod follower;
mod lanes;
mod post;

use std::sync::Arc;
use std::time::Duration;

use domain::Seq;
use engine::Engine;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::ClientConfig;

pub use body::body;

pub use callback::{CallbackError, Reach, URL_BYTES_MAX, validate_callback};
pub use post::Caller;

/// The follower's name in the store.
pub const FOLLOWER: &str = "push";

/// When a failed delivery is tried again, counted in domain time from the failure; after the last
/// one it is dropped. Kill Bill's schedule.
pub const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_secs(15 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(12 * 3600),
    Duration::from_secs(24 * 3600),
];

/// How the follower is set up.
#[derive(Clone)]
pub struct Options {
    /// Which addresses callbacks may lead to.
    pub reach: Reach,
    /// Deliveries to one callback at the same time.
    pub lanes: usize,
    /// How long a callback may take to answer.
    pub timeout: Duration,
    /// How TLS servers prove who they are.
    pub tls: Arc<ClientConfig>,
}

impl Options {
    /// The defaults: 32 lanes, 15 s, the public web's certificate authorities.
    #[must_use]
    pub fn new(reach: Reach) -> Self {
        Self { reach, lanes: 32, timeout: Duration::from_secs(15), tls: post::web_tls() }
    }
}

/// Starts the follower on the current tokio runtime. It runs until the task is aborted, which loses
/// nothing: what was not recorded is delivered again after the next start.
#[must_use]
pub fn start(engine: Engine, options: Options) -> JoinHandle<()> {
    const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);
    // Registered once: one that panicked must not be waited for.
    let position = watch::Sender::new(Seq(0));
    engine.waits_for(position.subscribe());
    tokio::spawn(async move {
        loop {
            let mut running = tokio::task::JoinSet::new();
            running.spawn(follower::run(engine.clone(), options.clone(), position.clone()));
            if matches!(running.join_next().await, Some(Err(_))) {
                tracing::error!("the push follower panicked and starts again from its cursor");
            }
            tokio::time::sleep(PAUSE_AFTER_PANIC).await;
        }
    })
}
