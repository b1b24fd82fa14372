//! Counts of the requests that the listener answers, or whose API leaves counting to it. The Kill Bill
//! API counts its own, in the same families.

use std::time::Duration;

use http::StatusCode;
use metrics::Counter;

use crate::Api;

/// Counters on the installed recorder.
pub struct Requests {
    refused: Counter,
}

impl Default for Requests {
    fn default() -> Self {
        Self::new()
    }
}

impl Requests {
    /// Registers the counters.
    #[must_use]
    pub fn new() -> Self {
        Self { refused: metrics::counter!("faregate_refused_total", "reason" => "admission") }
    }

    /// Counts a response and its duration.
    pub fn answered(&self, (api, route): (Api, &str), status: StatusCode, duration: Duration) {
        let api = api.label();
        let status = status.as_str().to_owned();
        let labels = [("api", api.to_owned()), ("route", route.to_owned()), ("status", status)];
        metrics::counter!("faregate_requests_total", &labels).increment(1);
        metrics::histogram!("faregate_request_seconds", "api" => api, "route" => route.to_owned())
            .record(duration);
    }

    /// Counts a request that was not admitted.
    pub fn refused(&self) {
        self.refused.increment(1);
    }
}
