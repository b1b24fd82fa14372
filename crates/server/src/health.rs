//! `/health/live` and `/health/ready`: for load balancers and orchestrators. They answer from
//! memory, so that they answer at once whatever the load is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::flags::Board;
use arc_swap::ArcSwap;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use engine::{Engine, Reason};
use http::StatusCode;
use serde_json::json;
use tokio::sync::watch;

/// How often the core is probed.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// How old the last good probe may be. A long queue is no reason to be taken out of service: the
/// probe waits in it like everybody else.
const PROBE_AGE_MAX: Duration = Duration::from_secs(30);

/// With less left on the disk than this, in bytes, it counts as full.
const DISK_FREE_BYTES_MIN: u64 = 1024 * 1024;

/// What is known of the server's health. Clones share it.
#[derive(Clone)]
pub struct Health {
    state: Arc<ArcSwap<Known>>,
    flags: Option<Arc<Board>>,
    stopping: watch::Receiver<bool>,
}

#[derive(Clone, Copy)]
struct Known {
    answered_at: Instant,
    trouble: Option<Trouble>,
}

/// Why the server is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    DiskFull,
    Store,
    Silent,
    Stopping,
    FlagsUnread,
}

impl Trouble {
    const fn label(self) -> &'static str {
        match self {
            Self::DiskFull => "the disk is full",
            Self::Store => "the database is not available",
            Self::Silent => "the core does not answer",
            Self::Stopping => "the server is shutting down",
            Self::FlagsUnread => "the feature flags are not read yet",
        }
    }
}

impl Health {
    /// Probes once, and goes on probing until `stopping` turns true. `flags` are those that doors
    /// show, where they show any.
    pub async fn watch(
        engine: Engine,
        data_dir: PathBuf,
        flags: Option<Arc<Board>>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let known = Known { answered_at: Instant::now(), trouble: probe(&engine, &data_dir).await };
        let state = Arc::new(ArcSwap::from_pointee(known));
        let health = Self { state: Arc::clone(&state), flags, stopping: stopping.clone() };
        let mut stopping = stopping;
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(PROBE_EVERY) => {}
                    _ = stopping.wait_for(|stopping| *stopping) => return,
                }
                let trouble = probe(&engine, &data_dir).await;
                state.store(Arc::new(Known { answered_at: Instant::now(), trouble }));
            }
        });
        health
    }

    /// Whether the server can answer.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.trouble().is_none()
    }

    fn trouble(&self) -> Option<Trouble> {
        let known = **self.state.load();
        if *self.stopping.borrow() {
            Some(Trouble::Stopping)
        } else if known.trouble.is_none() && known.answered_at.elapsed() > PROBE_AGE_MAX {
            Some(Trouble::Silent)
        } else {
            let are_unread = self.flags.as_ref().is_some_and(|it| !it.is_available());
            known.trouble.or(are_unread.then_some(Trouble::FlagsUnread))
        }
    }
}

/// Asks the partition for nothing, and the file system for what is left.
async fn probe(engine: &Engine, data_dir: &PathBuf) -> Option<Trouble> {
    let disk = rustix::fs::statvfs(data_dir);
    if disk.is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < DISK_FREE_BYTES_MIN) {
        return Some(Trouble::DiskFull);
    }
    match engine.check().await.map_err(|unavailable| unavailable.reason) {
        Ok(()) => None,
        Err(Reason::DiskFull) => Some(Trouble::DiskFull),
        Err(Reason::Stopping) => Some(Trouble::Stopping),
        Err(
            Reason::QueueFull
            | Reason::QueueAway
            | Reason::MessageTooLarge
            | Reason::GatewayFull
            | Reason::Expired
            | Reason::ReadersFull
            | Reason::HashersFull
            | Reason::Store
            | Reason::NotOwner
            | Reason::CommitInDoubt
            | Reason::Repeated
            | Reason::Quarantined
            | Reason::Bug,
        ) => Some(Trouble::Store),
    }
}

/// `GET /health/live`: the process answers.
#[utoipa::path(
    get,
    path = "/health/live",
    tag = "Operations",
    operation_id = "operations_live",
    summary = "Whether the process answers",
    responses((status = 200, description = "It does")),
    security(())
)]
pub async fn live() -> Response {
    Json(json!({ "status": "live" })).into_response()
}

/// `GET /health/ready`: payments can be taken.
#[utoipa::path(
    get,
    path = "/health/ready",
    tag = "Operations",
    operation_id = "operations_ready",
    summary = "Whether payments can be taken",
    responses(
        (status = 200, description = "They can"),
        (status = 503, description = "Stopping, the disk is full, the core does not answer, or the feature flags are not read yet"),
    ),
    security(())
)]
pub async fn ready(State(health): State<Health>) -> Response {
    match health.trouble() {
        None => Json(json!({ "status": "ready" })).into_response(),
        Some(trouble) => {
            let body = json!({ "status": "not ready", "reason": trouble.label() });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_who_has_read_the_flags() {
        let known = Known { answered_at: Instant::now(), trouble: None };
        let (stop, stopping) = watch::channel(false);
        let state = Arc::new(ArcSwap::from_pointee(known));
        let board = Arc::<Board>::default();
        let health = Health { state, flags: Some(Arc::clone(&board)), stopping };
        assert_eq!(health.trouble(), Some(Trouble::FlagsUnread));
        let without = Health { flags: None, ..health.clone() };
        assert!(without.is_ready(), "it has no doors to flags, or no key");
        board.set_available(true);
        assert!(health.is_ready());
        board.set_available(false);
        let known = Known { trouble: Some(Trouble::DiskFull), ..known };
        health.state.store(Arc::new(known));
        assert_eq!(health.trouble(), Some(Trouble::DiskFull));
        stop.send_replace(true);
        assert_eq!(health.trouble(), Some(Trouble::Stopping));
    }
}
