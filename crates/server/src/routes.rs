//! The route labels of metrics.

use std::collections::HashSet;
use std::sync::LazyLock;

use http_server::Api;

use crate::pages;

/// The route label of a path in metrics: a bounded set, whatever paths clients send.
#[must_use]
pub fn label(api: Api, path: &str) -> &'static str {
    match KNOWN.get(path) {
        Some(known) => known,
        None if path.starts_with("/v1/analytics/accounts/") => "/v1/analytics/accounts/{account}",
        None if path.starts_with("/v1/mails/") => "/v1/mails/{id}",
        None if path.starts_with("/v1/environments/") => "/v1/environments/{key}",
        None if path.starts_with("/v1/flags/") => "/v1/flags/{key}",
        None if path.starts_with("/v1/segments/") => "/v1/segments/{id}",
        None if path.starts_with("/v1/relay-proxies/") => "/v1/relay-proxies/{id}",
        None => match api {
            Api::KillBill => "(not admitted)",
            Api::Operations | Api::Native => "(other)",
        },
    }
}

/// The paths without parameters.
static KNOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let v1 = v1::paths().into_iter().map(|path| &*path.leak());
    v1.chain(pages::PATHS.iter().copied()).chain(PATHS.iter().copied()).collect()
});

/// The paths for operators.
const PATHS: &[&str] = &[
    "/health/live",
    "/health/ready",
    "/health/liveness",
    "/health/readiness",
    "/health/synthetic",
    "/user/health",
    "/user/health/database",
    "/billing/health",
    "/metrics",
];
