//! `/health/live` and `/health/ready`: for load balancers and orchestrators. They answer from
//! memory, so that they answer at once whatever the load is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use engine::periodic::{Pass, Periodic};
use engine::{CHECK_AGE_MAX, Engine, Reason};
use feature_flags::FlagCache;
use http::StatusCode;
use serde_json::json;
use tokio::sync::watch;

use crate::background::until;

/// How often the core is probed.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Free bytes below which the disk counts as full.
const DISK_FREE_BYTES_MIN: u64 = 1024 * 1024;

/// The server's health. Clones share it.
#[derive(Clone)]
pub struct Health {
    last: Arc<ArcSwap<Probe>>,
    flags: Option<Arc<FlagCache>>,
    stopping: watch::Receiver<bool>,
}

#[derive(Clone, Copy)]
/// The outcome of a probe.
struct Probe {
    at: Instant,
    failure: Option<NotReady>,
}

/// Why the server is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotReady {
    DiskFull,
    Store,
    Silent,
    Stopping,
    FlagsUnread,
}

impl NotReady {
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
    /// Probes once, then periodically until `stopping` turns true. `flags` is the cache of the flag
    /// APIs, if this process has them.
    pub async fn watch(
        engine: Engine,
        data_dir: PathBuf,
        flags: Option<Arc<FlagCache>>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let first = Probe { at: Instant::now(), failure: probe(&engine, &data_dir).await };
        let last = Arc::new(ArcSwap::from_pointee(first));
        let health = Self { last: Arc::clone(&last), flags, stopping: stopping.clone() };
        tokio::spawn(async move {
            let job = || async {
                let failure = probe(&engine, &data_dir).await;
                last.store(Arc::new(Probe { at: Instant::now(), failure }));
                Pass::Idle
            };
            Periodic::every(PROBE_EVERY).run(until(stopping), job).await;
        });
        health
    }

    /// Whether the server can answer.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.failure().is_none()
    }

    fn failure(&self) -> Option<NotReady> {
        let last = **self.last.load();
        if *self.stopping.borrow() {
            Some(NotReady::Stopping)
        } else if last.failure.is_none() && last.at.elapsed() > CHECK_AGE_MAX {
            Some(NotReady::Silent)
        } else {
            let are_unread = self.flags.as_ref().is_some_and(|it| !it.is_available());
            last.failure.or(are_unread.then_some(NotReady::FlagsUnread))
        }
    }
}

/// Checks the disk and the engine.
async fn probe(engine: &Engine, data_dir: &PathBuf) -> Option<NotReady> {
    // Always: other health routes answer from the outcome of this check.
    let checked = engine.check().await;
    let disk = rustix::fs::statvfs(data_dir);
    if disk.is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < DISK_FREE_BYTES_MIN) {
        return Some(NotReady::DiskFull);
    }
    match checked.map_err(|unavailable| unavailable.reason) {
        Ok(()) => None,
        Err(Reason::DiskFull) => Some(NotReady::DiskFull),
        Err(Reason::Stopping) => Some(NotReady::Stopping),
        Err(
            Reason::QueueFull
            | Reason::QueueAway
            | Reason::MessageTooLarge
            | Reason::GatewayFull
            | Reason::Expired
            | Reason::ReadersFull
            | Reason::ReadTooLong
            | Reason::HashersFull
            | Reason::Store
            | Reason::NotOwner
            | Reason::CommitInDoubt
            | Reason::Repeated
            | Reason::Quarantined
            | Reason::Bug,
        ) => Some(NotReady::Store),
    }
}

/// `GET /health/live`: the process answers.
#[utoipa::path(get, path = "/health/live", tag = "Operations", operation_id = "operations_live",
    summary = "Whether the process answers",
    responses((status = 200, description = "It does")), security(()))]
pub async fn live() -> Response {
    Json(json!({ "status": "live" })).into_response()
}

/// `GET /health/ready`: payments can be taken.
#[utoipa::path(get, path = "/health/ready", tag = "Operations", operation_id = "operations_ready",
    summary = "Whether payments can be taken",
    responses(
        (status = 200, description = "They can"),
        (status = 503, description = "Stopping, the disk is full, the core does not answer, or the feature flags are not read yet")), security(()))]
pub async fn ready(State(health): State<Health>) -> Response {
    match health.failure() {
        None => Json(json!({ "status": "ready" })).into_response(),
        Some(failure) => {
            let body = json!({ "status": "not ready", "reason": failure.label() });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_flags_are_not_read_is_not_ready() {
        let last = Probe { at: Instant::now(), failure: None };
        let (stop, stopping) = watch::channel(false);
        let last_swap = Arc::new(ArcSwap::from_pointee(last));
        let cache = Arc::<FlagCache>::default();
        let health = Health { last: last_swap, flags: Some(Arc::clone(&cache)), stopping };
        assert_eq!(health.failure(), Some(NotReady::FlagsUnread));
        let without = Health { flags: None, ..health.clone() };
        assert!(without.is_ready(), "a server without flag APIs does not wait for flags");
        cache.set_available(true);
        assert!(health.is_ready());
        cache.set_available(false);
        let full = Probe { failure: Some(NotReady::DiskFull), ..last };
        health.last.store(Arc::new(full));
        assert_eq!(health.failure(), Some(NotReady::DiskFull));
        stop.send_replace(true);
        assert_eq!(health.failure(), Some(NotReady::Stopping));
    }
}
