//! Which failures of endpoints are logged: one of an endpoint in a while, however many events it misses.

use std::collections::HashMap;
use std::time::Duration;

use domain::{TenantNo, WebhookEndpointId};
use tokio::time::Instant;

/// How often the failures of an endpoint are logged.
const EVERY: Duration = Duration::from_secs(60);
/// Endpoints that are remembered.
const ENDPOINTS_MAX: usize = 1_024;

/// When failures of endpoints were logged.
#[derive(Default)]
pub(crate) struct FailingEndpoints(HashMap<(TenantNo, WebhookEndpointId), Instant>);

impl FailingEndpoints {
    /// Whether a failure of this endpoint is to be logged now.
    pub(crate) fn is_news(
        &mut self,
        endpoint: (TenantNo, WebhookEndpointId),
        now: Instant,
    ) -> bool {
        let is_recent = |at: &Instant| now.duration_since(*at) < EVERY;
        if self.0.get(&endpoint).is_some_and(is_recent) {
            return false;
        }
        if self.0.len() >= ENDPOINTS_MAX {
            self.0.retain(|_, at| is_recent(at));
        }
        // Where so many fail at once, the log has enough of them.
        if self.0.len() >= ENDPOINTS_MAX {
            return false;
        }
        self.0.insert(endpoint, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use domain::Id;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_endpoint_that_fails_is_logged_once_a_minute() {
        let mut failing = FailingEndpoints::default();
        let begun = Instant::now();
        let endpoint = |number: u128| (TenantNo(1), Id::new(Uuid::from_u128(number)));
        let mut at = |number, seconds| {
            failing.is_news(endpoint(number), begun + Duration::from_secs(seconds))
        };
        assert!(at(1, 0));
        assert!(!at(1, 59));
        assert!(at(2, 59), "another one");
        assert!(at(1, 60));
        let many = (10..10 + 2 * ENDPOINTS_MAX as u128).filter(|it| at(*it, 61)).count();
        assert_eq!(many, ENDPOINTS_MAX - 2);
        assert!(at(1, 200), "those before are forgotten");
    }
}
