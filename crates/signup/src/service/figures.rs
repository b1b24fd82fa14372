//! What is counted of registrations, under the names that their operators know from before.
//!
//! Those come from a platform in which one service had the users and another their billing accounts.
//! Here both are one commit; what the first asked of the second is what a registration asks of the
//! core.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use super::Error;

/// Registrations in progress.
static CONCURRENT: AtomicI64 = AtomicI64::new(0);

/// Shows what is counted before anything was: alarms compare with the value before.
pub(super) fn begin_at_zero() {
    for status in ["success", "failure", "rejected"] {
        metrics::counter!("user_service_registration_total", "status" => status).increment(0);
    }
    for name in [
        "user_service_billing_client_requests_total",
        "user_service_billing_client_errors_total",
        "billing_service_killbill_requests_total",
    ] {
        metrics::counter!(name).increment(0);
    }
    show(0);
}

/// A registration that is counted.
pub(super) struct Registering {
    since: Instant,
}

impl Registering {
    pub(super) fn begin() -> Self {
        show(CONCURRENT.fetch_add(1, Ordering::Relaxed) + 1);
        Self { since: Instant::now() }
    }

    pub(super) fn end<T>(self, done: &Result<T, Error>) {
        let status = match done {
            Ok(_) => "success",
            Err(error) if error.is_ours() => "failure",
            Err(_) => "rejected",
        };
        metrics::counter!("user_service_registration_total", "status" => status).increment(1);
        metrics::histogram!("user_service_registration_duration_seconds")
            .record(self.since.elapsed());
    }
}

impl Drop for Registering {
    /// Also where the client hung up.
    fn drop(&mut self) {
        show(CONCURRENT.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}

fn show(concurrent: i64) {
    metrics::gauge!("user_service_concurrent_registrations_gauge").set(concurrent as f64);
}

/// A billing account that the core is asked for.
pub struct AccountAsked {
    since: Instant,
    is_of_registration: bool,
}

impl AccountAsked {
    /// By a door of billing accounts.
    #[must_use]
    pub fn by_billing() -> Self {
        metrics::counter!("billing_service_killbill_requests_total").increment(1);
        Self { since: Instant::now(), is_of_registration: false }
    }

    /// By a registration, whose account it is.
    pub(super) fn by_registration() -> Self {
        metrics::counter!("user_service_billing_client_requests_total").increment(1);
        Self { is_of_registration: true, ..Self::by_billing() }
    }

    /// The core has answered; `is_failure` where it could not do it.
    pub fn end(self, is_failure: bool) {
        metrics::histogram!("billing_service_killbill_latency_seconds")
            .record(self.since.elapsed());
        if self.is_of_registration && is_failure {
            metrics::counter!("user_service_billing_client_errors_total").increment(1);
        }
    }
}
