//! `/health/live` and `/health/ready`: for load balancers and orchestrators. They answer from
//! memory, so that they answer at once whatever the load is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use config::Config;
use engine::periodic::{Pass, Periodic};
use engine::{CHECK_AGE_MAX, Engine, Progress, Reason};
use feature_flags::FlagCache;
use http::StatusCode;
use killbill::Rotation;
use serde::Serialize;
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::background::until;
use crate::disk::{Disk, gauge_degraded};

/// How often the core is probed.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The text for a full disk, in the field `degraded` of health routes.
const DISK_FULL: &str = "the disk is full: reads are served, writes are refused";

/// The warning about plain HTTP, in the field `warning` of health routes and in the log.
const PLAIN: &str = "others than this machine reach this server without TLS: passwords and API secrets \
                     cross the network in the clear; set tls.cert and tls.key, or name the proxy that \
                     ends TLS in access.trusted_proxies";

/// The server's health. Clones share it.
#[derive(Clone)]
pub struct Health {
    /// The warning about a dangerous configuration, if any.
    warning: Option<&'static str>,
    last: Arc<ArcSwap<Probe>>,
    progress: Arc<Progress>,
    flags: Option<Arc<FlagCache>>,
    stopping: watch::Receiver<bool>,
    /// Whether an operator has taken the process out of rotation.
    rotation: Rotation,
}

/// The outcome of a probe.
#[derive(Clone, Copy)]
struct Probe {
    at: Instant,
    failure: Option<NotReady>,
    /// Whether the disk is full: writes are refused.
    is_full: bool,
}

/// Why the server is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotReady {
    Store,
    Silent,
    Stuck,
    Stopping,
    FlagsUnread,
    OutOfRotation,
}

impl NotReady {
    const fn label(self) -> &'static str {
        match self {
            Self::Store => "the database is not available",
            Self::Silent => "the core does not answer",
            Self::Stuck => "the core makes no progress: a commit does not end",
            Self::Stopping => "the server is shutting down",
            Self::OutOfRotation => "an operator has taken the server out of rotation",
            Self::FlagsUnread => "the feature flags are not read yet",
        }
    }
}

impl Health {
    /// Probes once, then periodically until `stopping` turns true, from which on the server is not ready.
    /// `flags` is the cache of the flag APIs, if this process has them.
    pub async fn watch(
        engine: Engine,
        data_dir: PathBuf,
        flags: Option<Arc<FlagCache>>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let disk = Disk::new(data_dir);
        let first = probe(&engine, &disk).await;
        let last = Arc::new(ArcSwap::from_pointee(first));
        let last_shown = Arc::clone(&last);
        let (warning, rotation) = (None, Rotation::default());
        let stopped = stopping.clone();
        let progress = engine.progress();
        let health =
            Self { warning, last: last_shown, progress, flags, stopping: stopped, rotation };
        tokio::spawn(async move {
            let job = || async {
                last.store(Arc::new(probe(&engine, &disk).await));
                Pass::Idle
            };
            Periodic::every(PROBE_EVERY).run(until(stopping), job).await;
        });
        health
    }

    /// The same, and the log, with what is dangerous about the configuration.
    #[must_use]
    pub fn warned_of(self, config: &Config) -> Self {
        let warning = config.is_plain_off_loopback().then_some(PLAIN);
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        Self { warning, ..self }
    }

    /// The rotation, which operators change by Kill Bill's API.
    #[must_use]
    pub fn rotation(&self) -> Rotation {
        self.rotation.clone()
    }

    /// Whether the server can answer; reads suffice.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.failure().is_none()
    }

    /// Why the server serves less than everything, if it does.
    fn degraded(&self) -> Option<&'static str> {
        self.last.load().is_full.then_some(DISK_FULL)
    }

    /// 200; `degraded` names what is not served, `warning` what is set up dangerously.
    fn well(&self, status: &'static str) -> Response {
        let (degraded, warning) = (self.degraded(), self.warning);
        Json(HealthView { status, degraded, warning }).into_response()
    }

    fn failure(&self) -> Option<NotReady> {
        let last = **self.last.load();
        if *self.stopping.borrow() {
            Some(NotReady::Stopping)
        } else if self.rotation.is_out() {
            Some(NotReady::OutOfRotation)
        } else if self.progress.is_stuck(Instant::now()) {
            Some(NotReady::Stuck)
        } else if last.failure.is_none() && last.at.elapsed() > CHECK_AGE_MAX {
            Some(NotReady::Silent)
        } else {
            let are_unread = self.flags.as_ref().is_some_and(|it| !it.is_available());
            last.failure.or(are_unread.then_some(NotReady::FlagsUnread))
        }
    }
}

/// Checks the disk and the engine.
async fn probe(engine: &Engine, disk: &Disk) -> Probe {
    // Always: other health routes answer from the outcome of this check.
    let checked = engine.check().await.map_err(|unavailable| unavailable.reason);
    let has_no_room = disk.measure();
    let is_full = has_no_room || checked == Err(Reason::DiskFull);
    gauge_degraded(is_full);
    Probe { at: Instant::now(), failure: failure(checked), is_full }
}

const fn failure(checked: Result<(), Reason>) -> Option<NotReady> {
    match checked {
        // On a full disk reads are served.
        Ok(()) | Err(Reason::DiskFull) => None,
        Err(Reason::Stopping) => Some(NotReady::Stopping),
        Err(
            Reason::QueueFull
            | Reason::QueueAway
            | Reason::MessageTooLarge
            | Reason::GatewayFull
            | Reason::GatewayStopped
            | Reason::BreakerOpen
            | Reason::ControlFailed
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

/// How a process is that answers.
#[derive(Serialize, ToSchema)]
pub struct HealthView {
    /// `live` or `ready`.
    status: &'static str,
    /// That the disk is full: reads are served, and writes are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<&'static str>,
    /// Names a dangerous configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

/// Why requests cannot be taken.
#[derive(Serialize, ToSchema)]
pub struct UnreadyView {
    /// `not ready`
    status: &'static str,
    /// Why, in a word.
    reason: &'static str,
}

/// `GET /health/live`: the process answers.
#[utoipa::path(get, path = "/health/live", tag = "Operations", operation_id = "operations_live",
    summary = "Whether the process answers",
    responses((status = 200, description = "It does", body = HealthView)), security(()))]
pub async fn live(State(health): State<Health>) -> Response {
    health.well("live")
}

/// `GET /health/ready`: requests can be taken.
#[utoipa::path(get, path = "/health/ready", tag = "Operations", operation_id = "operations_ready",
    summary = "Whether requests can be taken",
    responses(
        (status = 200, description = "They can", body = HealthView),
        (status = 503, description = "Stopping, out of rotation, the core does not answer or makes no progress, or the feature flags are not read yet", body = UnreadyView)), security(()))]
pub async fn ready(State(health): State<Health>) -> Response {
    match health.failure() {
        None => health.well("ready"),
        Some(failure) => {
            let body = UnreadyView { status: "not ready", reason: failure.label() };
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_flags_are_not_read_is_not_ready() {
        let last = Probe { at: Instant::now(), failure: None, is_full: false };
        let (stop, stopping) = watch::channel(false);
        let last_swap = Arc::new(ArcSwap::from_pointee(last));
        let cache = Arc::<FlagCache>::default();
        let health = Health {
            warning: None,
            last: last_swap,
            progress: Arc::default(),
            flags: Some(Arc::clone(&cache)),
            stopping,
            rotation: Rotation::default(),
        };
        assert_eq!(health.failure(), Some(NotReady::FlagsUnread));
        let without = Health { flags: None, ..health.clone() };
        assert!(without.is_ready(), "a server without flag APIs does not wait for flags");
        cache.set_available(true);
        assert!(health.is_ready());
        cache.set_available(false);
        let failed = Probe { failure: Some(NotReady::Store), ..last };
        health.last.store(Arc::new(failed));
        assert_eq!(health.failure(), Some(NotReady::Store));
        stop.send_replace(true);
        assert_eq!(health.failure(), Some(NotReady::Stopping));
    }
}
