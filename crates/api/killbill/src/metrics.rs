//! The metrics of each route. The first request registers its counters: a lookup by labels per
//! request costs more than routing, and registering all counters at the start would fill every scrape
//! with zeros.

use std::sync::OnceLock;
use std::time::Duration;

use http::StatusCode;
use metrics::{Counter, Histogram, counter, histogram};

/// The statuses that this API returns, each with a counter; all others share one.
const STATUSES: [u16; 20] = [
    200, 201, 204, 400, 401, 402, 404, 405, 406, 409, 412, 413, 415, 422, 429, 500, 501, 502, 503,
    504,
];

/// The counters and the latency of one route.
pub(crate) struct RouteMetrics {
    route: &'static str,
    latency: OnceLock<Histogram>,
    requests: [OnceLock<Counter>; STATUSES.len()],
    others: OnceLock<Counter>,
}

impl RouteMetrics {
    /// The recorder must be installed before the first request.
    pub(crate) fn new(route: &'static str) -> Self {
        Self {
            route,
            latency: OnceLock::new(),
            requests: Default::default(),
            others: OnceLock::new(),
        }
    }

    /// Counts a request.
    pub(crate) fn record(&self, status: StatusCode, duration: Duration) {
        let known = STATUSES.iter().position(|known| *known == status.as_u16());
        let cell = known.map_or(&self.others, |at| &self.requests[at]);
        let make = || {
            let label = known.map_or("other".to_owned(), |at| STATUSES[at].to_string());
            let name = "faregate_requests_total";
            counter!(name, "api" => "killbill", "route" => self.route, "status" => label)
        };
        cell.get_or_init(make).increment(1);
        let latency = self.latency.get_or_init(
            || histogram!("faregate_request_seconds", "api" => "killbill", "route" => self.route),
        );
        latency.record(duration.as_secs_f64());
    }
}
