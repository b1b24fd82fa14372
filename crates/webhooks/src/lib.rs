//! Webhooks: a follower of the journal posts each event to the webhook endpoints of its tenant, at
//! least once. Kill Bill's callback is one of them.
//!
//! The events of an account are delivered in the order of the journal, one after another, on a lane of
//! the endpoint. Lanes and endpoints are independent of each other. A failed delivery is postponed
//! according to the endpoint's schedule, as a row in the store, and does not delay later events: only
//! first attempts are in order. If an endpoint is slower than its events, the excess is postponed for a
//! second or more. An endpoint that does not respond at all is tried every half minute, and the
//! deliveries in between fail without an attempt. Thus memory is bounded and the cursor advances: it
//! passes a row when all events of the row are delivered or postponed, in the same commit as the
//! postponement. What is not done within a second becomes a row too, while it goes on in memory: an endpoint
//! that is slow holds the cursor of the others no longer than that, and a restart repeats no more.
//!
//! A first attempt at Kill Bill's callback waits until the event is as old as the options say, in the order of the
//! journal; a bounded number of events wait, and above it the journal is read later.
//!
//! Events that a replay sends again are first attempts too, of which a page is done at a time. A single event that is
//! sent again is a postponed delivery, so that a front can have the owner of its partition queue it.

mod billing;
mod body;
mod delayed;
pub mod endpoint;
pub mod event;
mod failing;
mod follower;
mod lanes;
mod log_connection;
pub mod logger;
mod open_rows;
mod options;
mod post;
mod readers;
mod receivers;
pub mod replays;
mod resend;
pub mod switch_off;
mod targets;

use std::sync::Arc;
use std::time::Duration;

use domain::Seq;
use engine::Engine;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

pub use body::body;
pub use options::{FOLLOWER, Options, RETRY_DELAYS};
pub use post::{CallbackClient, Failure};
pub use receivers::{Receivers, ReceiversError};
pub use resend::{ResendError, Resender, ResentPage};

use follower::Inputs;
use targets::Targets;

/// Starts the follower on the current tokio runtime, with what has events delivered again. It ends once
/// `stopped` is true, or closed; what waits then becomes rows. Where the task is aborted instead, up to a second of
/// deliveries is repeated after the next start.
#[must_use]
pub fn start(
    engine: Engine,
    options: Options,
    mut stopped: watch::Receiver<bool>,
) -> (JoinHandle<()>, Resender) {
    const RESTART_DELAY: Duration = Duration::from_secs(1);
    // Registered once, so that the engine does not wait for a follower that has panicked.
    let position = watch::Sender::new(Seq(0));
    engine.waits_for(position.subscribe());
    let targets = Arc::new(Targets::new(options.sealer.clone()));
    let (resender, resent) = Resender::new(engine.clone(), Arc::clone(&targets));
    let resent = Arc::new(Mutex::new(resent));
    let inputs = Inputs { targets, resent, stopped: stopped.clone() };
    let follower = tokio::spawn(async move {
        loop {
            let mut running = tokio::task::JoinSet::new();
            let (engine, options) = (engine.clone(), options.clone());
            running.spawn(follower::run(engine, options, position.clone(), inputs.clone()));
            if matches!(running.join_next().await, Some(Err(_))) {
                tracing::error!("the push follower panicked; it restarts from its cursor");
            }
            if tokio::time::timeout(RESTART_DELAY, follower::until(&mut stopped)).await.is_ok() {
                return;
            }
        }
    });
    (follower, resender)
}
