//! Metrics of registrations, under the names that operators know from the platform that this API
//! replaces.
//!
//! There one service had the users and another their billing accounts. Here both are one commit; the
//! requests of the first service to the second are the commands that registrations submit.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use super::Error;

/// Registrations in progress.
static CONCURRENT: AtomicI64 = AtomicI64::new(0);

/// Shows all counters as zero, because alerts compare with an earlier value.
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

/// A registration in progress.
pub(super) struct RegistrationTimer {
    since: Instant,
}

impl RegistrationTimer {
    pub(super) fn start() -> Self {
        show(CONCURRENT.fetch_add(1, Ordering::Relaxed) + 1);
        Self { since: Instant::now() }
    }

    pub(super) fn end<T>(self, result: &Result<T, Error>) {
        let status = match result {
            Ok(_) => "success",
            Err(error) if error.is_server_error() => "failure",
            Err(_) => "rejected",
        };
        metrics::counter!("user_service_registration_total", "status" => status).increment(1);
        metrics::histogram!("user_service_registration_duration_seconds")
            .record(self.since.elapsed());
    }
}

impl Drop for RegistrationTimer {
    /// Runs also where the client has disconnected.
    fn drop(&mut self) {
        show(CONCURRENT.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}

fn show(concurrent: i64) {
    metrics::gauge!("user_service_concurrent_registrations_gauge").set(concurrent as f64);
}

/// A command that creates a billing account.
pub struct AccountCall {
    since: Instant,
    is_of_registration: bool,
}

impl AccountCall {
    /// From the API of billing accounts.
    #[must_use]
    pub fn of_billing() -> Self {
        metrics::counter!("billing_service_killbill_requests_total").increment(1);
        Self { since: Instant::now(), is_of_registration: false }
    }

    /// From a registration.
    pub(super) fn of_registration() -> Self {
        metrics::counter!("user_service_billing_client_requests_total").increment(1);
        Self { is_of_registration: true, ..Self::of_billing() }
    }

    /// The engine has answered; `is_failure` where the server failed.
    pub fn end(self, is_failure: bool) {
        metrics::histogram!("billing_service_killbill_latency_seconds")
            .record(self.since.elapsed());
        if self.is_of_registration && is_failure {
            metrics::counter!("user_service_billing_client_errors_total").increment(1);
        }
    }
}
